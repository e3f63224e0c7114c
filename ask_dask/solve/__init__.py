"""Small dense solves on moments; each returns a Solution."""

from ask_dask.solve.askls import LandmarkSystem, Solution, mean_solution
from ask_dask.solve.resonance import Resonance, resonance

__all__ = ["LandmarkSystem", "Resonance", "Solution", "mean_solution", "resonance"]
