"""Questions every room asks of its input, and the one way an element is found by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
T = TypeVar("T")


def lookup(table: Mapping[str, T], name: str, kind: str) -> T:
    """Return ``table[name]``, or an error that lists the names and guesses the one meant."""
    if name in table:
        return table[name]
    close = difflib.get_close_matches(name.lower(), table, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    known = ", ".join(repr(key) for key in table)
    raise ValueError(f"Unknown {kind} {name!r}.{hint} Known: {known}.")


def positive(value: Any, name: str) -> float:
    """Return ``value`` as a float, or an error if it is not a positive finite number."""
    if isinstance(value, bool) or not np.isscalar(value) or isinstance(value, str):
        raise ValueError(f"{name} must be a positive number, got {value!r}.")
    number = float(value)  # type: ignore[arg-type]  # isscalar says nothing to mypy
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a positive finite number, got {value!r}.")
    return number


def row_weights(sample_weight: Any, n_samples: int) -> Array:
    """Return one non-negative float64 weight per row, not all zero."""
    if sample_weight is None:
        return np.ones(n_samples)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_samples, float(weight))
    if weight.ndim != 1 or len(weight) != n_samples:
        raise ValueError(
            f"sample_weight has shape {weight.shape}, but there are {n_samples} rows: "
            f"give one weight per row, shape ({n_samples},)."
        )
    if not np.all(np.isfinite(weight)):
        raise ValueError("sample_weight holds NaN or infinity: give finite weights.")
    if np.any(weight < 0):
        row = int(np.argmin(weight))
        raise ValueError(
            f"sample_weight[{row}] = {weight[row]:g} is negative: weights must be >= 0."
        )
    if not np.any(weight > 0):
        raise ValueError("sample_weight is zero for every row: no row is left to learn from.")
    return weight
