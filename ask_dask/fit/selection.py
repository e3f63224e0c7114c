"""Held-out scores of every (gamma, landmark count) pair from the moments and one prediction pass; no refit.

The models of all folds come from the one pass's moments; this pass gives each scored row its discriminants from the
models that have not seen its label. Landmarks and landmark-estimated normalisers are shared among folds (they use
no labels).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ask_dask import blocks, compute, score
from ask_dask.fit.merge import Merger
from ask_dask.fit.outputs import Outputs
from ask_dask.kernels.base import Block, LandmarkKernel
from ask_dask.solve import Solution

MOST_ROWS = 25_000
"""At most so many rows fit a merger, of three parameters, that scores held-out rows; the model's takes all. Where half
of the folds have more, the other half share a merger."""


@dataclass(frozen=True)
class HeldOut:
    """Out-of-fold discriminants of the scored rows.

    Attributes
    ----------
    rows : (n,) int64
        Their row numbers.
    f : (pairs, n, 2 q)
        f_s then f_t for each (landmark count, gamma) pair.
    """

    rows: np.ndarray
    f: np.ndarray


def sampled_rows(n_rows: int, n_sampled: int, seed: int, without: np.ndarray | None = None) -> np.ndarray:
    """Return all rows, or a seeded uniform sample of them, in increasing order.

    Parameters
    ----------
    without : array of row numbers, optional
        Rows that are never taken, such as landmarks.
    """
    left_out = np.zeros(0, int) if without is None else np.unique(without)
    if n_sampled >= n_rows - len(left_out):
        return np.delete(np.arange(n_rows), left_out)
    random = np.random.default_rng([seed, 1])
    more = n_sampled + len(left_out)
    if n_rows <= 8 * more:
        drawn = random.choice(n_rows, more, replace=False)
    else:  # choice of many shuffles all of n_rows numbers
        drawn = random.choice(np.unique(random.integers(n_rows, size=2 * more + 50)), more, replace=False)
    return np.sort(drawn[~np.isin(drawn, left_out)][:n_sampled])


def predict_held_out(
    X: Any,
    kernels: Sequence[LandmarkKernel],
    solutions: Sequence[Sequence[Solution]],
    folds: np.ndarray,
    rows: np.ndarray,
) -> HeldOut:
    """Return each scored row's discriminants from the models trained without its fold, after one pass.

    Parameters
    ----------
    kernels : one for each fold, or one for all
    solutions : for each fold and pair
    folds : (N,)
    rows : (n,) increasing row numbers to score
    """
    stacked = [_Stacked.of(fold) for fold in solutions]
    each = kernels if len(kernels) == len(solutions) else [kernels[0]] * len(solutions)
    shared = compute.shared((list(each), stacked, len(solutions[0])))
    task, parts = compute.task(_shard), []
    for shard in blocks.shards(X):
        here = rows[slice(*np.searchsorted(rows, (shard.start, shard.stop)))]
        if len(here):
            parts.append(task(shard.block, here - shard.start, folds[here], shared))
    return HeldOut(rows, np.concatenate(compute.run(parts, "held-out scores", rows=len(rows)), axis=1))


@dataclass(frozen=True)
class _Stacked:
    """The coefficients of a fold's solutions of all pairs, side by side; a smaller model has zeros at the landmarks
    that it does not use.

    Attributes
    ----------
    source, target : (m, pairs * q)
    intercepts : (2, pairs * q)
    """

    source: np.ndarray
    target: np.ndarray
    intercepts: np.ndarray

    @classmethod
    def of(cls, fold: Sequence[Solution]) -> "_Stacked":
        parts = ([getattr(s, name) for s in fold] for name in ("source", "target", "intercepts"))
        return cls(*(np.concatenate([_padded(part, max(map(len, each))) for part in each], axis=1) for each in parts))


def _padded(coefficients: np.ndarray, width: int) -> np.ndarray:
    return np.pad(coefficients, ((0, width - len(coefficients)), (0, 0)))


def _shard(block: Block, rows: np.ndarray, folds: np.ndarray, shared: tuple[Any, ...]) -> np.ndarray:
    """Return the discriminants of some rows of a block, (pairs, rows, 2 q)."""
    kernels, stacked, pairs = shared
    out = np.empty((len(rows), 2 * stacked[0].source.shape[1]), np.result_type(block.dtype, np.float32))
    for fold in np.unique(folds):
        here, s = np.flatnonzero(folds == fold), stacked[fold]
        out[here] = blocks.discriminants(block[rows[here]], kernels[fold], s.source, s.target, s.intercepts)
    of_pairs = out.reshape(len(rows), 2, pairs, -1).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(of_pairs.reshape(pairs, len(rows), -1))  # each pair is scored by itself


@dataclass(frozen=True)
class Weights:
    """(N,) weights of the rows' squared errors when fitting, and of the rows when scoring; None is 1 for all."""

    fit: np.ndarray | None = None
    score: np.ndarray | None = None

    def of(self, rows: np.ndarray) -> "Weights":
        """Of some rows."""
        return Weights(*(None if w is None else w[rows] for w in (self.fit, self.score)))


@dataclass(frozen=True)
class Candidates:
    """The pairs, their held-out discriminants, and all that scores them.

    Attributes
    ----------
    weights : Weights
        Of the scored rows.
    folds : (n,) int
        Of the scored rows, 0 .. n_folds - 1.
    symmetric : bool, default False
        The kernel and its landmarks are the same for source and target, so that f_s = f_t.
    """

    held_out: HeldOut
    outputs: Outputs
    weights: Weights
    folds: np.ndarray
    n_folds: int
    merge: str
    seed: int
    symmetric: bool = False

    @cached_property
    def tests(self) -> list[np.ndarray]:
        """Where the rows of each fold are."""
        return [np.flatnonzero(self.folds == fold) for fold in range(self.n_folds)]

    @cached_property
    def groups(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Folds that share a merger, and where the rows of other folds are that it is fitted on."""
        known = np.arange(len(self.folds)) if self.weights.fit is None else np.flatnonzero(self.weights.fit)
        folds = self.folds[known]
        for number in (2, self.n_folds):
            groups = np.array_split(np.arange(self.n_folds), number)
            others = [known[~np.isin(folds, group)] for group in groups]
            if min(map(len, others)) > MOST_ROWS:
                break
        return [(group, self._some(places, int(group[0]))) for group, places in zip(groups, others, strict=True)]

    def _some(self, places: np.ndarray, number: int) -> np.ndarray:
        if len(places) <= MOST_ROWS:
            return places
        return np.sort(np.random.default_rng([self.seed, 5, number]).choice(places, MOST_ROWS, replace=False))

    def metrics(self) -> list[list[dict[str, float | None]]]:
        """Per pair and fold, the metrics on the fold by a merger of others."""
        _ = self.groups, self.tests  # once, not in every task
        shared, task = compute.shared(self), compute.task(_metrics)
        pairs, groups = range(len(self.held_out.f)), range(len(self.groups))
        jobs = [task(shared, pair, group) for pair in pairs for group in groups]
        found = iter(compute.run(jobs, "scoring", "models", local=True))
        return [[metrics for _ in groups for metrics in next(found)] for _ in pairs]

    def merger(self, pair: int, some: np.ndarray | None = None) -> Merger:
        """The merger of one pair, fitted on all scored rows, or on those at some places."""
        some = np.arange(len(self.held_out.rows)) if some is None else some
        Y, weights = self.outputs.Y(self.held_out.rows[some]), self.weights.of(some).fit
        return Merger.fit(self.merge, self.held_out.f[pair, some], Y, self.outputs.task, weights, self.symmetric)

    def summary(self, pair: int) -> dict[str, Any]:
        """Return the metrics and curves of one pair on all scored rows, with the weights that `metrics` uses."""
        return self.outputs.summary(self.held_out.rows, *self.cross_fitted(pair), self.weights.score)

    def cross_fitted(self, pair: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Merged scores (n, q) and probabilities of one pair, each fold's by a merger of others."""
        scores, probabilities = [], []
        for group, others in self.groups:
            merger = self.merger(pair, others)
            for fold in group:
                f = self.held_out.f[pair, self.tests[fold]]
                scores.append(merger.value(f))
                probabilities.append(merger.probability(f))
        order = np.argsort(np.concatenate(self.tests))
        if probabilities[0] is None:
            return np.concatenate(scores)[order], None
        return np.concatenate(scores)[order], np.concatenate(probabilities)[order]  # type: ignore[arg-type]


def _metrics(of: Candidates, pair: int, group: int) -> list[dict[str, float | None]]:
    """Of each fold of a group."""
    folds, others = of.groups[group]
    merger = of.merger(pair, others)
    return [_of_fold(of, pair, merger, of.tests[fold]) for fold in folds]


def _of_fold(of: Candidates, pair: int, merger: Merger, test: np.ndarray) -> dict[str, float | None]:
    if not len(test):
        return dict.fromkeys(score.OF_TASK[of.outputs.task])
    f = of.held_out.f[pair].take(test, axis=0, mode="clip")  # else ten times as long
    weights = of.weights.of(test).score
    return of.outputs.metrics(of.held_out.rows[test], merger.value(f), merger.probability(f), weights)


def cv_results(
    pairs: Sequence[tuple[int, float]],
    metrics: list[list[dict[str, float | None]]],
    scoring: str,
    sound: Sequence[bool],
    parameter: str = "gamma",
) -> dict[str, np.ndarray]:
    """Return the scores of every pair in the form of scikit-learn's `cv_results_`.

    Pairs that are not sound, because of a resonance or of rounding, are ranked after all that are.
    """
    results: dict[str, np.ndarray] = {
        "param_n_landmarks": np.array([n for n, _ in pairs]),
        f"param_{parameter}": np.array([value for _, value in pairs]),
        "sound": np.array(sound, bool),
    }
    for name in metrics[0][0]:
        values = np.array([[np.nan if m[name] is None else m[name] for m in folds] for folds in metrics], float)
        known = ~np.isnan(values).all(1)
        for f in range(values.shape[1]):
            results[f"split{f}_test_{name}"] = values[:, f]
        for word, function in (("mean", np.nanmean), ("std", np.nanstd)):
            results[f"{word}_test_{name}"] = np.full(len(pairs), np.nan)
            results[f"{word}_test_{name}"][known] = function(values[known], axis=1)
    mean = results[f"mean_test_{scoring}"] * (-1 if scoring in score.LOWER_IS_BETTER else 1)
    order = np.lexsort((np.where(np.isnan(mean), np.inf, -mean), ~results["sound"]))
    results["rank_test_score"] = np.empty(len(pairs), int)
    results["rank_test_score"][order] = np.arange(1, len(pairs) + 1)
    return results
