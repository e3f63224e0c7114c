"""AsK-LS solved: small dense systems on moments, the whole matrix at once, or MINRES on its tiles or its blocks."""

from ask_dask.solve import balanced
from ask_dask.solve.askls import TOO_ROUGH, LandmarkSystem, Solution, mean_solution, unresolved
from ask_dask.solve.blockwise import BlockwiseSystem, Sums
from ask_dask.solve.dense import DenseSystem
from ask_dask.solve.iterative import IterativeSystem, Preconditioner
from ask_dask.solve.passes import Passes
from ask_dask.solve.resonance import Resonance, resonance
from ask_dask.solve.tiles import Tiles
from ask_dask.solve.watch import Convergence

__all__ = [
    "TOO_ROUGH",
    "BlockwiseSystem",
    "Convergence",
    "DenseSystem",
    "IterativeSystem",
    "LandmarkSystem",
    "Passes",
    "Preconditioner",
    "Resonance",
    "Solution",
    "Sums",
    "Tiles",
    "balanced",
    "mean_solution",
    "resonance",
    "unresolved",
]
