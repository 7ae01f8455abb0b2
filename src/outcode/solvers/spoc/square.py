"""The solver on a Gram store: squares of the samples worth working on. [CS02] Section 6"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from outcode._checks import Array
from outcode.parallel import single_blas, thread_map
from outcode.solvers.spoc.face import descend_face
from outcode.solvers.spoc.loops import descend
from outcode.solvers.spoc.problem import Problem, Solution, certify, feasible, fresh
from outcode.solvers.store import TILE, Store

#: Steps, as a multiple of the samples worked on, before looking whether few of them are active.
BURST = 2
#: Samples are gathered into a square once at most this share is active, unless they are this few.
SHRINK, SMALL = 1 / 2, 600
#: A square not solved after this many bursts is badly conditioned: from then on each burst is
#: followed by conjugate gradients, on at most FACE_LIMIT samples.
EASY, FACE_LIMIT = 15, 1000
#: Rounds in which the violation of all samples may fail to fall before giving up.
PATIENCE = 10


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
    """Solve the dual on a Gram store. [CS02] Section 6

    Parameters
    ----------
    gram : the Gram store, n rows
    labels : (n,) class indices
    b : (n_classes, n) required lead of the right class, 0 for the class itself
    mass : (n,) the weight c_i of each sample; 0 for a sample that is not used
    shift : added to every kernel value: 1 puts a bias into the kernel
    start : tau and K tau, (n, n_classes) each, of a similar problem to start from

    Shrinking: samples at a corner of their simplex that do not want to leave it are left out; once
    at most half are left their square of the Gram is gathered. With rows on demand a square holds
    what fits, the largest violations first. The whole is looked at again after each square.
    """
    problem = _begin(gram, fresh(labels, b, mass, beta, shift), start, n_jobs)
    n_iter, stalled, psi = 0, 0, problem.psi()
    while psi.max() > tol and n_iter < max_iter and stalled < PATIENCE:
        index = _working_set(gram, problem, psi, tol)
        steps, solved = _work(gram, problem, index, tol / 2, max_iter - n_iter, n_jobs)
        n_iter, psi = n_iter + steps, problem.psi()
        if solved and psi[index].max() > tol:  # the kernel values are coarse: look again
            stalled += 1
    return certify(problem, n_iter, float(psi.max()), tol)


def _begin(
    gram: Store, problem: Problem, start: tuple[Array, Array] | None, n_jobs: int | None
) -> Problem:
    if start is not None:
        before, product = start
        tau = feasible(before, problem.labels, problem.mass)
        problem.G += product.T / problem.beta
        _add(gram, problem, np.arange(len(tau)), (tau - before).T / problem.beta, n_jobs)
        problem.eta -= tau.T
    return problem


def _working_set(gram: Store, problem: Problem, psi: Array, tol: float) -> Array:
    """Return the samples to work on next; all of them while more than half are active."""
    index = problem.active(psi, tol / 2)
    if gram.matrix is not None:
        return index if _few(len(index), len(gram)) else np.arange(len(gram))
    limit = gram.largest_square
    if len(index) <= limit:
        return index
    shuffled = np.random.RandomState(0).permutation(index)  # equal violations: any class
    return np.sort(shuffled[np.argsort(-psi[shuffled], kind="stable")[:limit]])


def _few(active: int, n: int) -> bool:
    return n > SMALL and active <= SHRINK * n


def _work(
    gram: Store, problem: Problem, index: Array, tol: float, max_iter: int, n_jobs: int | None
) -> tuple[int, bool]:
    """Work on some samples alone, then bring G of all samples up to date.

    Returns the steps made, and whether the samples were solved: they are left unsolved once few of
    them are active.
    """
    whole = len(index) == len(gram) and gram.matrix is not None
    matrix = gram.matrix if whole else gram.block(index)
    eta = np.ascontiguousarray(problem.eta[:, index])
    G = problem.G[:, index].astype(gram.dtype, order="C")
    part = replace(problem, eta=eta, G=G, mass=problem.mass[index])
    tol = max(tol, 4.0 * float(np.finfo(G.dtype).eps * np.abs(G).max()))  # finer is rounding
    arrays = matrix, gram.diagonal[index] + part.shift, G, eta, part.mass
    steps, bursts, solved = 0, 0, False
    while not solved and steps < max_iter:
        most = min(BURST * max(len(index), SMALL), max_iter - steps)
        done = int(descend(*arrays, part.beta, part.shift, tol, most))
        steps, bursts, solved = steps + done, bursts + 1, done < most
        if solved or _few(len(part.active(part.psi(), tol)), len(index)):
            break
        if bursts >= EASY:
            _gram_face(matrix, part, tol / 2)
    _add(gram, problem, index, (problem.eta[:, index] - eta) / problem.beta, n_jobs)
    problem.eta[:, index] = eta
    return steps, solved


def _gram_face(matrix: Any, part: Problem, tol: float) -> None:
    """Conjugate gradients on the samples of a square that are between their bounds."""
    free = np.flatnonzero(np.count_nonzero(part.eta, axis=0) > 1)
    if not 0 < len(free) <= FACE_LIMIT:
        return
    K, G, eta = matrix[free], part.G[:, free], part.eta[:, free]
    inner = K[:, free]

    def product(p: Array) -> Array:
        return p.astype(K.dtype) @ inner + part.shift * p.sum(axis=1, keepdims=True)

    with single_blas():
        descend_face(product, G, eta, part.beta, tol)
        change = (part.eta[:, free] - eta) / part.beta
        part.G += change.astype(K.dtype) @ K
        part.G += (part.shift * change.sum(axis=1, keepdims=True)).astype(K.dtype)
    part.eta[:, free] = eta


def _add(gram: Store, problem: Problem, index: Array, change: Array, n_jobs: int | None) -> None:
    """G += change @ (K + shift)[index], only where ``change`` (n_classes, n_index) is not 0."""
    G = problem.G
    G += problem.shift * change.sum(axis=1, keepdims=True)
    if gram.matrix is None:
        moved = np.flatnonzero(change.any(axis=0))
        with single_blas():
            for batch in gen_batches(len(moved), TILE):
                G += change[:, moved[batch]] @ gram.strip(index[moved[batch]])
        return

    def one_class(r: int) -> None:
        moved = np.flatnonzero(change[r])
        gram.add(index[moved], change[r, moved], G[r])

    thread_map(one_class, range(len(G)), n_jobs)
