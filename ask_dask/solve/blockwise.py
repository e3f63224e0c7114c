"""AsK-LS on landmarks too many for m x m moments: MINRES on the blocks C and R, for all folds, gammas and outputs.

The system is that of `askls` with ridge = 0, here divided by gamma, t = 1/gamma: in feature maps psi_s = C X and
psi_t = R'Z with X Z' = W^+, and A, B, r_s, r_t the centred Grams and products with Y,

    M [w; v] = [A  t I; t I  B] [w; v] = [r_s; r_t]        (He et al., Learning with Asymmetric Kernels, eq. (5))

M is symmetric and indefinite, and A w = X'C'(C (X w)), with the means taken off, takes one look at each block of C: no
Gram is made, and nothing of N x m is held. As in Falkon (Rudi, Carratino and Rosasco, Falkon: An optimal large scale
kernel method, 2017; its K_nm'K_nm + lambda N K_mm is C'C + t W here) what few rows say is the preconditioner. In
coordinates that balance both roles on a sample of rows (`balanced`), A and B are both about Sigma, and M is about
[Sigma  t I; t I  Sigma], of 2 x 2 blocks with eigenvalues sigma + t on (1, 1) and sigma - t on (1, -1). The inverse of
their absolute values preconditions; one basis serves every gamma and every training set, which has its share of Sigma.
A change of coordinates that keeps X Z' leaves the solution as it was.

Where one role serves both (a symmetric kernel, I = J) w = v, and A + t I is all of it. In general M = H + t J, H the
Grams and J what swaps the roles, or nothing. T = t I + H J has the eigenvalues of the dual system, t +- the singular
values of the kernel's approximation. With damping the solution is J times the real part of (T + i d)^-1 r,
d = sqrt(damping), which is x in [M  -d J; -d J  -M] [x; y] = [r; 0], symmetric as well; the eigenvalues of the model
are then of size hypot(sigma +- t, d).

Each gamma also gets a random right-hand side, a probe, on all rows: its solution x leans to the modes next to a
resonance. With z = Phi x (Phi the features of all rows) and D the dual system, D z = Phi y for y = J M x, so that
products with H give the Rayleigh quotient of D at z, and how far z is from an eigenvector.
"""

import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from ask_dask import compute
from ask_dask.solve.balanced import Balanced
from ask_dask.solve.iterative import FLOOR, PROBED, SAFETY
from ask_dask.solve.passes import Passes
from ask_dask.solve.protocol import Solution
from ask_dask.solve.resonance import condition
from ask_dask.solve.stage import Stage
from ask_dask.solve.watch import Convergence, Watch, digits
from ask_dask.store import Checkpoint, undisturbed

SHARPNESS = 8
"""Of a probe: a mode with sigma = 2 t has 0.4 of the part of one at t."""

WITHIN = 0.05
"""A probe has found a singular value where it is within this times 1/gamma of one, and of 1/gamma."""

FLAT = 1e-7
"""A system whose residual r has |M r| below this times |M| |r|, in the preconditioner's norm, is singular."""

RESTARTS = 8
"""Most restarts from the true residual."""


class Sums:
    """Means, counts and centred products with Y of every training set, from one pass over the rows.

    Attributes
    ----------
    left_out : (S,) the fold that each training set leaves out; the last one, -1, leaves out none
    count : (S,)
    mean_y : (S, q)
    yy : (S, q)
        Sums of squares of Y about its mean.
    means : for each role (m, S)
    cross : for each role (S, m, q)
    """

    def __init__(self, passes: Passes, n_folds: int) -> None:
        count, sum_y, yy, columns = passes.moments()
        self.left_out = np.append(np.arange(n_folds), -1)
        self.count, sum_y, yy = (self._training(part) for part in (count, sum_y, yy))
        self.mean_y = sum_y / self.count[:, None]
        self.yy = np.maximum(yy - self.mean_y * sum_y, 0)
        self.means, self.cross = [], []
        for column in map(self._training, columns):
            mean = column[:, :, 0] / self.count[:, None]
            self.means.append(mean.T)
            self.cross.append(column[:, :, 1:] - mean[:, :, None] * sum_y[:, None])

    def _training(self, of_folds: np.ndarray) -> np.ndarray:
        total = of_folds.sum(0)
        return np.stack([total - of_folds[fold] if fold >= 0 else total for fold in self.left_out])


class BlockwiseSystem:
    """The AsK-LS systems of every training set, gamma and output on the landmarks of `passes`.

    Parameters
    ----------
    passes : Passes
        With as many roles as the basis.
    sums : Sums
    basis : Balanced
    gammas : sequence of float
    damping : float
    seed : int
        Of the probes.
    """

    def __init__(
        self,
        passes: Passes,
        sums: Sums,
        basis: Balanced,
        gammas: Sequence[float],
        damping: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.passes, self.sums, self.basis, self.gammas, self.damping = passes, sums, basis, gammas, damping
        self.roles, self.r, self.d = len(basis.maps), len(basis.sigma), np.sqrt(damping)
        n_sets, q = sums.mean_y.shape
        systems = np.repeat(np.arange(n_sets * len(gammas)), q)
        probes = np.arange((n_sets - 1) * len(gammas), n_sets * len(gammas))
        self.n_wanted = len(systems)
        systems = systems if damping or self.roles == 1 else np.append(systems, probes)
        self.sets, self.t = systems // len(gammas), 1 / np.asarray(gammas)[systems % len(gammas)]
        self.right = self._right(len(systems) - self.n_wanted, seed)

    def _right(self, n_probes: int, seed: int) -> np.ndarray:
        each = [np.vstack([G.T @ cross[s] for G, cross in zip(self.basis.maps, self.sums.cross, strict=True)])
                for s in range(len(self.sums.count))]  # fmt: skip
        wanted = np.hstack([np.tile(right, len(self.gammas)) for right in each])
        right = np.hstack([wanted, self._probes(seed)]) if n_probes else wanted
        return np.vstack([right, np.zeros_like(right)]) if self.damping else right

    def _probes(self, seed: int) -> np.ndarray:
        """(2 r, number of gammas) A random vector on the model's modes t - sigma, of those with sigma near t."""
        sigma, t = self.basis.sigma[:, None], 1 / np.asarray(self.gammas)
        random = np.random.default_rng([seed, 3]).standard_normal((self.r, len(t)))
        half = random * np.sqrt(sigma) * (4 * sigma * t / (sigma + t) ** 2) ** SHARPNESS
        return np.vstack([half, -half])

    def solve(self, tol: float = 1e-8, max_iter: int = 1000, checkpoint: Checkpoint | None = None) -> Convergence:
        """Solve all systems to a relative residual of `tol` in balanced coordinates, once.

        `solution` then has what was found, and `nearest`, for each gamma, the singular value nearest to 1/gamma if one
        stands out. With a checkpoint all that the next step depends on is written now and then, and what is there from
        an interrupted run of the same system goes on with the steps that were left.
        """
        started, found = time.monotonic(), Convergence()
        self.s, stage = np.zeros_like(self.right), None
        saved = checkpoint.load() if checkpoint else None
        if saved is not None and saved["s"].shape == self.s.shape:
            self.s, stage, found.residuals = saved["s"], Stage.of(saved, self.basis.sigma), saved["residuals"].tolist()
        with compute.progress("minres", digits(tol), "tenths of a digit") as advance, compute.one_blas_thread():
            watch = Watch(found, tol, max_iter, checkpoint, advance)
            relative, singular = self._restarted(np.arange(len(self.sets)), watch, stage, kept=True)
            null = self._null_vectors(singular)
            self.s = self.s.copy()  # the checkpoint has what was before
            self.s[:, singular] = null
            self.nearest = self._nearest()
            wanted = singular < self.n_wanted
            singular, null = singular[wanted], null[:, wanted]
            if len(singular):
                relative[singular] = self._pseudo_inverse(singular, null, watch)
            self._solutions()
        relative = relative[: self.n_wanted]
        found.converged, found.relative_residual = bool((relative <= tol).all()), float(relative.max())
        found.iterations, found.evaluations = len(found.residuals), self.passes.done
        found.pseudo_inverse, found.seconds = len(singular), round(time.monotonic() - started, 3)
        return found

    def _restarted(
        self, numbers: np.ndarray, watch: Watch, stage: Stage | None = None, kept: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Solve some systems, at first those of a stage; their relative residuals, and the numbers of singular ones."""
        right, wanted, stages = self.right[:, numbers], numbers < self.n_wanted, 0
        singular = np.zeros(len(self.sets), bool)
        aims, norms = np.where(wanted, watch.tol, max(watch.tol, PROBED)), np.linalg.norm(right, axis=0)
        norms[norms == 0] = 1
        while True:
            if stage:
                self._run(stage, watch, kept)
                singular, stages = stage.singular, stage.number + 1
            residual = right - self._apply(self.s[:, numbers], numbers)
            relative = np.linalg.norm(residual, axis=0) / norms
            open_ = np.flatnonzero((relative > aims) & ~singular[numbers])
            if watch.exhausted or not wanted[open_].any() or stages == RESTARTS:
                break
            open_systems = residual[:, open_], numbers[open_], SAFETY * aims[open_] / relative[open_]
            stage = Stage.begin(stages, self.basis.sigma, self.s, singular, *open_systems, self._precondition)
        return relative, numbers[singular[numbers]]

    def _null_vectors(self, numbers: np.ndarray) -> np.ndarray:
        """What the least-squares residuals of singular systems show of their null spaces."""
        if not len(numbers):
            return self.s[:, numbers]
        return self._precondition(self.right[:, numbers] - self._apply(self.s[:, numbers], numbers), numbers)

    def _pseudo_inverse(self, numbers: np.ndarray, null: np.ndarray, watch: Watch) -> np.ndarray:
        """Solve singular systems without a null vector each; relative residuals.

        The part of D's right-hand side along it is taken off, and then that of the solution, as D's pseudo-inverse has
        it.
        """
        image = self._gram(null, self.sets[numbers])
        self.right[:, numbers] -= image * ((null * self.right[:, numbers]).sum(0) / (null * image).sum(0))
        self.s[:, numbers] = 0
        relative, _ = self._restarted(numbers, watch)
        swapped = self._swapped(null)
        self.s[:, numbers] -= null * ((swapped * self.s[:, numbers]).sum(0) / (swapped * null).sum(0))
        return relative

    def _run(self, stage: Stage, watch: Watch, kept: bool) -> None:
        """MINRES on the systems of a stage, added to their s. A system leaves when it is solved, or found singular."""
        while (stage.here < self.n_wanted).any() and not watch.exhausted:
            here, targets = stage.here, stage.targets[stage.live]
            state = stage.state.step(self._apply, self._precondition, here)
            with undisturbed():  # what the checkpoint keeps is of one step
                stage.state, self.s[:, here] = state, stage.before[:, here] + state.x
                unsolved, flat = state.residual > targets, state.flatness <= FLAT
                stage.leave(unsolved & ~flat, unsolved & flat)
                shown = float((state.residual / targets)[here < self.n_wanted].max() * SAFETY * watch.tol)
                watch.stepped(shown, partial(stage.kept, self.s) if kept else None)

    def _apply(self, s: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """M s, or with damping the matrix of twice its size."""
        if not self.damping:
            return self._undamped(s, numbers)
        x, y = np.split(s, 2)
        Mx, My = np.split(self._undamped(np.hstack([x, y]), np.tile(numbers, 2)), 2, axis=1)
        return np.vstack([Mx - self.d * self._swapped(y), -self.d * self._swapped(x) - My])

    def _undamped(self, s: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        return self._gram(s, self.sets[numbers]) + self.t[numbers] * self._swapped(s)

    def _gram(self, s: np.ndarray, sets: np.ndarray) -> np.ndarray:
        """H s, by one pass over the rows."""
        coefficients = [G @ part for G, part in zip(self.basis.maps, np.split(s, self.roles), strict=True)]
        means = [mean[:, sets] for mean in self.sums.means]
        offsets = [(mean * c).sum(0) for mean, c in zip(means, coefficients, strict=True)]
        columns, totals = self.passes.grams(coefficients, offsets, self.sums.left_out[sets])
        each = zip(self.basis.maps, columns, means, totals, strict=True)
        return np.vstack([G.T @ (column - mean * total) for G, column, mean, total in each])

    def _swapped(self, s: np.ndarray) -> np.ndarray:
        """J s"""
        return s if self.roles == 1 else np.concatenate(np.split(s, 2)[::-1])

    def _precondition(self, s: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The inverse of the absolute value of the model."""
        t, share = self.t[numbers], self.sums.count[self.sets[numbers]] / self.sums.count[-1]
        sigma = self.basis.sigma[:, None] * share
        plus = 1 / np.hypot(sigma + t, self.d)
        minus = plus if self.roles == 1 else 1 / np.hypot(np.maximum(abs(sigma - t), FLOOR * t), self.d)
        own, other = (np.tile(part, (self.roles, 1)) for part in ((plus + minus) / 2, (plus - minus) / 2))
        halves = np.split(s, 2) if self.damping else [s]
        return np.vstack([own * half + other * self._swapped(half) for half in halves])

    def _solutions(self) -> None:
        """Coefficients at the landmarks and intercepts of the wanted columns; what solving took is let go."""
        sets, wanted = self.sets[: self.n_wanted], self.s[: self.roles * self.r, : self.n_wanted]
        self._coefficients = [G @ part for G, part in zip(self.basis.maps, np.split(wanted, self.roles), strict=True)]
        self._intercepts = [
            np.tile(self.sums.mean_y, len(self.gammas)).ravel() - (mean[:, sets] * c).sum(0)
            for mean, c in zip(self.sums.means, self._coefficients, strict=True)
        ]
        self.sigma, self._amplification = self.basis.sigma, self._amplified(wanted)
        del self.s, self.right, self.basis

    def _amplified(self, s: np.ndarray) -> np.ndarray:
        """Return `Solution.amplification` of every wanted column: the energies w'A w and v'B v are those of H s, which
        is what the system leaves of its right-hand side."""
        size, swapped = len(s), self.t[: self.n_wanted] * self._swapped(s)
        if self.damping:
            swapped = swapped - self.d * self._swapped(self.s[size:, : self.n_wanted])
        energy = s * (self.right[:size, : self.n_wanted] - swapped)
        fitted = np.max([part.sum(0) for part in np.split(energy, self.roles)], axis=0)
        yy = np.repeat(self.sums.yy, len(self.gammas), axis=0).ravel()
        return np.sqrt(np.divide(np.maximum(fitted, 0), yy, out=np.zeros_like(yy), where=yy > 0))

    def solution(self, f: int, g: int) -> Solution:
        """Return that of training set f at gamma number g."""
        q = self.sums.mean_y.shape[1]
        here = slice((f * len(self.gammas) + g) * q, (f * len(self.gammas) + g + 1) * q)
        source, target = (self._coefficients[role][:, here] for role in (0, -1))
        intercepts = np.stack([self._intercepts[role][here] for role in (0, -1)])
        sigma = self.singular_values(g)
        modes = sigma if self.roles == 1 else np.concatenate([sigma, -sigma])
        size = condition(modes, self.gammas[g], self.damping)
        return Solution(source, target, intercepts, size, float(self._amplification[here].max()))

    def singular_values(self, g: int) -> np.ndarray:
        """(r,) Of the sample, descending; where the one nearest to 1/gamma is known, none of the sample's is nearer."""
        sigma, t, nearest = self.sigma, 1 / self.gammas[g], self.nearest[g]
        if nearest is not None:
            sigma = np.append(sigma[abs(sigma - t) > abs(nearest - t)], nearest)
        return np.sort(sigma)[::-1]

    def _nearest(self) -> list[float | None]:
        """For each gamma the singular value on all rows nearest to 1/gamma, if the probe has come near one."""
        if self.n_wanted == len(self.sets):
            return [None] * len(self.gammas)
        numbers = np.arange(self.n_wanted, len(self.sets))
        x, t, sets = self.s[:, numbers], self.t[numbers], self.sets[numbers]
        Hx = self._gram(x, sets)
        y = self._swapped(Hx + t * self._swapped(x))
        size = (x * Hx).sum(0)
        size[size <= 0] = np.inf
        mu = (Hx * y).sum(0) / size
        error = np.sqrt(np.maximum((y * self._gram(y, sets)).sum(0) / size - mu**2, 0))
        known = np.hypot(mu, error) <= WITHIN * t
        return [float(own - value) if sure else None for own, value, sure in zip(t, mu, known, strict=True)]
