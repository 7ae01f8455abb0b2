"""Continuous codes of norm 1 and infinity, by linear programs. [CS02] Section 5.1"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from outcode._checks import Array
from outcode.design.problem import DUAL_NORM, ContinuousDesign, Data, hard, matrix_norm


def linear(data: Data, norm: str, beta: float, radius: float | None) -> ContinuousDesign:
    """Solve norm 1 or infinity by a linear program. [CS02] Section 5.1"""
    code, tau = program(data, norm, beta, radius)
    if radius is not None:
        code = code * min(1.0, radius / max(matrix_norm(code, norm), 1e-300))
        return hard(data, norm, radius, code, tau)
    tau = tau * min(1.0, beta / max(matrix_norm(tau.T @ data.H, DUAL_NORM[norm]), 1e-300))
    objective = beta * matrix_norm(code, norm) + data.loss(code)
    return ContinuousDesign(code, objective, -float((tau * data.b).sum()), tau)


def program(data: Data, norm: str, beta: float, radius: float | None) -> tuple[Array, Array]:
    """Return the code and tau of a linear program, the primal or the dual, whichever is smaller.

    With S M the leads h_i.M_{y_i} - h_i.M_r, one row per sample and other class:

        primal  min beta |M| + c.xi          s.t.  S M + xi >= b, xi >= 0
        dual    max b.eta                    s.t.  |S'eta|_* <= beta, sum_r eta_ir <= c_i, eta >= 0

    and with a radius A: |M| <= A without beta |M|, and b.eta - A |S'eta|_* without its bound. With
    beta = 0 it is the least loss of all codes, whatever the norm.
    """
    S, E, b = _leads(data)
    if S.shape[0] <= S.shape[1] + E.shape[1]:
        M, eta = _primal_program(S, E, b, data.mass, norm, beta, radius)
    else:
        M, eta = _dual_program(S, E, b, data.mass, norm, beta, radius)
    return M.reshape(data.b.shape[1], -1), _other_classes(data, eta)


def _leads(data: Data) -> tuple[Any, Any, Array]:
    """Return S (pairs, k l), E (pairs, n) and b (pairs,); a pair is a sample and another class."""
    n, k = data.b.shape
    row, other = np.nonzero(np.arange(k) != data.labels[:, None])
    pair = np.arange(len(row))
    sign = np.concatenate([np.ones(len(pair)), -np.ones(len(pair))])
    places = np.concatenate([pair, pair]), np.concatenate([data.labels[row], other])
    which = sparse.csr_matrix((sign, places), shape=(len(pair), k))
    H = sparse.csr_matrix(data.H)[row]
    S = _row_products(which, H)
    E = sparse.csr_matrix((np.ones(len(pair)), (pair, row)), shape=(len(pair), n))
    return S, E, data.b[row, other]


def _row_products(A: Any, B: Any) -> Any:
    """Return the matrix whose row i is the Kronecker product of row i of A and row i of B."""
    parts = [B.multiply(A[:, [r]]) for r in range(A.shape[1])]
    return sparse.hstack(parts, format="csr")


def _other_classes(data: Data, eta: Array) -> Array:
    """Return tau from eta of the other classes, made exactly feasible."""
    n, k = data.b.shape
    tau = np.zeros((n, k))
    tau[np.arange(k) != data.labels[:, None]] = -np.maximum(eta, 0.0)
    total = -tau.sum(axis=1)
    tau *= np.divide(data.mass, total, out=np.ones(n), where=total > data.mass)[:, None]
    tau[np.arange(n), data.labels] = -tau.sum(axis=1)
    return tau + 0.0


@dataclass(frozen=True)
class _Norm:
    """A norm of v = P - N in a linear program: P, N >= 0, and one more variable z.

    ``costs`` and ``bounds`` of (P, N, z), ``rows`` (rows, limit) of inequalities on them.
    """

    costs: Array
    bounds: Array
    rows: Any
    limit: Array


def _norm_terms(norm: str, size: int, price: float | None, bound: float | None) -> _Norm:
    """Return ``price`` times the norm as a cost, or ``bound`` as its limit."""
    costs, upper = np.zeros(2 * size + 1), np.full(2 * size + 1, np.inf)
    none = sparse.csr_matrix((0, 2 * size + 1))
    if norm == "1":
        costs[:-1] = price or 0.0
        ones = sparse.csr_matrix(np.append(np.ones(2 * size), 0.0)[None, :])
        rows, limit = (none, np.zeros(0)) if bound is None else (ones, np.array([bound]))
    elif bound is not None:
        upper[:-1] = bound
        rows, limit = none, np.zeros(0)
    else:
        costs[-1] = price or 0.0
        eye = sparse.identity(size)
        rows = sparse.hstack([eye, eye, -np.ones((size, 1))], format="csr")
        limit = np.zeros(size)
    return _Norm(costs, np.column_stack([np.zeros(2 * size + 1), upper]), rows, limit)


def _primal_program(
    S: Any, E: Any, b: Array, mass: Array, norm: str, beta: float, radius: float | None
) -> tuple[Array, Array]:
    size = S.shape[1]
    terms = _norm_terms(norm, size, beta if radius is None else None, radius)
    empty = sparse.csr_matrix((S.shape[0], 1))
    leads = sparse.hstack([-S, S, empty, -E])
    limits = sparse.hstack([terms.rows, sparse.csr_matrix((terms.rows.shape[0], E.shape[1]))])
    free = np.column_stack([np.zeros(E.shape[1]), np.full(E.shape[1], np.inf)])
    found = _highs(
        np.concatenate([terms.costs, mass]),
        sparse.vstack([leads, limits]),
        np.concatenate([-b, terms.limit]),
        np.vstack([terms.bounds, free]),
    )
    return found.x[:size] - found.x[size : 2 * size], -found.ineqlin.marginals[: len(b)]


def _dual_program(
    S: Any, E: Any, b: Array, mass: Array, norm: str, beta: float, radius: float | None
) -> tuple[Array, Array]:
    size, pairs = S.shape[1], S.shape[0]
    terms = _norm_terms(DUAL_NORM[norm], size, radius, beta if radius is None else None)
    eye = sparse.identity(size)
    found = _highs(
        np.concatenate([-b, terms.costs]),
        sparse.block_diag([E.T, terms.rows]),
        np.concatenate([mass, terms.limit]),
        np.vstack([np.column_stack([np.zeros(pairs), np.full(pairs, np.inf)]), terms.bounds]),
        sparse.hstack([S.T, -eye, eye, sparse.csr_matrix((size, 1))]),
    )
    return -found.eqlin.marginals, found.x[:pairs]


def _highs(costs: Array, A: Any, limit: Array, bounds: Array, equal: Any = None) -> Any:
    """Solve min costs.x s.t. A x <= limit, equal x = 0, bounds, by HiGHS."""
    zeros = None if equal is None else np.zeros(equal.shape[0])
    found = linprog(costs, A_ub=sparse.csc_matrix(A), b_ub=limit, A_eq=equal, b_eq=zeros,
                    bounds=bounds, method="highs")  # fmt: skip
    if found.x is None:
        raise RuntimeError(f"The linear program of the code was not solved: {found.message}")
    return found
