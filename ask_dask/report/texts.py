"""What the page says in sentences."""

from typing import Any

from ask_dask.report.words import (
    METRICS,
    duration,
    is_exact,
    kernel_words,
    landmarks,
    metric,
    number,
    parameter,
    scoring,
    task,
)
from ask_dask.score import OF_TASK


def sentences(facts: dict[str, Any], test: dict[str, Any] | None) -> list[str]:
    """What was run and how well it does, in words."""
    said, where = [_fitted(facts), *_asymmetry(facts), _chosen(facts)], "On rows held out of each fold"
    if facts.get("held_out"):
        said.append(_quality(where, facts["held_out"], task(facts)))
    else:
        missing = "" if test else ", so this page has no score of rows that the model has not seen"
        said.append(f"No rows were held out (cv is None){missing}.")
    return [*said, _quality("On the test data", test, task(facts))] if test else said


def _fitted(facts: dict[str, Any]) -> str:
    data, kernel = facts.get("data") or {}, facts.get("kernel")
    words, points = kernel_words(kernel), {"graph": "nodes", "samples": "items"}.get(data.get("format", ""))
    shape = f"{points}" if points else f"rows and {number(facts.get('n_features'))} features"
    return (
        f"{facts.get('estimator', 'The model')} was fitted on {number(facts.get('n_rows'))} {shape}"
        + (f" of {data['path']}" if data.get("path") else " given as arrays")
        + (f", with {words}." if words else ".")
    )


def _asymmetry(facts: dict[str, Any]) -> list[str]:
    value = facts.get("asymmetry")
    if value is None:
        return []
    meaning = (
        "it is symmetric" if value == 0 else "0 is symmetric, and a kernel that is never negative has at most 1.414"
    )
    return [f"How asymmetric the kernel is: ||K - K'|| / ||K|| = {number(float(value))} ({meaning})."]


def _chosen(facts: dict[str, Any]) -> str:
    folds = (facts.get("parameters") or {}).get("cv")
    name, value = parameter(facts)
    pairs = len((facts.get("cv_results") or {}).get(f"param_{name}", []))
    chosen = f"{name} = {number(value)} and {landmarks(facts.get('n_landmarks'))}"
    if pairs < 2:
        return f"It uses {chosen}, as asked: nothing was chosen by cross-validation."
    over = f"{folds} folds" if isinstance(folds, int) else "the folds"
    if is_exact(facts):
        return f"Of {pairs} values of {name}, {number(value)} had the best {scoring(facts)[1]} over {over}."
    return f"Of {pairs} pairs of {name} and landmark count, {chosen} had the best {scoring(facts)[1]} over {over}."


def _quality(where: str, scores: dict[str, Any], kind: str) -> str:
    first, rows = OF_TASK[kind][0], number(scores.get("n"))
    value = scores.get(first)
    if value is None:
        article = "no" if first == "auroc" else "no defined"
        return f"{where} ({rows} rows) there is {article} {METRICS[first]}: {_reason(scores, first)}."
    if kind == "components":
        return f"{where} ({rows} rows) the components hold {value:.1%} of the variance in the kernel's space."
    if kind == "regression":
        errors = " and ".join(f"the {METRICS[k]} {metric(scores[k], k)}" for k in ("rmse", "mae") if k in scores)
        share = (
            f"the predictions explain {value:.0%} of how y varies"
            if value > 0
            else "predicting the mean of y does no worse"
        )
        return f"{where} ({rows} rows) R² is {value:.4f}: {share}, and {errors} in the unit of y."
    many = len(scores.get("classes") or ()) > 2
    pair = "row of a class above one of another class" if many else "positive row above a negative one"
    mean = ", the mean of each class against the rest" if many else ""
    if kind == "multilabel":
        pair, mean = "row with a label above one without it", ", the mean of the labels"
    times = f"{value * 100:.0f} times in 100"
    return f"{where} ({rows} rows) the AUROC is {value:.4f}{mean}: it ranks a random {pair} {times}."


def _reason(scores: dict[str, Any], name: str) -> str:
    return (scores.get("reasons") or {}).get(name, "it is undefined")


_SOLVERS = {
    "landmarks": "The system was solved on landmarks",
    "dense": "The exact system, on all training points, was solved by one dense decomposition",
    "minres": "The exact system, on all training points, was solved by MINRES",
}


def solver_sentence(facts: dict[str, Any]) -> str | None:
    """How the system was solved and how well, None when the model does not say."""
    solver = facts.get("solver") or {}
    if not solver.get("name"):
        return None
    said = _SOLVERS.get(solver["name"], f"The system was solved by {solver['name']}")
    if solver.get("iterations"):
        by = " by MINRES" if solver["name"] == "landmarks" else ""
        said += f"{by} in {number(solver['iterations'])} iterations"
    if solver.get("relative_residual") is not None:
        said += f", to a relative residual of {number(float(solver['relative_residual']))}"
    if solver.get("seconds") is not None:
        said += f", in {duration(solver['seconds'])}"
    return said + ("; it did not converge." if solver.get("converged") is False else ".")


def data_sentence(facts: dict[str, Any]) -> str:
    """How much was read, and of what."""
    data = facts.get("data") or {}
    rows, rejected = number(data.get("n_rows")), (data.get("rejected") or {}).get("count", 0)
    if "n_edges" in data:
        nodes, edges = number(data["n_nodes"]), number(data["n_edges"])
        return f"The graph has {nodes} nodes and {edges} edges, and the model learned the labels of {rows} nodes."
    if "mean_standard_error" in data:
        error = f"{number(data['mean_divergence'])}, each estimated with a standard error of"
        return (
            f"The model learned the labels of {rows} of {number(data['n_items'])} items. The divergence between two of "
            f"them is on average {error} {number(data['mean_standard_error'])} on average."
        )
    files = f" from {data['format']} files" if data.get("format") else ""
    return f"{rows} rows were taken{files} and {number(rejected)} rejected."


def cards(facts: dict[str, Any], test: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The few figures that stand out: (what, value)."""
    first, steps = OF_TASK[task(facts)][0], facts.get("steps") or []
    scored = [("test", test), ("held out", facts.get("held_out"))]
    shown = [(f"{METRICS[first]}, {where}", metric(found.get(first), first)) for where, found in scored if found]
    name, chosen = parameter(facts)
    shown += [(name, number(chosen)), _points(facts)]
    return [*shown, ("total time", duration(sum(s["seconds"] for s in steps)))] if steps else shown


def _points(facts: dict[str, Any]) -> tuple[str, str]:
    n = facts.get("n_landmarks")
    return ("training points, all used", number(facts.get("n_rows"))) if n is None else ("landmarks", number(n))


def notes(facts: dict[str, Any], test: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What the reader must know before believing the page: (title, text)."""
    resonance, trained_on = facts.get("resonance") or {}, (facts.get("data") or {}).get("fingerprint")
    found = [("Resonance", resonance["warning"])] if resonance.get("warning") else []
    found += _unconverged(facts.get("solver") or {})
    if test and trained_on and test.get("data_fingerprint") == trained_on:
        memory = "its scores say how well the model remembers, not how well it predicts."
        found.append(("Not a test", f"The test data has the fingerprint of the training data: {memory}"))
    for name, scores in (("held out", facts.get("held_out")), ("test", test)):
        reasons: dict[str, list[str]] = {}
        for key, why in ((scores or {}).get("reasons") or {}).items():
            reasons.setdefault(why, []).append(METRICS.get(key, key))
        found += [(f"{', '.join(names)}, {name}", f"{why}.") for why, names in reasons.items()]
    return found


def _unconverged(solver: dict[str, Any]) -> list[tuple[str, str]]:
    if solver.get("converged") is not False:
        return []
    left = number(float(solver.get("relative_residual") or 0))
    what_to_do = "allow more iterations, use a gamma that is clear of resonance, or damping."
    return [("Not converged", f"The solver stopped at a relative residual of {left}: {what_to_do}")]
