"""What a store says of itself, in its attributes."""

from typing import Any

import zarr

VERSIONS = {"dataset": 4, "embedding": 4, "model": 6, "predictions": 3, "checkpoint": 7, "blocks": 1}
"""The schemas this package writes and the one version of each that it reads."""


KEY = "ask_dask"


def about(group: zarr.Group) -> dict[str, Any]:
    """What a store says of itself: schema, version, made_by and everything given to `describe`."""
    found = group.attrs.get(KEY, {})
    return dict(found) if isinstance(found, dict) else {}


def describe(group: zarr.Group, **facts: Any) -> None:
    """Add facts (JSON values) to what a store says of itself."""
    group.attrs[KEY] = about(group) | facts
