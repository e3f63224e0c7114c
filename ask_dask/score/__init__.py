"""Metrics over blocks of rows that are added: AUROC, log loss, accuracy, micro and macro F1, calibration."""

from ask_dask.score.ranks import RankCounts
from ask_dask.score.scores import Scores, class_codes, curves, metrics, score_predictions, summary

__all__ = ["RankCounts", "Scores", "class_codes", "curves", "metrics", "score_predictions", "summary"]
