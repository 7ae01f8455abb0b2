"""What every decoder shares: what it answers, and sums of losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches

from outcode import losses
from outcode._checks import Array, lookup, twin
from outcode.formula import dense, symbolic
from outcode.parallel import single_blas
from outcode.saved import Kind, Saved, signs
from outcode.solvers.store import cuts
from outcode.training import PathTrainings, Training

#: Margins beyond this would overflow an exponential: sums are then taken in log form.
EXP_LIMIT = 300.0
#: What decoders work out from their code, and do not carry along.
DERIVED = {"_sides", "_opposed"}
#: Codes with a larger share of zeros are multiplied without them.
MANY_ZEROS = 0.75


class Decoder(Saved, BaseEstimator):
    """Base class of decoders: turns the margins of a row into class scores.

    ``monotone`` says whether its scores are -sum_s L_s(m_qs f_s), the same non-increasing L_s for
    every class: what the leave-one-out bounds ask for. Folds are held out for it until ``enough``
    samples have been. ``looks_at_rows`` says whether it compares a row with the training rows.
    A class that learns nothing but the code and reads nothing but margins says
    ``best_of_each = Decoder.best_by_code``, and so decodes many trainings at once.

    Examples
    --------
    >>> class Largest(Decoder):
    ...     def scores(self, margins, X=None):
    ...         return margins @ self.code_.T
    >>> decoder = Largest()
    >>> decoder.code_ = np.array([[1, -1], [-1, 1]])
    >>> decoder.best(np.array([[0.5, -1.0], [-2.0, 3.0]])).tolist()
    [0, 1]
    """

    room = "decoder"
    saved: ClassVar[Mapping[str, Kind]] = {"code_": signs("n_classes", "n_dichotomies")}
    monotone: bool = False
    looks_at_rows: bool = False
    enough: ClassVar[float] = np.inf

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "fit" in vars(cls) and "best_of_each" not in vars(cls):  # what it learns is its own
            cls.best_of_each = Decoder.best_of_each  # type: ignore[method-assign]

    def fit(self, training: Training) -> Any:
        """Learn what the decoder needs; the code at least."""
        self.code_ = training.code
        return self

    @property
    def sides(self) -> Sides:
        """The code as matrices, made when first asked for."""
        known = vars(self).get("_sides")
        if known is None or known.code is not self.code_:
            known = self._sides = Sides.of(self.code_, self.entry_weights)
        return known

    @property
    def entry_weights(self) -> Array | None:
        """What each entry of the code counts in sums, (n_classes, n_dichotomies); None: one."""
        return None

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in DERIVED}

    def scores(self, margins: Array, X: Any = None) -> Array:
        """Return the (n_samples, n_classes) scores."""
        raise NotImplementedError(f"{type(self).__name__} must define scores()")

    def best(self, margins: Array, X: Any = None) -> Array:
        """Return the class with the largest score, (n_samples,), the first of equals."""
        return np.argmax(self.scores(margins, X), axis=1)

    def best_of_each(
        self, trainings: PathTrainings, margins: Sequence[Array], X: Sequence[Any]
    ) -> list[Array]:
        """Return the class of some rows under a decoder fitted on each training.

        ``margins`` and ``X`` are those of the rows of each training.
        """
        each = zip(trainings.each(self.enough), margins, X, strict=True)
        return [twin(self).fit(training).best(f, rows) for training, f, rows in each]

    def best_by_code(
        self, trainings: PathTrainings, margins: Sequence[Array], X: Sequence[Any]
    ) -> list[Array]:
        """Return what :meth:`best_of_each` does, for a decoder that learns nothing but the code."""
        fitted = twin(self).fit(trainings.bare)
        return apart(fitted.best(np.concatenate(margins)), margins)


def apart(values: Array, like: Sequence[Array]) -> list[Array]:
    """Cut values of the rows of several arrays, one after the other, at the ends of these."""
    return np.split(values, np.cumsum([len(part) for part in like])[:-1])


@dataclass(frozen=True)
class Sides:
    """The classes on each side of every column, as matrices to multiply losses with.

    Codes with many zeros are kept without them.

    Parameters
    ----------
    code : ndarray of shape (n_classes, n_dichotomies)
        Entries -1, 0 and +1.
    plus : ndarray or sparse array of shape (n_classes, n_dichotomies)
        The weight of an entry where the code is +1, 0 elsewhere.
    minus : ndarray or sparse array of shape (n_classes, n_dichotomies)
        The weight of an entry where the code is -1, 0 elsewhere.
    zeros : ndarray of shape (n_classes,)
        Sum of the weights of each class where the code is 0.

    Examples
    --------
    >>> sides = Sides.of(np.array([[1, 1, 0], [-1, 0, 1], [0, -1, -1]]))
    >>> sides.zeros.tolist()
    [1, 1, 1]
    """

    code: Array
    plus: Any
    minus: Any
    zeros: Array

    @classmethod
    def of(cls, code: Array, weight: Array | None = None) -> Sides:
        plus, minus, zero = (code == sign for sign in (1, -1, 0))
        few = np.count_nonzero(zero) > MANY_ZEROS * code.size
        kept: Callable[..., Any] = _entries if few else _full
        zeros = zero.sum(axis=1) if weight is None else (weight * zero).sum(axis=1)
        return cls(code, kept(plus, weight), kept(minus, weight), zeros)

    @cached_property
    def signed(self) -> Any:
        """The weighted code, ``plus - minus``."""
        return self.plus - self.minus

    def total(self, plus: Array, minus: Array) -> Array:
        """Return the sums over columns of values that count where the code is +1, and -1."""
        return times(self.plus, plus) + times(self.minus, minus)


def _full(mask: Array, weight: Array | None) -> Array:
    """Return the weights of some entries, 0 elsewhere."""
    return mask.astype(np.float64) if weight is None else weight * mask


def _entries(mask: Array, weight: Array | None) -> Any:
    """Return :func:`_full` as a sparse matrix."""
    row, column = np.nonzero(mask)
    values = np.ones(len(row)) if weight is None else weight[row, column]
    starts = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    return sparse.csr_array((values, column, starts), shape=mask.shape)


def times(matrix: Any, values: Any) -> Any:
    """Return values @ matrix', the matrix with its zeros or without."""
    return values @ dense(matrix).T if symbolic(values) else np.asarray(matrix @ values.T).T


def total_loss(loss: losses.Loss, margins: Array, sides: Sides) -> Array:
    """Return sum_s w_qs L(m_qs f_s) for every row and class, in two products.

    An entry m_qs = 0 contributes L(0).

    Parameters
    ----------
    loss : callable
        L, a function of :mod:`outcode.losses`.
    margins : ndarray of shape (n_samples, n_dichotomies)
        The margins f of the machines.
    sides : Sides
        The code, its entries weighted by w.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The sum for every row and class.

    Examples
    --------
    >>> sides = Sides.of(np.array([[1, 1], [-1, 0]]))
    >>> total_loss(losses.hinge, np.array([[0.5, 2.0]]), sides).tolist()
    [[0.5, 2.5]]
    """
    constant = sides.zeros * loss(np.zeros(1))[0]

    def block(f: Any) -> Any:
        return sides.total(loss(f), loss(-f)) + constant

    with single_blas():
        return in_blocks(block, margins, len(constant))


def in_blocks(function: Callable[[Any], Any], margins: Any, width: int) -> Any:
    """Return a function of rows, (n_samples, width), computed in blocks that fit in the cache."""
    if symbolic(margins):
        return function(margins)
    out = np.empty((len(margins), width))
    for batch in cuts(len(margins), max(1, 2**17 // max(1, margins.shape[1]))):
        out[batch] = function(margins[batch])
    return out


def loss_terms(
    loss: losses.Loss, margins: Array, code: Array, weight: Array | None = None
) -> Array:
    """Return -w_qs L(m_qs f_s), (n_samples, n_classes, n_dichotomies), whose sums are scores."""
    terms = -loss(np.asarray(margins, dtype=np.float64)[:, None, :] * code)
    return terms if weight is None else terms * weight


def loss_slopes(name: str, margins: Array, code: Array, weight: Array | None = None) -> Array:
    """Return the derivatives of :func:`loss_terms` by the margins, for a loss by its name."""
    slopes = -code * lookup(losses.SLOPES, name, "loss")(margins[:, None, :] * code)
    return slopes if weight is None else slopes * weight


def log_total_exponential(margins: Array, sides: Sides, weight: Array | None = None) -> Array:
    """Return log sum_s w_qs exp(-m_qs f_s), exact for margins of any size.

    Parameters
    ----------
    margins : ndarray of shape (n_samples, n_dichotomies)
        The margins f of the machines.
    sides : Sides
        The code, its entries weighted by ``weight``.
    weight : ndarray of shape (n_classes, n_dichotomies) or None, default=None
        The weights w of the entries; None is 1 each.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The logarithm of the sum for every row and class.

    Examples
    --------
    >>> sides = Sides.of(np.array([[1, 1], [-1, -1]]))
    >>> log_total_exponential(np.array([[1000.0, 1000.0]]), sides).round(2).tolist()
    [[-999.31, 1000.69]]
    """
    code = sides.code
    if symbolic(margins):
        ones = np.ones(code.shape)
        return _log_sum(-margins[:, None, :] * code, ones if weight is None else weight)
    if not margins.size or np.abs(margins).max() <= EXP_LIMIT:
        return np.log(total_loss(losses.exponential, margins, sides))
    weight = np.ones(code.shape) if weight is None else weight
    out = np.empty((len(margins), len(code)))
    for batch in gen_batches(len(margins), max(1, 2**20 // code.size)):
        exponent = -margins[batch, None, :] * code
        out[batch] = _log_sum(exponent, weight)
    return out


def _log_sum(exponent: Any, weight: Array) -> Any:
    """Return log sum_s w_qs exp(e_qs) over the last axis, the largest with a weight taken out."""
    exponent = np.where(weight > 0, exponent, -1e300)
    largest = exponent.max(axis=2, keepdims=True)
    total = (weight * np.exp(exponent - largest)).sum(axis=2)
    return np.log(total) + largest[:, :, 0]
