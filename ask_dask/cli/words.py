"""Results in words: one or a few lines for people."""

from collections.abc import Iterator
from typing import Any

from ask_dask.budget import size
from ask_dask.report.words import METRICS, larger_error


def in_words(result: dict[str, Any]) -> str:
    """A result in one or a few lines."""
    where = f"{result.get('path', '')}: "
    if result["step"] in ("make", "ingest"):
        return f"{where}{(_made if result['step'] == 'make' else _ingested)(result)}{_cost(result)}"
    if result.get("schema") == "model":
        size_of = "every row" if result["solver"]["name"] != "landmarks" else f"{result['n_landmarks']} landmarks"
        scores, name = result.get("held_out") or {}, result["parameter"]
        shown = [f"{METRICS[key]} {_short(scores[key])}" for key in HELD_OUT[result["task"]] if key in scores]
        held_out = f", held-out {', '.join(shown)}" if shown else ""
        return f"{where}{name} {result[name]:g}, {size_of}{held_out}{_cost(result)}"
    if result["step"] == "embed":
        rows, found, asked = result["shape"][0], result["n_components"], result["parameters"]["n_components"]
        near = "" if result["error"] is None else ", {} {:.2g}".format(*larger_error(result))
        few = f" of {asked}" * (found < asked)
        return f"{where}{found}{few} components of {rows:,} rows{near}{_cost(result)}"
    if result["step"] == "predict":
        return f"{where}{result['arrays']['row_id']['shape'][0]:,} rows{_cost(result)}"
    if result["step"] == "score":
        return "\n".join(f"{name:<9} {_value(result[name])}" for name in ("n", *METRICS) if name in result)
    return f"{where}{size(result['bytes'])}"


HELD_OUT = {
    "classification": ("auroc", "log_loss", "f1_micro", "f1_macro"),
    "multilabel": ("auroc", "f1_micro", "f1_macro"),
    "regression": ("r2", "rmse"),
    "components": ("captured",),
}
"""What a fit says of itself in its one line."""


def _short(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _ingested(result: dict[str, Any]) -> str:
    rows = f"{result['n_rows']:,}"
    if result["format"] == "graph":
        counted = (
            ("nodes", "n_nodes"),
            ("edges", "n_edges"),
            ("duplicates", "duplicate_edges"),
            ("self loops", "self_loops"),
        )
        parts = [f"{result[key]:,} {name}" for name, key in counted]
        return ", ".join([*parts, f"{rows} labelled" if "y" in result["arrays"] else "no labels"])
    rejected = f", {result['rejected']['count']:,} rejected" if "rejected" in result else ""
    return f"{rows} rows x {result['n_features']} features{rejected}"


def _made(result: dict[str, Any]) -> str:
    made = result.get("made", result)  # of a store, or of files of text
    kind = "dataset store" if "arrays" in result else f"{len(result['files'])} files of text"
    best = f"clicks {made['click_rate']:.2%}, best possible AUROC {_short(made['best_auroc'])}"
    return f"{made['n_rows']:,} rows, {kind}, {size(result['bytes'])}, {best}"


def _cost(result: dict[str, Any]) -> str:
    done = result.get("steps", [])
    if not done:
        return ""
    cut = "".join(f"; {step['cut']}" for step in done if "cut" in step)
    return f" ({sum(s['seconds'] for s in done):.1f} s in all, peak {size(max(s['peak_bytes'] for s in done))}{cut})"


def _value(value: Any) -> str:
    return "undefined" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.6f}"


def in_lines(found: dict[str, Any], indent: str = "") -> Iterator[str]:
    """A tree of facts, a line each."""
    for key, value in found.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from in_lines(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{indent}{key}:"
            for item in value:
                yield indent + "  " + ", ".join(f"{k} {v}" for k, v in item.items())
        else:
            yield f"{indent}{key}: {size(value) if key == 'bytes' else _listed(value)}"


def verified(found: dict[str, Any]) -> str:
    """What `steps.verify` found."""
    if found["problems"]:
        count = len(found["problems"])
        return "\n".join([*found["problems"], f"{found['path']}: {count} problem{'s' * (count > 1)}"])
    return f"{found['path']}: {found['arrays']} arrays, {size(found['bytes'])}, all as they were written"


def standing(found: dict[str, Any]) -> str:
    """What `steps.status` found."""
    there = f"a {found['schema']} store of {found['made']} is there" if "made" in found else "no store is there"
    state = {
        "complete": "complete", "running": "a job is writing it",
        "stopped": f"stopped, and the same command {'goes on' if found['goes_on'] else 'starts again'}",
    }  # fmt: skip
    lines = [f"{found['path']}: {state[found['state']]}; {there}"]
    if "last_sign" in found:
        lines.append(f"last sign of life: {found['last_sign']}")
    if (parts := found.get("written")) and parts["parts_planned"]:
        far = f"{size(parts['bytes'])}, {parts['parts']:,} of {parts['parts_planned']:,} chunks"
        lines.append(f"written so far: {far}{_rest(parts)}")
    if kept := found.get("checkpoint"):
        lines.append(f"checkpoint: {_kept(kept)}")
    return "\n".join(lines)


def _kept(kept: dict[str, Any]) -> str:
    if "damaged" in kept:
        return kept["damaged"]
    of = f" of {kept['total']:,}" if "total" in kept else ""
    residual = f", residual {kept['residual']:.1e}" if "residual" in kept else ""
    far = f"{kept['step']}, {kept['done']:,}{of} {kept['unit']}{residual}"
    return f"{far} in {kept['seconds']:.0f} s, written {kept['written']}{_rest(kept)}"


def _rest(found: dict[str, Any]) -> str:
    return f", about {found['seconds_left']:.0f} s for the rest" if "seconds_left" in found else ""


def _listed(value: Any) -> Any:
    """A long list, such as residuals, as its first and last items."""
    if not (isinstance(value, list) and len(value) > MOST_LISTED):
        return value
    return f"[{', '.join(map(repr, value[:3]))}, ..., {value[-1]!r}] ({len(value)} in all)"


MOST_LISTED = 10
