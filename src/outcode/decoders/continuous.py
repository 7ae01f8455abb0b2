"""A code of real numbers learned on top of trained machines. [CS02] Section 5"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from outcode import dichotomies, kernels
from outcode import gram as grams
from outcode._checks import Array, positive
from outcode.capabilities import available_if
from outcode.decoders.common import Decoder
from outcode.decoders.likelihood import fit_temperature, softmax
from outcode.design.continuous import continuous_code
from outcode.formula import floats, symbolic
from outcode.parallel import single_blas
from outcode.saved import KernelKind, Number, Optional, RowsKind, reals
from outcode.solvers import spoc as spoc_solver
from outcode.training import Training


def _is_linear(decoder: ContinuousCode) -> bool:
    if decoder.kernel != "linear":
        raise AttributeError("With a kernel between margins the scores are not sums over columns.")
    return True


class ContinuousCode(Decoder):
    """Score each class by a learned row of real numbers: f(x) . M_r.

    M has the least norm and multiclass hinge loss on held-out margins f ([CS02] Eq. 15), so it
    replaces the code the machines were trained for; what is trained on the margins of the training
    rows would trust machines that only remember. With norm 2 the margins may be compared by a
    kernel instead: sum_i tau_ir K(f(x), f(x_i)) / beta (Eq. 30). The margins are divided by their
    root mean square first, so that beta means the same for any machine.

    Parameters
    ----------
    norm : {1, 2, "inf"}, default=2
        Norm of M that is minimised.
    beta : float, default=1.0
        Weight of the norm.
    kernel : str or callable, default="linear"
        Compares margins: "linear", or with norm 2 "rbf", "poly", "laplacian" or a function.
    gamma : float, "scale" or "auto", default="scale"
        Of the kernel.
    folds : int, default=3
        Number of folds that the held-out margins come from.

    Attributes
    ----------
    continuous_code_ : (n_classes, n_dichotomies) M, for the linear kernel
    scale_ : what margins are divided by
    temperature_ : of the probabilities, fitted on the same held-out margins

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder=ContinuousCode(), random_state=0).fit(X, y)
    >>> clf.decoder_.continuous_code_.shape
    (3, 3)
    """

    saved = {
        **Decoder.saved,
        "scale_": Number(low=1e-300),
        "temperature_": Number(low=1e-9),
        "continuous_code_": Optional(reals("n_classes", "n_dichotomies")),
        "kernel_": Optional(KernelKind("n_dichotomies")),
        "origin_": Optional(reals("n_dichotomies")),
        "patterns_": Optional(RowsKind("n_patterns", "n_dichotomies")),
        "dual_coef_": Optional(reals("n_patterns", "n_classes")),
    }

    def __init__(
        self,
        norm: int | str = 2,
        beta: float = 1.0,
        *,
        kernel: Any = "linear",
        gamma: float | str = "scale",
        folds: int = 3,
    ) -> None:
        self.norm = norm
        self.beta = beta
        self.kernel = kernel
        self.gamma = gamma
        self.folds = folds

    def fit(self, training: Training) -> ContinuousCode:
        super().fit(training)
        margins, weight = training.crossfit(self.folds), training.sample_weight
        mean = (weight @ margins**2).sum() / (weight.sum() * margins.shape[1])
        self.scale_ = float(np.sqrt(mean)) or 1.0
        H, labels = margins / self.scale_, training.labels
        if self.kernel == "linear":
            self.continuous_code_ = continuous_code(
                H, labels, norm=self.norm, beta=self.beta, n_classes=len(self.code_),
                sample_weight=weight,
            ).code  # fmt: skip
        else:
            self._fit_kernel(H, labels, weight)
        self.temperature_ = fit_temperature(self.scores(margins), labels, weight)
        return self

    def scores(self, margins: Array, X: Any = None) -> Array:
        H = floats(margins) / self.scale_
        with single_blas():
            if self.kernel == "linear":
                return H @ self.continuous_code_.T
            rows = self.kernel_.prepare(H, self.origin_)
            if symbolic(H):
                return self.kernel_.values(rows, self.patterns_) @ self.dual_coef_
            cuts = grams.cross_blocks(len(H), len(self.patterns_))
            parts = [self.kernel_.block(rows[c], self.patterns_) @ self.dual_coef_ for c in cuts]
        return np.vstack(parts)

    @available_if(_is_linear)
    def terms(self, margins: Array, X: Any = None) -> Array:
        """Return what each column adds to each score."""
        return np.asarray(margins)[:, None, :] / self.scale_ * self.continuous_code_

    @available_if(_is_linear)
    def slopes(self, margins: Array) -> Array:
        """Return the derivatives of the scores by the margins."""
        return np.tile(self.continuous_code_ / self.scale_, (len(margins), 1, 1))

    def proba(self, margins: Array, X: Any = None) -> Array:
        """Return the (n_samples, n_classes) probabilities; the largest is that of ``scores``."""
        return softmax(self.scores(margins, X), self.temperature_)

    def unpack(self, values: dict[str, Any]) -> None:
        super().unpack(values)
        self.origin_ = values["origin_"]
        needed = ["continuous_code_"] if self.kernel == "linear" else ["kernel_", "patterns_"]
        if any(values[name] is None for name in needed):
            raise ValueError(f"{' and '.join(needed)} are missing")

    def _fit_kernel(self, H: Array, labels: Array, weight: Array) -> None:
        """Solve Eq. 29 on the margins and keep its support patterns."""
        if self.norm != 2:
            raise ValueError(f"A kernel between margins needs norm=2, got norm={self.norm!r}.")
        self.kernel_ = kernels.resolve(self.kernel, H, gamma=self.gamma, weight=weight)
        self.origin_ = self.kernel_.origin(H)
        rows = self.kernel_.prepare(H, self.origin_)
        b = dichotomies.margin_requirements(labels, len(self.code_))
        beta = positive(self.beta, "beta")
        found = spoc_solver.solve(grams.gram(self.kernel_, rows), labels, b, weight, beta=beta)
        support = np.flatnonzero((found.tau != 0).any(axis=1))
        self.patterns_, self.dual_coef_ = rows[support], found.tau[support] / beta


NAMES: dict[str, Callable[[], Decoder]] = {"continuous": ContinuousCode}
