"""The solver for the linear kernel, which keeps M instead of kernel values."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from outcode._checks import Array
from outcode.parallel import single_blas
from outcode.solvers.spoc.face import descend_face
from outcode.solvers.spoc.loops import sweep
from outcode.solvers.spoc.problem import Problem, Solution, as_tau, certify, feasible

#: After this many sweeps, and again after as many, the active samples get conjugate gradients.
EASY = 15


def solve_linear(
    X: Any,
    labels: Array,
    b: Array,
    mass: Array,
    *,
    beta: float,
    shift: float = 0.0,
    tol: float = 1e-3,
    max_iter: int = 10_000_000,
    start: tuple[Array, Array] | None = None,
    n_jobs: int | None = None,
) -> Solution:
    """Solve the problem of the linear kernel, keeping M instead of kernel values.

    Samples are visited in random order (always the same one); those at a corner that do not want
    to leave it are left out until the rest is solved. Parameters and stopping rule are those of
    :func:`solve`, ``X`` (n, n_features) dense or sparse instead of the Gram; of ``start`` only tau
    is used.
    """
    rows, rng = _with_constant(X, shift), np.random.RandomState(0)
    norms = np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    tau = np.zeros((len(labels), len(b)))
    if start is not None:
        tau = feasible(start[0], labels, mass)
    eta, M = as_tau(tau, labels, mass), rows.T @ tau / beta
    psi, used = np.zeros(len(labels)), np.flatnonzero(mass)
    data = rows.indptr, rows.indices, rows.data, norms, M, eta, np.ascontiguousarray(b.T), mass
    n_iter, sweeps, active = 0, 0, used
    while n_iter < max_iter:
        steps = int(sweep(rng.permutation(active), *data, beta, tol / 2, psi))
        n_iter, sweeps = n_iter + steps, sweeps + 1
        if steps:
            interior = np.count_nonzero(eta[active], axis=1) > 1
            active = active[interior | (psi[active] > tol / 2)]
            if sweeps % EASY == 0:
                _linear_face(rows, active, b, labels, mass, eta, M, beta, tol / 4)
        elif len(active) == len(used):
            break
        else:
            active = used
    M[:] = rows.T @ as_tau(eta, labels, mass) / beta  # without the rounding of many small steps
    G = np.ascontiguousarray((rows @ M).T) + b
    problem = Problem(np.ascontiguousarray(eta.T), G, b, mass, labels, beta, shift)
    return certify(problem, n_iter, float(problem.psi().max()), tol)


def _with_constant(X: Any, shift: float) -> Any:
    """Return X as CSR, with a column sqrt(shift) that adds ``shift`` to the kernel."""
    rows = sparse.csr_matrix(X, dtype=np.float64)
    if shift:
        constant = sparse.csr_matrix(np.full((rows.shape[0], 1), np.sqrt(shift)))
        rows = sparse.hstack([rows, constant], format="csr")
    return rows


def _linear_face(
    rows: Any,
    active: Array,
    b: Array,
    labels: Array,
    mass: Array,
    eta: Array,
    M: Array,
    beta: float,
    tol: float,
) -> None:
    """Conjugate gradients on the active samples of a linear problem; eta and M are changed."""
    X, part = rows[active], np.ascontiguousarray(eta[active].T)
    G = np.ascontiguousarray((X @ M).T + b[:, active])
    with single_blas():
        descend_face(lambda p: (X @ (X.T @ p.T)).T, G, part, beta, tol)
    eta[active] = part.T
    M[:] = rows.T @ as_tau(eta, labels, mass) / beta
