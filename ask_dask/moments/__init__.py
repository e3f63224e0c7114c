"""One pass over the kernel blocks gives sufficient statistics for each fold, to be added and cut to fewer landmarks.

Sums are kept in landmark coordinates (Grams of C and R', not of the features made from them), so that moments of the
first p landmarks are sub-matrices, and the training moments of a fold are the total minus that fold.
"""

from ask_dask.moments.frame import Frame
from ask_dask.moments.gathering import gather
from ask_dask.moments.rows import Rows, frames_of, of_rows
from ask_dask.moments.sums import Moments, Side

__all__ = ["Frame", "Moments", "Rows", "Side", "frames_of", "gather", "of_rows"]
