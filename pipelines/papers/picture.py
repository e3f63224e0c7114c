"""The picture of the Cora embedding: scores U S and V S of two components, a colour a class, as the report draws them.

    python pipelines/papers/picture.py --data FOLDER --to pipelines/papers/cora_embedding.png      # needs Chromium

The rows and the columns of A + I are sources and targets of KSVD with the SNE kernel, centred, without labels: the
exact decomposition and, to say how near landmarks come, one from landmarks by coverage.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import graphs
import numpy as np
from nodes import covering
from plotly.offline import get_plotlyjs

from ask_dask import KSVD
from ask_dask.kernels import SNE
from ask_dask.report.embedding import Points, scores_figure

PAGE = """<!doctype html><meta charset="utf-8">
<style>body{{margin:0;background:#fff;display:flex}}div{{width:50%}}</style>
<div id="left"></div><div id="right"></div><script>{library}</script><script>
for (const [name, f] of Object.entries({figures}))
  Plotly.newPlot(name, f.data, f.layout, {{staticPlot: true}});
</script>
"""


def panel(vectors: np.ndarray, values: np.ndarray, y: np.ndarray, what: str, shown: list[int]) -> dict:
    """The report's figure of two components, its axes without the outermost 1 % at each end."""
    scores = (np.asarray(vectors) * values)[:, [k - 1 for k in shown]]
    figure = scores_figure(Points(scores, np.arange(len(y)), len(y), "classes", y), what, "nodes")
    assert figure is not None
    for axis, column, k in zip(("xaxis", "yaxis"), scores.T, shown, strict=True):
        low, high = np.percentile(column, [1, 99])
        margin = 0.05 * (high - low)
        figure["layout"][axis] |= {"range": [low - margin, high + margin]}
        figure["layout"][axis]["title"]["text"] = f"{what}, component {k}"
    return figure


def screenshot(figures: dict[str, dict], to: Path) -> None:
    """Both panels beside each other, 1280 pixels wide."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("There is no Chromium to draw the picture with: install it.")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        page.write_text(PAGE.format(library=get_plotlyjs(), figures=json.dumps(figures)), encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,460",
                   "--virtual-time-budget=5000", f"--user-data-dir={folder}/profile"]  # fmt: skip
        subprocess.run([browser, *options, f"--screenshot={to.resolve()}", page.as_uri()], check=True,
                       capture_output=True)  # fmt: skip


def main() -> None:
    """Parse the command line, embed, print what the README says and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="Folder with cora/.")
    parser.add_argument("--to", type=Path, required=True, help="The PNG file.")
    parser.add_argument("--bandwidth", type=float, default=5.0)
    parser.add_argument("--shown", type=int, nargs=2, default=[2, 9], help="The two components.")
    parser.add_argument("--landmarks", type=int, default=1000)
    options = parser.parse_args()
    found = graphs.read(options.data / "cora")
    made = {"kernel": SNE(options.bandwidth), "n_components": 12, "center": True, "random_state": 0}
    model = KSVD(**made).fit(found.A)
    chosen = covering(found, options.landmarks)
    sampled = KSVD(**made, n_landmarks=options.landmarks, landmarks=chosen).fit(found.A)
    print(f"{len(found.y):,} nodes; singular values {np.round(model.singular_values_, 5).tolist()}")
    print(f"from {options.landmarks} landmarks by coverage: {sampled.error_}")
    sides = {"left": (model.left_singular_vectors_, "U S"), "right": (model.right_singular_vectors_, "V S")}
    figures = {
        name: panel(vectors, model.singular_values_, found.y, what, options.shown)
        for name, (vectors, what) in sides.items()
    }
    screenshot(figures, options.to)


if __name__ == "__main__":
    main()
