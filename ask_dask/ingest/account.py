"""What a dataset store says of the files it came from, and of the rows that were set aside."""

import json
from collections import Counter
from typing import Any

import numpy as np
import zarr

from ask_dask import store
from ask_dask.errors import InputError
from ask_dask.ingest.files import RawFile
from ask_dask.ingest.staging import PieceReport, file_rejects


def account(
    group: zarr.Group, found: list[RawFile], reports: list[list[PieceReport]], max_rejects: float
) -> dict[str, Any]:
    """Write the rejects into the store; what it says of files (with the reports of their pieces), rejects and labels.

    Raises
    ------
    InputError
        More than the share `max_rejects` of the rows is faulty, or none is sound.
    """
    about: list[dict[str, Any]] = []
    listed: list[dict[str, Any]] = []
    kinds = Counter[str]()
    for file, of_file in zip(found, reports, strict=True):
        rejects, counted = file_rejects(of_file)
        kinds += counted
        listed += [{"file": file.name, "line": r.line, "reason": r.reason} for r in rejects]
        about.append(
            {
                "path": file.name,
                "bytes": file.size,
                "modified": file.modified,
                "rows": sum(report.rows for report in of_file),
                "rejected": counted.total(),
                "fingerprint": store.fingerprint(*(report.digest for report in of_file if report.digest)),
            }
        )
    _check_rejects(listed, kinds.total(), sum(file["rows"] for file in about), found[0].name, max_rejects)
    text = "".join(json.dumps(reject) + "\n" for reject in listed).encode()
    store.write_array(group, "rejects", np.frombuffer(text, np.uint8))
    labels = np.sum([report.labels for of_file in reports for report in of_file], axis=0)
    return {
        "files": about,
        "rejected": {"count": kinds.total(), "by_reason": dict(kinds.most_common(20))},
        "label_counts": {"0": int(labels[0]), "1": int(labels[1])} if labels.sum() else None,
    }


def _check_rejects(listed: list[dict[str, Any]], rejected: int, rows: int, file: str, limit: float) -> None:
    total = rejected + rows
    if not total:
        raise InputError(f"{file} has no rows: give a file with rows.")
    if rows and rejected <= limit * total:
        return
    first = "{file}, line {line}: {reason}".format(**listed[0])
    if rejected > limit * total:
        raise InputError(
            f"{rejected} of {total} rows are faulty, above the limit of {limit:.3%}, the first being {first}; correct "
            "the file, or set --max-rejects higher to go on without them."
        )
    raise InputError(f"None of {total} rows is sound, the first being {first}; check the format.")


def read_rejects(group: zarr.Group) -> list[dict[str, Any]]:
    """The rows that were set aside when a dataset store was made: {"file", "line", "reason"} each."""
    return [json.loads(line) for line in store.read(store.array(group, "rejects")).tobytes().splitlines()]
