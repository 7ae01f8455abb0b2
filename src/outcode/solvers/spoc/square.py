"""The solver on a Gram store. [CS02] Section 6"""

from __future__ import annotations

import numpy as np

from outcode._checks import Array
from outcode.solvers import squares
from outcode.solvers.spoc.problem import Problem, Solution, certify, feasible
from outcode.solvers.store import Store


def solve(
    gram: Store,
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
    """Solve the dual on a Gram store, by squares of samples. [CS02] Section 6

    Parameters
    ----------
    gram : the Gram store, n rows
    labels : (n,) class indices
    b : (n_classes, n) required lead of the right class, 0 for the class itself
    mass : (n,) the weight c_i of each sample; 0 for a sample that is not used
    shift : added to every kernel value: 1 puts a bias into the kernel
    start : tau and K tau, (n, n_classes) each, of a similar problem to start from
    """
    eta = np.zeros(b.shape)
    eta[labels, np.arange(len(labels))] = mass
    problem = Problem(eta, b.copy(), b, mass, labels, beta, shift)
    if start is not None:
        before, product = start
        tau = feasible(before, labels, mass)
        problem.G += product.T / beta
        squares.add(gram, problem, np.arange(len(tau)), (tau - before).T / beta, n_jobs)
        problem.eta -= tau.T
    n_iter, violation = squares.solve(
        gram, problem, tol=tol, share=1 / 2, max_iter=max_iter, n_jobs=n_jobs
    )
    return certify(problem, n_iter, violation, tol)
