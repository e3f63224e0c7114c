"""Numbers, sizes and metrics in words."""

from typing import Any

from ask_dask.score import LOWER_IS_BETTER, OF_TASK

METRICS = {
    "auroc": "AUROC", "log_loss": "Log loss", "accuracy": "Accuracy", "f1_micro": "Micro F1", "f1_macro": "Macro F1",
    "r2": "R²", "rmse": "RMSE", "mae": "MAE", "captured": "Captured variance",
}  # fmt: skip

SIDES = {"left": "||K V - U S|| / ||S||", "right": "||K'U - V S|| / ||S||"}
"""The error of each side of an embedding."""

_ALSO_NAMED = {"roc_auc": "auroc", "root_mean_squared_error": "rmse", "mean_absolute_error": "mae"}
_IN_UNITS_OF_Y = ("rmse", "mae")
_SYMMETRISED = {"mean": "(K + K') / 2"}


def task(facts: dict[str, Any]) -> str:
    """What the model was made for; one that does not say so is a classifier."""
    return facts.get("task") or "classification"


def parameter(facts: dict[str, Any]) -> tuple[str, Any]:
    """Return the name and value of the parameter that was chosen with the landmark count, such as gamma."""
    name = facts.get("parameter") or "gamma"
    return name, facts.get(name)


def is_exact(facts: dict[str, Any]) -> bool:
    """Whether the system was solved on all training points rather than on landmarks."""
    solver = (facts.get("solver") or {}).get("name")
    return solver in ("dense", "minres") and (facts.get("parameters") or {}).get("n_landmarks") is None


def is_complete(facts: dict[str, Any], side: str) -> bool:
    """Whether all points of a side of an embedding are landmarks, so that its error is exact.

    >>> [is_complete({"n_landmarks": [20, 30], "shape": [80, 30]}, side) for side in SIDES]
    [False, True]
    """
    place = list(SIDES).index(side)
    return bool(facts["n_landmarks"][place] == facts["shape"][place])


def larger_error(facts: dict[str, Any]) -> tuple[str, float]:
    """That of the side that is farther off, of an embedding from landmarks: what it is called, and its value."""
    side = max(SIDES, key=lambda side: facts["error"][side])
    return "error" if is_complete(facts, side) else "estimated error", facts["error"][side]


def number(value: Any) -> str:
    """A value for people.

    >>> [number(v) for v in (None, 1234567, 0.00123456, [1, 2.5], {"h": 3})]
    ['none', '1,234,567', '0.001235', '1, 2.5', 'h = 3']
    >>> number({"name": "Scaled", "factor": 2.0, "kernel": {"name": "Precomputed", "K": {"array": [[1, 2], [3, 4]]}}})
    'Scaled(factor = 2, kernel = Precomputed(K = array of 2 x 2))'
    """
    if value is None:
        return "none"
    if isinstance(value, dict):
        return _named(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(number, value))
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 or value % 1 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _named(value: dict[str, Any]) -> str:
    """A dict; one of a kernel, with a name, as it would be written; an array by its shape."""
    if set(value) == {"array"}:
        return _array(value["array"])
    if "zarr" in value:
        return f"array of {' x '.join(map(number, value.get('shape', ())))} at {value['zarr']}"
    said = ", ".join(f"{key} = {number(item)}" for key, item in value.items() if key != "name")
    if "name" not in value:
        return said
    return f"{value['name']}({said})" if said else str(value["name"])


def _array(value: Any) -> str:
    """The shape of an array given as lists, else the name that it has in the store."""
    shape = []
    while isinstance(value, list):
        shape.append(f"{len(value):,}")
        value = value[0] if value else None
    return f"array of {' x '.join(shape)}" if shape else f"array {number(value)}"


def kernel_words(kernel: Any) -> str | None:
    """A kernel, from the JSON of it, in a sentence.

    >>> kernel_words({"name": "Symmetrised", "how": "mean", "kernel": {"name": "SNE", "bandwidth": 1.0}})
    "the SNE kernel, symmetrised as (K + K') / 2"
    >>> kernel_words({"name": "ExpNegative", "scale": 0.5, "kernel": {"name": "Precomputed", "K": {}}})
    'exp(-0.5 D), D being a precomputed matrix'
    """
    if not isinstance(kernel, dict):
        return f"the {kernel} kernel" if kernel else None
    name = kernel.get("name") or kernel.get("kernel") or kernel.get("type")
    if name == "Symmetrised":
        how = str(kernel.get("how"))
        return f"{kernel_words(kernel.get('kernel'))}, symmetrised as {_SYMMETRISED.get(how, how)}"
    if name == "ExpNegative":
        inner = kernel.get("kernel") or {}
        D = "a precomputed matrix" if inner.get("name") == "Precomputed" else kernel_words(inner)
        return f"exp(-{number(kernel.get('scale', 1.0))} D), D being {D}"
    return f"the {name} kernel" if name else None


def landmarks(n: int | None) -> str:
    """A landmark count in a sentence; without one every training point is used.

    >>> landmarks(1000), landmarks(None)
    ('1,000 landmarks', 'all training points')
    """
    return "all training points" if n is None else f"{n:,} landmarks"


def metric(value: float | None, key: str = "") -> str:
    """A metric with four digits after the point, or in all where it has the unit of y.

    >>> metric(0.91237), metric(12345.678, "rmse"), metric(0.000123, "mae"), metric(None)
    ('0.9124', '12,346', '0.000123', '-')
    """
    if value is None:
        return "-"
    if key not in _IN_UNITS_OF_Y:
        return f"{value:.4f}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(7384), duration(3.21)
    ('2 h 3 min', '3.2 s')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"


def scoring(facts: dict[str, Any]) -> tuple[str, str]:
    """The metric that chose, as it is named in cv_results and for people."""
    scored = [name for name in facts.get("cv_results") or {} if name.startswith("mean_test_")]
    keys = [name.removeprefix("mean_test_") for name in scored]
    asked = _canonical(str(facts.get("scoring") or "").removeprefix("neg_"))
    other = keys[0] if keys else OF_TASK[task(facts)][0]
    key = next((key for key in keys if _canonical(key) == asked), other)
    return key, METRICS.get(_canonical(key), key)


def lower_is_better(facts: dict[str, Any]) -> bool:
    """Whether the metric that chose is one that should be small."""
    return _canonical(scoring(facts)[0]) in LOWER_IS_BETTER


def _canonical(key: str) -> str:
    return _ALSO_NAMED.get(key, key)
