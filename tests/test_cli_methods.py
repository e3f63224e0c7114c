"""Kernel ridge, kernel PCA and the Fisher discriminant through the command line and job files."""

from pathlib import Path

import numpy as np
import pytest
from commands import refused
from pages import Page, figures

from ask_dask import KernelFisherDiscriminant, KernelPCA, KernelRidge, load, store
from ask_dask.kernels import RBF

FEW = ("--n-landmarks", "40", "--kernel", "rbf", "--bandwidth", "2")


@pytest.fixture
def tables(tmp_path, monkeypatch, done):
    """Stores of 600 rows with values and with three classes, r.zarr and c.zarr."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(3).normal(size=(600, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    for name, labels in (("r", y), ("c", np.digitize(y, [-0.5, 0.5]))):
        rows = "\n".join(
            ",".join(map(repr, [*map(float, row), label])) for row, label in zip(X, labels.tolist(), strict=True)
        )
        (tmp_path / f"{name}.csv").write_text(f"a,b,c,y\n{rows}\n")
        done("ingest", "table", f"{name}.csv", "--label", "y", "--to", f"{name}.zarr")
    return X, y


def test_kernel_ridge(tables, done):
    X, y = tables
    found = done("fit", "kernel-ridge", "--data", "r.zarr", "--to", "m.zarr", *FEW, "--alpha", "0.01,1", "--seed", "2")
    model = KernelRidge(RBF(2.0), [0.01, 1.0], [40], random_state=2).fit(X, y)
    assert found["alpha"] == model.alpha_ == 0.01 and found["held_out"] == model.held_out_
    assert found["statistics"]["degrees_of_freedom"] == model.degrees_of_freedom_
    predicted = done("predict", "--model", "m.zarr", "--data", "r.zarr", "--to", "p.zarr")
    assert predicted["arrays"]["std"]["shape"] == [600, 1]
    group = store.open_store("p.zarr")
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(store.read(store.array(group, "score"))[:, 0], mean.astype(np.float32))
    np.testing.assert_array_equal(store.read(store.array(group, "std"))[:, 0], std.astype(np.float32))
    assert done("score", "--predictions", "p.zarr")["r2"] == pytest.approx(model.score(X, y), abs=1e-6)
    done("report", "--model", "m.zarr", "--predictions", "p.zarr", "--to", "m.html")
    page = Path("m.html").read_text()
    assert "alpha = 0.01" in Page(page).text and "Score over alpha" in Page(page).text and "parameter" in figures(page)
    assert "Resonance" not in Page(page).text
    for cv in ("gcv", "loo"):
        chosen = done("fit", "kernel-ridge", "--data", "r.zarr", "--to", f"{cv}.zarr", *FEW, "--cv", cv)
        assert chosen["alpha"] > 0 and f"mean_test_{cv}" in load(f"{cv}.zarr").cv_results_


def test_kernel_pca(tables, done, ask):
    X, _ = tables
    found = done("embed", "kernel-pca", "--data", "r.zarr", "--to", "m.zarr", *FEW, "--n-components", "4", "--cv", "3")
    model = KernelPCA(RBF(2.0), 4, [40], cv=3, random_state=0).fit(X)
    assert (
        found["held_out"] == model.held_out_
        and found["statistics"]["share"] == model.explained_variance_ratio_.tolist()
    )
    done("predict", "--model", "m.zarr", "--data", "r.zarr", "--to", "p.zarr")
    group = store.open_store("p.zarr")
    scores, anomaly = (store.read(store.array(group, name)) for name in ("scores", "anomaly"))
    np.testing.assert_array_equal(scores, model.transform(X).astype(np.float32))
    np.testing.assert_array_equal(anomaly[:, 0], model.anomaly_score(X).astype(np.float32))
    assert refused(ask("score", "--predictions", "p.zarr", "-q"), "p.zarr holds components, which have no score")
    done("report", "--model", "m.zarr", "--to", "m.html")
    page = Path("m.html").read_text()
    assert "of the variance in the kernel's space" in Page(page).text and "spectrum" in figures(page)
    code, out, _ = ask("embed", "kernel-pca", "--data", "r.zarr", "--to", "n.zarr", *FEW, "-q")
    assert code == 0 and out.startswith("n.zarr: n_components 2, 40 landmarks (")


def test_kernel_fisher(tables, done):
    X, y = tables
    found = done(
        "fit", "kernel-fisher", "--data", "c.zarr", "--to", "m.zarr", *FEW, "--mu", "0.1,10", "--scoring", "accuracy"
    )
    model = KernelFisherDiscriminant(RBF(2.0), [0.1, 10.0], [40], scoring="accuracy", random_state=0)
    model.fit(X, np.digitize(y, [-0.5, 0.5]))
    assert found["mu"] == model.mu_ and found["held_out"]["accuracy"] == model.held_out_["accuracy"] > 0.85
    done("predict", "--model", "m.zarr", "--data", "c.zarr", "--to", "p.zarr")
    group = store.open_store("p.zarr")
    for name, expected in (("probability", model.predict_proba(X)), ("directions", model.transform(X))):
        np.testing.assert_array_equal(store.read(store.array(group, name)), expected.astype(np.float32))
    assert done("score", "--predictions", "p.zarr")["accuracy"] == model.score(X, np.digitize(y, [-0.5, 0.5]))
    done("report", "--model", "m.zarr", "--predictions", "p.zarr", "--to", "m.html")
    assert "Score over mu" in Page(Path("m.html").read_text()).text


def test_a_method_is_named_or_refused(tables, ask):
    more = ("--data", "r.zarr", "--to", "x.zarr", "-q")
    assert refused(ask("fit", "kernel-pca", *more), "no method 'kernel-pca' of fit: use one of askls, kernel-fisher, ")
    assert refused(
        ask("embed", "kernel-ridge", *more), "no method 'kernel-ridge' of embed: use one of ksvd, kernel-pca"
    )
    assert refused(ask("fit", "kernel-ridge", *more, "--symmetrise", "mean"), "--symmetrise needs a kernel with its")
    assert refused(
        ask("embed", "kernel-pca", *more, "--kernel", "sne", "--bandwidth", "1"), "is not a symmetric function"
    )
    named = ask("fit", "askls", *more, "--gamma", "1", "--bandwidth", "2", "--n-landmarks", "40")
    assert named[0] == 0 and named[1].startswith("x.zarr: gamma 1, 40 landmarks")


def test_a_job_names_methods(tables, ask, done):
    job = '[[step]]\ndo = "{}"\nmethod = "{}"\ndata = "r.zarr"\nto = "j.zarr"\nn_landmarks = [40]\n{}\n'
    Path("job.toml").write_text(job.format("fit", "kernel-ridge", "alpha = [0.1]"))
    assert done("run", "job.toml")[0]["alpha"] == 0.1
    assert done("run", "job.toml") == [{"step": "fit", "skipped": True}]
    for words, says in (
        (("fit", "kernel-rigde", ""), "step 1 (fit): method: is one of askls, "),
        (("fit", "kernel-ridge", "mu = 1.0"), "step 1 (fit): mu: there is no such option here"),
        (("embed", "kernel-ridge", ""), "step 1 (embed): method: input should be 'orthonormal' or 'scaled'"),
        (("fit", "kernel-ridge", "landmarks = 3"), "step 1 (fit): landmarks: input should be 'uniform'"),
    ):
        Path("bad.toml").write_text(job.format(*words))
        assert refused(ask("run", "bad.toml", "-q"), says)


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("fit", "--landmarks 40 --sampling kmeans --folds 3", "--n-landmarks 40 --landmarks kmeans --cv 3"),
        ("embed", "--landmarks=40 --components 3", "--n-landmarks=40 --n-components 3"),
    ],
)
def test_old_names_of_options_work_and_the_new_ones_are_told(tables, ask, command, old, new):
    given = (command, "--data", "r.zarr", "--kernel", "rbf", "--bandwidth", "2", "-q", "--to")
    code, out, err = ask(*given, "m.zarr", *old.split())
    assert code == 0 and out and ask(*given, "n.zarr", *new.split())[::2] == (0, "")
    told = err.splitlines()
    assert len(told) == old.count("--") and "is now --n-landmarks; the old name works until" in told[0]
    one, two = (store.about(store.open_store(name)) for name in ("m.zarr", "n.zarr"))
    assert one["fingerprint"] == two["fingerprint"] and one["recipe"] == two["recipe"]


def test_old_names_in_a_job(tables, ask):
    job = '[[step]]\ndo = "fit"\ndata = "r.zarr"\nto = "j.zarr"\nlandmarks = [40]\nsampling = "kmeans"\nfolds = 3\n'
    Path("job.toml").write_text(job)
    code, _, err = ask("run", "job.toml", "-q")
    assert code == 0 and "landmarks is now n_landmarks" in err and "folds is now cv" in err
    found = load("j.zarr")
    assert (found.n_landmarks, found.landmarks, found.cv) == ([40], "kmeans", 3)
