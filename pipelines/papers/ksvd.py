"""The tables of Tao, Tonin et al., Learning in Feature Spaces via Coupled Covariances, beside the paper's figures.

    python pipelines/papers/ksvd.py --data FOLDER                           # all tables
    python pipelines/papers/ksvd.py --data FOLDER --only nodes --sets cora --trials 3

Each table has a module beside this file that says how it is made, and a section in pipelines/papers/ksvd.toml.
"""

import argparse
import tomllib
from pathlib import Path

import biclustering
import general
import nodes
import reconstruction
import speed
import sweep

SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TABLES = {
    "nodes": nodes.rows,
    "reconstruction": reconstruction.rows,
    "biclustering": biclustering.rows,
    "general": general.rows,
    "speed": speed.rows,
    "sweep": sweep.rows,
}


def main() -> None:
    """Parse the command line, print the tables as they are made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="Folder with cora/, citeseer/, pubmed/, acm/, uci/.")
    parser.add_argument("--only", default=",".join(TABLES), help="Tables, with commas.")
    parser.add_argument("--sets", default="", help="Sets of data within the tables, with commas; default: all.")
    parser.add_argument("--trials", type=int, default=10)
    options = parser.parse_args()
    for table in options.only.split(","):
        own = SETTINGS[table]
        if options.sets:
            own = own | {
                "paper": {name: own["paper"][name] for name in options.sets.split(",") if name in own["paper"]}
            }
        for line in TABLES[table](options.data, own, options.trials):
            print(line, flush=True)


if __name__ == "__main__":
    main()
