"""The code of least norm that classifies every row correctly. [CS02] Eq. 13"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from outcode._checks import Array, warn
from outcode.design.continuous import GAP, norm_name
from outcode.design.linear import _highs, _leads, _norm_terms, program
from outcode.design.problem import DUAL_NORM, ContinuousDesign, Data, matrix_norm, problem
from outcode.design.quadratic import quadratic

#: A least loss above this, per row, is no separable problem.
SEPARABLE = 1e-7
#: The weight of the norm falls by FALL until the code has no loss, at most to LEAST.
FALL, LEAST = 10.0, 1e-9


def separable_code(
    H: Array, labels: Array, *, norm: int | str = 2, n_classes: int | None = None
) -> ContinuousDesign:
    """Return the code of least norm for which the class of every row leads by 1.

    [CS02] Eq. 13. minimise |M|_p s.t. h_i.M_{y_i} - h_i.M_r >= 1 for all r other than y_i; for p =
    2 the objective is 1/2 |M|_2^2 (Eq. 47). An error is raised if there is no such code: then
    :func:`continuous_code` weighs the norm against the loss.

    Parameters
    ----------
    H : array-like of shape (n_samples, n_columns)
        Outputs of the machines, any real numbers.
    labels : array-like of shape (n_samples,)
        Class indices.
    norm : {1, 2, "inf"}, default=2
        The norm p of the code.
    n_classes : int or None, default=None
        Number of rows of the code; the largest label plus one when None.

    Returns
    -------
    ContinuousDesign
        The code, its objective and its duality gap.

    Examples
    --------
    >>> found = separable_code([[2.0], [-2.0]], [0, 1], norm=1)
    >>> round(found.objective, 6), round(found.gap, 6)
    (0.5, 0.0)
    """
    data, name = problem(H, labels, n_classes, None), norm_name(norm)
    if data.loss(program(data, "1", 0.0, None)[0]) > SEPARABLE * len(data.H):
        raise ValueError(
            "No code classifies every row correctly by these outputs: use continuous_code, which "
            "weighs the norm of the code against the loss."
        )
    found = _least_square(data) if name == "2" else _least_norm(data, name)
    if found.gap > GAP:
        warn(
            f"The separable code stopped early: its duality gap is {found.gap:.2g}.",
            ConvergenceWarning,
        )
    return found


def _least_norm(data: Data, norm: str) -> ContinuousDesign:
    """Solve norm 1 or infinity: min |M| s.t. S M >= b; the dual is max b.eta, |S'eta|_* <= 1."""
    S, _, b = _leads(data)
    terms = _norm_terms(norm, S.shape[1], 1.0, None)
    leads = sparse.hstack([-S, S, sparse.csr_matrix((S.shape[0], 1))])
    rows, limits = sparse.vstack([leads, terms.rows]), np.concatenate([-b, terms.limit])
    found = _highs(terms.costs, rows, limits, terms.bounds)
    size = S.shape[1]
    M = found.x[:size] - found.x[size : 2 * size]
    eta = np.maximum(-found.ineqlin.marginals[: len(b)], 0.0)
    eta = eta / max(1.0, matrix_norm(np.asarray(S.T @ eta), DUAL_NORM[norm]))
    code = _led(M.reshape(data.b.shape[1], -1), float((S @ M).min()))
    return ContinuousDesign(code, matrix_norm(code, norm), float(b @ eta), _tau(data, eta))


def _least_square(data: Data) -> ContinuousDesign:
    """Solve norm 2 by Eq. 16 with less and less weight on the norm, until no loss is left.

    Its dual variables over beta, times any t >= 0, bound 1/2 |M|^2 from below by
    t sum_ir eta_ir b_ir - t^2/2 |sum_i tau_i h_i'|^2; the best t is taken.
    """
    S = _leads(data)[0]
    best, beta = None, 1.0
    while beta >= LEAST and (best is None or best.gap > GAP / 10):
        found = quadratic(data, beta, None if best is None else (best.tau, best.tau))
        M = found.code
        lead = float((S @ M.ravel()).min())
        if lead > 0:
            code = _led(M, lead)
            gain, square = -float((found.tau * data.b).sum()) / beta, float((M**2).sum())
            bound = gain**2 / (2.0 * square)
            other = ContinuousDesign(code, 0.5 * float((code**2).sum()), bound, found.tau)
            best = other if best is None or other.gap < best.gap else best
        beta /= FALL
    if best is None:
        raise RuntimeError("The separable code was not found: the outputs separate too narrowly.")
    return best


def _led(code: Array, lead: float) -> Array:
    """Return the code with a smallest lead of exactly 1."""
    return code / min(lead, 1.0) if 0 < lead < 1.0 else code


def _tau(data: Data, eta: Array) -> Array:
    """Return tau of eta, one for each sample and other class: rows sum to 0."""
    n, k = data.b.shape
    tau: Any = np.zeros((n, k))
    tau[np.arange(k) != data.labels[:, None]] = -eta
    tau[np.arange(n), data.labels] = -tau.sum(axis=1)
    return tau + 0.0
