"""ask-dask embed: singular vectors into zarr, as KSVD gives them, from every kind of store; bad input."""

import numpy as np
import pytest

from ask_dask import KSVD, store
from ask_dask.ingest import read_graph
from ask_dask.kernels import RBF, DirectedGraph


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
                 "--components", 3, "--landmarks", "20,30", "--center")  # fmt: skip
    X = store.read(store.array(store.open_store(small / "real.zarr"), "X"))
    model = KSVD(RBF(1.0), 3, n_landmarks=(20, 30), center=True, random_state=0).fit(X, Z=X)
    same(out, model)
    assert found["n_components"] == 3 and found["error"]["left"] == pytest.approx(model.error_.left)
    assert found["arrays"]["left"]["shape"] == [80, 3] and found["schema"] == "embedding"
    y = store.read(store.array(store.open_store(out), "y"))
    np.testing.assert_array_equal(y, store.read(store.array(store.open_store(small / "real.zarr"), "y")))


def test_a_graph_exactly(small, tmp_path, done):
    done("embed", "--data", small / "g.zarr", "--to", tmp_path / "e.zarr", "--components", 4, "--exact")
    data = store.open_store(small / "g.zarr")
    numbers = store.read(store.array(data, "X"))
    same(tmp_path / "e.zarr", KSVD(DirectedGraph(read_graph(data)), 4, random_state=0).fit(numbers))


def test_rows_and_columns_of_a_matrix(small, tmp_path, done):
    out = tmp_path / "e.zarr"
    done("embed", "--data", small / "real.zarr", "--to", out, "--kernel", "rbf", "--bandwidth", 2, "--components", 2,
         "--exact", "--columns", "--compat", "random", "--compat-dim", 8)  # fmt: skip
    X = store.read(store.array(store.open_store(small / "real.zarr"), "X"))
    same(out, KSVD(RBF(2.0), 2, compat="random", compat_dim=8, random_state=0).fit(X))
    assert vectors(out)[2].shape == (4, 2)


def test_as_a_step_of_a_job_it_is_done_once(small, tmp_path, done):
    job = tmp_path / "job.toml"
    job.write_text(
        f'[[step]]\ndo = "embed"\ndata = "{small / "real.zarr"}"\nto = "e.zarr"\nkernel = "sne"\nlandmarks = [20]\n'
        "components = 2\ntol = 0.5\n"
    )
    assert [result["skipped"] for result in done("run", job)] == [False]
    assert [result["skipped"] for result in done("run", job)] == [True]


def test_what_it_says(small, tmp_path, ask):
    code, out, err = ask(
        "embed", "--data", small / "real.zarr", "--to", tmp_path / "e.zarr", "--landmarks", 20, "--quiet"
    )
    assert (code, err) == (0, "")
    assert "e.zarr: 4 components of 80 rows, estimated error" in out or "e.zarr: 10 components of 80 rows" in out


@pytest.mark.parametrize(
    ("data", "arguments", "says"),
    [
        ("real.zarr", "--landmarks 500", "500 row landmarks are more than the 80 points"),
        ("real.zarr", "--landmarks 1,2,3 --kernel sne", "--landmarks: value should have at most 2 items"),
        ("real.zarr", "--components 0", "--components: input should be greater than or equal to 1"),
        ("real.zarr", "--compat pca", "give --columns too"),
        ("g.zarr", "--columns", "numbers of points and no data matrix"),
        ("real.zarr", "--columns --exact", "80 x 4"),
        ("real.zarr", "--exact --memory 1KiB", "memory budget is 1.0 KiB"),
        ("real.zarr", "--kernel rbf", "give --bandwidth"),
        ("none.zarr", "", "There is no store at"),
    ],
)
def test_bad_input(small, tmp_path, ask, data, arguments, says):
    code, out, err = ask("embed", "--data", small / data, "--to", tmp_path / "e.zarr", "--quiet", *arguments.split())
    assert (code, out) == (1, "") and err.count("\n") == 1 and says in err, err
    assert not list(tmp_path.iterdir())


def test_an_embedding_is_no_dataset(small, tmp_path, done, ask):
    done("embed", "--data", small / "real.zarr", "--to", tmp_path / "e.zarr", "--landmarks", 20, "--components", 2)
    code, _, err = ask("fit", "--data", tmp_path / "e.zarr", "--to", tmp_path / "m.zarr", "--quiet")
    assert code == 1 and "embedding" in err
    code, _, err = ask("embed", "--data", small / "real.zarr", "--to", tmp_path / "e.zarr", "--quiet")
    assert code == 1 and "--overwrite" in err
