"""Files that are sound, and what is put into them to make them otherwise."""

import bz2
import gzip
import lzma

from ask_dask.ingest.formats import AVAZU

HEADER = ",".join(dict.fromkeys(name for name in ("id", "click", "hour", *AVAZU.columns(True)))).encode()
_AVAZU = b"\n".join([HEADER, *[b"%d,%d,14102100" % (i, i % 2) + b",a1" * 21 for i in range(3)]]) + b"\n"
_CRITEO = b"".join(b"\t".join([b"%d" % (i % 2), *[b"%d" % i] * 13, *[b"05db9164"] * 26]) + b"\n" for i in range(3))

SEEDS = {
    "criteo": [_CRITEO, _CRITEO.replace(b"\n", b"\r\n"), b"\t" * 38 + b"\n"],
    "avazu": [_AVAZU, _AVAZU.replace(b"\n", b"\r\n")],
    "table": [b"y,a,b\n1,2,3\n0,-1e3,.5\n", b'"y";"a b"\n1;"2"\n', b"y\ta\n1\t2\n\n"],
    "graph": [b"# edges\na b\nb c\n", b"0\t1\t0.5\n1\t2\t3\n", b"0,1\n2,0\n"],
    "svmlight": [b"1 1:0.5 3:2 # one\n-1 qid:3 2:1e3\n", b"0.5 0:1\n"],
    "samples": [b"a 0.1 2\na -1 3\nb 5 5\n", b"id\tx\ty\na\t1\t2\n"],
    "labels": [b"a 1\nb 2\n", b"1\n0\n2\n"],
    "ids": [b"a\nb\nc d\n"],
    "compressed": [
        b"\0" + gzip.compress(b"a b\n" * 9), b"\1" + bz2.compress(b"a\n"), b"\2" + lzma.compress(b"a\n"),
        *(kind + b"a b\nc d\n# no row\n\ne f" for kind in (b"\3", b"\4", b"\5")),
    ],
}  # fmt: skip
"""Sound files for each reader."""

WORDS = [
    b"", b"\n", b"\r", b"\r\n", b"\n\n", b"\t", b",", b";", b" ", b":", b"#", b"%", b'"', b'""', b"\0", b"\x1f",
    b"\xff", b"\xef\xbb\xbf", b"\xc3\xa9", b"\xe2\x80\xa8", b"\x0b\x0c\x85", b"\xd9\xa3", b"nan", b"-inf", b"1e999",
    b"-0", b"1_0", b"0x1f", b"99999999999999999999", b"9223372036854775808", b"2147483648", b"-1", b"+1", b"1.", b".5",
    b"1e-400", b"../../x", b"qid:", b"id", b"14103200", b"a" * 200, b"0" * 400,
]  # fmt: skip
"""Pieces of text that readers have stumbled over, or might."""


def spliced(data: bytes, place: int, length: int, word: bytes) -> bytes:
    """Data with a word in the place of some of its bytes."""
    place %= len(data) + 1
    return data[:place] + word + data[place + length :]
