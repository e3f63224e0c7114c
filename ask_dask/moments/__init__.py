"""One pass over the kernel blocks gives sufficient statistics for each fold, to be added and cut to fewer landmarks.

Sums are kept in landmark coordinates (Grams of C and R', not of the features made from them), so that moments of the
first p landmarks are sub-matrices. The moments of a training set are those of its folds, added (`Moments.combine`).
"""

from ask_dask.moments.centred import Centred, Role, squared_errors
from ask_dask.moments.frame import Frame
from ask_dask.moments.gathering import gather
from ask_dask.moments.rows import Diagonal, Rows, frames_of, of_rows
from ask_dask.moments.sums import Moments, Side

__all__ = [
    "Centred",
    "Diagonal",
    "Frame",
    "Moments",
    "Role",
    "Rows",
    "Side",
    "frames_of",
    "gather",
    "of_rows",
    "squared_errors",
]
