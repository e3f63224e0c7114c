"""ask-dask embed: singular vectors into zarr, as KSVD gives them, from every kind of store; bad input."""

import numpy as np
import pytest

from ask_dask import KSVD, load, store
from ask_dask.ingest import read_graph
from ask_dask.kernels import RBF, SNE, DirectedGraph
from ask_dask.report.embedding import drawn
from ask_dask.sparse import rows_of


def vectors(path):
    group = store.open_store(path, "embedding")
    return [store.read(store.array(group, name)) for name in ("left", "singular_values", "right")]


def same(path, model):
    expected = (
        np.asarray(model.left_singular_vectors_),
        model.singular_values_,
        np.asarray(model.right_singular_vectors_),
    )
    for mine, theirs in zip(vectors(path), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


def test_rows_with_themselves(small, tmp_path, done):
    out = tmp_path / "e.zarr"
    found = done("embed", "--data", small / "real.zarr", "--to", out, "--kernel", "rbf", "--bandwidth", 1,
                 "--n-components", 3, "--n-landmarks", "20,30", "--center")  # fmt: skip
    X = store.read(store.array(store.open_store(small / "real.zarr"), "X"))
    model = KSVD(RBF(1.0), 3, n_landmarks=(20, 30), center=True, random_state=0).fit(X, Z=X)
    same(out, model)
    assert found["n_components"] == 3 and found["error"]["left"] == pytest.approx(model.error_.left)
    assert found["arrays"]["left"]["shape"] == [80, 3] and found["schema"] == "embedding"
    y = store.read(store.array(store.open_store(out), "y"))
    np.testing.assert_array_equal(y, store.read(store.array(store.open_store(small / "real.zarr"), "y")))


def test_a_graph_exactly(small, tmp_path, done):
    done("embed", "--data", small / "g.zarr", "--to", tmp_path / "e.zarr", "--n-components", 4, "--exact")
    data = store.open_store(small / "g.zarr")
    numbers = store.read(store.array(data, "X"))
    same(tmp_path / "e.zarr", KSVD(DirectedGraph(read_graph(data)), 4, random_state=0).fit(numbers))


def test_rows_and_columns_of_a_matrix(small, tmp_path, done):
    out = tmp_path / "e.zarr"
    done("embed", "--data", small / "real.zarr", "--to", out, "--kernel", "rbf", "--bandwidth", 2, "--n-components", 2,
         "--exact", "--columns", "--compat", "random", "--compat-dim", 8)  # fmt: skip
    X = store.read(store.array(store.open_store(small / "real.zarr"), "X"))
    same(out, KSVD(RBF(2.0), 2, compat="random", compat_dim=8, random_state=0).fit(X))
    assert vectors(out)[2].shape == (4, 2)


@pytest.mark.parametrize("compat", ["pinv", "pinv_rows", "pca", "axes", "random"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_matrix_that_fits_the_memory_has_every_compatibility(small, tmp_path, done, compat, sparse):
    """And new rows can be embedded by what the store keeps."""
    out, data = tmp_path / "e.zarr", small / "real.zarr"
    if sparse:
        text = "".join(f"{i % 2} {i % 5 + 1}:{1 + i % 3} {i % 7 + 6}:2\n" for i in range(30))
        (tmp_path / "s.txt").write_text(text)
        data = tmp_path / "s.zarr"
        done("ingest", "svmlight", tmp_path / "s.txt", "--to", data, "--one-based")
    done("embed", "--data", data, "--to", out, "--kernel", "rbf", "--bandwidth", 2, "--n-components", 2,
         "--exact", "--columns", "--compat", compat)  # fmt: skip
    X = rows_of(store.open_store(data))[:]
    model = KSVD(RBF(2.0), 2, compat=compat, random_state=0).fit(X)
    same(out, model)
    np.testing.assert_allclose(load(out).transform(X[:5]), model.transform(X[:5]), atol=1e-9)


def test_a_square_matrix_needs_no_compatibility(tmp_path, done):
    X = np.random.default_rng(0).random((5, 5)).round(3)
    (tmp_path / "t.csv").write_text("a,b,c,d,e\n" + "".join(",".join(map(str, row)) + "\n" for row in X))
    done("ingest", "table", tmp_path / "t.csv", "--to", tmp_path / "t.zarr")
    done("embed", "--data", tmp_path / "t.zarr", "--to", tmp_path / "e.zarr", "--kernel", "rbf", "--bandwidth", 2,
         "--n-components", 2, "--exact", "--columns")  # fmt: skip
    same(tmp_path / "e.zarr", KSVD(RBF(2.0), 2, random_state=0).fit(rows(tmp_path / "t.zarr")))


def rows(path):
    return store.read(store.array(store.open_store(path), "X"))


def test_rows_with_those_of_another_store(small, tmp_path, done):
    """And the page of it: y and id are of the sources, although there are as many targets."""
    (tmp_path / "s.txt").write_text((small / "t.csv").read_text().replace("0.", "0.0"))
    done("ingest", "table", tmp_path / "s.txt", "--to", tmp_path / "s.zarr", "--label", "real", "--drop",
         "one,two,kind,w,node")  # fmt: skip
    out = tmp_path / "e.zarr"
    command = ("embed", "--data", small / "real.zarr", "--targets", tmp_path / "s.zarr", "--to", out, "--kernel", "sne",
               "--bandwidth", 1, "--n-components", 3, "--exact", "--solver", "arpack", "--max-iter", 300)  # fmt: skip
    found = done(*command)
    model = KSVD(SNE(1.0), 3, solver="arpack", random_state=0)
    same(out, model.fit(rows(small / "real.zarr"), Z=rows(tmp_path / "s.zarr")))
    assert (found["parameters"]["solver"], found["parameters"]["max_iter"]) == ("arpack", 300)
    assert found["targets"]["path"] == str(tmp_path / "s.zarr") and found["shape"] == [80, 80]
    left, right = drawn(store.open_store(out))
    assert left.kind == "values" and right.kind == "none"
    done("report", "--embedding", out, "--to", tmp_path / "e.html")
    assert f"real.zarr with {tmp_path / 's.zarr'}" in (tmp_path / "e.html").read_text()


def test_another_store_of_targets_makes_another_embedding(small, tmp_path, done, ask):
    job = tmp_path / "job.toml"
    step = f'[[step]]\ndo = "embed"\ndata = "{small / "g.zarr"}"\nto = "e.zarr"\nn_components = 2\nexact = true\n'
    job.write_text(step + f'targets = "{small / "more.zarr"}"\n')
    assert [result["skipped"] for result in done("run", job)] == [False]
    assert [result["skipped"] for result in done("run", job)] == [True]
    assert [len(side) for side in vectors(tmp_path / "e.zarr")] == [60, 2, 30]
    job.write_text(step)
    code, _, err = ask("run", job, "--quiet")
    assert code == 1 and "was made with other parameters or from other inputs" in err


def test_sparse_rows_and_a_million_columns(tmp_path, done):
    random = np.random.default_rng(0)
    text = [" ".join([str(i % 2), *(f"{j}:1" for j in np.unique(random.zipf(1.3, 20) % 999_999 + 1))])
            for i in range(300)]  # fmt: skip
    (tmp_path / "s.txt").write_text("\n".join([*text, "1 1000000:1"]) + "\n")
    done("ingest", "svmlight", tmp_path / "s.txt", "--to", tmp_path / "s.zarr", "--one-based")
    command = ("embed", "--data", tmp_path / "s.zarr", "--to", tmp_path / "e.zarr", "--kernel", "rbf", "--bandwidth", 2,
               "--n-components", 2, "--n-landmarks", 50, "--columns", "--compat", "random",
               "--compat-dim", 8)  # fmt: skip
    found = done(*command)
    assert found["shape"] == [301, 1_000_000] and found["arrays"]["right"]["shape"] == [1_000_000, 2]
    assert 0 < found["error"]["left"] < 1
    for side in vectors(tmp_path / "e.zarr")[::2]:
        np.testing.assert_allclose(side.T @ side, np.eye(2), atol=1e-2)


def test_as_a_step_of_a_job_it_is_done_once(small, tmp_path, done):
    job = tmp_path / "job.toml"
    job.write_text(
        f'[[step]]\ndo = "embed"\ndata = "{small / "real.zarr"}"\nto = "e.zarr"\nkernel = "sne"\nn_landmarks = [20]\n'
        "n_components = 2\ntol = 0.5\n"
    )
    assert [result["skipped"] for result in done("run", job)] == [False]
    assert [result["skipped"] for result in done("run", job)] == [True]


def test_what_is_of_the_exact_decomposition_is_refused_in_a_job_too(small, tmp_path, ask, done):
    job = tmp_path / "job.toml"
    step = (
        f'[[step]]\ndo = "embed"\ndata = "{small / "real.zarr"}"\nto = "e.zarr"\nn_landmarks = [20]\nn_components = 2\n'
    )
    job.write_text(f"{step}max_iter = 300\n")
    code, _, err = ask("run", job, "--quiet")
    assert code == 1 and err.count("\n") == 1 and "step 1 of 1, embed: --max-iter is of the exact decomposition" in err
    assert list(tmp_path.iterdir()) == [job]
    job.write_text(f"{step}max_iter = 300\ncompare_exact = true\n")  # which decomposes exactly too
    assert [result["skipped"] for result in done("run", job)] == [False]


def test_what_it_prints_is_so(small, tmp_path, done, ask):
    """The error is near that of the stored vectors, and the seconds are those of this command alone."""
    out, X = tmp_path / "e.zarr", rows(small / "real.zarr")
    command = ("embed", "--data", small / "real.zarr", "--to", out, "--kernel", "rbf", "--bandwidth", 1,
               "--n-components", 3, "--n-landmarks", 10)  # fmt: skip
    found = done(*command)
    (U, s, V), K = vectors(out), RBF(1.0)(X, X)
    for side, residual in (("left", K @ V - U * s), ("right", K.T @ U - V * s)):
        true = np.linalg.norm(residual) / np.linalg.norm(s)
        assert abs(found["error"][side] - true) < 2 * found["error"][f"{side}_deviation"]
    assert found["n_components"] == len(s) == 3
    assert [step["step"] for step in found["steps"]] == ["singular vectors", "write"]
    code, line, _ = ask(*command, "--overwrite", "--quiet")
    error = max(found["error"]["left"], found["error"]["right"])
    assert code == 0 and f"e.zarr: 3 components of 80 rows, estimated error {error:.2g} (" in line


def test_what_it_says(small, tmp_path, ask):
    code, out, err = ask(
        "embed", "--data", small / "real.zarr", "--to", tmp_path / "e.zarr", "--n-landmarks", 20, "--quiet"
    )
    assert (code, err) == (0, "")
    assert "e.zarr: 4 components of 80 rows, estimated error" in out or "e.zarr: 10 components of 80 rows" in out


@pytest.mark.parametrize(
    ("data", "arguments", "says"),
    [
        ("real.zarr", "--n-landmarks 500", "500 row landmarks are more than the 80 points"),
        ("real.zarr", "--n-landmarks 1,2,3 --kernel sne", "--n-landmarks: value should have at most 2 items"),
        ("real.zarr", "--n-components 0", "--n-components: input should be greater than or equal to 1"),
        ("real.zarr", "--compat pca", "give --columns too"),
        ("g.zarr", "--columns", "numbers of points and no data matrix"),
        ("real.zarr", "--columns --exact", "80 x 4, so that its rows and columns are of different spaces: give --com"),
        ("real.zarr", "--columns --compat random --memory 1KiB", "budget is 1.0 KiB: give --compat random with --comp"),
        ("real.zarr", "--columns --compat pca --memory 1KiB", "budget is 1.0 KiB: give --compat random with --compat-"),
        ("real.zarr", "--columns --compat pca --compat-dim 3", "--compat-dim is of --compat random"),
        ("real.zarr", "--columns --targets {small}/real.zarr", "--targets is of two sets of rows"),
        ("real.zarr", "--targets {small}/signed.zarr", "was not made as"),
        ("g.zarr", "--targets {small}/other.zarr", "was not made as"),
        ("real.zarr", "--targets {small}/none.zarr", "There is no store at"),
        ("real.zarr", "--max-iter 0 --exact", "--max-iter: input should be greater than or equal to 1"),
        (
            "real.zarr",
            "--solver arpack --n-landmarks 20",
            "--solver is of the exact decomposition: give --exact or --comp",
        ),
        (
            "real.zarr",
            "--max-iter 9 --n-landmarks 20",
            "--max-iter is of the exact decomposition: give --exact or --comp",
        ),
        ("real.zarr", "--exact --memory 1KiB", "memory budget is 1.0 KiB"),
        ("real.zarr", "--kernel rbf", "give --bandwidth"),
        ("none.zarr", "", "There is no store at"),
    ],
)
def test_bad_input(small, tmp_path, ask, data, arguments, says):
    given = arguments.format(small=small).split()
    code, out, err = ask("embed", "--data", small / data, "--to", tmp_path / "e.zarr", "--quiet", *given)
    assert (code, out) == (1, "") and err.count("\n") == 1 and says in err, err
    assert not list(tmp_path.iterdir())


def test_an_embedding_is_no_dataset(small, tmp_path, done, ask):
    done("embed", "--data", small / "real.zarr", "--to", tmp_path / "e.zarr", "--n-landmarks", 20, "--n-components", 2)
    code, _, err = ask("fit", "--data", tmp_path / "e.zarr", "--to", tmp_path / "m.zarr", "--quiet")
    assert code == 1 and "embedding" in err
    code, _, err = ask("embed", "--data", small / "real.zarr", "--to", tmp_path / "e.zarr", "--quiet")
    assert code == 1 and "--overwrite" in err
