"""Metrics over blocks of rows that are added: AUROC, log loss, accuracy, F1, calibration, R2, RMSE, MAE.

And of approximate singular vectors: eta and the largest principal angle; of a graph rebuilt from its embedding: norms.
"""

from ask_dask.score.graphs import norms, reconstructed
from ask_dask.score.multilabel import MultilabelScores, multilabel_metrics, multilabel_summary
from ask_dask.score.ranks import RankCounts
from ask_dask.score.regression import RegressionScores, regression_metrics, regression_summary
from ask_dask.score.scores import Scores, class_codes, curves, metrics, summary
from ask_dask.score.shared import LOWER_IS_BETTER, OF_TASK, mean_of_known
from ask_dask.score.stored import score_predictions
from ask_dask.score.subspaces import eta, subspace_error
from ask_dask.score.topics import association, coherence, contrast

__all__ = [
    "LOWER_IS_BETTER",
    "OF_TASK",
    "MultilabelScores",
    "RankCounts",
    "RegressionScores",
    "Scores",
    "association",
    "class_codes",
    "coherence",
    "contrast",
    "curves",
    "eta",
    "mean_of_known",
    "metrics",
    "multilabel_metrics",
    "multilabel_summary",
    "norms",
    "reconstructed",
    "regression_metrics",
    "regression_summary",
    "score_predictions",
    "subspace_error",
    "summary",
]
