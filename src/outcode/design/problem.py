"""What is given to a design, what it returns, and the norms of codes. [CS02] Section 5"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode import dichotomies
from outcode._checks import Array, row_weights

#: The norm that bounds the dual variables, for the norm of the code.
DUAL_NORM = {"1": "inf", "2": "2", "inf": "1"}


@dataclass(frozen=True)
class ContinuousDesign:
    """A code of real numbers and its certificate.

    Parameters
    ----------
    code : ndarray of shape (n_classes, n_columns)
        The code.
    objective : float
        The primal value, computed from ``code`` alone.
    dual_objective : float
        The dual value, computed from ``tau`` alone.
    tau : ndarray of shape (n_samples, n_classes)
        The dual variables c_i [r = y_i] - eta_ir.
    """

    code: Array
    objective: float
    dual_objective: float
    tau: Array

    @property
    def gap(self) -> float:
        """The duality gap over the primal value, or over 1, the loss of a row, if larger."""
        return (self.objective - self.dual_objective) / max(self.objective, 1.0)

    @property
    def support(self) -> Array:
        """The support patterns: rows with a tau that is not 0. [CS02] Section 5.2"""
        return np.flatnonzero((self.tau != 0).any(axis=1))


@dataclass(frozen=True)
class Data:
    """Outputs, labels, weights and the required leads b (n_samples, n_classes) of one problem."""

    H: Array
    labels: Array
    mass: Array
    b: Array

    def own(self, matrix: Array) -> Array:
        """Return each row's entry of its own class, as a column."""
        return matrix[np.arange(len(self.labels)), self.labels][:, None]

    def loss(self, code: Array) -> float:
        """Return sum_i c_i max_r (h_i.M_r + b_ir - h_i.M_{y_i}). [CS02] Eq. 9"""
        scores = self.H @ code.T
        return float(self.mass @ (scores + self.b - self.own(scores)).max(axis=1))


def problem(H: Any, labels: Any, n_classes: int | None, sample_weight: Any) -> Data:
    H = outputs(H)
    labels, k = class_indices(labels, len(H), n_classes)
    b = dichotomies.margin_requirements(labels, k).T
    return Data(H, labels, row_weights(sample_weight, len(H)), b)


def matrix_norm(matrix: Array, norm: str) -> float:
    """Return the norm "1", "2" or "inf" of all entries in a row.

    Parameters
    ----------
    matrix : array-like
        Any shape.
    norm : {"1", "2", "inf"}
        Which norm.

    Returns
    -------
    float
        The norm.

    Examples
    --------
    >>> matrix_norm(np.array([[3.0, 0.0], [0.0, -4.0]]), "2")
    5.0
    """
    order = {"1": 1, "2": 2, "inf": np.inf}[norm]
    return float(np.linalg.norm(np.ravel(matrix), order))


def hard(data: Data, norm: str, radius: float, code: Array, tau: Array) -> ContinuousDesign:
    """Return the design of the constrained problem with its two values; tau = 0 proves 0."""
    dual = -float((tau * data.b).sum()) - radius * matrix_norm(tau.T @ data.H, DUAL_NORM[norm])
    if dual < 0:
        dual, tau = 0.0, np.zeros_like(tau)
    return ContinuousDesign(code, data.loss(code), dual, tau)


# --- input ---


def outputs(H: Any) -> Array:
    H = np.asarray(H, dtype=np.float64)
    if H.ndim != 2 or 0 in H.shape or not np.isfinite(H).all():
        raise ValueError(
            f"H must be a finite (n_samples, n_columns) matrix of outputs, got shape {H.shape}."
        )
    return H


def class_indices(labels: Any, n_samples: int, n_classes: int | None) -> tuple[Array, int]:
    """Return the labels as integers 0..n_classes-1, and n_classes."""
    labels = np.asarray(labels)
    if labels.shape != (n_samples,) or labels.dtype.kind not in "iu" or np.any(labels < 0):
        raise ValueError(
            f"labels must be {n_samples} class indices 0, 1, ..., one per row of H, got shape "
            f"{labels.shape} of {labels.dtype}."
        )
    k = int(labels.max()) + 1 if n_classes is None else int(n_classes)
    if k < 2 or labels.max() >= k:
        raise ValueError(
            f"labels reach {labels.max()}, which needs n_classes >= {max(2, labels.max() + 1)}, "
            f"got {k}."
        )
    return labels.astype(np.intp), k
