"""What the page of an embedding says in sentences and tables."""

from typing import Any

from ask_dask.report.embedding import Points
from ask_dask.report.tables import about_data, filled
from ask_dask.report.words import duration, kernel_words, number

SIDES = {"left": "||K V - U S|| / ||S||", "right": "||K'U - V S|| / ||S||"}


def is_whole(facts: dict[str, Any]) -> bool:
    """Whether every row and column was used, rather than landmarks."""
    return (facts.get("parameters") or {}).get("n_landmarks") is None or facts.get("n_landmarks") == facts.get("shape")


def sentences(facts: dict[str, Any]) -> list[str]:
    """What was computed, from what, and how near it is."""
    data, words = facts.get("data") or {}, kernel_words(facts.get("kernel"))
    targets = facts.get("targets") or {}
    (n, m), parameters = facts["shape"], facts.get("parameters") or {}
    said = [
        f"{number(facts['n_components'])} pairs of singular vectors of the {number(n)} x {number(m)} kernel matrix"
        + (f" of {data['path']}" if data.get("path") else " of arrays")
        + (f" with {targets['path']}" if targets else "")
        + (f", with {words}" if words else "")
        + (", centred." if parameters.get("center") else ".")
    ]
    return [*said, _used(facts), *_error(facts)]


def _used(facts: dict[str, Any]) -> str:
    if is_whole(facts):
        return "All rows and columns were used."
    n, m = facts["n_landmarks"]
    how = (facts.get("parameters") or {}).get("landmarks")
    chosen = f", chosen by the method {how}" if isinstance(how, str) else ""
    return f"They come from {number(n)} row landmarks and {number(m)} column landmarks{chosen}."


def _error(facts: dict[str, Any]) -> list[str]:
    error, tol = facts.get("error"), (facts.get("parameters") or {}).get("tol")
    if not error:
        return [] if is_whole(facts) else ["Nothing was estimated of how far they are from the exact ones."]
    parts = [f"{what} = {number(error[side])} ± {number(error[f'{side}_deviation'])}" for side, what in SIDES.items()]
    said = f"Estimated from rows and columns that are no landmarks, {' and '.join(parts)}."
    return [said, *([f"The tolerance asked for was {number(tol)}."] if tol else []), *_against_exact(facts)]


def _against_exact(facts: dict[str, Any]) -> list[str]:
    """How far the vectors are from the exact ones, where these were computed too."""
    found = facts.get("exact_error")
    if not found:
        return []
    angles = " and ".join(f"{number(found[f'{side}_angle'])} on the {side}" for side in SIDES)
    eta = f"Against the exact decomposition eta is {number(found['eta'])}"
    return [f"{eta}; the sine of the largest principal angle is {angles}."]


def notes(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """What the reader must know before believing the page: (title, text)."""
    error, tol = facts.get("error"), (facts.get("parameters") or {}).get("tol")
    if not (error and tol and max(error["left"], error["right"]) > tol):
        return []
    return [("Tolerance not reached", f"the estimated error is above {number(tol)}: allow more landmarks.")]


def data_sentence(facts: dict[str, Any]) -> str:
    """How much was read, and of what."""
    data = facts.get("data") or {}
    rows = number(data.get("n_rows"))
    if "n_edges" in data:
        return (
            f"The graph has {number(data['n_nodes'])} nodes and {number(data['n_edges'])} edges; {rows} are embedded."
        )
    if "n_items" in data:
        return f"{rows} of {number(data['n_items'])} items are embedded."
    files, rejected = f" from {data['format']} files" if data.get("format") else "", data.get("rejected") or {}
    return f"{rows} rows were taken{files} and {number(rejected.get('count', 0))} rejected."


def drawn_sentence(points: Points, whose: str) -> str:
    """How many points a figure draws, and what their colours are."""
    n = len(points.rows)
    many = f"All {n:,} {whose}" if n == points.of else f"{n:,} of {points.of:,} {whose}, evenly spaced"
    colours = {
        "classes": " A colour is a class; of more than eight, the most frequent have one.",
        "values": " The colour is y.",
        "labels": " A row has several y, so they have one colour.",
        "none": " There is no y to colour them by.",
    }
    return f"{many}.{colours[points.kind]}"


def cards(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The few figures that stand out: (what, value)."""
    (n, m), error, steps = facts["shape"], facts.get("error"), facts.get("steps") or []
    shown = [("components", number(facts["n_components"])), ("sources", number(n)), ("targets", number(m))]
    if not is_whole(facts):
        shown.append(("landmarks, rows + columns", " + ".join(map(number, facts["n_landmarks"]))))
    if error:
        shown.append(("estimated error", f"{max(error['left'], error['right']):.2g}"))
    return [*shown, ("total time", duration(sum(s["seconds"] for s in steps)))] if steps else shown


def tables(facts: dict[str, Any], kind: str) -> dict[str, list[list[str]]]:
    """The rows of every table, its head first; one without rows has no entry. `kind` says what y is."""
    error, recipe = facts.get("error") or {}, (facts.get("recipe") or {}).get("parameters") or {}
    given = {key: value for key, value in recipe.items() if key != "do"} or facts.get("parameters")
    sides = [[f"{side.capitalize()}, {what}", number(error[side]), number(error[f"{side}_deviation"])]
             for side, what in SIDES.items() if side in error]  # fmt: skip
    return filled({
        "error": [["Side", "Estimated error", "Standard error"], *sides],
        "landmark_error": _over_landmarks(facts.get("landmark_error") or {}),
        **about_data(facts | {"parameters": given}, {}, {"labels": "multilabel"}.get(kind, "classification")),
    })  # fmt: skip


def _over_landmarks(error: dict[str, Any]) -> list[list[str]]:
    columns = [error.get(name) or [] for name in ("row_landmarks", "column_landmarks")]
    for side in SIDES:
        pairs = zip(error.get(side) or [], error.get(f"{side}_deviation") or [], strict=False)
        columns.append([f"{value:.3g} ± {deviation:.2g}" for value, deviation in pairs])
    rows = [[number(n), number(m), *errors] for n, m, *errors in zip(*columns, strict=False)]
    return [["Row landmarks", "Column landmarks", "Left", "Right"], *rows] if len(rows) > 1 else []
