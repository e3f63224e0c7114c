"""One family of exceptions: each message says what was wrong, where, and what to do. None tells a secret."""

import re
from typing import Any
from urllib.parse import quote


def mask(text: str) -> str:
    """Text without the secrets of the URLs in it: users, passwords and keys before an @, and all that follows a ? or #.

    >>> mask("ftp://me:secret@host/train.txt"), mask("https://host/a.gz?Signature=1"), mask("a@b.txt")
    ('ftp://***@host/train.txt', 'https://host/a.gz?***', 'a@b.txt')
    >>> mask("https://host/a#token=1")
    'https://host/a#***'
    >>> mask("s3:/key:secret@bucket/a"), mask("memory:///me:secret@host/a")  # as a Path, and as fsspec writes it
    ('s3:/***@bucket/a', 'memory:///***@host/a')
    >>> mask("There is no file s3://key:se/cret@bucket/a: check the path?")
    'There is no file s3://***@bucket/a: check the path?'
    """
    # A secret may hold a slash; rather too much.
    text = re.sub(r"(\w\w:/{1,3})(?:[^/\s]*:.*|[^/\s]*)@", r"\1***@", text)
    return re.sub(r"(\w\w:/{1,3}[^\s?#'\"]*[?#])[^\s'\"]*[^\s'\":;,.)]", r"\1***", text)


def without_secrets(words: str, url: str) -> str:
    """What a library says about a URL, without what `mask` hides of it, also where it is written with percents.

    >>> without_secrets('No bucket "key:secret@b"', "s3://key:secret@b/a"), without_secrets("b%3FX%3D1", "s3://b?X=1")
    ('No bucket "***@b"', 'b%3F***')
    >>> without_secrets('No bucket "key:sec"', "s3://key:sec/ret@b/a")
    'No bucket "***:***"'
    """
    rest = url.partition("://")[2]
    place, query = [*re.split("[?#]", rest, maxsplit=1), ""][:2]
    user = place.rpartition("@")[0]
    secrets = {user, user.partition(":")[2], *re.split("[:/]", user), query}  # of a slash a library takes a part
    for secret in sorted(filter(lambda secret: len(secret) > 2, secrets), key=len, reverse=True):
        for written in (secret, quote(secret, safe=""), quote(secret)):
            words = words.replace(written, "***")
    return words


class AskDaskError(Exception):
    """Anything a user can put right; the command line prints its message as one line and exits with 1."""

    def __init__(self, message: str = "", *more: Any) -> None:
        super().__init__(mask(message), *more)


class InputError(AskDaskError, ValueError):
    """The data, a parameter or a file is not what it must be."""


class StoreError(AskDaskError, OSError):
    """A store is missing, damaged, of another kind or version, or cannot be written."""


class BudgetError(AskDaskError, MemoryError):
    """The plan needs more memory than the budget; the message names a size that fits."""


class ResonanceWarning(UserWarning):
    """gamma * sigma is close to 1 for a singular value sigma, where the AsK-LS system is singular."""


class PrecisionWarning(UserWarning):
    """The regularisation is weaker than the precision of the sums resolves, so that rounding changes the model."""


class CheckpointError(StoreError):
    """A checkpoint is of another fit, or damaged, so that nothing goes on from it."""


class Stopped(AskDaskError):
    """The job was cut off by what is outside it; the same command goes on, so the command line exits with 2."""
