"""Solves: one file for each method on moments; AsK-LS also on the whole matrix, or by MINRES on its tiles or blocks."""

from ask_dask.solve import balanced
from ask_dask.solve.askls import AsKLSSolve, LandmarkSystem, unresolved
from ask_dask.solve.blockwise import BlockwiseSystem, Sums
from ask_dask.solve.components import Components
from ask_dask.solve.dense import DenseSystem
from ask_dask.solve.fisher import Fisher
from ask_dask.solve.iterative import IterativeSystem, Preconditioner
from ask_dask.solve.passes import Passes
from ask_dask.solve.protocol import Functions, Model, Solution, Solve, Wants, mean_solution
from ask_dask.solve.resonance import Resonance, resonance
from ask_dask.solve.ridge import Ridge
from ask_dask.solve.rounding import TOO_ROUGH
from ask_dask.solve.tiles import Tiles
from ask_dask.solve.watch import Convergence

__all__ = [
    "TOO_ROUGH",
    "AsKLSSolve",
    "BlockwiseSystem",
    "Components",
    "Convergence",
    "DenseSystem",
    "Fisher",
    "Functions",
    "IterativeSystem",
    "LandmarkSystem",
    "Model",
    "Passes",
    "Preconditioner",
    "Resonance",
    "Ridge",
    "Solution",
    "Solve",
    "Sums",
    "Tiles",
    "Wants",
    "balanced",
    "mean_solution",
    "resonance",
    "unresolved",
]
