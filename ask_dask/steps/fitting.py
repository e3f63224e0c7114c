"""Steps that fit an estimator on landmarks: a dataset store in, a model store out."""

import json
import logging
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import zarr

from ask_dask import store
from ask_dask.encode import Encoder
from ask_dask.errors import CheckpointError, InputError
from ask_dask.sparse import rows_of
from ask_dask.steps.each import info, provenance
from ask_dask.steps.kernel import KernelOptions
from ask_dask.steps.rows import require_rows

if TYPE_CHECKING:  # most commands need none, which take half of the time that a command takes to load
    from ask_dask.estimators.fitted import LandmarkEstimator

log = logging.getLogger("ask_dask")


class Fitting(KernelOptions):
    """A dataset store -> a model."""

    labelled: ClassVar[bool] = True
    """The method learns labels."""

    @abstractmethod
    def _estimator(self, data: zarr.Group) -> "LandmarkEstimator":
        """Return the estimator with its parameters."""

    def inputs(self) -> dict[str, Any]:
        data = store.about(store.open_store(self.data, "dataset"))["fingerprint"]
        return {"data": data} | self.matrix_facts()

    def run(self) -> dict[str, Any]:
        data = store.open_store(self.data, "dataset")
        if self.labelled and "y" not in data:
            raise InputError(f"{self.data} holds no labels, and fit needs them: ingest files that have labels.")
        with store.create(self.to, "model", self.overwrite) as group:  # first, so that a place is refused at once
            model = self._estimator(data)
            require_rows(model.kernel, data)
            weight = store.array(data, "weight") if "weight" in data else None
            y = store.array(data, "y") if self.labelled else None
            self._fit(model, rows_of(data), y, weight)
            self._write(model, data, group)
        return info(self.to) | {"steps": model.steps_}

    def _fit(self, model: "LandmarkEstimator", *data: Any) -> None:
        """With --overwrite what an older, interrupted fit left is replaced, as the model is: a nightly job goes on."""
        try:
            model.fit(*data)
        except CheckpointError as error:
            if not self.overwrite:
                raise
            log.warning("%s: it is replaced.", str(error).partition(": ")[0])
            store.Checkpoint(store.checkpoint_of(self.to), "").remove()
            model.fit(*data)

    def _write(self, model: "LandmarkEstimator", data: zarr.Group, group: zarr.Group) -> None:
        from ask_dask.estimators import model_store

        model_store.write(model, group)
        about, recipe = store.about(data), self.recipe()
        store.describe(
            group,
            # With the recipe, since the merger and the scores on held-out rows depend on it too.
            fingerprint=store.fingerprint(store.about(group)["fingerprint"], json.dumps(recipe, sort_keys=True)),
            recipe=recipe,
            data=provenance(self.data, data),
            feature_names=about.get("feature_names"),
            label_names=about.get("label_names"),
            steps=[*about.get("steps", []), *model.steps_],
        )
        if "encoder" in data:
            Encoder.load(store.subgroup(data, "encoder")).save(group.create_group("encoder"))
