"""What the page of an embedding says in sentences and tables."""

from typing import Any

from ask_dask.report.embedding import Points
from ask_dask.report.tables import about_data, filled
from ask_dask.report.words import SIDES, duration, is_complete, kernel_words, larger_error, number


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
        unknown = [] if is_whole(facts) else ["Nothing was estimated of how far they are from the exact ones."]
        return [*unknown, *_against_exact(facts)]
    said = [f"{what} = {number(error[side])}" for side, what in SIDES.items() if is_complete(facts, side)]
    exact = [f"Exactly, as all points of its side are landmarks, {each}." for each in said]
    parts = [f"{what} = {number(error[side])} ± {number(error[f'{side}_deviation'])}"
             for side, what in SIDES.items() if not is_complete(facts, side)]  # fmt: skip
    estimated = f"Estimated from {_probes(facts)} that are no landmarks, {' and '.join(parts)}."
    return [
        *exact,
        estimated,
        *([f"The tolerance asked for was {number(tol)}."] if tol else []),
        *_against_exact(facts),
    ]


def _probes(facts: dict[str, Any]) -> str:
    """What the error was estimated from."""
    return " and ".join(what for side, what in (("left", "rows"), ("right", "columns")) if not is_complete(facts, side))


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
    parameters, found = facts.get("parameters") or {}, facts["n_components"]
    asked, tol, said = parameters.get("n_components", found), parameters.get("tol"), []
    if found < asked:
        more = "has no more" if is_whole(facts) else "has no more, or more landmarks are needed to tell them from noise"
        said.append(("Fewer components", f"{number(found)} of the {number(asked)} asked for were found: the kernel "
                     f"matrix {more}."))  # fmt: skip
    if facts.get("error") and tol:
        name, error = larger_error(facts)
        if error > tol:
            said.append(("Tolerance not reached", f"the {name} is above {number(tol)}: allow more landmarks."))
    return said


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
    (n, m), steps = facts["shape"], facts.get("steps") or []
    shown = [("components", number(facts["n_components"])), ("sources", number(n)), ("targets", number(m))]
    if not is_whole(facts):
        shown.append(("landmarks, rows + columns", " + ".join(map(number, facts["n_landmarks"]))))
    if facts.get("error"):
        name, value = larger_error(facts)
        shown.append((name, f"{value:.2g}"))
    return [*shown, ("total time", duration(sum(s["seconds"] for s in steps)))] if steps else shown


def tables(facts: dict[str, Any], kind: str) -> dict[str, list[list[str]]]:
    """The rows of every table, its head first; one without rows has no entry. `kind` says what y is."""
    error, recipe = facts.get("error") or {}, (facts.get("recipe") or {}).get("parameters") or {}
    given = {key: value for key, value in recipe.items() if key != "do"} or facts.get("parameters")
    sides = [[f"{side.capitalize()}, {what}", number(error[side]),
              "exact" if is_complete(facts, side) else number(error[f"{side}_deviation"])]
             for side, what in SIDES.items() if side in error]  # fmt: skip
    return filled({
        "error": [["Side", "Error", "Standard error"], *sides],
        "landmark_error": _over_landmarks(facts.get("landmark_error") or {}, facts["shape"]),
        **about_data(facts | {"parameters": given}, {}, {"labels": "multilabel"}.get(kind, "classification")),
    })  # fmt: skip


def _over_landmarks(error: dict[str, Any], shape: list[int]) -> list[list[str]]:
    counts = [error.get(name) or [] for name in ("row_landmarks", "column_landmarks")]
    columns: list[list[Any]] = [*counts]
    for side, tried, points in zip(SIDES, counts, shape, strict=True):
        found = zip(error.get(side) or [], error.get(f"{side}_deviation") or [], tried, strict=False)
        columns.append([f"{value:.3g}, exact" if n == points else f"{value:.3g} ± {deviation:.2g}"
                        for value, deviation, n in found])  # fmt: skip
    rows = [[number(n), number(m), *errors] for n, m, *errors in zip(*columns, strict=False)]
    return [["Row landmarks", "Column landmarks", "Left", "Right"], *rows] if len(rows) > 1 else []
