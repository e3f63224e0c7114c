"""The click-log formats: which columns a file has, and what each one is."""

from dataclasses import dataclass

from ask_dask.errors import InputError


@dataclass(frozen=True)
class Format:
    """Text with one row per line.

    Attributes
    ----------
    name, delimiter : str
    header : bool
        Whether the first line names the columns; otherwise they come as label, numeric, categorical.
    label : str
        The column that is 0 or 1; absent in files to be predicted.
    numeric, categorical : tuple of str
        Columns of numbers (empty: missing) and of any text (empty: a value of its own).
    id : str, optional
        A column of unsigned integers, kept as it is.
    hour : str, optional
        A column YYMMDDHH; the categorical columns hour_of_day and weekday come from it.
    """

    name: str
    delimiter: str
    header: bool
    label: str
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    id: str | None = None
    hour: str | None = None

    def columns(self, labelled: bool) -> tuple[str, ...]:
        """Names of the columns that a file must have."""
        kept = (name for name in self.categorical if self.hour is None or name not in DERIVED)
        first = [self.id, self.label if labelled else None, self.hour]
        return (*(name for name in first if name), *self.numeric, *kept)


DERIVED = ("hour_of_day", "weekday")

CRITEO = Format(
    name="criteo",
    delimiter="\t",
    header=False,
    label="label",
    numeric=tuple(f"I{i}" for i in range(1, 14)),
    categorical=tuple(f"C{i}" for i in range(1, 27)),
)

AVAZU = Format(
    name="avazu",
    delimiter=",",
    header=True,
    label="click",
    numeric=(),
    categorical=(
        *DERIVED, "C1", "banner_pos", "site_id", "site_domain", "site_category", "app_id", "app_domain",
        "app_category", "device_id", "device_ip", "device_model", "device_type", "device_conn_type",
        *(f"C{i}" for i in range(14, 22)),
    ),
    id="id",
    hour="hour",
)  # fmt: skip

FORMATS = {form.name: form for form in (CRITEO, AVAZU)}
"""The formats by name."""


def find_format(name: str) -> Format:
    """The format of that name.

    >>> find_format("criteo").delimiter
    '\\t'
    >>> find_format("csv")
    Traceback (most recent call last):
    ask_dask.errors.InputError: There is no format 'csv': use 'criteo' or 'avazu'.
    """
    if name not in FORMATS:
        raise InputError(f"There is no format {name!r}: use {' or '.join(map(repr, FORMATS))}.")
    return FORMATS[name]


@dataclass(frozen=True)
class Layout:
    """The columns of one file, in its order."""

    form: Format
    columns: tuple[str, ...]
    labelled: bool


def find_layout(form: Format, head: bytes, file: str) -> Layout:
    """What columns a file has, from its first lines.

    Raises
    ------
    InputError
        The header lacks a column, or no line has the right number of columns.

    Examples
    --------
    >>> find_layout(CRITEO, b"\\t" * 38, "test.txt").labelled
    False
    """
    return _from_header(form, head, file) if form.header else _from_width(form, head, file)


def _from_header(form: Format, head: bytes, file: str) -> Layout:
    line = head.split(b"\n", 1)[0].removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
    columns = tuple(line.decode("utf-8", "replace").split(form.delimiter))
    missing = [name for name in form.columns(labelled=False) if name not in columns]
    if missing:
        raise InputError(
            f"{file}, line 1: the header lacks {_listed(missing)}; give a file in the {form.name} format, whose first "
            "line names the columns."
        )
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise InputError(f"{file}, line 1: the header has {_listed(twice)} more than once; rename or remove one.")
    return Layout(form, columns, form.label in columns)


def _from_width(form: Format, head: bytes, file: str) -> Layout:
    widths = [line.count(form.delimiter.encode()) + 1 for line in head.split(b"\n") if line.strip(b"\r")]
    layouts = [Layout(form, form.columns(labelled), labelled) for labelled in (True, False)]
    counts = [widths.count(len(layout.columns)) for layout in layouts]
    if not any(counts):
        labelled, unlabelled = (len(layout.columns) for layout in layouts)
        raise InputError(
            f"{file}, line 1: {widths[0] if widths else 0} columns, and none of the first {len(widths)} lines has the "
            f"{labelled} tab-separated columns of the {form.name} format ({unlabelled} without labels); check the "
            "format."
        )
    return layouts[0] if counts[0] >= counts[1] else layouts[1]


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:6])
    return f"{shown} and {len(names) - 6} more" if len(names) > 6 else shown
