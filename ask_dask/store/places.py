"""Where stores and files are: a path on this machine, or the URL of object storage; both are used alike.

Object storage has no folders, no locks and no renaming. What is here asks of it only what it can do: put, get and
remove one object, put one where none is, and list those below a prefix. Retrying is left to its library.
"""

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from fsspec import AbstractFileSystem, filesystem
from fsspec.config import conf
from fsspec.core import url_to_fs
from zarr.storage import FsspecStore

from ask_dask.errors import StoreError, mask, without_secrets
from ask_dask.store.regular import Folder, read_regular

UNREADABLE = (OSError, KeyError, TypeError, ValueError, RecursionError)
"""What reading metadata raises that nobody of us wrote."""

VERSION, LEASE = re.compile(r"v-[0-9a-f]{8}"), re.compile(r"lease-(\d+)")
"""What lies below a store on object storage, beside its metadata: data, and the leases of jobs that write it."""

PATIENCE = {"connect_timeout": 10, "read_timeout": 30, "retries": {"mode": "standard", "max_attempts": 6}}
"""Seconds until a connection is given up, and how often botocore tries again; fsspec's own configuration may differ."""

LIBRARIES = {"aiobotocore", "aiohttp", "botocore", "s3fs", "gcsfs", "adlfs", "azure", "google"}
"""Whose own exceptions are failures of storage."""


class Url(PurePosixPath):
    """A place on object storage, or on another file system that fsspec opens. As text it has no secrets.

    >>> place = located("s3://bucket/a/model.zarr")
    >>> str(place.with_name("b.zarr")), str(place / "X"), str(Url("ftp://me:secret@host/a"))
    ('s3://bucket/a/b.zarr', 's3://bucket/a/model.zarr/X', 'ftp://***@host/a')
    """

    @property
    def url(self) -> str:
        """What opens it, secrets and all."""
        return super().__str__().replace(":/", "://", 1)

    def __str__(self) -> str:
        return mask(self.url)

    def absolute(self) -> "Url":
        """Itself, as a path has it."""
        return self

    def exists(self) -> bool:
        """Whether anything is there but what a writing left that never ended."""
        return not all(VERSION.fullmatch(name) or LEASE.fullmatch(name) for name in contents(self))

    def is_symlink(self) -> bool:
        """Never."""
        return False

    def is_dir(self) -> bool:
        """Whether objects are below it; of web servers, which would send all of a file, nobody asks."""
        if self.url.startswith("http"):
            return False
        with reaching(self):
            fs, path = opened(self.url)
            return fs.isdir(path)

    def read_bytes(self) -> bytes:
        """The object there."""
        with reaching(self):
            fs, path = opened(self.url)
            return fs.cat_file(path)

    def read_text(self, encoding: str = "utf-8") -> str:
        """The object there, as text."""
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: bytes, new: bool = False) -> None:
        """Put an object there, whole or not at all; if `new`, FileExistsError where one is."""
        with reaching(self):
            fs, path = opened(self.url)
            try:
                fs.pipe_file(path, content, mode="create" if new else "overwrite")
            except FileNotFoundError as error:
                raise StoreError(f"{self} cannot be written ({_said(error, self)}): check the URL.") from error


Place: TypeAlias = Path | Url


def located(path: str | os.PathLike) -> Path:
    """The place that a person wrote: a Path of this machine, or a Url, which stands in for one.

    >>> located("/data/a.zarr"), located(Path("s3://bucket/a.zarr"))
    (PosixPath('/data/a.zarr'), Url('s3://bucket/a.zarr'))

    Raises
    ------
    StoreError
        A chain of URLs, or a scheme alone, which as paths would be folders here.
    """
    if isinstance(path, Url):
        return path  # type: ignore[return-value]
    text = str(path)
    if re.match(r"\w[\w+.-]+::\w[\w+.-]+:/", text) or re.fullmatch(r"(s3a?|gcs?|gs|az|abfss?|https?|ftp):/*", text):
        raise StoreError(f"{text} names no place: give the URL of one file system, with a bucket or host and a path.")
    if not is_url(text):
        return Path(path)
    scheme, _, rest = text.partition(":/")  # one slash, since a Path of a URL has lost the other
    return Path(f"/{rest.lstrip('/')}") if scheme == "file" else Url(text)  # type: ignore[return-value]


def is_url(text: str) -> bool:
    """Whether text names a place by its file system."""
    return bool(re.match(r"[A-Za-z][\w+.-]+:/", text))


def opened(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a URL or path, and what the place is called there.

    Raises
    ------
    ImportError, ValueError
        What is needed to open such a URL is not installed, or nothing opens it.
    StoreError
        A URL of S3 has credentials, which S3's library takes for the bucket's name and repeats.
    """
    options, scheme = _options(url), url.partition(":")[0]
    if scheme in ("s3", "s3a") and re.match(r"(?!arn:)[^/]*[:@]", url.partition("://")[2]):
        said = "has credentials, which S3 does not take from a URL"
        raise StoreError(f"{url} {said}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and leave them out.")
    if not options or "?" in url:
        return url_to_fs(url, **options)
    fs = _shared(scheme, json.dumps([options, conf.get(scheme)], default=str), os.getpid())
    return fs, fs._strip_protocol(url)


@lru_cache(32)
def _shared(scheme: str, settings: str, process: int) -> AbstractFileSystem:
    """One connection for all threads of a process, where fsspec would keep one for each."""
    return filesystem(scheme, **json.loads(settings)[0])


def _options(url: str) -> dict[str, Any]:
    scheme = url.partition(":")[0]
    if scheme not in ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"):
        return {}
    options: dict[str, Any] = {"use_listings_cache": False}  # zarr's own connection, and other jobs, write there too
    if scheme in ("s3", "s3a"):
        options["max_concurrency"] = 1  # of one object: tasks are many, and with more each read asks for the size first
        options["config_kwargs"] = PATIENCE | conf.get("s3", {}).get("config_kwargs", {})
    return options


@contextmanager
def reaching(place: Place) -> Iterator[None]:
    """Say of a failure of object storage in one sentence where it was; what says more passes through."""
    try:
        yield
    except (StoreError, FileNotFoundError, FileExistsError):
        raise
    except Exception as error:
        if isinstance(place, Path) or not is_failure(error):
            raise
        advice = "check the URL, the connection and the permission there"
        if isinstance(error, ImportError):
            advice = 'install it, as in pip install "ask_dask[s3]"'
        raise StoreError(f"{place} cannot be reached ({_said(error, place)}): {advice}, and start again.") from error


def is_failure(error: Exception) -> bool:
    """Whether an exception is storage's: nothing answers there, or it may not be used."""
    return isinstance(error, OSError | ImportError) or is_of_library(error) or "rotocol not known" in str(error)


def is_passing(error: Exception) -> bool:
    """Return whether an error is of this process, machine or user, such as too many open files, and not of a file."""
    if isinstance(error, OSError):
        return error.errno not in (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
    return isinstance(error, RuntimeError) and "thread" in str(error)


def unread(place: Any, error: Exception) -> StoreError:
    """Return what is said where `is_passing`."""
    return StoreError(f"{place} cannot be read now ({error}): check its permissions and the limits of this process, as "
                      "by ulimit -a, and start again.")  # fmt: skip


def is_of_library(error: Exception) -> bool:
    """Whether an exception is of a family that only libraries for storage raise."""
    return type(error).__module__.partition(".")[0] in LIBRARIES


def _said(error: Exception, place: Url) -> str:
    return without_secrets(str(error).strip().rstrip("."), place.url) or type(error).__name__


def contents(place: Place) -> set[str]:
    """Names right below a place, or its own where it is a file."""
    if isinstance(place, Path):
        return {found.name for found in place.iterdir()} if place.is_dir() else {place.name} & {place.exists() or ""}
    with reaching(place):
        fs, path = opened(place.url)
        try:
            found = fs.ls(path, detail=False)
        except FileNotFoundError:
            return set()
    return {name.rstrip("/").rpartition("/")[2] for name in found if name.rstrip("/") != path or fs.isfile(path)}


def files(place: Place) -> dict[str, int]:
    """Bytes of every file below a place, by its name from there; links to folders, whose names end in /, have none."""
    if isinstance(place, Path):
        found: dict[str, int] = {}
        for folder, below, names in os.walk(place):
            here, start = Path(folder), Path(folder).relative_to(place)
            for name in names:
                with suppress(FileNotFoundError):  # a job that writes there has renamed it
                    found[(start / name).as_posix()] = (here / name).stat().st_size
            found |= {f"{(start / name).as_posix()}/": 0 for name in below if (here / name).is_symlink()}
        return found
    with reaching(place):
        fs, path = opened(place.url)
        listed = fs.find(path, detail=True)
    return {name.removeprefix(path).lstrip("/"): about["size"] for name, about in listed.items()}


def last_written(place: Place) -> str:
    """When any file below a place was last written, as its file system tells it."""
    if isinstance(place, Path):
        return str(max((file.stat().st_mtime for file in place.rglob("*") if file.is_file()), default=0.0))
    with reaching(place):
        fs, path = opened(place.url)
        listed = fs.find(path, detail=True).values()
    kinds = ("LastModified", "last_modified", "updated", "mtime", "created")
    return max((str(about[kind]) for about in listed for kind in kinds if kind in about), default="")


def read_bytes(place: Place) -> bytes:
    """Return the content of a regular file of some size, or of an object.

    Raises
    ------
    ValueError
        There is something else, such as a link to a device, or far too much.
    """
    return read_regular(place) if isinstance(place, Path) else place.read_bytes()


def read_all(place: Place, names: list[str]) -> dict[str, bytes]:
    """Files below a place, at once; {} of none."""
    if isinstance(place, Path):
        return {name: read_regular(place / name) for name in names}
    with reaching(place):
        fs, path = opened(place.url)
        found = fs.cat([f"{path}/{name}" for name in names]) if names else {}
    return {name.removeprefix(path).lstrip("/"): content for name, content in found.items()}


def remove(place: Place) -> None:
    """Remove a file, or everything below a place; nothing there is no error."""
    if isinstance(place, Path):
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)
        return
    with reaching(place):
        fs, path = opened(place.url)
        try:
            fs.rm(path, recursive=True)
        except FileNotFoundError:
            return


def exists_below(kept: FsspecStore, name: str) -> bool:
    """Whether a file of this name is right below what zarr has opened."""
    known = getattr(kept.fs, "sync_fs", kept.fs)
    url = Url(known.unstrip_protocol(f"{kept.path}/{name}"))
    with reaching(url):
        fs, path = opened(url.url)
        return fs.exists(path)


def zarr_store(place: Place, read_only: bool = False, kind: type[FsspecStore] = FsspecStore) -> Any:
    """What zarr opens a place by; object storage by a store of this kind."""
    if isinstance(place, Path):
        return Folder(place, read_only=read_only)
    with reaching(place):
        return kind.from_url(place.url, storage_options=_options(place.url), read_only=read_only)
