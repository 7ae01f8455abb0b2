"""Feature extensions, the class kernels they make, and given weights of them. [EPY08]"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from outcode._checks import Array


def identity(n_columns: int) -> Array:
    """M = I: SBC-IDENTITY (Anguita, Ridella & Sterpi 2004). [EPY08] section 2.2"""
    return np.eye(n_columns)[None]


def single(n_columns: int) -> Array:
    """M = (1, ..., c)': SBC-SINGLE, one extra attribute. [EPY08] section 2.2"""
    return np.arange(1.0, n_columns + 1.0)[None, :, None]


def units(n_columns: int) -> Array:
    """M^(r) = e_r e_r', r = 1..c: the basis of SBC-KERNEL. [EPY08] section 5

    >>> units(2).tolist()
    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
    """
    eye = np.eye(n_columns)
    return eye[:, :, None] * eye[:, None, :]


def gaussian_classes(M: Array, gamma: float) -> Array:
    """K_M(r, s) = exp(-gamma |M_r - M_s|^2), the class factor of [EPY08] Eq. 5."""
    square: Array = ((M[:, None, :] - M[None, :, :]) ** 2).sum(axis=2)
    return np.exp(-gamma * square)


def linear_classes(M: Array, gamma: float) -> Array:
    """K_M(r, s) = M_r . M_s: copy r is x (x) M_r; with M = I one-vs-all of one shared bias."""
    product: Array = M @ M.T
    return product


def given_classes(M: Array, gamma: float) -> Array:
    """K_M = M, checked."""
    size = float(np.abs(M).max())
    if M.shape[0] != M.shape[1] or not np.allclose(M, M.T, rtol=0.0, atol=1e-10 * size):
        raise ValueError(f"A class kernel must be square and symmetric, got shape {M.shape}.")
    if np.linalg.eigvalsh(M)[0] < -1e-10 * len(M) * size:
        raise ValueError("A class kernel must be positive semidefinite: it has an eigenvalue < 0.")
    return M


def free(n_columns: int) -> Array:
    """M = I / sqrt(c), K_M = M M' of trace 1: where a class kernel of any form starts."""
    return identity(n_columns) / np.sqrt(n_columns)


EXTENSIONS: dict[str, Callable[[int], Array]] = {
    "kernel": units,
    "identity": identity,
    "single": single,
    "ecoc": single,
    "direct": free,
}
CLASS_KERNELS: dict[str, Callable[[Array, float], Array]] = {
    "rbf": gaussian_classes,
    "linear": linear_classes,
    "precomputed": given_classes,
}


# --- as the user gives them ---


def as_extensions(extension: Any, n_columns: int) -> Array:
    """Return given feature extensions as (n, n_classes, l), or an error if they are none."""
    M = np.asarray(extension, dtype=np.float64)
    M = M[None] if M.ndim == 2 else M
    if M.ndim != 3 or M.shape[1] != n_columns or not np.all(np.isfinite(M)) or not M.size:
        raise ValueError(
            f"extension must be a name ({', '.join(map(repr, EXTENSIONS))}) or finite numbers with "
            f"a row for each of the {n_columns} classes, shape ({n_columns}, l) or "
            f"(n, {n_columns}, l), got shape {np.shape(extension)}."
        )
    return M


def as_weights(weights: Any, n: int) -> Array:
    mu = np.asarray(weights, dtype=np.float64)
    if mu.shape != (n,) or not np.all(np.isfinite(mu)) or np.any(mu < 0) or not np.any(mu > 0):
        raise ValueError(
            f"weights must be 'learned', 'prior' or {n} numbers >= 0, one per basis kernel and not "
            f"all zero, got {weights!r}."
        )
    return mu


def prior_weights(mass: Array, n: int, radius: float) -> Array:
    """Return R times the share of each class: the future work of [EPY08] section 5."""
    if len(mass) != n:
        raise ValueError(
            f"weights='prior' needs one basis kernel per class, got {n} for {len(mass)} classes."
        )
    return np.asarray(radius * mass / mass.sum())
