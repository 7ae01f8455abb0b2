"""What a solver asks of a Gram store; :mod:`outcode.gram` has the stores."""

from __future__ import annotations

from typing import Any, Protocol

from outcode._checks import Array

#: Rows of kernel values taken at a time.
TILE = 256


def cuts(n: int, size: int) -> list[slice]:
    """Cut n rows into slices of at most some rows."""
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


class Store(Protocol):
    """Kernel values of n rows among themselves, in memory or computed when asked for."""

    @property
    def matrix(self) -> Any: ...

    @property
    def order(self) -> Any: ...

    @property
    def diagonal(self) -> Array: ...

    @property
    def dtype(self) -> Any: ...

    @property
    def largest_square(self) -> int: ...

    @property
    def features(self) -> Array | None: ...

    def __len__(self) -> int: ...

    def block(self, index: Array, memory: Array | None = None) -> Array:
        """Return the square matrix of some rows, contiguous, in the memory given."""

    def strip(self, index: Array) -> Array:
        """Return some rows, not to be kept."""

    def square(self, index: Array, memory: Array | None = None) -> Store:
        """Return the store of some rows alone, in the memory given."""

    def cross(self, rows: Array, columns: Array) -> Array:
        """Return kernel values between some places and others."""

    def between(self, rows: Array, columns: Array) -> Array:
        """Return kernel values between some of the user's rows and others."""

    def add(self, index: Array, coef: Array, out: Array) -> None:
        """out += coef @ K[index], accumulated in float64."""
