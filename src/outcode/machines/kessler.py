"""Kessler's construction as a machine: every row beats every other class. [EPY08] section 2"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outcode import gram as grams
from outcode.machines.kernel import KernelParameters
from outcode.machines.weston_watkins import WestonWatkins


@dataclass(eq=False, repr=False)
class KesslerParameters(KernelParameters):
    """The parameters of :class:`Kessler`."""

    C: float = field(default=1.0, kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    max_iter: int = field(default=1000, kw_only=True)


class Kessler(KesslerParameters, WestonWatkins):
    """One vector w_r per class, learned from difference vectors: Kessler's construction.

    A row x of class i and every other class j make a vector with x in block i and -x in block j of
    n_classes blocks; a support vector machine without a bias has all of them on its positive side
    (Duda & Hart 1973, section 5.12.1; [EPY08] section 2). It minimises

        1/2 sum_r |w_r|^2 + sum_i C_i sum_{j != y_i} max(0, 1 - (w_{y_i} - w_j) . x_i),

    the problem of :class:`WestonWatkins` without a bias, and is solved as that: the difference
    vectors are never built.
    *Constraint classification* (Har-Peled, Roth & Zimak 2003) adds the negative of each vector with
    the label -1; without a bias that counts every pair twice, and the machine with C / 2 is the
    same.

    It learns the classes of the one-vs-all code: the margin of column r is w_r . x, and with two
    classes, which have a single column, w_1 . x - w_0 . x. There is no bias: a linear kernel
    wants a column of ones among the features.

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
        Upper bound of each dual variable.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in units of the required lead 1.
    max_iter : int, default=1000
        Steps, as a multiple of the number of rows.

    Attributes
    ----------
    pair_coef_ : (n_samples, n_classes) alpha_ij, 0 for the class of the row
    objective_, gap_ : primal value, and its relative distance to the dual value
    n_iter_ : steps, one row each
    training_margins_ : (n_samples, n_dichotomies)

    Examples
    --------
    Three classes on a line, which no machine of one class against the others separates:

    >>> from outcode import OutputCodeClassifier
    >>> X, y = [[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]], [0, 1, 2]
    >>> machine = Kessler(kernel="linear", C=100)
    >>> OutputCodeClassifier("ova", machine, "linear").fit(X, y).predict(X).tolist()
    [0, 1, 2]
    """

    called = "Kessler's machine"
    bias = "none"
    left_out = (*WestonWatkins.left_out, "pair_coef_")

    def remember(self, solution: Any, gram: grams.Gram) -> None:
        self.pair_coef_ = np.maximum(0.0, -solution.tau)  # tau_ir > 0 for the class of the row only

    def warn(self, solution: Any) -> None:
        if not solution.converged:  # a hard margin, a large C, is what it is made for
            super().warn(solution)

    def most_steps(self, n: int) -> int:
        return self.max_iter * n


NAMES = {"kessler": Kessler}
