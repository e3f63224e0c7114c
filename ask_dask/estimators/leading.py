"""Which way the exact singular vectors are found, and whether its plan fits the memory."""

from typing import Any

import numpy as np

from ask_dask import budget, compute
from ask_dask.basis import Basis
from ask_dask.solve import singular
from ask_dask.solve.singular import Leading
from ask_dask.solve.tiles import Tiles

TOL = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-6}
"""Residual to reach where none is given, by the dtype of the points: what float32 entries leave is some 1e-7."""

MOST_DENSE = 5000
"""Points of a side up to which "auto" decomposes the whole matrix."""


def tolerance(basis: Basis, model: Any) -> float:
    """The residual that the exact solvers are to reach."""
    return model.tol or TOL.get(basis.row_points.dtype, TOL[np.dtype(np.float64)])


def of(basis: Basis, model: Any, bytes_: int) -> Leading:
    """The leading singular vectors of the kernel at all its points, as the parameters of the estimator ask for them."""
    tiles = Tiles(basis.at, basis.row_points.shape[0], basis.column_points.shape[0])
    n, m = tiles.shape
    solver, tol = model.solver, tolerance(basis, model)
    if solver == "auto":
        few = max(n, m) <= MOST_DENSE and budget.svd_plan(n, m).total <= bytes_
        solver = "dense" if few else "iterated" if tiles.sparse is None else "arpack"
    r = min(model.n_components, n, m)
    if solver == "dense":
        budget.check(lambda size: budget.svd_plan(size, m), n, bytes_, "rows", "or solver='iterated', or landmarks")
        return singular.dense(tiles, r, model.center)
    plan = budget.iterated_plan if solver == "iterated" else budget.arpack_plan
    budget.check(lambda r: plan(r, n, m, compute.workers()), r, bytes_, "n_components")
    if solver == "arpack":
        return singular.arpack(tiles, r, model.center, tol, model.max_iter, model.seed_)
    return singular.iterated(tiles, r, model.center, tol, model.max_iter, model.seed_)
