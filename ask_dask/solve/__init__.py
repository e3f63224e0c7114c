"""AsK-LS solved: small dense systems on moments, the whole matrix at once, or MINRES on its tiles."""

from ask_dask.solve.askls import LandmarkSystem, Solution, mean_solution
from ask_dask.solve.dense import DenseSystem
from ask_dask.solve.iterative import Convergence, IterativeSystem, Preconditioner
from ask_dask.solve.resonance import Resonance, resonance
from ask_dask.solve.tiles import Tiles

__all__ = [
    "Convergence",
    "DenseSystem",
    "IterativeSystem",
    "LandmarkSystem",
    "Preconditioner",
    "Resonance",
    "Solution",
    "Tiles",
    "mean_solution",
    "resonance",
]
