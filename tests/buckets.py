"""What the tests of object storage share: an S3 server on loopback, and what lies there."""

import os

import fsspec

from ask_dask.store import places

SECRET = "wJalrXUtnFEMI"


def environment(port):
    """What a person sets to reach an S3 server."""
    return {
        "AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }  # fmt: skip


def connect(monkeypatch, port):
    """Take s3:// for the server at this port; its file system."""
    for name, value in environment(port).items():
        monkeypatch.setenv(name, value)
    # Connections that fsspec keeps know nothing of the environment: one to another port would be taken for this.
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": os.environ["AWS_ENDPOINT_URL"]})
    return fsspec.filesystem("s3", use_listings_cache=False)


def objects(url):
    """Names of all objects below a URL."""
    fs, name = places.opened(str(url))
    return sorted(found.removeprefix(name).lstrip("/") for found in fs.find(name))
