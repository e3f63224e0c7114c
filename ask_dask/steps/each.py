"""The steps that start from stores and models: predict, score, report."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import zarr
from cyclopts import Parameter
from pydantic import Field

from ask_dask import compute, report, score, store
from ask_dask.encode import Encoder
from ask_dask.errors import InputError
from ask_dask.ingest import ingest, read_rejects
from ask_dask.ingest.files import find
from ask_dask.sparse import rows_of
from ask_dask.steps.options import List, Overwrite, Place, Step, Storing
from ask_dask.steps.prediction import write_predictions
from ask_dask.steps.rows import require_rows


class Predict(Storing):
    """A model and new rows (a dataset store, or raw files of the model's format) -> a predictions store."""

    title: ClassVar[str] = "predict"
    do: Annotated[Literal["predict"], Parameter(show=False, parse=False)] = "predict"
    model: Annotated[Place, Field(description="The model store.")]
    data: Annotated[
        list[str], *List, Field(description="A dataset store, or raw files (with commas) for the model's own encoder.")
    ]
    max_rejects: Annotated[float, Field(ge=0, le=1, description="Largest share of bad rows in raw files.")] = 0.001

    def inputs(self) -> dict[str, Any]:
        model = store.about(store.open_store(self.model, "model"))["fingerprint"]
        return {"model": model, "data": [_input_fingerprint(path) for path in self.data]}

    def run(self) -> dict[str, Any]:
        store.refuse_existing(self.to, self.overwrite, "predictions")
        model = store.open_store(self.model, "model")
        if len(self.data) == 1 and store.located(self.data[0]).is_dir():
            data = store.open_store(self.data[0], "dataset")
            work = store.fingerprint(json.dumps([store.about(model), store.about(data)], sort_keys=True))
            with store.create(self.to, "predictions", self.overwrite, work) as group:
                self._predict(model, data, group)
            return info(self.to)
        found = store.about(model).get("data", {}).get("format")
        if "encoder" not in model or not found:
            raise InputError(f"{self.model} has no encoder, so it cannot read raw files: give a dataset store.")
        encoder = Encoder.load(store.subgroup(model, "encoder"))
        with store.create(self.to, "predictions", self.overwrite) as group:
            # Inside what is being made: whatever ends this job, they go with it.
            rows = group.create_group("rows")
            ingest(self.data, rows, format=found, encoder=encoder, max_rejects=self.max_rejects,
                   memory=self.bytes_allowed)  # fmt: skip
            self._predict(model, rows, group)
            del group["rows"]
        return info(self.to)

    def _predict(self, model: zarr.Group, data: zarr.Group, group: zarr.Group) -> None:
        from ask_dask.estimators import load  # only here: they take half of the time that a command takes to load

        _check_features(self.model, model, self.data[0], data)
        fitted = load(self.model)
        require_rows(fitted.kernel_, data)
        steps: list[dict[str, Any]] = []
        with compute.measured(steps, "predict"):
            fingerprint = write_predictions(fitted, data, group, self.bytes_allowed)
        about = store.about(data)
        store.describe(
            group,
            recipe=self.recipe(),
            fingerprint=fingerprint,
            model_fingerprint=store.about(model)["fingerprint"],
            data_fingerprint=about["fingerprint"],
            **{key: store.about(model).get(key) for key in ("task", "classes", "label_names")},
            rejected=about.get("rejected"),
            files=about.get("files"),
            steps=steps,
        )


class Score(Step):
    """Predictions of labelled rows -> the metrics of their task."""

    title: ClassVar[str] = "score"
    do: Annotated[Literal["score"], Parameter(show=False, parse=False)] = "score"
    predictions: Annotated[Place, Field(description="The predictions store.")]
    data: Annotated[
        Place | None, Field(description="The dataset store with the labels; default: those the predictions carry.")
    ] = None

    def inputs(self) -> dict[str, Any]:
        return {"predictions": store.about(store.open_store(self.predictions, "predictions"))["fingerprint"]}

    def made(self) -> dict[str, Any] | None:
        return None  # cheap, and its output is what it prints

    def run(self) -> dict[str, Any]:
        found = scores(self.predictions, self.data)
        return {key: value for key, value in found.items() if key not in ("roc", "calibration")}


class Report(Step):
    """A model, and scores on new rows if given, or an embedding -> one self-contained HTML page."""

    title: ClassVar[str] = "report"
    do: Annotated[Literal["report"], Parameter(show=False, parse=False)] = "report"
    model: Annotated[Place | None, Field(description="The model store.")] = None
    embedding: Annotated[Place | None, Field(description="The embedding store, in place of a model.")] = None
    to: Annotated[Place, Field(description="The HTML file to write.")]
    predictions: Annotated[Place | None, Field(description="Predictions of labelled rows, to show their scores.")] = (
        None
    )
    data: Annotated[Place | None, Field(description="The dataset store with the labels of the predictions.")] = None
    overwrite: Overwrite = False

    def inputs(self) -> dict[str, Any]:
        subject, group = self._subject()
        found = {subject: store.about(group)["fingerprint"]}
        if self.predictions:
            found["predictions"] = store.about(store.open_store(self.predictions, "predictions"))["fingerprint"]
        if self.data:
            found["data"] = store.about(store.open_store(self.data, "dataset"))["fingerprint"]
        return found

    def _subject(self) -> tuple[str, zarr.Group]:
        """What the page is about: the schema of its store, and the store."""
        if (self.model is None) == (self.embedding is None):
            raise InputError("A report is about a model or an embedding: give one of --model and --embedding.")
        if self.embedding is None:
            return "model", store.open_store(self.model or "", "model")
        if self.predictions or self.data:
            raise InputError("--predictions and --data are of a model: leave them out with --embedding.")
        return "embedding", store.open_store(self.embedding, "embedding")

    def made(self) -> dict[str, Any] | None:
        """The page carries its recipe's fingerprint, so an equal recipe is known by it."""
        if not self.to.exists():
            return None
        try:
            page = self.to.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{self.to} is in the way and is not a page that ask-dask wrote: {error}.") from error
        return self.recipe() if self._mark() in page else {}

    def _mark(self) -> str:
        return f"<!-- recipe {store.fingerprint(json.dumps(self.recipe(), sort_keys=True))} -->"

    def run(self) -> dict[str, Any]:
        _, group = self._subject()
        test = scores(self.predictions, self.data) if self.predictions else None
        steps = store.about(store.open_store(self.predictions))["steps"] if self.predictions else []
        page = report.write_report(group, self.to, self.overwrite, test, steps=steps, mark=self._mark())
        return {"path": str(page), "bytes": len(page.read_bytes())}


def scores(predictions: Path, data: Path | None) -> dict[str, Any]:
    """Metrics and curves of a predictions store against the labels of a dataset store, or those it carries."""
    found = store.open_store(predictions, "predictions")
    return score.score_predictions(found, store.open_store(data, "dataset") if data else None)


def info(path: Path) -> dict[str, Any]:
    """What a store is: schema, shapes, dtypes, kernel, who made it from what, bytes."""
    group = store.open_store(path)
    about = store.about(group)
    arrays = {
        name: {"shape": list(found.shape), "dtype": str(found.dtype), "chunks": list(found.chunks)}
        for name, found in sorted([*group.arrays(), *_sparse_rows(group)])
    }
    hidden = (
        "cv_results",
        "held_out",
        "feature_names",
        "recipe",
        "listed",
        "seal",
        "solution",
        "merger",
        "kept_arrays",
    )
    facts = {key: value for key, value in about.items() if key not in hidden}
    if "held_out" in about:
        facts["held_out"] = {k: v for k, v in about["held_out"].items() if k not in ("roc", "calibration")}
    if statistics := (about.get("solution") or {}).get("statistics"):
        facts["statistics"] = statistics
    return {"path": str(store.located(path)), "bytes": store.stored_bytes(path), "arrays": arrays} | facts


def _sparse_rows(group: zarr.Group) -> list[tuple[str, Any]]:
    """X, where it is sparse."""
    return [("X", rows_of(group))] if isinstance(group.get("X"), zarr.Group) else []


def provenance(path: Path, data: zarr.Group) -> dict[str, Any]:
    """What a model keeps of the dataset it was fitted on."""
    about = store.about(data)
    kept = (
        "fingerprint", "encoder_fingerprint", "format", "n_rows", "files", "label_counts", "rejected", "n_nodes",
        "n_edges", "duplicate_edges", "self_loops", "weighted", "n_items", "mean_divergence", "mean_standard_error",
        "zero_based",
    )  # fmt: skip
    found = {key: about[key] for key in kept if key in about}
    if "rejected" in found:
        found["rejected"] = found["rejected"] | {"first": read_rejects(data)[:20]}
    return {"path": os.fspath(path)} | found


def _check_features(model_path: Path, model: zarr.Group, data_path: str, data: zarr.Group) -> None:
    """Refuse rows whose features are not those of the model's training rows."""
    expected, wanted = store.about(model).get("data", {}).get("encoder_fingerprint"), store.about(model)["n_features"]
    found = store.about(data).get("encoder_fingerprint")
    if expected != found:
        advice = {
            "graph": "it is another graph, or its nodes are numbered otherwise: ingest it from the same edges",
            "samples": "it holds other items: ingest it from the same samples",
            "table": "it has other columns: ingest it with the features of the training table",
            "svmlight": f"it has other columns: ingest it with --columns {wanted} {_base(model)}",
        }
        otherwise = f"ingest it with --encoder {model_path}, or give predict the raw files"
        made_of, given = store.about(model).get("data", {}).get("format"), store.about(data).get("format")
        said = advice.get(made_of, otherwise)
        if made_of in advice and given != made_of:
            said = f"the model is of the format {made_of}, and this is {given}: ingest it as the training data was"
        raise InputError(f"{data_path} was not made as the data of {model_path}: {said}.")
    width = rows_of(data).shape[1]
    if width != wanted:
        raise InputError(
            f"{data_path} has {width} features and {model_path} was fitted on {wanted}: give its own kind."
        )


def _base(model: zarr.Group) -> str:
    """The option with which indices start where those of the model's training rows do."""
    return "--zero-based" if store.about(model).get("data", {}).get("zero_based") else "--one-based"


def _input_fingerprint(path: str) -> Any:
    if store.located(path).is_dir():
        return store.about(store.open_store(path, "dataset"))["fingerprint"]
    return file_facts(path)


def file_facts(path: str) -> list[Any]:
    """What tells a changed raw file without reading it; its name has no secrets."""
    found = find(path)
    return [Path(found.name).name, found.size, found.modified]
