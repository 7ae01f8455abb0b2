"""Any kernel machine on landmarks: memory and time that grow with rows times landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from outcode import gram as grams
from outcode import kernels
from outcode._checks import Array, row_weights
from outcode.capabilities import TrainsOnGram, require
from outcode.machines.common import Machine, as_rows, as_targets
from outcode.machines.single_binary import SingleBinary
from outcode.parallel import single_blas, thread_map
from outcode.saved import KernelKind, Optional, Parts, RowsKind, reals
from outcode.scale.landmarks import candidates, pivots, warn_residual

#: Share of the mean of K(z, z) added to the diagonal of K(Z, Z).
JITTER = 1e-10


class OnLandmarks(Machine):
    """A kernel machine on features made of kernel values against landmarks.

    With landmarks z_1, ..., z_p chosen by randomly pivoted Cholesky and K(Z, Z) = L L', row x
    becomes L^-1 (K(x, z_1), ..., K(x, z_p))', whose inner products are the kernel projected on the
    landmarks (Nystrom). The machine is trained on these rows with a linear kernel whose matrix is
    never built: O(n_samples n_landmarks) of memory. [EPY08] section 6 names fast approximations as
    the way to many rows; here they serve its single binary problem, with the class kernel learned
    or not, and every other machine that trains on a Gram store.

    Parameters
    ----------
    machine : KernelMachine or None, default=None
        A kernel machine, whose own kernel is replaced; None is ``SingleBinary("direct")``.
    n_landmarks : int, default=500
        Largest number p of landmarks; all rows if there are fewer.
    kernel : str or callable, default="rbf"
        One of "rbf", "linear", "poly", "laplacian", "exponential", "sigmoid" or a function.
    gamma : float, array-like of shape (n_features,) or {"scale", "auto"}, default="scale"
        "scale" (1 / (d var X)), "auto" (1 / d), a positive number or a number >= 0 for each
        feature.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and the sigmoid kernel.
    random_state : int, default=0
        Seed of the landmarks.

    Attributes
    ----------
    machine_ : fitted, on the features
    landmarks_ : the landmarks
    residual_ : share of the kernel's trace that the landmarks leave

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = OnLandmarks(SingleBinary("direct", C=10.0), 30)
    >>> clf = OutputCodeClassifier("ova", machine, "linear").fit(X, y)
    >>> clf.machine_.machine_.class_kernel_.shape, clf.score(X, y) > 0.95
    ((3, 3), True)
    """

    saved = {
        "kernel_": KernelKind(),
        "origin_": Optional(reals("n_features")),
        "landmarks_": RowsKind("n_landmarks", "n_features"),
        "root_": reals("n_landmarks", "n_landmarks"),
        "machines_": Parts("machine", own=("n_features",)),
    }
    left_out = ("training_margins_",)

    def __init__(
        self,
        machine: Any = None,
        n_landmarks: int = 500,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        random_state: int = 0,
    ) -> None:
        self.machine = machine
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def machine_(self) -> Any:
        """The machine on the features."""
        if "machines_" not in vars(self):
            raise AttributeError("This machine is not trained.")
        return self.machines_[0]

    def weigh(self, y: Array, sample_weight: Array) -> Array:
        return np.asarray(self._inner().weigh(y, sample_weight))

    def fit(
        self,
        X: Any,
        targets: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> OnLandmarks:
        X, inner = as_rows(X), self._inner()
        targets = as_targets(targets, X.shape[0])
        weight = row_weights(sample_weight, X.shape[0])
        self._choose(X, targets, weight)
        store = grams.features(self.features(X))
        threads: dict[str, Any] = {"n_jobs": n_jobs, "verbose": verbose}
        self.machines_ = [inner.fit_gram(store, targets, sample_weight, **threads)]
        self.training_margins_ = np.array(inner.training_margins_)
        return self

    def features(self, X: Any) -> Array:
        """Return the rows as features, (n_samples, n_landmarks)."""
        rows = self.kernel_.prepare(as_rows(X), self.origin_)
        out = np.empty((len(rows), len(self.root_)))

        def block(cut: slice) -> None:
            values = self.kernel_.block(rows[cut], self.landmarks_)
            out[cut] = solve_triangular(self.root_, values.T, lower=True, check_finite=False).T

        with single_blas():
            thread_map(block, grams.cross_blocks(len(rows), len(self.root_)))
        return out

    def margins(self, X: Any) -> Array:
        check_is_fitted(self, "machines_")
        return np.asarray(self.machine_.margins(self.features(X)))

    def held_out_margins(
        self, X: Any, targets: Array, fold: Array, sample_weight: Any = None, **threads: Any
    ) -> Array:
        """Return margins of each row without its fold (-1: none); the landmarks stay."""
        check_is_fitted(self, "machines_")
        store = grams.features(self.features(X))
        args = store, targets, fold, sample_weight
        return np.asarray(self.machine_.held_out_margins(*args, **threads))

    def _inner(self) -> Any:
        machine = SingleBinary("direct") if self.machine is None else clone(self.machine)
        require(machine, TrainsOnGram, "OnLandmarks")
        return machine.set_params(kernel="linear")

    def _choose(self, X: Any, targets: Array, weight: Array) -> None:
        """Choose the landmarks among the rows, and factorise their kernel matrix."""
        kind = kernels.named(self.kernel)
        if kind.given:
            raise ValueError("A precomputed kernel has no rows for landmarks: give rows.")
        shape: dict[str, Any] = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        self.kernel_ = kernels.resolve(self.kernel, X, weight=weight, **shape)
        self.origin_ = self.kernel_.origin(X)
        rng = np.random.RandomState(self.random_state)
        kinds = np.unique(targets, axis=0, return_inverse=True)[1].ravel()
        some = candidates(kinds, int(self.n_landmarks), rng)
        rows = self.kernel_.prepare(X[some], self.origin_)
        with single_blas():
            chosen = pivots(self.kernel_, rows, int(self.n_landmarks), rng)
            self.landmarks_, self.residual_ = rows[chosen.rows], chosen.residual
            K = self.kernel_.block(self.landmarks_, self.landmarks_)
            K.flat[:: len(K) + 1] += JITTER * max(float(np.trace(K)) / len(K), 1e-300)
            self.root_ = np.ascontiguousarray(cholesky((K + K.T) / 2.0, lower=True))
        warn_residual(self.residual_, len(self.landmarks_))

    def unpack(self, values: dict[str, Any]) -> None:
        self.origin_ = values.pop("origin_")
        super().unpack(values)
        if len(self.machines_) != 1 or np.any(np.diag(self.root_) <= 0):
            raise ValueError("one machine on the features, and a factor that can be solved with")
