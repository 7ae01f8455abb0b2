"""Weston & Watkins' machine: all columns of the one-vs-all code solved together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from outcode._checks import Array, positive
from outcode.machines.all_classes import SHIFTS, AllClasses, Solve
from outcode.machines.kernel import KernelParameters, Task
from outcode.solvers import ww


@dataclass(eq=False, repr=False)
class WestonWatkinsParameters(KernelParameters):
    """The parameters of :class:`WestonWatkins`."""

    C: float = field(default=1.0, kw_only=True)
    bias: str = field(default="kernel", kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    max_iter: int = field(default=10_000_000, kw_only=True)


class WestonWatkins(WestonWatkinsParameters, AllClasses):
    """One vector w_r per class, all learned in one problem, every pair of classes counted.

    Minimises  1/2 sum_r |w_r|^2 + C sum_i c_i sum_{r != y_i} max(0, 1 - (w_{y_i} - w_r).x_i)
    (Weston & Watkins 1999), c_i the weight of row i: SPOC counts only the class that comes nearest,
    this machine every class inside the margin. Dogan, Glasmachers & Igel (2016) recommend it
    among the machines that learn all classes at once. It learns the classes of the one-vs-all
    code: the margin of column r is w_r.x, and with two classes, which have a single column,
    w_1.x - w_0.x, the support vector machine with twice this C.

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
        Cost of errors.
    bias : {"kernel", "none"}, default="kernel"
        With "kernel" 1 is added to the kernel: a bias per class.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in units of the required lead 1.
    max_iter : int, default=10_000_000
        Steps, one sample each.

    Attributes
    ----------
    dual_coef_ : (n_samples, n_dichotomies) tau, minus alpha_ir and their sum for the own class
    objective_, dual_objective_, gap_ : primal and dual value, their difference over the primal
    n_iter_ : steps
    training_margins_ : (n_samples, n_dichotomies)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "ww", "softmax").fit(X, y)
    >>> clf.predict_proba(X).shape, bool(clf.machine_.gap_ < 1e-2)
    ((150, 3), True)
    """

    called = "Weston-Watkins"
    left_out: ClassVar[tuple[str, ...]] = ("training_margins_",)

    def solver(self, task: Task, labels: Array) -> Solve:
        C, columns = positive(self.C, "C"), max(2, int(labels.max()) + 1)
        options: dict[str, Any] = {
            "shift": SHIFTS[self.bias],
            "tol": positive(self.tol, "tol"),
            "max_iter": self.most_steps(len(labels)),
            "n_jobs": task.n_jobs,
        }

        def solve(weight: Array, start: Any) -> ww.Solution:
            if start is not None and start[1] is None:
                start = None  # of another Gram matrix: what tau gives on this one is not known
            return ww.solve(task.gram, labels, C * weight, columns, start=start, **options)

        return solve

    def most_steps(self, n: int) -> int:
        """Return how many steps n rows may take."""
        return self.max_iter


NAMES = {"ww": WestonWatkins}
