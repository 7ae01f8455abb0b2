"""What every machine shares: its verbs, and the checks of its input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, compute_class_weight

from outcode._checks import Array, warn
from outcode.dichotomies import only_signs
from outcode.saved import Saved
from outcode.solvers.certificate import Certificate


class Machine(Saved, BaseEstimator):
    """Binary machines, one per column of a code, trained together.

    A subclass defines :meth:`fit` and :meth:`margins`.

    Examples
    --------
    >>> class Projection(Machine):
    ...     def fit(self, X, targets, sample_weight=None, *, n_jobs=None, verbose=0):
    ...         self.coef_ = X.T @ targets
    ...         return self
    ...
    ...     def margins(self, X):
    ...         return X @ self.coef_
    >>> X = np.array([[-1.0], [2.0]])
    >>> Projection().fit(X, np.array([[-1], [1]])).margins(X).tolist()
    [[-3.0], [6.0]]
    """

    room = "machine"

    def fit(
        self,
        X: Any,
        targets: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Any:
        """Train one machine per column on the rows whose target is not 0."""
        raise NotImplementedError(f"{type(self).__name__} must define fit()")

    def margins(self, X: Any) -> Array:
        """Return the (n_samples, n_dichotomies) margins."""
        raise NotImplementedError(f"{type(self).__name__} must define margins()")

    def blocks(self, n_rows: int) -> list[slice]:
        """Cut new rows into blocks that are predicted one after the other; one unless it pays."""
        return [slice(0, n_rows)]

    def weigh(self, y: Array, sample_weight: Array) -> Array:
        """Return the weight of each row once the machine's own class weights are in."""
        if (own := getattr(self, "class_weight", None)) is None:
            return sample_weight
        classes = np.unique(y)
        weights = compute_class_weight(own, classes=classes, y=y, sample_weight=sample_weight)
        return sample_weight * weights[np.searchsorted(classes, y)]

    def setting(self, gamma: float | None, C: float | None) -> dict[str, float]:
        """Return the parameters that give the kernel this gamma and the errors this cost."""
        given = {"gamma": gamma, "C": C}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def cost(self) -> float | None:
        """The cost of errors as it stands, None for a machine that has none."""
        return getattr(self, "C", None)


def as_rows(X: Any) -> Any:
    """Return rows as kernels take them: float64, dense or CSR."""
    if isinstance(X, np.ndarray) and X.dtype == np.float64 and X.ndim == 2:
        return X  # validated already
    return check_array(X, accept_sparse="csr", dtype=np.float64)


def as_targets(targets: Any, n_samples: int) -> Array:
    targets = np.asarray(targets)
    if targets.ndim != 2 or len(targets) != n_samples or not only_signs(targets):
        raise ValueError(
            f"targets must be a ({n_samples}, n_dichotomies) matrix of +1, -1 and 0, got shape "
            f"{targets.shape}."
        )
    return targets.astype(np.int8, copy=False)


def check_signs(targets: Array, weight: Array) -> None:
    counted = weight > 0
    used = targets if counted.all() else targets[counted]
    bad = (used.max(axis=0, initial=0) <= 0) | (used.min(axis=0, initial=0) >= 0)
    if bad.any():
        raise ValueError(
            f"Column {int(np.argmax(bad))} has rows of one sign only once rows of zero weight are "
            f"dropped: every column needs rows of both signs."
        )


#: Relative duality gap that is told of even where the tolerance was met.
LARGE_GAP = 0.1


def warn_gap(gap: Any, tol: float) -> None:
    """Warn if a solution that met its tolerance may still be far from the optimum.

    The tolerance bounds the error of each margin; the objective counts it C times for every row.
    """
    worst = float(np.max(gap, initial=0.0))
    if worst > LARGE_GAP:
        warn(
            f"The tolerance was met (tol={tol:g}), but the objective may lie {100 * worst:.2g} % "
            f"above its minimum, as with a large C on features that are not scaled. Scale the "
            f"features (StandardScaler), or lower C or tol.",
            ConvergenceWarning,
        )


#: Margins of all rows, and the certificate of the machine that has them, if it tells.
Solved = tuple[Array, Certificate | None]


def warn_held_out(solved: Sequence[Certificate | None], tol: float) -> None:
    """Warn if machines that hold out a fold stopped early, and say by how much."""
    early = [certificate for certificate in solved if certificate and not certificate.converged]
    if early:
        warn(
            f"{len(early)} of {len(solved)} machines that hold out a fold stopped early: their "
            f"largest violation of the optimality conditions is "
            f"{max(certificate.violation for certificate in early):.2g} (tol={tol:g}), and the "
            f"probabilities rest on them. Raise max_iter, or scale the features.",
            ConvergenceWarning,
        )


def warn_early(certificate: Certificate, tol: float, who: str) -> None:
    """Warn if a solver stopped early, or with a large gap, and say by how much."""
    if certificate.converged:
        warn_gap(certificate.gap, tol)
    else:
        warn(
            f"{who} stopped early: the largest violation of the optimality conditions is "
            f"{certificate.violation:.2g} (tol={tol:g}), the relative duality gap "
            f"{certificate.gap:.2g}. Raise max_iter, ask for dtype='float64', or scale the "
            f"features.",
            ConvergenceWarning,
        )
