"""AsK-LS exactly, out of core: MINRES on kernel tiles, for all training sets, gammas and outputs at once.

The system is that of `dense`, M = [t I, K; K', t I] with t = 1/gamma, of sqrt(w) K sqrt(w) on the complement of
sqrt(w); a training set is a set of weights, 0 for what is held out. Every iteration evaluates each tile of K once, for
all systems. The preconditioner is the absolute value of M for the Nystrom approximation of K, whose eigenvalues are
known: |t +- sigma_i| on its singular vectors and t elsewhere. With damping, (M^2 + damping) s = M r is solved as the
indefinite system [d I, M; M, -d I] [u; s] = [r; 0], d = sqrt(damping), whose condition is the root of the normal
equations'.

Each system also gets a random right-hand side, a probe: it has a part in the null space of a singular system, which
labels may not have. A singular system is solved again without a preconditioner, whose solution, of the many, would not
be the smallest.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ask_dask import compute
from ask_dask.solve.askls import LandmarkSystem
from ask_dask.solve.minres import smallest
from ask_dask.solve.protocol import Solution
from ask_dask.solve.resonance import SINGULAR, condition
from ask_dask.solve.stage import Stage
from ask_dask.solve.tiles import Tiles
from ask_dask.solve.watch import Convergence, Watch, digits
from ask_dask.store import Checkpoint, undisturbed

FLOOR = 0.1
"""Least eigenvalue of the preconditioner, in units of 1/gamma: K may not be at a resonance where its model is."""

PASSES = 6
"""Most restarts from the true residual."""

SAFETY = 0.3
"""What MINRES aims at, in units of the tolerance: its own residual is in the preconditioner's norm."""

NEAR = 1e-3
"""A vector z with |M z| below a tenth of this times |z| / gamma is taken for an eigenvector of an eigenvalue near 0."""

PROBED = 1e-6
"""Relative residual at which a probe has shown that its system is not singular."""


@dataclass(frozen=True)
class Preconditioner:
    """The Nystrom approximation: C = K[:, J] and R' = K[I, :]' (N, m), and the system of each training set."""

    C: np.ndarray
    R: np.ndarray
    systems: Sequence[LandmarkSystem]


class IterativeSystem:
    """The AsK-LS systems of several training sets, gammas and outputs.

    Parameters
    ----------
    tiles : Tiles
    Y : (N, q) array
    weights : (N, F) array
        A column for each training set: weights of the squared errors, 0 for rows left out.
    gammas : sequence of float
    damping : float
    preconditioner : Preconditioner, optional
    seed : int
        Seed of the probes; a checkpoint goes on with the same.
    symmetric : bool
        K is symmetric, so that a = c: half of the system is all of it.
    """

    def __init__(
        self,
        tiles: Tiles,
        Y: np.ndarray,
        weights: np.ndarray,
        gammas: Sequence[float],
        damping: float = 0.0,
        preconditioner: Preconditioner | None = None,
        seed: int = 0,
        symmetric: bool = False,
    ) -> None:
        self.halves = 1 if symmetric else 2
        self.tiles, self.Y, self.weights, self.gammas, self.damping = tiles, Y, weights, gammas, damping
        n, n_sets, q = len(Y), weights.shape[1], Y.shape[1]
        self.roots = np.sqrt(weights)
        self.units = self.roots / np.linalg.norm(self.roots, axis=0)
        self.systems = np.append(np.repeat(np.arange(n_sets * len(gammas)), q), np.arange(n_sets * len(gammas)))
        self.sets, self.t = self.systems // len(gammas), 1 / np.asarray(gammas)[self.systems % len(gammas)]
        self.n_wanted = n_sets * len(gammas) * q  # columns; the probes come after them
        outputs = np.tile(Y, (1, n_sets * len(gammas))) * self.roots[:, self.sets[: self.n_wanted]]
        probes = np.random.default_rng([seed, 2]).standard_normal((self.halves * n, n_sets * len(gammas)))
        wanted = np.vstack([outputs] * self.halves)
        self.right = self._centred(np.hstack([wanted, probes]), np.arange(len(self.sets)))
        self._system = self._apply
        self.precondition = _identity if preconditioner is None else self._preconditioned(preconditioner)
        self._undamped = self.precondition
        self.basis = np.zeros(0) if preconditioner is None else np.append(preconditioner.C[0], preconditioner.R[0])
        if damping:
            self._system, self.precondition = self._damped(self.precondition)
            self.right = np.vstack([self.right, np.zeros_like(self.right)])

    def solve(self, tol: float = 1e-8, max_iter: int = 1000, checkpoint: Checkpoint | None = None) -> Convergence:
        """Solve all systems to a relative residual of `tol`, once.

        `solution` and `discriminants` then have what was found, and `nearest_singular_values`, for each gamma, the
        singular value of the last training set nearest to 1 / gamma if one stands out.

        With a checkpoint all that the next step depends on is written now and then, and what is there from an
        interrupted run goes on with the steps that were left.
        """
        started, found = time.monotonic(), Convergence()
        self.s, singular, stages, stage = np.zeros_like(self.right), np.zeros(len(self.sets), bool), 0, None
        saved = checkpoint.load() if checkpoint else None
        if saved is not None:
            self.s, stage, found.residuals = saved["s"], Stage.of(saved, self.basis), saved["residuals"].tolist()
        norms = np.linalg.norm(self.right, axis=0)
        norms[norms == 0] = 1
        wanted = np.arange(len(self.sets)) < self.n_wanted
        aims, flat = np.where(wanted, tol, max(tol, PROBED)), np.where(wanted, SINGULAR, 100 * SINGULAR)
        with compute.progress("minres", digits(tol), "tenths of a digit") as advance:
            watch = Watch(found, tol, max_iter, checkpoint, advance)
            while True:
                if stage:
                    self._pass(stage, self.precondition, flat[stage.numbers], watch, kept=True)
                    singular, stages = stage.singular, stage.number + 1
                residual = self.right - self._system(self.s, np.arange(len(self.sets)))
                relative = np.linalg.norm(residual, axis=0) / norms
                open_ = np.flatnonzero((relative > aims) & ~singular)
                if not len(open_) or watch.exhausted or stages == PASSES:
                    break
                open_systems = residual[:, open_], open_, SAFETY * aims[open_] / relative[open_]
                stage = Stage.begin(stages, self.basis, self.s, singular, *open_systems, self.precondition)
            singular = self._of_singular_systems(singular)
            if singular.any():
                relative[singular] = self._pseudo_inverse(np.flatnonzero(singular), watch, norms[singular])
        relative = relative[: self.n_wanted]
        found.converged, found.relative_residual = bool((relative <= tol).all()), float(relative.max())
        found.iterations, found.pseudo_inverse = len(found.residuals), int(singular.sum())
        size = self.halves * len(self.Y)
        self.s, self.right = self.s[-size:], self.right[:size]
        self._discriminants()
        self.nearest_singular_values = self._nearest()
        self._release()
        found.evaluations, found.seconds = self.tiles.evaluations, round(time.monotonic() - started, 3)
        return found

    def _pass(self, stage: Stage, precondition, flat, watch, kept: bool = False) -> None:
        """MINRES on the systems of a stage, added to their s. Systems leave as they are solved, or found singular."""
        scale = SAFETY * watch.tol / stage.targets
        while len(stage.live) and not watch.exhausted:
            here, live = stage.here, stage.live
            state = stage.state.step(self._system, precondition, here)
            with undisturbed():  # what the checkpoint keeps is of one step
                stage.state, self.s[:, here] = state, stage.before[:, here] + state.x
                solved, stuck = state.residual <= stage.targets[live], state.flatness <= flat[live]
                left, singular = ~(solved | stuck), stuck & ~solved
                if precondition is not _identity:  # what is left of a singular system is solved again without
                    left &= ~np.isin(self.systems[here], self.systems[here[singular]])
                stage.leave(left, singular)
                shown = float((state.residual * scale[live]).max())
                watch.stepped(shown, partial(stage.kept, self.s) if kept else None)

    def _of_singular_systems(self, singular: np.ndarray) -> np.ndarray:
        """The wanted columns without the smallest solution: without a preconditioner only those that have none."""
        if self.precondition is not _identity:
            singular = np.isin(self.systems, self.systems[singular])
        return singular & (np.arange(len(singular)) < self.n_wanted)

    def _pseudo_inverse(self, numbers: np.ndarray, watch: Watch, norms: np.ndarray) -> np.ndarray:
        """The smallest least-squares solutions of singular systems; a preconditioner would change what is smallest."""
        self.s = self.s.copy()  # the checkpoint has what was before
        self.s[:, numbers] = 0
        right, same = self.right[:, numbers], np.ones(len(numbers))
        targets, none = same * watch.tol * SAFETY, np.zeros(len(self.sets), bool)
        stage = Stage.begin(0, self.basis, self.s, none, right, numbers, targets, _identity)
        self._pass(stage, _identity, same * SINGULAR / 100, watch)
        residual = right - self._apply(self.s[:, numbers], numbers)
        size, t = np.linalg.norm(residual, axis=0), self.t[numbers]
        outside = np.linalg.norm(self._apply(residual, numbers), axis=0) / t  # of the null space
        null = outside <= 1000 * SINGULAR * size  # else the residual is only what was not solved
        self.s[:, numbers[null]] = smallest(self.s[:, numbers[null]], residual[:, null])
        return np.minimum(size, outside) / norms

    def _apply(self, s: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """M s."""
        root = self.roots[:, self.sets[numbers]]
        p, q = self._roles(s)
        return self.t[numbers] * s + self._centred(self._joined(*self._products(root * q, root * p), root), numbers)

    def _roles(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return p and q of a vector; a symmetric kernel has one for both."""
        return s[: len(self.Y)], s[-len(self.Y) :]

    def _joined(self, of_source: np.ndarray, of_target: np.ndarray, root: np.ndarray) -> np.ndarray:
        return np.vstack([root * of_source, root * of_target][: self.halves])

    def _products(self, q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return K q and K'p."""
        if self.halves == 2:
            return self.tiles.products(q, p)
        Kq, _ = self.tiles.products(q, np.zeros((len(p), 0)))
        return Kq, Kq

    def _damped(self, precondition):
        """M and its preconditioner -> those of [d I, M; M, -d I]."""
        d = np.sqrt(self.damping)

        def split(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return s[: len(s) // 2], s[len(s) // 2 :]

        def apply(s: np.ndarray, numbers: np.ndarray) -> np.ndarray:
            u, x = split(s)
            Mx, Mu = np.split(self._apply(np.hstack([x, u]), np.tile(numbers, 2)), 2, axis=1)
            return np.vstack([d * u + Mx, Mu - d * x])

        def both(s: np.ndarray, numbers: np.ndarray) -> np.ndarray:
            return np.vstack(np.split(precondition(np.hstack(split(s)), np.tile(numbers, 2)), 2, axis=1))

        return apply, both

    def _centred(self, s: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return each half's part on the complement of each system's sqrt(w)."""
        units = self.units[:, self.sets[numbers]]
        return np.vstack([half - units * (units * half).sum(0) for half in np.split(s, self.halves)])

    def _preconditioned(self, nystrom: Preconditioner):
        C, R = nystrom.C, nystrom.R
        smallest_t = self.t.min()
        vectors = [
            system.singular_vectors(max(FLOOR * smallest_t, 1e-6 * system.singular_values[0]))
            for system in nystrom.systems
        ]

        def precondition(s: np.ndarray, numbers: np.ndarray) -> np.ndarray:
            root, sets, (p, q) = self.roots[:, self.sets[numbers]], self.sets[numbers], self._roles(s)
            level = np.hypot(self.t[numbers], np.sqrt(self.damping))
            left, right = C.T @ (root * p), R.T @ (root * q)
            for f in np.unique(sets):
                here = np.flatnonzero(sets == f)
                source, target, sigma = vectors[f]
                own, other = self._absolute(sigma, self.t[numbers[here]], level[here])
                u, v = source.T @ left[:, here], target.T @ right[:, here] if self.halves == 2 else 0.0
                left[:, here], right[:, here] = source @ (own * u + other * v), target @ (other * u + own * v)
            return s / level + self._centred(self._joined(C @ left, R @ right, root), numbers)

        return precondition

    def _absolute(self, sigma: np.ndarray, t: np.ndarray, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return |M|^-1 on the singular modes less that of t I: what a vector keeps and what the other half gets.

        Half of the system of a symmetric kernel has the modes t + sigma alone.
        """
        plus, minus = (np.hypot(t + sign * sigma[:, None], np.sqrt(self.damping)) for sign in (1, -1))
        plus, minus = 1 / plus, 1 / (np.maximum(minus, FLOOR * t) if self.halves == 2 else plus)
        return (plus + minus) / 2 - 1 / level, (plus - minus) / 2

    def _discriminants(self) -> None:
        sets = self.sets[: self.n_wanted]
        root = self.roots[:, sets]
        self.target, self.source = (root * part for part in self._roles(self.s[:, : self.n_wanted]))
        Kc, Ka = self._products(self.source, self.target)
        Y = np.tile(self.Y, (1, self.n_wanted // self.Y.shape[1]))
        mean = self.weights[:, sets] / self.weights.sum(0)[sets]
        self.intercepts = np.stack([(mean * (Y - Kc)).sum(0), (mean * (Y - Ka)).sum(0)])
        self.f = np.stack([Kc, Ka]) + self.intercepts[:, None]
        spread = [np.sqrt((mean * (part - (mean * part).sum(0)) ** 2).sum(0)) for part in (Kc, Ka, Y)]
        fitted, given = np.maximum(*spread[:2]), spread[2]
        self.amplification = np.divide(fitted, given, out=np.zeros_like(given), where=given > 0)

    def _columns(self, f: int, g: int) -> slice:
        q = self.Y.shape[1]
        return slice((f * len(self.gammas) + g) * q, (f * len(self.gammas) + g + 1) * q)

    def solution(self, f: int, g: int, sigma: np.ndarray) -> Solution:
        """Return that of training set f at gamma number g; sigma (r,) are singular values for the condition number."""
        here = self._columns(f, g)
        modes = sigma if self.halves == 1 else np.concatenate([sigma, -sigma])
        size = condition(modes, self.gammas[g], self.damping)
        amplification = float(self.amplification[here].max(initial=0.0))
        return Solution(self.source[:, here], self.target[:, here], self.intercepts[:, here], size, amplification)

    def discriminants(self, f: int, g: int) -> np.ndarray:
        """(N, 2 q): f_s then f_t of every row, in or out of training set f, at gamma number g."""
        return np.hstack(self.f[:, :, self._columns(f, g)])

    def _release(self) -> None:
        """Let go of what solving took; bound methods among it would keep it alive until a collection of cycles."""
        del self.s, self.right, self.precondition, self._system, self._undamped

    def _nearest(self) -> list[float | None]:
        """For each gamma the singular value of the last training set nearest to 1 / gamma, if one stands out.

        The solution for a probe, and of a singular system what is left of it, are dominated by the eigenvectors whose
        eigenvalues are nearest to 0; from its residual a Rayleigh quotient is told to be near an eigenvalue or not.
        """
        numbers = np.arange(len(self.sets))[-len(self.gammas) :]
        x, t = self.s[:, numbers], self.t[numbers]
        left = self._undamped(self.right[:, numbers] - self._apply(x, numbers), numbers)
        z = np.hstack([x, left])
        z /= np.maximum(np.linalg.norm(z, axis=0), np.finfo(float).tiny)
        Mz = self._apply(z, np.tile(numbers, 2))
        mu = (z * Mz).sum(0)
        error = np.linalg.norm(Mz - mu * z, axis=0)
        known = (error <= 0.1 * np.maximum(abs(mu), NEAR * np.tile(t, 2))) & (abs(mu) < np.tile(t, 2))
        found = np.where(known, mu, np.inf).reshape(2, -1)
        best = np.take_along_axis(found, abs(found).argmin(0)[None], 0)[0]
        return [float(own - value) if np.isfinite(value) else None for own, value in zip(t, best, strict=True)]


def _identity(s: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    return s
