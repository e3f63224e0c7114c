"""The steps of a job: parameters, checked, in; a store, a page or scores out. The command line and TOML both use these.

Each output keeps a recipe: its step's parameters and the fingerprints of its inputs. A job skips a step whose output
is complete and has the same recipe.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import dask
import numpy as np
import zarr
from cyclopts import Parameter
from dask.utils import parse_bytes
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ask_dask import blocks, budget, compute, kernels, report, score, store
from ask_dask.encode import Encoder
from ask_dask.errors import AskDaskError, InputError, StoreError
from ask_dask.estimators import AsKLSClassifier, load, model_store
from ask_dask.ingest import ingest, read_rejects
from ask_dask.ingest.files import find


def _split(values: Any) -> Any:
    """Lists may be written with commas: --gamma 1,10,100."""
    values = [values] if isinstance(values, str | int | float) else values
    return [
        part for value in values for part in (value.split(",") if isinstance(value, str) else [value]) if part != ""
    ]


def _check_size(value: str | None) -> str | None:
    try:
        if value is None or parse_bytes(value) > 0:
            return value
    except ValueError:
        pass
    raise ValueError("not a size such as 2GiB or 512MiB")


_List = (BeforeValidator(_split), Parameter(negative="", consume_multiple=False))
Memory = Annotated[
    str | None,
    AfterValidator(_check_size),
    Field(description="Memory budget, such as 2GiB; default: what the machine allows."),
]
Overwrite = Annotated[bool, Parameter(negative=""), Field(description="Replace what is there.")]
Seed = Annotated[int, Field(ge=0, lt=2**32, description="Seed of everything random in this step.")]


class Step(BaseModel):
    """One step of a job."""

    model_config = ConfigDict(extra="forbid")
    title: ClassVar[str]

    def inputs(self) -> dict[str, Any]:
        """Name -> fingerprint of everything this step reads."""
        raise NotImplementedError

    def run(self) -> dict[str, Any]:
        """Do it; what came out, as JSON values."""
        raise NotImplementedError

    def recipe(self) -> dict[str, Any]:
        """What decides the output: parameters and input fingerprints. Paths do not, so a folder may be moved."""
        parameters = self.model_dump(mode="json", exclude={"overwrite", "memory", *_PATHS})
        return {"step": self.title, "parameters": parameters, "inputs": self.inputs()}

    def made(self) -> dict[str, Any] | None:
        """The recipe of the output that is there, None when there is none."""
        raise NotImplementedError


class _Storing(Step):
    """A step whose output is a store."""

    to: Annotated[Path, Field(description="The store to make.")]
    overwrite: Overwrite = False
    memory: Memory = None

    def made(self) -> dict[str, Any] | None:
        return store.about(store.open_store(self.to)).get("recipe", {}) if self.to.exists() else None

    @property
    def bytes_allowed(self) -> int | None:
        """The memory budget in bytes."""
        return None if self.memory is None else int(parse_bytes(self.memory))


class Encoding(BaseModel):
    """How columns become numbers."""

    model_config = ConfigDict(extra="forbid")
    encoder: Annotated[
        Path | None,
        Field(description="A dataset or model store whose encoder to use, for new rows; default: fit one."),
    ] = None
    encoding_folds: Annotated[int, Field(ge=2, le=255, description="Folds of the target encoding.")] = 5
    smoothing: Annotated[float, Field(gt=0, description="Rows that the mean label counts for in each value.")] = 10.0
    buckets: Annotated[int, Field(ge=2, description="Hash buckets of each categorical column.")] = 2**18
    counts: Annotated[bool, Field(description="Add the log count of each categorical value.")] = True
    max_rejects: Annotated[float, Field(ge=0, le=1, description="Largest share of bad rows that is set aside.")] = 0.001
    seed: Seed = 0


class Ingest(Encoding, _Storing):
    """Raw click logs -> a dataset store."""

    title: ClassVar[str] = "ingest"
    do: Annotated[Literal["ingest"], Parameter(show=False, parse=False)] = "ingest"
    format: Literal["criteo", "avazu"]
    files: Annotated[list[str], *_List]

    def inputs(self) -> dict[str, Any]:
        found: dict[str, Any] = {"files": [_file_facts(file) for file in self.files]}
        return found | ({"encoder": _encoder(self.encoder).fingerprint} if self.encoder else {})

    def run(self) -> dict[str, Any]:
        ingest(
            self.files,
            self.to,
            format=self.format,
            encoder=_encoder(self.encoder) if self.encoder else None,
            n_folds=self.encoding_folds,
            smoothing=self.smoothing,
            n_buckets=self.buckets,
            counts=self.counts,
            random_state=self.seed,
            max_rejects=self.max_rejects,
            memory=self.bytes_allowed,
            overwrite=self.overwrite,
            facts={"recipe": self.recipe()},
        )
        return info(self.to)


class Fit(_Storing):
    """A dataset store -> an AsK-LS model: gamma and landmark count chosen on held-out rows."""

    title: ClassVar[str] = "fit"
    do: Annotated[Literal["fit"], Parameter(show=False, parse=False)] = "fit"
    data: Annotated[Path, Field(description="The dataset store.")]
    kernel: Annotated[
        Literal["sne", "student-t", "rbf", "laplacian", "linear", "polynomial"], Field(description="The kernel.")
    ] = "sne"
    bandwidth: Annotated[
        float | None, Field(gt=0, description="Width h in exp(-|x-z|^2/h^2); default: from the landmarks' variance.")
    ] = None
    normaliser: Annotated[Literal["landmarks", "exact"], Field(description="Normaliser of sne and student-t.")] = (
        "landmarks"
    )
    degree: Annotated[int, Field(ge=1, description="Of the polynomial kernel.")] = 3
    gamma: Annotated[list[float], *_List, Field(description="Weights of the squared errors to choose from.")] = [
        1.0, 10.0, 100.0, 1000.0]  # fmt: skip
    landmarks: Annotated[list[int], *_List, Field(description="Landmark counts to choose from.")] = [1000]
    sampling: Annotated[Literal["uniform", "stratified"], Field(description="How landmarks are chosen.")] = "uniform"
    folds: Annotated[int, Field(ge=2, description="Cross-validation folds.")] = 5
    merge: Annotated[Literal["stack", "mean", "source", "target"], Field(description="The score from f_s and f_t.")] = (
        "stack"
    )
    scoring: Annotated[
        Literal["auroc", "log_loss", "accuracy", "f1_micro", "f1_macro"], Field(description="What chooses.")
    ] = "auroc"
    ridge: Annotated[float, Field(ge=0, description="Ridge of the primal; from 1 on no resonance exists.")] = 0.0
    damping: Annotated[float, Field(ge=0, description="Tikhonov damping of the saddle point.")] = 0.0
    max_scored_rows: Annotated[int, Field(ge=1, description="Most rows that held-out scores use.")] = 1_000_000
    seed: Seed = 0

    def inputs(self) -> dict[str, Any]:
        return {"data": store.about(store.open_store(self.data, "dataset"))["fingerprint"]}

    def run(self) -> dict[str, Any]:
        data = store.open_store(self.data, "dataset")
        if "y" not in data:
            raise InputError(f"{self.data} holds no labels, and fit needs them: ingest files that have a label column.")
        with store.create(self.to, "model", self.overwrite) as group:  # first, so that a place is refused at once
            self._fit(data, group)
        return info(self.to)

    def _fit(self, data: zarr.Group, group: zarr.Group) -> None:
        model = AsKLSClassifier(
            kernel=self._kernel(),
            gamma=self.gamma,
            n_landmarks=self.landmarks,
            landmarks=self.sampling,
            cv=self.folds,
            merge=self.merge,
            scoring=self.scoring,
            ridge=self.ridge,
            damping=self.damping,
            max_scored_rows=self.max_scored_rows,
            memory=self.memory,
            random_state=self.seed,
        ).fit(store.array(data, "X"), store.array(data, "y"))
        model_store.write(model, group)
        about, recipe = store.about(data), self.recipe()
        store.describe(
            group,
            # With the recipe, since the merger and the scores on held-out rows depend on it too.
            fingerprint=store.fingerprint(store.about(group)["fingerprint"], json.dumps(recipe, sort_keys=True)),
            recipe=recipe,
            data=_provenance(self.data, data),
            feature_names=about.get("feature_names"),
            steps=[*about.get("steps", []), *model.steps_],
        )
        if "encoder" in data:
            Encoder.load(store.subgroup(data, "encoder")).save(group.create_group("encoder"))

    def _kernel(self) -> kernels.Kernel | None:
        if self.kernel in ("sne", "rbf", "laplacian"):
            if self.bandwidth is None and self.kernel == "sne" and self.normaliser == "landmarks":
                return None  # the estimator's own: SNE with a bandwidth from the landmarks
            if self.bandwidth is None:
                raise InputError(f"The {self.kernel} kernel needs a bandwidth: give --bandwidth.")
        made: dict[str, Callable[[], kernels.Kernel]] = {
            "sne": lambda: kernels.SNE(self.bandwidth or 0.0, self.normaliser),
            "student-t": lambda: kernels.StudentT(self.normaliser),
            "rbf": lambda: kernels.RBF(self.bandwidth or 0.0),
            "laplacian": lambda: kernels.Laplacian(self.bandwidth or 0.0),
            "linear": kernels.Linear,
            "polynomial": lambda: kernels.Polynomial(self.degree),
        }
        return made[self.kernel]()


class Predict(_Storing):
    """A model and new rows (a dataset store, or raw files of the model's format) -> a predictions store."""

    title: ClassVar[str] = "predict"
    do: Annotated[Literal["predict"], Parameter(show=False, parse=False)] = "predict"
    model: Annotated[Path, Field(description="The model store.")]
    data: Annotated[list[str], *_List, Field(description="A dataset store, or raw files for the model's own encoder.")]
    max_rejects: Annotated[float, Field(ge=0, le=1, description="Largest share of bad rows in raw files.")] = 0.001

    def inputs(self) -> dict[str, Any]:
        model = store.about(store.open_store(self.model, "model"))["fingerprint"]
        return {"model": model, "data": [_input_fingerprint(path) for path in self.data]}

    def run(self) -> dict[str, Any]:
        store.refuse_existing(self.to, self.overwrite, "predictions")
        model = store.open_store(self.model, "model")
        if len(self.data) == 1 and Path(self.data[0]).is_dir():
            return self._predict(model, store.open_store(self.data[0], "dataset"))
        found = store.about(model).get("data", {}).get("format")
        if "encoder" not in model or not found:
            raise InputError(f"{self.model} has no encoder, so it cannot read raw files: give a dataset store.")
        folder = _folder_beside(self.to)
        try:
            encoder = Encoder.load(store.subgroup(model, "encoder"))
            ingest(self.data, folder / "rows.zarr", format=found, encoder=encoder, max_rejects=self.max_rejects,
                   memory=self.bytes_allowed)  # fmt: skip
            return self._predict(model, store.open_store(folder / "rows.zarr", "dataset"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _predict(self, model: zarr.Group, data: zarr.Group) -> dict[str, Any]:
        _check_features(self.model, model, self.data[0], data)
        steps: list[dict[str, Any]] = []
        with store.create(self.to, "predictions", self.overwrite) as group:
            with compute.measured(steps, "predict"):
                fingerprint = write_predictions(load(self.model), data, group, self.bytes_allowed)
            about = store.about(data)
            store.describe(
                group,
                recipe=self.recipe(),
                fingerprint=fingerprint,
                model_fingerprint=store.about(model)["fingerprint"],
                data_fingerprint=about["fingerprint"],
                classes=store.about(model)["classes"],
                rejected=about.get("rejected"),
                files=about.get("files"),
                steps=steps,
            )
        return info(self.to)


class Score(Step):
    """Predictions of labelled rows -> AUROC, log loss, accuracy, micro and macro F1."""

    title: ClassVar[str] = "score"
    do: Annotated[Literal["score"], Parameter(show=False, parse=False)] = "score"
    predictions: Annotated[Path, Field(description="The predictions store.")]
    data: Annotated[
        Path | None, Field(description="The dataset store with the labels; default: those the predictions carry.")
    ] = None

    def inputs(self) -> dict[str, Any]:
        return {"predictions": store.about(store.open_store(self.predictions, "predictions"))["fingerprint"]}

    def made(self) -> dict[str, Any] | None:
        return None  # cheap, and its output is what it prints

    def run(self) -> dict[str, Any]:
        found = scores(self.predictions, self.data)
        return {key: value for key, value in found.items() if key not in ("roc", "calibration")}


class Report(Step):
    """A model, and scores on new rows if given -> one self-contained HTML page."""

    title: ClassVar[str] = "report"
    do: Annotated[Literal["report"], Parameter(show=False, parse=False)] = "report"
    model: Annotated[Path, Field(description="The model store.")]
    to: Annotated[Path, Field(description="The HTML file to write.")]
    predictions: Annotated[Path | None, Field(description="Predictions of labelled rows, to show their scores.")] = None
    data: Annotated[Path | None, Field(description="The dataset store with the labels of the predictions.")] = None
    overwrite: Overwrite = False

    def inputs(self) -> dict[str, Any]:
        found = {"model": store.about(store.open_store(self.model, "model"))["fingerprint"]}
        if self.predictions:
            found["predictions"] = store.about(store.open_store(self.predictions, "predictions"))["fingerprint"]
        if self.data:
            found["data"] = store.about(store.open_store(self.data, "dataset"))["fingerprint"]
        return found

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
        test = scores(self.predictions, self.data) if self.predictions else None
        steps = store.about(store.open_store(self.predictions))["steps"] if self.predictions else []
        page = report.write_report(
            store.open_store(self.model, "model"), self.to, self.overwrite, test, steps=steps, mark=self._mark()
        )
        return {"path": str(page), "bytes": page.stat().st_size}


AnyStep = Annotated[Ingest | Fit | Predict | Score | Report, Field(discriminator="do")]


def write_predictions(model: AsKLSClassifier, data: zarr.Group, group: zarr.Group, memory: int | None = None) -> str:
    """Predict every row of a dataset store into a predictions store, one task per shard; its fingerprint.

    Arrays: f_source, f_target, score (N, q) float32, probability (N, n_classes) float32, row_id (N,), and file, line
    and y where the data have them.

    Raises
    ------
    BudgetError
        Prediction takes more than `memory` bytes; names the number of workers that fits.
    """
    X = store.array(data, "X")
    n, q, n_classes = X.shape[0], model.n_outputs_, len(model.classes_)
    plan = partial(
        budget.predict_plan,
        shard=min(n, (X.shards or X.chunks)[0]),
        row_bytes=X.shape[1] * X.dtype.itemsize,
        n_landmarks=len(model.row_points_),
        n_classes=n_classes,
    )
    budget.check(plan, compute.workers(), memory or compute.machine_memory(), "workers")
    ids = store.array(data, "id") if "id" in data else None
    copied = {name: store.array(data, name) for name in ("file", "line", "y") if name in data}
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        name: ((n, q), np.float32) for name in ("f_source", "f_target", "score")
    }
    shapes["probability"] = ((n, n_classes), np.float32)
    shapes["row_id"] = ((n,), np.int64 if ids is None else ids.dtype)
    shapes |= {name: ((n,), found.dtype) for name, found in copied.items()}
    out = store.create_aligned(group, shapes, like=X)
    task = dask.delayed(_predict_shard, pure=False)
    shared = dask.delayed((model, out, copied, ids), traverse=False, pure=False)
    height = out["score"].shards[0]  # type: ignore[index]
    bounds = [(start, min(start + height, n)) for start in range(0, n, height)]
    return store.fingerprint(*compute.run([task(shared, X, start, stop) for start, stop in bounds], "predict"))


def _predict_shard(shared: tuple[Any, ...], X: zarr.Array, start: int, stop: int) -> str:
    model, out, copied, ids = shared
    block = store.read(X, start, stop)
    blocks.require_finite(block, start)
    f = model.block_discriminants(block)
    q = f.shape[1] // 2
    values = {"f_source": f[:, :q], "f_target": f[:, q:], "score": model.merged_(f)}
    values["probability"] = model.merger_.probability(f)
    values["row_id"] = np.arange(start, stop) if ids is None else store.read(ids, start, stop)
    values |= {name: store.read(found, start, stop) for name, found in copied.items()}
    for name, value in values.items():
        out[name][start:stop] = value
    return store.fingerprint(*(np.asarray(values[name], out[name].dtype) for name in sorted(values)))


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
        for name, found in sorted(group.arrays())
    }
    hidden = ("cv_results", "held_out", "feature_names", "recipe")
    facts = {key: value for key, value in about.items() if key not in hidden}
    if "held_out" in about:
        facts["held_out"] = {k: v for k, v in about["held_out"].items() if k not in ("roc", "calibration")}
    return {"path": str(path), "bytes": store.stored_bytes(path), "arrays": arrays} | facts


def run_job(steps: list[Step], overwrite: bool, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Run the steps in order, skipping each whose output is complete and has the same recipe."""
    done = []
    for number, step in enumerate(steps, 1):
        name = f"step {number} of {len(steps)}, {step.title}"
        try:
            made = step.made()
            if made is not None and made == json.loads(json.dumps(step.recipe())):
                say(f"{name}: skipped, {getattr(step, 'to', '')} is complete")
                done.append({"step": step.title, "skipped": True})
                continue
            if made is not None:
                if not (overwrite or getattr(step, "overwrite", False)):
                    raise StoreError(
                        f"{getattr(step, 'to', '')} was made with other parameters or from other inputs: pass "
                        "--overwrite to make it again, or name another place."
                    )
                step = step.model_copy(update={"overwrite": True})  # noqa: PLW2901
            say(f"{name}: started")
            done.append({"step": step.title, "skipped": False} | step.run())
        except AskDaskError as error:
            raise type(error)(f"{name}: {error}") from error
    return done


def _provenance(path: Path, data: zarr.Group) -> dict[str, Any]:
    about = store.about(data)
    kept = ("fingerprint", "encoder_fingerprint", "format", "n_rows", "files", "label_counts", "rejected")
    found = {key: about[key] for key in kept if key in about}
    if "rejected" in found:
        found["rejected"] = found["rejected"] | {"first": read_rejects(data)[:20]}
    return {"path": os.fspath(path)} | found


def _encoder(path: Path) -> Encoder:
    group = store.open_store(path)
    if "encoder" not in group:
        raise InputError(f"{path} has no encoder: give a dataset or model store that was made from raw files.")
    return Encoder.load(store.subgroup(group, "encoder"))


def _check_features(model_path: Path, model: zarr.Group, data_path: str, data: zarr.Group) -> None:
    """Refuse rows whose features are not those of the model's training rows."""
    expected = store.about(model).get("data", {}).get("encoder_fingerprint")
    found = store.about(data).get("encoder_fingerprint")
    if expected != found:
        raise InputError(
            f"{data_path} was not encoded with the encoder of {model_path}: ingest it with --encoder {model_path}, or "
            "give predict the raw files."
        )
    width, wanted = store.array(data, "X").shape[1], store.about(model)["n_features"]
    if width != wanted:
        raise InputError(
            f"{data_path} has {width} features and {model_path} was fitted on {wanted}: give its own kind."
        )


def _input_fingerprint(path: str) -> Any:
    if Path(path).is_dir():
        return store.about(store.open_store(path, "dataset"))["fingerprint"]
    return _file_facts(path)


def _file_facts(path: str) -> list[Any]:
    """What tells a changed raw file without reading it; its name has no secrets."""
    found = find(path)
    return [Path(found.name).name, found.size, found.modified]


def _folder_beside(path: Path) -> Path:
    """A new hidden folder where the path will be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{path.name}.partial-", dir=path.parent))
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error.strerror}; choose another place.") from error


TITLES = tuple(step.title for step in (Ingest, Fit, Predict, Score, Report))
_PATHS = ("to", "data", "model", "predictions", "encoder", "files")


def placed(step: Step, folder: Path) -> Step:
    """The step with its relative paths taken from a folder; URLs stay."""

    def place(path: Any) -> Any:
        if isinstance(path, list):
            return [place(part) for part in path]
        return (
            path
            if path is None or "://" in str(path)
            else type(path)(folder / path)
            if isinstance(path, str)
            else folder / path
        )

    return step.model_copy(
        update={name: place(getattr(step, name)) for name in _PATHS if name in type(step).model_fields}
    )
