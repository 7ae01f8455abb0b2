"""Decoders that know which machine to trust: [LZ05], for any code.

Column s answers with the soft decision y_s = sign(f_s) (1 - exp(-|f_s|)) (Eq. 13), weighted by the
reliability lambda_s of its machine, and the weighted decisions are decoded by the linear loss:
the class with the largest sum_s m_qs lambda_s y_s wins. For one-against-all that sum is
2 lambda_q y_q plus a term common to all classes, which is Eq. 14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms

from outcode import losses
from outcode._checks import Array, lookup
from outcode.decoders.common import Decoder, Training, total_loss
from outcode.parallel import single_blas

#: Values of k tried when none is given.
NEIGHBOURS = (1, 3, 5, 9, 15, 25)
#: Distances closer than this share of their size are equal: what rounding leaves of a tie.
TIE = 1e-12
#: Numbers a batch of test rows may hold.
BATCH = 2**22
#: Kernels whose feature space orders neighbours as the input space does.
EUCLIDEAN = frozenset({"linear", "rbf"})


class Reliability(Decoder):
    """Weight each column's soft decision by how far its machine can be trusted."""

    def reliabilities(self, margins: Array, X: Any = None) -> Array:
        """Return lambda, (n_samples, n_dichotomies)."""
        raise NotImplementedError(f"{type(self).__name__} must define reliabilities()")

    def scores(self, margins: Array, X: Any = None) -> Array:
        """Return sum_s m_qs lambda_s y_s, [LZ05] Eq. 13-14."""
        margins = np.asarray(margins, dtype=np.float64)
        weighted = self.reliabilities(margins, X) * soft_decisions(margins)
        return _linear_scores(weighted, margins, self.code_)


class StaticReliability(Reliability):
    """Trust a machine by its objective, the same for every row.

    lambda_s = exp(-(|w_s|^2 / 2 + sum_i C_i (1 - t_is f_s(x_i))_+) / sigma_s), [LZ05] Eq. 6-8,
    with sigma_s = sum_i C_i over the rows column s uses: C N when no row has a weight, and a row
    of weight 2 is two rows. A converged machine with a free bias has lambda_s >= exp(-2 N_min / N),
    N_min being the rows of its smaller side: less proves a solver that stopped early. When the
    bias is in the kernel, |w_s|^2 includes it and the least is exp(-(2 N_min + 1 / (2 C)) / N).

    Attributes
    ----------
    reliabilities_ : (n_dichotomies,) lambda

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "svm", StaticReliability()).fit(X, y)
    >>> clf.decoder_.reliabilities_.round(2).tolist()  # versicolor has a class on either side
    [0.97, 0.75, 0.8]
    """

    def fit(self, training: Training) -> StaticReliability:
        super().fit(training)
        _require(training.machine, type(self).__name__, "objective_", "C")
        self.reliabilities_ = np.exp(-training.machine.objective_ / box_sums(training))
        return self

    def reliabilities(self, margins: Array, X: Any = None) -> Array:
        """Return ``reliabilities_`` for every row."""
        return np.tile(self.reliabilities_, (len(margins), 1))


class DynamicReliability(Reliability):
    """Trust a machine by its losses near the row, on the side where it puts the row.

    lambda_s(x) = exp(-(|w_s|^2 / (2 sigma_s) + mean_j (1 - t_js f_s(x_j))_+)), [LZ05] Eq. 9-12,
    where j runs over those of the k training rows nearest to x that machine s puts on the side of
    x (by the sign of its margin, 0 counting as +1, not by the label). The mean of no row is 0.
    sigma_s is that of :class:`StaticReliability`.

    The k nearest rows are the same for all columns; one that column s does not use (target 0) has
    no loss there and is left out of that column's mean. Equal distances go to the lower index.
    Weights are counts: rows are taken until their weights add up to k, the last one in part, so a
    row of weight 2 is two rows. A k beyond the training rows takes them all.

    Parameters
    ----------
    k : int or None
        Neighbours. None takes the value of 1, 3, 5, 9, 15, 25 with the fewest errors on the
        training rows, each judged by margins of machines that were trained without it (3 folds)
        and by neighbours other than itself; the smallest of equals.
    space : "input" or "kernel"
        Where neighbours are near: |x - z|, or the distance in the kernel's feature space,
        K(x, x) + K(z, z) - 2 K(x, z).

    Attributes
    ----------
    k_ : int
    errors_ : dict, the out-of-fold error of every k tried; empty when k is given

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "svm", DynamicReliability(k=5)).fit(X, y)
    >>> clf.decoder_.reliabilities(clf.margins(X[:2]), X[:2]).shape
    (2, 3)
    """

    def __init__(self, k: int | None = None, space: str = "input") -> None:
        self.k = k
        self.space = space

    def fit(self, training: Training) -> DynamicReliability:
        super().fit(training)
        machine = training.machine
        _require(machine, type(self).__name__, "norm2_", "dual_coef_", "training_margins_", "C")
        _check_count(self.k)
        kept = np.flatnonzero(training.sample_weight > 0)
        self.search_ = lookup(SPACES, self.space, "space")(training, kept)
        self.weight_ = training.sample_weight[kept]
        targets = training.code[training.labels[kept]].astype(np.float64)
        margins = np.ascontiguousarray(training.margins[kept])
        self.side_ = np.where(targets != 0, side(margins), 0)
        self.hinge_ = losses.hinge(targets * margins)
        self.norm_part_ = machine.norm2_ / (2.0 * box_sums(training))
        self.errors_ = self._out_of_fold_errors(training, kept) if self.k is None else {}
        self.k_ = _first_smallest(self.errors_) if self.k is None else int(self.k)
        return self

    def reliabilities(self, margins: Array, X: Any = None) -> Array:
        """Return lambda of every row and column: why a class lost. [LZ05] Eq. 12"""
        margins = np.asarray(margins, dtype=np.float64)
        if X is None:
            raise ValueError(
                "DynamicReliability looks at the neighbours of each row: give the rows of the "
                "margins, X."
            )
        if X.shape[0] != len(margins):
            raise ValueError(f"There are {len(margins)} rows of margins but {X.shape[0]} of X.")
        count, out = lightest(self.weight_, self.k_), np.empty(margins.shape)
        for cut in self.search_.batches(len(margins), count):
            neighbours = self.search_.nearest(X[cut], count)
            out[cut] = self._local(margins[cut], neighbours, self.k_)
        return out

    def _local(self, margins: Array, neighbours: Array, k: int) -> Array:
        """Return Eq. 12 from the (n_samples, count) nearest rows, the nearest first."""
        sides, mass = side(margins), _masses(self.weight_[neighbours], k)
        total, k_x = np.zeros(margins.shape), np.zeros(margins.shape)
        for row, weight in zip(neighbours.T, mass.T, strict=True):
            share = weight[:, None] * (self.side_[row] == sides)
            k_x += share
            total += share * self.hinge_[row]
        mean = np.divide(total, k_x, out=np.zeros(margins.shape), where=k_x > 0)
        return np.exp(-(self.norm_part_ + mean))

    def _out_of_fold_errors(self, training: Training, kept: Array) -> dict[int, float]:
        """Return the weighted error of each k under held-out margins."""
        margins, labels = training.crossfit(3)[kept], training.labels[kept]
        tried = [k for k in NEIGHBOURS if k < len(kept)] or [1]
        neighbours = self._other_rows(training, kept, lightest(self.weight_, tried[-1]))
        soft, errors = soft_decisions(margins), {}
        for k in tried:
            weighted = self._local(margins, neighbours, k) * soft
            wrong = _linear_scores(weighted, margins, self.code_).argmax(axis=1) != labels
            errors[k] = float(self.weight_[wrong].sum() / self.weight_.sum())
        return errors

    def _other_rows(self, training: Training, kept: Array, count: int) -> Array:
        """Return the nearest training rows of every training row but itself."""
        count, found = min(count, len(kept) - 1), []
        for cut in self.search_.batches(len(kept), count + 1):
            rows = self.search_.ready_training(training, kept[cut])
            nearest = self.search_.settle(rows, count + 1, _first_try(count + 1))
            found.append(_without(nearest, np.arange(len(kept))[cut]))
        return np.concatenate(found)


def soft_decisions(margins: Array) -> Array:
    """Return sign(f) (1 - exp(-|f|)), [LZ05] Eq. 13, to full precision near 0.

    >>> soft_decisions(np.array([-1e-20, 0.0, 1e3]))
    array([-1.e-20,  0.e+00,  1.e+00])
    """
    return np.copysign(-np.expm1(-np.abs(margins)), margins)


def side(margins: Array) -> Array:
    """Return the class C(x) a machine gives, +1 or -1; a margin of 0 is +1. [LZ05] Eq. 9"""
    return np.where(margins >= 0, 1, -1).astype(np.int8)


def box_sums(training: Training) -> Array:
    """Return sigma_s = sum_i C_i over the rows that column s uses; C N without weights."""
    mass = np.bincount(training.labels, training.sample_weight, minlength=len(training.code))
    return training.machine.C * (mass @ (training.code != 0))


def _linear_scores(weighted: Array, margins: Array, code: Array) -> Array:
    """Return the scores of linear loss-based decoding, the right class on top.

    Soft decisions round to 1 beyond a margin of 37. Sums that are equal up to rounding are told
    apart by the margins themselves, which for equal reliabilities is the conventional rule
    ([LZ05] Eq. 15).
    """
    with single_blas():
        scores = -total_loss(losses.linear, weighted, code)
        winner = _winner(weighted, margins, code)
    rows = np.flatnonzero(scores.argmax(axis=1) != winner)
    scores[rows, winner[rows]] = np.nextafter(scores[rows].max(axis=1), np.inf)
    return scores


def _winner(weighted: Array, margins: Array, code: Array) -> Array:
    """Return the class with the largest sum; among equals the largest sum of margins."""
    own = _distinct(code)
    sums, size = weighted @ own.T, np.abs(weighted) @ np.abs(own).T
    slack = np.finfo(np.float64).eps * np.count_nonzero(own, axis=1).max() * size
    equal = sums + slack >= (sums - slack).max(axis=1, keepdims=True)
    return np.where(equal, margins @ own.T, -np.inf).argmax(axis=1)


def _distinct(code: Array) -> Array:
    """Return the code less each column's commonest entry, which adds the same to all classes.

    For one-against-all this is twice the identity: a sum then is one term and keeps its digits.
    """
    signs = np.array([-1, 0, 1])
    commonest = signs[(code[:, :, None] == signs).sum(axis=0).argmax(axis=1)]
    return (code - commonest).astype(np.float64)


def lightest(weight: Array, k: int) -> int:
    """Return how many rows always weigh k together: k itself when every weight is 1."""
    enough = int(np.searchsorted(np.cumsum(np.sort(weight)), k * (1.0 - TIE)))
    return min(enough + 1, len(weight))


def _masses(weight: Array, k: int) -> Array:
    """Return what each row counts for, in order, until k is full."""
    before = np.cumsum(weight, axis=1) - weight
    return np.clip(k - before, 0.0, weight)


def _without(neighbours: Array, own: Array) -> Array:
    """Return the neighbours of each row but the row itself, one fewer."""
    keep = neighbours != own[:, None]
    keep[keep.all(axis=1), -1] = False
    return neighbours[keep].reshape(len(neighbours), -1)


class Space:
    """Where neighbours are near: the exact nearest of ``size`` training rows, ties settled.

    A space makes rows ready, and proposes candidates whose distances it has measured; more are
    asked for until no row left out can be as near as the last one wanted.
    """

    size: int

    def ready(self, X: Any) -> Any:
        """Return test rows as ``candidates`` takes them."""
        raise NotImplementedError(f"{type(self).__name__} must define ready()")

    def ready_training(self, training: Training, index: Array) -> Any:
        """Return some training rows as ``candidates`` takes them."""
        return self.ready(training.X[index])

    def candidates(self, rows: Any, tried: int) -> tuple[Array, Array, Array, Array]:
        """Return distances and indices (n_samples, tried), rounding, and a bound for the rest."""
        raise NotImplementedError(f"{type(self).__name__} must define candidates()")

    def numbers(self, tried: int) -> int:
        """Return how many numbers one test row needs at a time."""
        raise NotImplementedError(f"{type(self).__name__} must define numbers()")

    def batches(self, n_samples: int, count: int) -> Iterator[slice]:
        """Cut test rows so that memory stays bounded."""
        return _batches(n_samples, self.numbers(_first_try(count)))

    def nearest(self, X: Any, count: int) -> Array:
        """Return the ``count`` nearest training rows of every row, the nearest first."""
        return self.settle(self.ready(X), count, _first_try(count))

    def settle(self, rows: Any, count: int, tried: int) -> Array:
        """Return the ``count`` nearest of ready rows, more candidates tried until they are sure."""
        tried = min(tried, self.size)
        out = np.empty((rows.shape[0], count), dtype=np.intp)
        for cut in _batches(rows.shape[0], self.numbers(tried)):
            out[cut], settled = _in_order(*self.candidates(rows[cut], tried), count, self.size)
            left = cut.start + np.flatnonzero(~settled)
            if tried < self.size and len(left):
                few = len(left) * self.numbers(self.size) <= BATCH
                out[left] = self.settle(rows[left], count, self.size if few else 2 * tried)
        return out


class InputSpace(Space):
    """|x - z|^2: candidates from scikit-learn, measured again by differences."""

    def __init__(self, X: Any) -> None:
        self.size = X.shape[0]
        self.sparse = sparse.issparse(X)
        self.origin = None if self.sparse else X.mean(axis=0)  # less cancels in |x|^2 - 2 x.z
        self.rows = self.ready(X)
        self.index = NearestNeighbors(algorithm="brute").fit(self.rows)

    def ready(self, X: Any) -> Any:
        if self.sparse:
            return sparse.csr_matrix(X)
        return np.ascontiguousarray((X.toarray() if sparse.issparse(X) else X) - self.origin)

    def numbers(self, tried: int) -> int:
        return tried * (1 + (self.rows.nnz if self.sparse else self.rows.size) // self.size)

    def candidates(self, rows: Any, tried: int) -> tuple[Array, Array, Array, Array]:
        reported, index = self._propose(rows, tried)
        difference = rows[np.repeat(np.arange(len(index)), tried)] - self.rows[index.ravel()]
        distance = row_norms(difference, squared=True).reshape(index.shape)
        # |z|^2 <= 2 |x|^2 + 2 |x - z|^2 bounds what scikit-learn's |x|^2 + |z|^2 - 2 x.z rounds off
        bound = reported[:, -1] ** 2 * (1.0 - TIE) - TIE * row_norms(rows, squared=True)
        return distance, index, TIE * distance, bound

    def _propose(self, rows: Any, tried: int) -> tuple[Array, Array]:
        if tried < self.size:
            return self.index.kneighbors(rows, tried)
        everything = np.tile(np.arange(self.size), (rows.shape[0], 1))
        return np.full((rows.shape[0], 1), np.inf), everything


class KernelSpace(Space):
    """K(x, x) + K(z, z) - 2 K(x, z), less its first term, which is the same for all z."""

    def __init__(self, training: Training, kept: Array) -> None:
        machine = training.machine
        self.size, self.kept = len(kept), kept
        self.diagonal = machine.gram_diagonal_[kept]
        self.kernel = machine.kernel_
        if self.kernel is not None:
            self.origin = machine.origin_
            self.rows = self.kernel.prepare(_training_rows(training)[kept], self.origin)

    def ready(self, X: Any) -> Any:
        if self.kernel is None:
            return np.asarray(X, dtype=np.float64)[:, self.kept]
        return np.asarray(self.kernel.block(self.kernel.prepare(X, self.origin), self.rows))

    def ready_training(self, training: Training, index: Array) -> Any:
        if training.gram is None:
            return super().ready_training(training, index)
        return training.gram.between(index, self.kept).astype(np.float64)

    def numbers(self, tried: int) -> int:
        return 2 * self.size + tried

    def candidates(self, rows: Any, tried: int) -> tuple[Array, Array, Array, Array]:
        distance = self.diagonal - 2.0 * rows
        index = np.argpartition(distance, tried - 1, axis=1)[:, :tried]
        distance = np.take_along_axis(distance, index, axis=1)
        size = np.abs(self.diagonal[index]) + np.abs(distance - self.diagonal[index])
        return distance, index, TIE * size, distance.max(axis=1)


def _in_order(
    distance: Array, index: Array, rounding: Array, bound: Array, count: int, size: int
) -> tuple[Array, Array]:
    """Return the first ``count`` indices by distance then index, and where they are settled.

    They are when nothing beyond ``bound`` can tie with the last of them.
    """
    order = np.argsort(distance, axis=1)
    distance, index, rounding = (
        np.take_along_axis(array, order, axis=1) for array in (distance, index, rounding)
    )
    group = np.zeros(index.shape, dtype=np.int64)
    np.cumsum(np.diff(distance, axis=1) > rounding[:, 1:], axis=1, out=group[:, 1:])
    wanted = group <= group[:, count - 1 : count]
    end = np.where(wanted, distance + rounding, -np.inf).max(axis=1)
    return np.sort(group * size + index, axis=1)[:, :count] % size, end < bound


def _first_try(count: int) -> int:
    """Return how many candidates settle ``count`` neighbours most of the time."""
    return 3 * count + 12


def _batches(n_samples: int, numbers: int) -> Iterator[slice]:
    return gen_batches(n_samples, max(1, BATCH // numbers))


def _input_space(training: Training, kept: Array) -> Space:
    if getattr(training.machine, "kernel", None) == "precomputed":
        raise ValueError(
            "A precomputed kernel leaves no rows whose distance in the input space could be "
            "measured: use DynamicReliability(space='kernel')."
        )
    return InputSpace(_training_rows(training)[kept])


def _kernel_space(training: Training, kept: Array) -> Space:
    machine = training.machine
    _require(machine, "DynamicReliability(space='kernel')", "kernel_", "gram_diagonal_")
    if str(machine.kernel) in EUCLIDEAN:
        return InputSpace(_training_rows(training)[kept])
    return KernelSpace(training, kept)


def _training_rows(training: Training) -> Any:
    if training.X is None:
        raise ValueError(
            "DynamicReliability looks for neighbours among the training rows: give them, "
            "with_decoder(decoder, X=X_train)."
        )
    return training.X


def _require(machine: Any, decoder: str, *names: str) -> None:
    missing = [name for name in names if not hasattr(machine, name)]
    if missing:
        owner = type(getattr(machine, "estimator", machine)).__name__
        raise ValueError(
            f"{decoder} measures how well a support vector machine solved its problem, but "
            f"{owner} has no {', '.join(missing)}: use machine='svm', or another decoder."
        )


def _check_count(k: Any) -> None:
    if k is not None and (not isinstance(k, Integral) or isinstance(k, bool) or k < 1):
        raise ValueError(f"k must be a whole number of neighbours, at least 1, or None; got {k!r}.")


def _first_smallest(errors: dict[int, float]) -> int:
    return min(errors, key=lambda k: (errors[k], k))


SPACES: dict[str, Callable[[Training, Array], Space]] = {
    "input": _input_space,
    "kernel": _kernel_space,
}

NAMES: dict[str, Callable[[], Decoder]] = {
    "srm": StaticReliability,
    "drm": DynamicReliability,
}
