"""Numbers, sizes and metrics in words."""

from typing import Any

METRICS = {
    "auroc": "AUROC", "log_loss": "Log loss", "accuracy": "Accuracy", "f1_micro": "Micro F1", "f1_macro": "Macro F1",
}  # fmt: skip


def number(value: Any) -> str:
    """A value for people.

    >>> [number(v) for v in (None, 1234567, 0.00123456, [1, 2.5], {"h": 3})]
    ['none', '1,234,567', '0.001235', '1, 2.5', 'h = 3']
    """
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} = {number(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(number, value))
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 or value % 1 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def metric(value: float | None) -> str:
    """A metric with four digits."""
    return "-" if value is None else f"{value:.4f}"


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
    scores = facts.get("cv_results") or {}
    key = str(facts.get("scoring") or "").removeprefix("neg_").replace("auroc", "roc_auc")
    if f"mean_test_{key}" not in scores:
        key = next((name.removeprefix("mean_test_") for name in scores if name.startswith("mean_test_")), "roc_auc")
    return key, METRICS.get(key.replace("roc_auc", "auroc"), key)
