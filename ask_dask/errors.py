"""One family of exceptions: each message says what was wrong, where, and what to do."""


class AskDaskError(Exception):
    """Anything a user can put right; the command line prints its message as one line and exits with 1."""


class InputError(AskDaskError, ValueError):
    """The data, a parameter or a file is not what it must be."""


class StoreError(AskDaskError, OSError):
    """A store is missing, damaged, of another kind or version, or cannot be written."""


class BudgetError(AskDaskError, MemoryError):
    """The plan needs more memory than the budget; the message names a size that fits."""


class ResonanceWarning(UserWarning):
    """gamma * sigma is close to 1 for a singular value sigma, where the AsK-LS system is singular."""


class CheckpointError(StoreError):
    """A checkpoint is of another fit, or damaged, so that nothing goes on from it."""


class Stopped(AskDaskError):
    """The job was cut off by what is outside it; the same command goes on, so the command line exits with 2."""
