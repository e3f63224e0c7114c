"""One self-contained HTML page about a model or an embedding, with its figures, that opens without a network."""

from ask_dask.report.page import render, render_embedding, write_report

__all__ = ["render", "render_embedding", "write_report"]
