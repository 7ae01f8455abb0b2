"""Questions every room asks of its input, and the one way an element is found by name."""

from __future__ import annotations

import difflib
import pkgutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets

Array = npt.NDArray[Any]
T = TypeVar("T")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that called into it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("outcode."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Leave an estimator as it was if training it fails or is interrupted."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


@contextmanager
def text_explained(X: Any) -> Iterator[None]:
    """Say which columns hold text where numbers are needed, and what to do."""
    try:
        yield
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        columns = getattr(X, "columns", ())
        kinds = getattr(X, "dtypes", ())
        pairs = zip(columns, kinds, strict=True) if len(columns) == len(kinds) else ()
        named = [str(name) for name, kind in pairs if getattr(kind, "kind", "O") not in "biuf"]
        where = f"column {', '.join(map(repr, named[:5]))}" if named else "X"
        raise ValueError(
            f"A kernel machine needs numbers, but {where} holds text ({error}): encode it first, "
            f"for example with make_pipeline(outcode.datasets.TableEncoder(), classifier)."
        ) from None


def gathered(package: str, path: Iterable[str]) -> dict[str, Any]:
    """Return the short names of all elements in a package: the ``NAMES`` of its modules."""
    modules = sorted(found.name for found in pkgutil.iter_modules(path))
    tables = [getattr(import_module(f"{package}.{name}"), "NAMES", {}) for name in modules]
    return {name: element for table in tables for name, element in table.items()}


def lookup(table: Mapping[str, T], name: str, kind: str) -> T:
    """Return ``table[name]``, or an error that lists the names and guesses the one meant."""
    if name in table:
        return table[name]
    small = {key.lower(): key for key in table}
    close = difflib.get_close_matches(str(name).lower(), small, n=1, cutoff=0.5)
    hint = f" Did you mean {small[close[0]]!r}?" if close else ""
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


def twin(element: T) -> T:
    """Return an object of the same kind with the same attributes, which are not copied."""
    other = object.__new__(type(element))
    vars(other).update(vars(element))
    return other


def class_labels(y: Array) -> tuple[Array, Array]:
    """Return the sorted classes and the class index of each row, or an error if y has no classes.

    Labels of mixed types cannot be sorted; that is said before anything else stumbles over it.
    """
    kinds = {type(label).__name__ for label in y} if y.dtype == object else set()
    if len(kinds) > 1:
        raise ValueError(
            f"The labels mix types ({', '.join(sorted(kinds))}): make them all strings or all "
            f"numbers."
        )
    if y.ndim != 1 or y.dtype.kind not in "biuUS":  # the others are always classes
        check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    return classes, labels.ravel()


def class_indices(y: Any, classes: Array) -> Array:
    """Return the place of each label among the classes, or name one that is not there."""
    y = np.asarray(y)
    known, labels = np.isin(y, classes), np.searchsorted(classes, y)
    if not known.all():
        raise ValueError(
            f"The label {y[~known].tolist()[0]!r} is not one of the classes of the classifier."
        )
    return labels


def require_classes(classes: Array, labels: Array, weight: Array) -> None:
    """Refuse fewer than two classes, and a class without weight."""
    mass, names = np.bincount(labels, weights=weight), classes.tolist()
    if len(mass) < 2:
        raise ValueError(
            f"The labels hold only one class ({names[0]!r}): classification needs at least two "
            f"classes."
        )
    if np.any(mass <= 0):
        raise ValueError(
            f"Every row of class {names[int(np.argmin(mass))]!r} has weight zero: drop those "
            f"rows, or give at least one row of each class a positive weight."
        )


def share(value: Any, name: str) -> float:
    """Return a number strictly between 0 and 1, or raise an error that names the parameter."""
    number = isinstance(value, (int, float, np.integer, np.floating))
    if isinstance(value, bool) or not number or not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, got {value!r}.")
    return float(value)


def same_length(one: Any, other: Any, names: tuple[str, str]) -> None:
    """Raise an error that names two arrays unless they have as many rows."""
    if len(one) != len(other):
        raise ValueError(f"{names[0]} has {len(one)} rows, but {names[1]} has {len(other)}.")
