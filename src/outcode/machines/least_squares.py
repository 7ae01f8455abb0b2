"""Least-squares machines: every column from one factorisation, with its exact leave-one-out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, lapack
from sklearn.exceptions import ConvergenceWarning

from outcode import gram as grams
from outcode._checks import Array, lookup, positive, warn
from outcode.dichotomies import equal_columns
from outcode.machines.common import check_signs
from outcode.machines.growing import GrowingMachine
from outcode.machines.kernel import KernelMachine, Task
from outcode.parallel import interruptible, thread_map
from outcode.progress import progress
from outcode.solvers.svm import columns as duals
from outcode.solvers.triangular import inverted, squared_columns

#: A relative residual of the linear system beyond this is said in a warning.
RESIDUAL_LIMIT = 1e-6


@dataclass(eq=False, repr=False)
class LeastSquares(GrowingMachine):
    """Kernel ridge regression on the signs, or the least-squares SVM (Suykens & Vandewalle 1999).

    Column s minimises  1/2 |w_s|^2 + 1/2 sum_i C_i (t_is - f_s(x_i))^2  over its own rows, with
    C_i = C times the weight of row i. With M = K + diag(1 / C_i) its dual variables solve

        M s = t   (bias "none"; "kernel": with K + 1),      [ M  1 ] [ s ]   [ t ]
                                                            [ 1' 0 ] [ b ] = [ 0 ]   (bias "free")

    and with B the matrix of that system the margin of row i under the machine trained without it
    is  t_i - s_i / [B^-1]_ii  (Cawley & Talbot 2004). Columns that use the same rows share one
    Cholesky factorisation, always in float64.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        One of "rbf", "linear", "poly", "laplacian", "exponential", "sigmoid", "precomputed" or a
        function.
    gamma : float, array-like of shape (n_features,) or {"scale", "auto"}, default="scale"
        "scale" (1 / (d var X)), "auto" (1 / d), a positive number or a number >= 0 for each
        feature.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and the sigmoid kernel.
    class_weight : dict, "balanced" or None, default=None
        Weights of the *user's* classes.
    max_memory : float or None, default=None
        Bytes the Gram matrix may take; None is half of what is free.
    dtype : dtype or None, default=None
        Type of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond.
    C : float, default=1.0
        Weight of the squared errors.
    bias : {"kernel", "free", "none"}, default="kernel"
        With "kernel" 1 is added to the kernel; "free" is an unpenalised bias.

    Attributes
    ----------
    dual_coef_ : (n_samples, n_dichotomies), 0 where a row is not used
    bias_, norm2_, objective_ : (n_dichotomies,) bias, squared norm of w (the bias included when it
        is in the kernel), the minimum
    gap_ : (n_dichotomies,) relative residual of the linear system
    training_margins_ : (n_samples, n_dichotomies) margins on the training rows
    loo_margins_ : (n_samples, n_dichotomies) margins of each row under the machines trained
        without it; where a column does not use the row, its training margin
    gram_diagonal_ : (n_samples,) K(x_i, x_i)

    Examples
    --------
    >>> machine = LeastSquares(kernel="linear", C=1.0).fit([[-1.0], [1.0]], [[-1], [1]])
    >>> machine.training_margins_.round(3).ravel().tolist()
    [-0.667, 0.667]
    >>> machine.loo_margins_.round(3).ravel().tolist()
    [0.0, 0.0]
    """

    C: float = field(default=1.0, kw_only=True)
    bias: str = field(default="kernel", kw_only=True)

    left_out = (*KernelMachine.left_out, "loo_margins_")

    def check_memory(self, n: int, targets: Array) -> None:
        """Raise an error if the whole kernel matrix does not fit in memory."""
        grams.require_memory(
            n**2 * self.value_type(n).itemsize,
            self.max_memory,
            f"Least squares needs the whole {n:,} x {n:,} kernel matrix, which",
            "raise max_memory, use fewer rows, or use machine='svm'",
        )

    def train(self, task: Task, start: Any) -> None:
        targets, gram = task.targets, task.gram
        check_signs(targets, task.weight)
        self.dual_coef_ = np.zeros(targets.shape, order="F")
        self.loo_margins_ = np.zeros(targets.shape, order="F")
        self.bias_ = np.zeros(targets.shape[1])
        self.gram_diagonal_ = gram.diagonal[grams.places(gram)]

        def solve(system: _System, rows: Array, columns: Array, t: Array) -> None:
            s, bias = system.solve(t)
            self.dual_coef_[np.ix_(rows, columns)] = s
            self.loo_margins_[np.ix_(rows, columns)] = t - s / system.inverse_diagonal()[:, None]
            self.bias_[columns] = bias + system.shift * s.sum(axis=0)

        box = self._each_system(solve, task)
        self._certify(_products(gram, self.dual_coef_, task.n_jobs), targets, box)
        self.expand(gram, targets)
        _warn_residual(self.gap_)

    def hold_out(self, task: Task, fold: Array) -> Array:
        """Return margins of each row without its fold; nothing is trained again.

        Without the rows F of a fold the dual variables and the bias are
        (s, b) - [B^-1]_.F ([B^-1]_FF)^-1 s_F.
        """
        matrix, place = _whole(task.gram), grams.places(task.gram)
        out = np.empty(task.targets.shape)

        def solve(system: _System, rows: Array, columns: Array, t: Array) -> None:
            s, bias = system.solve(t)
            inverse, border = system.inverse()
            for f in np.unique(fold):
                tested = np.flatnonzero(fold == f)
                left = np.flatnonzero(fold[rows] == f) if f >= 0 else rows[:0]
                change = np.linalg.solve(inverse[np.ix_(left, left)], s[left])
                kept = s - inverse[:, left] @ change
                constant = bias - border[left] @ change + system.shift * kept.sum(axis=0)
                cross = matrix[np.ix_(place[tested], place[rows])]
                out[np.ix_(tested, columns)] = cross @ kept + constant

        self._each_system(solve, task)
        return out

    def _each_system(
        self, solve: Callable[[_System, Array, Array, Array], None], task: Task
    ) -> Array:
        """Factorise once for each set of columns that use the same rows, and hand it over.

        Returns C_i of every row.
        """
        lookup(duals.BIASES, self.bias, "bias")
        box = positive(self.C, "C") * task.weight
        matrix, place = _whole(task.gram), grams.places(task.gram)
        tasks = list(_used_rows(task.targets, box))
        with progress("factorisations", len(tasks), task.verbose) as report:

            def one(item: tuple[Array, Array]) -> None:
                rows, columns = item
                system = _System.of(matrix, place[rows], box[rows], self.bias)
                solve(system, rows, columns, task.targets[np.ix_(rows, columns)].astype(np.float64))
                report.advance()

            thread_map(one, tasks, task.n_jobs)
        return box

    def _certify(self, products: Array, targets: Array, box: Array) -> None:
        """Margins of all rows, and from them the objective and the residual."""
        self.training_margins_ = products + self.bias_
        used = (targets != 0) & (box > 0)[:, None]
        weight = np.where(used, box[:, None], 0.0)
        error = np.where(used, targets - self.training_margins_, 0.0)
        residual = error - np.divide(self.dual_coef_, weight, where=used, out=np.zeros(used.shape))
        self.norm2_ = np.maximum(0.0, (self.dual_coef_ * self._without_free_bias()).sum(axis=0))
        self.objective_ = 0.5 * self.norm2_ + 0.5 * (weight * error**2).sum(axis=0)
        self.gap_ = np.sqrt((residual**2).sum(axis=0) / used.sum(axis=0))
        self.loo_margins_ = np.where(used, self.loo_margins_, self.training_margins_)

    def _without_free_bias(self) -> Array:
        return self.training_margins_ - (self.bias_ if self.bias == "free" else 0.0)


@dataclass(frozen=True)
class _System:
    """M = K + shift + diag(1 / C_i) on the rows of some columns, factorised: M = L L'.

    ``free`` borders it by a row and a column of ones; ``ones`` is M^-1 1.
    """

    lower: Array
    ones: Array
    shift: float
    free: bool

    @classmethod
    def of(cls, matrix: Array, place: Array, box: Array, bias: str) -> _System:
        shift, free = duals.BIASES[bias]
        M = matrix.take(place, axis=0).take(place, axis=1).astype(np.float64, copy=False).T
        M += shift
        M.flat[:: len(M) + 1] += 1.0 / box
        try:
            factor = partial(cholesky, M, lower=True, overwrite_a=True, check_finite=False)
            lower = interruptible(factor, len(M))
        except LinAlgError:
            raise ValueError(
                "The kernel matrix plus diag(1 / C) is not positive definite: use a smaller C, "
                "dtype='float64', or a positive definite kernel."
            ) from None
        return cls(lower, cho_solve((lower, True), np.ones(len(M))), shift, free)

    def solve(self, t: Array) -> tuple[Array, Array]:
        """Return the dual variables and the free bias of each column of ``t``."""
        s = cho_solve((self.lower, True), t, check_finite=False)
        if not self.free:
            return s, np.zeros(t.shape[1])
        bias = s.sum(axis=0) / self.ones.sum()
        return s - np.outer(self.ones, bias), bias

    def inverse_diagonal(self) -> Array:
        """Return [B^-1]_ii of every row: the squared columns of L^-1, less the border's part."""
        diagonal = squared_columns(inverted(self.lower.copy(order="F")))
        return diagonal - self.ones**2 / self.ones.sum() if self.free else diagonal

    def inverse(self) -> tuple[Array, Array]:
        """Return the rows and columns of B^-1 that belong to rows, and its border."""
        inverse, _ = lapack.dpotri(self.lower, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        if not self.free:
            return inverse, np.zeros(len(inverse))
        border = self.ones / self.ones.sum()
        return inverse - np.outer(self.ones, border), border


def _whole(gram: grams.Gram) -> Array:
    if gram.matrix is None:
        raise ValueError(
            "Least squares needs the whole kernel matrix in memory: raise max_memory, use fewer "
            "rows, or use machine='svm'."
        )
    return gram.matrix


def _used_rows(targets: Array, box: Array) -> Iterator[tuple[Array, Array]]:
    """Yield each distinct set of rows that some columns use, and those columns."""
    used = (targets != 0) & (box > 0)[:, None]
    for columns in equal_columns(used):
        yield np.flatnonzero(used[:, columns[0]]), columns


def _products(gram: grams.Gram, coef: Array, n_jobs: int | None) -> Array:
    """Return K @ coef in float64, in the user's order of rows."""
    matrix, place = _whole(gram), grams.places(gram)
    stored, out = np.empty_like(coef), np.empty_like(coef)
    stored[place] = coef

    def block(cut: slice) -> None:
        out[cut] = matrix[cut].astype(np.float64, copy=False) @ stored

    thread_map(block, grams.cross_blocks(len(gram), len(gram)), n_jobs)
    return out[place]


def _warn_residual(residual: Array) -> None:
    if residual.max() > RESIDUAL_LIMIT:
        warn(
            f"The linear systems are solved to a relative residual of {residual.max():.2g} only: "
            f"use a smaller C, or ask for dtype='float64'.",
            ConvergenceWarning,
        )


NAMES = {"ls": LeastSquares}
