"""A few hundred malformed files for each text reader; `fuzz/run.py` gives them very many more."""

from functools import reduce

import pytest
from fuzz.readers import READERS, attempt
from fuzz.seeds import SEEDS, WORDS, spliced
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ask_dask.errors import InputError
from ask_dask.ingest import files as raw

FOUND = [
    ("table", b"y,k\r;\n1,2,3\n", "line 1: a carriage return inside the line; remove it"),
    ("table", b'"' + b"k" * 140_000 + b'",b\n1,2\n', None),
    ("table", b"\n\r\n", "fuzz.csv has no header: give a file whose first line names the columns"),
    ("labels", b"a 1\nb 2 \xff\nc 3\n", "line 2 has 3 columns and the lines before it 2"),
]
"""What fuzzing has found: a reader, a file that it once stumbled over, what it says of it now (None: it reads it)."""


@pytest.fixture(autouse=True, scope="module")
def pieces_as_they_were():
    """The readers of `fuzz` cut files into small pieces; other tests are not to."""
    before = raw.PIECE_BYTES
    yield
    raw.PIECE_BYTES = before


def spoiled(reader):
    """A sound file with some of its bytes replaced by others, or by words that readers stumble over."""
    change = st.tuples(st.integers(0, 400), st.integers(0, 12), st.sampled_from(WORDS) | st.binary(max_size=6))

    def apply(seed, changes):
        return reduce(lambda data, change: spliced(data, *change), changes, seed)

    return st.builds(apply, st.sampled_from(SEEDS[reader]), st.lists(change, max_size=5)) | st.binary(max_size=80)


@pytest.mark.parametrize("reader", READERS)
def test_sound_files_are_read_whole(reader):
    for seed in SEEDS[reader]:
        read, rejected = attempt(reader, seed)
        assert read and not rejected


@pytest.mark.parametrize("reader", READERS)
def test_every_row_is_read_or_counted_as_rejected(reader):
    @settings(
        max_examples=40 if reader in ("criteo", "avazu") else 100,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(spoiled(reader))
    def check(data):
        attempt(reader, data)

    check()


@pytest.mark.parametrize(("reader", "data", "said"), FOUND)
def test_what_was_found(reader, data, said, capfd):
    if said:
        with pytest.raises(InputError, match=said):
            READERS[reader](data)
    else:
        assert attempt(reader, data)
    assert capfd.readouterr() == ("", "")
