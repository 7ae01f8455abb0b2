"""The table every test starts from: checked, its incomplete rows left out, rounding ignored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array

#: Values closer than this share of the table's largest are equal: what differs below is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Table:
    """Complete rows of errors.

    ``errors`` (n_rows, n_methods); ``left_out``, the indices of the rows with a missing cell;
    ``unit``, what a row is, in the plural.
    """

    errors: Array
    names: tuple[str, ...]
    left_out: tuple[int, ...]
    unit: str = "data sets"
    lower_is_better: bool = True

    @property
    def scope(self) -> str:
        """What the answer rests on, in words."""
        missing = f" ({len(self.left_out)} left out: a cell is missing)" if self.left_out else ""
        return f"these {len(self.errors)} {self.unit}{missing}"

    def losses(self) -> Array:
        """Return the table turned so that lower is better, what differs by rounding made equal."""
        return _snap(self.errors if self.lower_is_better else -self.errors, self.rounding)

    @property
    def rounding(self) -> float:
        """Differences up to this are none."""
        return ROUNDING * float(np.abs(self.errors).max())

    def advantage(self, first: int, second: int) -> Array:
        """Return by how much the first method is better than the second, on every row."""
        difference = self.errors[:, second] - self.errors[:, first]
        size = _snap(np.r_[0.0, np.abs(difference)], self.rounding)[1:]
        return np.sign(difference) * (size if self.lower_is_better else -size)

    def leader(self, first: int, second: int, advantage: float) -> str | None:
        """Return the name of the method that an advantage of the first favours."""
        return None if advantage == 0 else self.names[first if advantage > 0 else second]


def read(
    errors: Any, names: Sequence[str], *, lower_is_better: bool = True, unit: str = "data sets"
) -> Table:
    """Check a table and leave its incomplete rows out."""
    values, names = numbers(errors, unit), tuple(str(name) for name in names)
    _check_shape(values, names, unit)
    complete = np.asarray(~np.isnan(values).any(axis=1))
    _check_complete(values, names, complete, unit)
    left_out = tuple(int(row) for row in np.flatnonzero(~complete))
    return Table(values[complete], names, left_out, unit, lower_is_better)


def complete(values: Array, names: Sequence[str]) -> tuple[Array, list[str], list[str]]:
    """Return the rows that all kept methods have, these methods' names, and the others'.

    The method that misses most rows is left out until at least half of the rows (and two of them)
    are complete.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_methods)
        The table, NaN where a cell is missing.
    names : sequence of str
        Names of the methods.

    Returns
    -------
    rows : ndarray of shape (n_complete_rows, n_kept)
        The complete rows of the kept methods.
    kept : list of str
        Names of the kept methods.
    others : list of str
        Names of the methods left out.

    Examples
    --------
    >>> values = np.array([[0.1, 0.2, np.nan], [0.3, 0.4, np.nan]])
    >>> complete(values, ["A", "B", "C"])[1:]
    (['A', 'B'], ['C'])
    """
    kept = list(range(len(names)))
    while kept:
        whole = ~np.isnan(values[:, kept]).any(axis=1)
        if whole.any() and 2 * whole.sum() >= len(values) and whole.sum() >= min(2, len(values)):
            break
        missing = np.isnan(values[:, kept]).sum(axis=0)
        kept.pop(len(kept) - 1 - int(missing[::-1].argmax()))
    others = [name for i, name in enumerate(names) if i not in kept]
    if not kept:
        return np.empty((0, 0)), [], others
    return values[whole][:, kept], [names[i] for i in kept], others


def numbers(errors: Any, unit: str) -> Array:
    """Return the values as float64, or an error if one is not a number or infinite."""
    try:
        values = np.asarray(errors, dtype=np.float64)
    except (TypeError, ValueError) as reason:
        raise ValueError(
            f"The table must hold one number per row ({unit}) and method: {reason}."
        ) from reason
    if np.isinf(values).any():
        raise ValueError("The table holds infinity: give finite errors, NaN for a missing cell.")
    return values


def _snap(values: Array, rounding: float) -> Array:
    """Return the values, each run of neighbours within rounding moved to its least."""
    order = np.argsort(values, axis=None)
    ordered = values.ravel()[order]
    starts = np.r_[True, np.diff(ordered) > rounding]
    snapped = np.empty_like(ordered)
    snapped[order] = ordered[starts][np.cumsum(starts) - 1]
    return snapped.reshape(values.shape)


def level(alpha: float) -> float:
    """Return a significance level, or an error if it is none."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha!r}.")
    return float(alpha)


def _check_shape(values: Array, names: tuple[str, ...], unit: str) -> None:
    if values.ndim != 2:
        raise ValueError(
            f"The table has shape {values.shape}: give two dimensions, {unit} by methods."
        )
    if values.shape[1] != len(names):
        raise ValueError(
            f"The table has {values.shape[1]} columns, but there are {len(names)} names."
        )
    if len(names) < 2:
        raise ValueError(f"There is nothing to compare: give at least 2 methods, got {len(names)}.")
    if len(set(names)) < len(names):
        raise ValueError(f"Two methods have the same name: {', '.join(names)}.")


def _check_complete(values: Array, names: tuple[str, ...], complete: Array, unit: str) -> None:
    if complete.sum() >= 2:
        return
    gaps = np.isnan(values).sum(axis=0)
    worst = int(gaps.argmax()) if len(values) else 0
    hint = f" {names[worst]!r} misses {gaps[worst]} of {len(values)}." if gaps.any() else ""
    raise ValueError(
        f"Comparing methods takes at least 2 {unit} without a missing cell (NaN), "
        f"got {complete.sum()}.{hint}"
    )
