"""Decoders that know which machine to trust: [LZ05], for any code.

Column s answers with the soft decision y_s = sign(f_s) (1 - exp(-|f_s|)) (Eq. 13), weighted by the
reliability lambda_s of its machine, and the weighted decisions are decoded by the linear loss:
the class with the largest sum_s m_qs lambda_s y_s wins. For one-against-all that sum is
2 lambda_q y_q plus a term common to all classes, which is Eq. 14.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from outcode import losses
from outcode._checks import Array, lookup
from outcode.capabilities import HasKernel, HasNorms, HasObjective, require
from outcode.decoders.common import Decoder, Sides, total_loss
from outcode.decoders.neighbours import TIE, InputSpace, KernelSpace, Space, training_rows
from outcode.dichotomies import own_entries
from outcode.formula import FormulaError, floats, symbolic
from outcode.parallel import single_blas, thread_map
from outcode.saved import Part, Whole, reals, signs
from outcode.scores import put_ahead
from outcode.solvers.svm.loops import compiled
from outcode.training import Training

#: Values of k tried when none is given.
NEIGHBOURS = (1, 3, 5, 9, 15, 25)


class Reliability(Decoder):
    """Weight each column's soft decision by how far its machine can be trusted."""

    def reliabilities(self, margins: Array, X: Any = None) -> Array:
        """Return lambda, (n_samples, n_dichotomies)."""
        raise NotImplementedError(f"{type(self).__name__} must define reliabilities()")

    def scores(self, margins: Array, X: Any = None) -> Array:
        """Return sum_s m_qs lambda_s y_s, [LZ05] Eq. 13-14."""
        margins = floats(margins)
        return _linear_scores(self._weighted(margins, X), margins, self.code_)

    def best(self, margins: Array, X: Any = None) -> Array:
        """Return the class with the largest score, among equals the one with larger margins."""
        margins = floats(margins)
        with single_blas():
            return _winner(self._weighted(margins, X), margins, self.code_)

    def _weighted(self, margins: Array, X: Any) -> Array:
        return self.reliabilities(margins, X) * soft_decisions(margins)

    def terms(self, margins: Array, X: Any = None) -> Array:
        """Return what each column adds to each score."""
        return self._weighted(floats(margins), X)[:, None, :] * self.code_


class StaticReliability(Reliability):
    """Weight each machine by its objective, the same for every row.

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

    saved = {**Decoder.saved, "reliabilities_": reals("n_dichotomies", low=0.0, high=1.0)}

    def fit(self, training: Training) -> StaticReliability:
        super().fit(training)
        require(training.machine, HasObjective, type(self).__name__)
        self.reliabilities_ = np.exp(-training.machine.objective_ / box_sums(training))
        return self

    def reliabilities(self, margins: Array, X: Any = None) -> Array:
        """Return ``reliabilities_`` for every row."""
        return np.broadcast_to(self.reliabilities_, margins.shape)


class DynamicReliability(Reliability):
    """Weight each machine by its losses on near training rows of the side that it predicts.

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

    saved = {
        **Decoder.saved,
        "k_": Whole(1),
        "norm_part_": reals("n_dichotomies", low=0.0),
        "weight_": reals("n_neighbours", low=1e-300),
        "side_": signs("n_neighbours", "n_dichotomies"),
        "hinge_": reals("n_neighbours", "n_dichotomies", low=0.0),
        "search_": Part(("space",)),
    }
    looks_at_rows = True

    def __init__(self, k: int | None = None, space: str = "input") -> None:
        self.k = k
        self.space = space

    def fit(self, training: Training) -> DynamicReliability:
        super().fit(training)
        machine = training.machine
        require(machine, HasNorms, type(self).__name__)
        _check_count(self.k)
        kept = np.flatnonzero(training.sample_weight > 0)
        self.search_ = lookup(SPACES, self.space, "space")(training, kept)
        self.weight_ = training.sample_weight[kept]
        targets = training.code[training.labels[kept]].astype(np.float64)
        margins = np.ascontiguousarray(training.margins[kept])
        self.side_ = np.where(targets != 0, side(margins), 0).astype(np.int8)
        self.hinge_ = losses.hinge(targets * margins)
        self.norm_part_ = machine.norm2_ / (2.0 * box_sums(training))
        self.errors_ = self._out_of_fold_errors(training, kept) if self.k is None else {}
        self.k_ = _first_smallest(self.errors_) if self.k is None else int(self.k)
        return self

    def reliabilities(self, margins: Array, X: Any = None) -> Array:
        """Return lambda of every row and column: why a class lost. [LZ05] Eq. 12"""
        if symbolic(margins):
            raise FormulaError("it looks for the training rows nearest to each row: use 'srm'")
        margins = np.asarray(margins, dtype=np.float64)
        if X is None:
            raise ValueError(
                "DynamicReliability looks at the neighbours of each row: give the rows of the "
                "margins, X."
            )
        if X.shape[0] != len(margins):
            raise ValueError(f"There are {len(margins)} rows of margins but {X.shape[0]} of X.")
        count, out = lightest(self.weight_, self.k_), np.empty(margins.shape)

        def piece(cut: slice) -> None:
            neighbours = self.search_.nearest(X[cut], count)
            out[cut] = self._local(margins[cut], neighbours, self.k_)

        thread_map(piece, self.search_.batches(len(margins), count))
        return out

    def best(self, margins: Array, X: Any = None) -> Array:
        """Return the class with the largest score; neighbours are asked only where they matter.

        One against all, a row with a single positive margin is of that class however far each
        machine is trusted: lambda_s y_s > 0 there alone (Eq. 14).
        """
        k = len(self.code_)
        if X is None or not np.array_equal(self.code_, 2 * np.eye(k) - 1):
            return super().best(margins, X)
        winner = margins.argmax(axis=1)
        open_ = np.flatnonzero((margins > 0).sum(axis=1) != 1)
        if len(open_):
            winner[open_] = super().best(margins[open_], X[open_])
        return winner

    def unpack(self, values: dict[str, Any]) -> None:
        super().unpack(values)
        self.errors_ = {}
        if self.search_.size != len(self.weight_):
            raise ValueError("there are not as many neighbours as weights")

    def _local(self, margins: Array, neighbours: Array, k: int) -> Array:
        """Return Eq. 12 from the (n_samples, count) nearest rows, the nearest first."""
        mass, mean = _masses(self.weight_[neighbours], k), np.empty(margins.shape)
        _mean_hinges(side(margins), neighbours, mass, self.side_, self.hinge_, mean)
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
        count = min(count, len(kept) - 1)

        def piece(cut: slice) -> Array:
            nearest = self.search_.nearest_training(training, kept[cut], count + 1)
            return _without(nearest, np.arange(len(kept))[cut])

        return np.concatenate(thread_map(piece, self.search_.batches(len(kept), count + 1)))


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
        scores = -total_loss(losses.linear, weighted, Sides.of(code))
        winner = _winner(weighted, margins, code)
    return put_ahead(scores, winner)


def _winner(weighted: Array, margins: Array, code: Array) -> Array:
    """Return the class with the largest sum; among equals the largest sum of margins."""
    own = own_entries(code)
    sums, size = weighted @ own.T, np.abs(weighted) @ np.abs(own).T
    slack = np.finfo(np.float64).eps * np.count_nonzero(own, axis=1).max() * size
    equal = sums + slack >= (sums - slack).max(axis=1, keepdims=True)
    return np.where(equal, margins @ own.T, -np.inf).argmax(axis=1)


def lightest(weight: Array, k: int) -> int:
    """Return how many rows always weigh k together: k itself when every weight is 1."""
    enough = int(np.searchsorted(np.cumsum(np.sort(weight)), k * (1.0 - TIE)))
    return min(enough + 1, len(weight))


def _masses(weight: Array, k: int) -> Array:
    """Return what each row counts for, in order, until k is full."""
    before = np.cumsum(weight, axis=1) - weight
    return np.clip(k - before, 0.0, weight)


@compiled
def _mean_hinges(
    sides: Any, neighbours: Any, mass: Any, side_of: Any, hinge: Any, out: Any
) -> None:
    """Write the mean loss of the neighbours on the row's side, 0 of none. [LZ05] Eq. 12"""
    n_samples, n_columns = out.shape
    k_x = np.empty(n_columns)
    for i in range(n_samples):
        total, own = out[i], sides[i]
        total[:] = 0.0
        k_x[:] = 0.0
        for j in range(neighbours.shape[1]):
            row = neighbours[i, j]
            for s in range(n_columns):
                share = mass[i, j] if side_of[row, s] == own[s] else 0.0
                k_x[s] += share
                total[s] += share * hinge[row, s]
        for s in range(n_columns):
            total[s] = total[s] / k_x[s] if k_x[s] > 0.0 else 0.0


def _without(neighbours: Array, own: Array) -> Array:
    """Return the neighbours of each row but the row itself, one fewer."""
    keep = neighbours != own[:, None]
    keep[keep.all(axis=1), -1] = False
    return neighbours[keep].reshape(len(neighbours), -1)


def _input_space(training: Training, kept: Array) -> Space:
    if training.machine.kernel_.given:
        raise ValueError(
            "A precomputed kernel leaves no rows whose distance in the input space could be "
            "measured: use DynamicReliability(space='kernel')."
        )
    return InputSpace(training_rows(training)[kept])


def _kernel_space(training: Training, kept: Array) -> Space:
    require(training.machine, HasKernel, "DynamicReliability(space='kernel')")
    kernel = training.machine.kernel_
    if kernel.as_near and not kernel.scales:
        return InputSpace(training_rows(training)[kept])
    return KernelSpace(training, kept)


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
