"""All columns of a continuous code at once. [CS02] Section 5"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from outcode._checks import Array, lookup, positive, warn
from outcode.design.linear import linear
from outcode.design.problem import DUAL_NORM, ContinuousDesign, Data, problem
from outcode.design.quadratic import ball, quadratic

#: Duality gap above which a continuous code is said to have stopped early.
GAP = 1e-6


def continuous_code(
    H: Array,
    labels: Array,
    *,
    norm: int | str = 2,
    beta: float = 1.0,
    radius: float | None = None,
    n_classes: int | None = None,
    sample_weight: Any = None,
) -> ContinuousDesign:
    """Return the code of real numbers with the least norm and multiclass hinge loss.

    minimise  beta |M|_p + sum_i c_i xi_i   s.t.  h_i.M_{y_i} - h_i.M_r >= b_ir - xi_i  for all r,
    b_ir = 1 - [r = y_i] ([CS02] Eq. 15). The norm is that of all entries in a row; for p = 2 the
    first term is beta/2 |M|_2^2 (Eq. 16). p = 1 and infinity are linear programs (Section 5.1),
    solved as the primal or the dual, whichever has fewer constraints; p = 2 is the quadratic
    program of SPOC, whose size does not depend on the number of columns (Section 5.2).

    Parameters
    ----------
    H : array-like of shape (n_samples, n_columns)
        Outputs of the machines, any real numbers.
    labels : array-like of shape (n_samples,)
        Class indices.
    norm : {1, 2, "inf"}, default=2
        The norm p of the code.
    beta : float, default=1.0
        Weight of the norm.
    radius : float or None, default=None
        If given, minimise the loss alone subject to norm(M) <= radius; beta is not used.
    n_classes : int or None, default=None
        Number of rows of the code; the largest label plus one when None.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        The weights c_i, 1 each when None.

    Returns
    -------
    ContinuousDesign
        The code, its objective and its duality gap.

    Examples
    --------
    >>> found = continuous_code([[2.0], [-2.0]], [0, 1], norm=1, beta=0.1)
    >>> bool(np.all(found.code[0] > found.code[1])), round(found.objective, 6)
    (True, 0.05)
    """
    data = problem(H, labels, n_classes, sample_weight)
    return solve(data, norm_name(norm), positive(beta, "beta"), radius)


def norm_name(norm: int | str) -> str:
    name = "inf" if norm == np.inf else str(norm)
    lookup(DUAL_NORM, name, "norm")
    return name


def solve(data: Data, norm: str, beta: float, radius: float | None) -> ContinuousDesign:
    radius = None if radius is None else positive(radius, "radius")
    if norm == "2":
        found = quadratic(data, beta) if radius is None else ball(data, radius)
    else:
        found = linear(data, norm, beta, radius)
    if found.gap > GAP:
        warn(
            f"The continuous code stopped early: its duality gap is {found.gap:.2g}.",
            ConvergenceWarning,
        )
    return found
