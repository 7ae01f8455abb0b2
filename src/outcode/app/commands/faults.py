"""What an error of a command says, and its exit code."""

from __future__ import annotations

from outcode import datasets, persistence
from outcode.app import study
from outcode.app.terminal import printable

#: Faults of the user's files and of the world, and their exit codes; anything else is our own.
FAULTS: tuple[tuple[type[Exception], int], ...] = (
    (datasets.DataError, 3),
    (persistence.ModelError, 3),
    (study.StoreError, 3),
    (ImportError, 2),
    (OSError, 3),
    (MemoryError, 3),
    (ValueError, 2),
)


def exit_code(error: Exception) -> int:
    """Return the exit code of an error: 2 usage, 3 data, 1 a fault of the program."""
    return next((code for kind, code in FAULTS if isinstance(error, kind)), 1)


def sentence(error: Exception) -> str:
    """Return what an error says, in words; the system's errors begin with a number."""
    if isinstance(error, OSError) and error.strerror:
        return printable(f"{error.filename or 'The output'}: {error.strerror}.", 2000)
    text = str(error) or "There is not enough memory: take fewer rows or a smaller method."
    return "\n".join(printable(line, 2000) for line in text.splitlines())
