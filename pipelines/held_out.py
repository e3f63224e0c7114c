"""Honest held-out AUROC on a click log: every fold is ingested, fitted and predicted by the public commands.

    python pipelines/held_out.py criteo train_10k.txt
    python pipelines/held_out.py avazu train_10k.csv

Five folds (StratifiedKFold, shuffled, seed 0). The rows of a test fold are written to a file of their own that is never
ingested with labels before prediction: no encoding, landmark, gamma or stacking weight has seen them. Beside AsK-LS
stand logistic regression on the same features, logistic regression on hashed one-hot columns and, where it is
installed, LightGBM. One JSON line; needs no network.
"""

import json
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OrdinalEncoder

from ask_dask import steps, store


def main(name: str, text: Path) -> None:
    """Print the mean AUROC of each method over the folds."""
    settings = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())[name]
    lines = text.read_text().splitlines()
    head, rows = (lines[:1], lines[1:]) if settings["header"] else ([], lines)
    cells = [row.split("," if settings["format"] == "avazu" else "\t") for row in rows]
    y = np.array([int(row[settings["label"]]) for row in cells])
    found: dict[str, list[float]] = {}
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(y, y):
        with tempfile.TemporaryDirectory() as folder:
            scores = fold_scores(Path(folder), settings, head, rows, train, test)
        scores |= peers(settings, cells, y, train, test)
        for method, score in scores.items():
            found.setdefault(method, []).append(float(roc_auc_score(y[test], score)))
    means = {method: round(float(np.mean(values)), 4) for method, values in found.items()}
    spread = {method: round(float(np.std(values)), 4) for method, values in found.items()}
    print(json.dumps({"data": name, "rows": len(y), "folds": 5, "mean_auroc": means, "std": spread}))


def fold_scores(
    folder: Path, settings: dict, head: list[str], rows: list[str], train: np.ndarray, test: np.ndarray
) -> dict[str, np.ndarray]:
    """Scores of one fold's test rows by AsK-LS and by logistic regression on the same encoded features."""
    for name, kept in (("train.txt", train), ("test.txt", test)):
        (folder / name).write_text("\n".join([*head, *(rows[i] for i in kept)]) + "\n")
    data, new, model, predictions = (folder / f"{name}.zarr" for name in ("data", "new", "model", "predictions"))
    steps.Ingest(format=settings["format"], files=[str(folder / "train.txt")], to=data).run()
    steps.Ingest(format=settings["format"], files=[str(folder / "test.txt")], to=new, encoder=data).run()
    steps.Fit(data=data, to=model, **settings["fit"]).run()
    steps.Predict(model=model, data=[str(folder / "test.txt")], to=predictions).run()
    X, y, X_new = (store.open_store(path)[name][:] for path, name in ((data, "X"), (data, "y"), (new, "X")))
    encoded = LogisticRegression(C=0.1, max_iter=1000).fit(X, y).decision_function(X_new)
    score = store.open_store(predictions)["score"][:, 0]
    return {"AsK-LS": score, "logistic regression, target encodings": encoded}


def peers(settings: dict, cells: list, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of the usual baselines on the raw columns, at the best settings found on these folds."""
    numeric = settings["numeric"]
    first = 1 if settings["header"] else 0
    categorical = [i for i in range(first, len(cells[0])) if i != settings["label"] and i not in numeric]
    numbers = np.array([[float(row[i]) if row[i] else np.nan for i in numeric] for row in cells])
    numbers = numbers.reshape(len(cells), -1)
    logs = np.sign(numbers) * np.log1p(np.abs(numbers))
    tokens = [
        [f"n{j}={np.floor(2 * v)}" for j, v in enumerate(log)] + [f"c{i}={row[i]}" for i in categorical]
        for log, row in zip(logs, cells, strict=True)
    ]
    hashed = FeatureHasher(2**20, input_type="string", alternate_sign=False).transform(tokens)
    onehot = LogisticRegression(C=0.03, max_iter=1000).fit(hashed[train], y[train]).decision_function(hashed[test])
    found = {"logistic regression, hashed one-hot": onehot}
    try:
        import lightgbm
    except ImportError:
        return found
    table = np.array([[row[i] for i in categorical] for row in cells])
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, min_frequency=10).fit(table[train])
    features = np.hstack([numbers, encoder.transform(table)])
    booster = lightgbm.LGBMClassifier(
        n_estimators=200, learning_rate=0.05, num_leaves=7, min_child_samples=50, cat_smooth=50, colsample_bytree=0.5,
        random_state=0, verbose=-1,
    )  # fmt: skip
    booster.fit(features[train], y[train], categorical_feature=list(range(len(numeric), features.shape[1])))
    return found | {"LightGBM": booster.predict_proba(features[test])[:, 1]}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
