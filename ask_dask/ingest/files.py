"""Raw files on any file system -> pieces of text of a fixed size, cut at line ends.

Piece k of a file holds the lines that start in bytes k * size .. (k + 1) * size of its text. A plain file is read by
byte ranges, many at a time; a compressed one is decompressed from its start. Both give the same pieces.
"""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from fsspec.compression import compr
from fsspec.utils import infer_compression

from ask_dask import store
from ask_dask.errors import InputError, mask, without_secrets

PIECE_BYTES = 32 << 20
"""Text of one piece: a constant, so that nothing depends on the number of workers."""

LINE_BYTES = 1 << 20
"""The longest line that is looked for; a file with a longer one is no click log."""


@dataclass(frozen=True)
class RawFile:
    """A file to be ingested: its URL, and what may be shown and stored of it (secrets masked)."""

    url: str
    name: str
    size: int | None
    modified: str | None
    compression: str | None

    @property
    def splits(self) -> bool:
        """Whether byte ranges of it can be read on their own."""
        return self.compression is None and self.size is not None

    def starts_with(self, magic: bytes) -> bool:
        """Return whether the file, as it is, begins with these bytes."""
        fs, path = store.opened(self.url)
        with _reading(self.name), fs.open(path, "rb") as opened:
            return opened.read(len(magic)) == magic

    def about(self, rows: int, fingerprint: str) -> dict[str, Any]:
        """What a store keeps of it, once it was read."""
        return {
            "path": self.name,
            "bytes": self.size,
            "modified": self.modified,
            "rows": rows,
            "fingerprint": fingerprint,
        }

    def pieces(self, piece_bytes: int) -> int:
        """The number of pieces, where byte ranges can be read."""
        return -(-(self.size or 0) // piece_bytes)


def unmark(text: bytes) -> bytes:
    """The start of a file without the mark that some programs put before UTF-8."""
    return text.removeprefix(b"\xef\xbb\xbf")


def find(url: str) -> RawFile:
    """What is known of a file before it is read.

    Raises
    ------
    InputError
        Nothing there, a directory, an empty file, no permission, or a file system that is not installed.
    """
    name = mask(f"{url.partition('?')[0]}?***" if "://" in url and "?" in url else url)
    try:
        fs, path = store.opened(url)
    except (ImportError, ValueError) as error:
        raise InputError(f"{name} cannot be opened: {without_secrets(str(error), url)}") from error
    with _reading(name):
        about = fs.info(path)
    if about.get("type") == "directory":
        raise InputError(f"{name} is a directory: give the files in it.")
    if about.get("size") == 0:
        raise InputError(f"{name} is empty: give a file with rows.")
    try:
        modified = fs.modified(path).isoformat()
    except Exception:  # each file system has its own way to say that it does not know
        modified = None
    with _reading(name), fs.open(path, "rb") as opened:
        start = opened.read(512)
    compression = _compression(name, start) or infer_compression(path.partition("?")[0])
    file = RawFile(url, name, about.get("size"), modified, compression)
    _require_text(file, start)
    return file


MAGIC = {
    b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4", b"PK\x03\x04": "zip",
}  # fmt: skip
"""How compressed files begin, whatever they are called."""


def _compression(name: str, start: bytes) -> str | None:
    return next((kind for magic, kind in MAGIC.items() if start.startswith(magic)), None)


def _require_text(file: RawFile, start: bytes) -> None:
    """Raise InputError for an archive of several files, and for text that is not UTF-8 from its first bytes on."""
    if file.compression == "zip":
        fs, path = store.opened(file.url)
        with _reading(file.name), fs.open(path, "rb") as opened:
            try:
                with zipfile.ZipFile(opened) as archive:
                    members = archive.namelist()
            except zipfile.BadZipFile as error:
                raise InputError(f"{file.name} is cut short or damaged ({error}): fetch the file again.") from error
        if len(members) != 1 or members[0].endswith("/"):
            raise InputError(f"{file.name} is an archive of {len(members)} members: unpack it, and give the files.")
    if file.compression is not None:
        with _text(file) as stream:
            start = _read(file, stream, 512, 0)
    if start[257:262] == b"ustar":
        raise InputError(f"{file.name} is a tar archive: unpack it, and give the files.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{file.name} is text in UTF-16: save it as UTF-8.")


def read_head(file: RawFile) -> bytes:
    """Whole lines from the start of a file, about a megabyte of them.

    Raises
    ------
    InputError
        The file is empty, has no line end in its first megabyte, or cannot be read.
    """
    with _text(file) as stream:
        head = _read(file, stream, LINE_BYTES, 0)
        more = len(head) == LINE_BYTES
    if not head:
        raise InputError(f"{file.name} is empty: give a file with rows.")
    if more:
        _line_end(file, head, 0, 0)
        head = head[: head.rindex(b"\n") + 1]
    return head


def read_piece(file: RawFile, piece: int, piece_bytes: int) -> bytes:
    """Piece number `piece` of a plain file.

    Raises
    ------
    InputError
        The file cannot be read, has become shorter, or has a line of more than a megabyte.
    """
    size = file.size or 0
    start, stop = max(piece * piece_bytes - 1, 0), min((piece + 1) * piece_bytes, size)
    fs, path = store.opened(file.url)
    with _reading(file.name):
        text = fs.cat_file(path, start=start, end=min(stop + (64 << 10), size))
        if text.find(b"\n", stop - 1 - start) < 0:
            text = fs.cat_file(path, start=start, end=min(stop + LINE_BYTES, size))
    if len(text) < stop - start:
        raise InputError(f"{file.name} became shorter while it was read: wait until it is complete, and start again.")
    first = _line_end(file, text, 0, start, size) if piece else 0
    return text[first : _line_end(file, text, stop - 1 - start, start, size)]


def stream_pieces(file: RawFile, piece_bytes: int, line_bytes: int | None = None) -> Iterator[bytes]:
    """The pieces of a file, in order, from one pass over it; `line_bytes` where lines may be longer than usual.

    Raises
    ------
    InputError
        As for `read_piece`; also when compressed data is damaged or cut short.
    """
    held, base, lines, piece, ended = b"", 0, 0, 0, False  # `base`: where `held` starts in the text
    with _text(file) as stream:
        while held or not ended:
            piece += 1
            last = piece * piece_bytes - 1 - base  # the line that holds this byte is the piece's last
            while not ended and held.find(b"\n", max(last, 0)) < 0:
                if len(held) > last + (line_bytes or LINE_BYTES):
                    _line_end(file, held, last, base, line_bytes=line_bytes)
                more = _read(file, stream, max(last - len(held), LINE_BYTES), lines + held.count(b"\n"))
                held, ended = held + more, not more
            cut = _line_end(file, held, last, base, base + len(held)) if last >= 0 else 0
            yield held[:cut]
            lines += held.count(b"\n", 0, cut)
            held, base = held[cut:], base + cut


def _line_end(
    file: RawFile, text: bytes, start: int, base: int, size: int | None = None, line_bytes: int | None = None
) -> int:
    """Where the line that holds text[start] ends (`base`, `size`: the text's place in the file, the file's length)."""
    found = text.find(b"\n", start)
    if found < 0 and base + len(text) != size:
        longest = (line_bytes or LINE_BYTES) >> 20
        raise InputError(
            f"{file.name} has no line end in {longest} MiB after byte {base + start}: give text with one row per line."
        )
    return found + 1 if found >= 0 else len(text)


def _read(file: RawFile, stream: Any, count: int, lines: int) -> bytes:
    """`count` bytes, or fewer at the end of the text; `lines` have been read before."""
    parts: list[bytes] = []
    try:
        while count and (part := stream.read(count)):
            parts.append(part)
            count -= len(part)
    except Exception as error:  # each codec has its own family of errors
        if file.compression is None or store.is_of_library(error):
            raise
        reached = lines + sum(part.count(b"\n") for part in parts) + 1
        raise InputError(
            f"{file.name} is cut short or damaged near line {reached} ({error}): fetch the file again."
        ) from error
    return b"".join(parts)


@contextmanager
def _text(file: RawFile) -> Iterator[Any]:
    fs, path = store.opened(file.url)
    with _reading(file.name), fs.open(path, "rb") as raw:
        if file.compression is None:
            yield raw
        else:
            with _unpacked(raw, file.compression) as stream:
                yield stream


def _unpacked(raw: Any, compression: str) -> Any:
    """Return the text of a compressed stream; zstd and lz4 by pyarrow, the others by what fsspec has."""
    if compression in ("zstd", "lz4"):
        return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), compression)
    return compr[compression](raw, mode="rb")


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Say of a failure to read which file it was."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"There is no file {name}: check the path.") from error
    except PermissionError as error:
        raise InputError(f"{name} may not be read: check its permissions.") from error
    except IsADirectoryError as error:
        raise InputError(f"{name} is a directory: give the files in it.") from error
    except Exception as error:
        if not (isinstance(error, EOFError) or store.is_failure(error)):
            raise
        raise InputError(f"{name} cannot be read ({error}): check the connection or the disk.") from error
