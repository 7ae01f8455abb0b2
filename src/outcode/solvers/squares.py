"""Problems of all classes at once on a Gram store: squares of the samples worth working on.

Samples at their bounds that do not want to leave them are left out; once at most half are left
their square of the Gram is gathered. With rows on demand a square holds what fits, the largest
violations first. After each square G of all samples is brought up to date in float64 from the
samples that moved, and the violation measured on it decides whether to stop.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from sklearn.utils import gen_batches

from outcode._checks import Array
from outcode.parallel import single_blas, thread_map
from outcode.solvers.store import TILE, Store

#: Steps, as a multiple of the samples worked on, before looking whether few of them are active.
BURST = 2
#: Samples are gathered into a square once at most this share is active, unless they are this few.
SHRINK, SMALL = 1 / 2, 600
#: Rounds in which the violation of all samples may fail to fall before giving up.
PATIENCE = 10


class Problem(Protocol):
    """The variables of a problem as they stand, and ``G`` (n_classes, n), which follows them."""

    G: Array
    shift: float

    def psi(self) -> Array:
        """Return the violation of every sample."""

    def active(self, psi: Array, tol: float) -> Array:
        """Return the samples that are between their bounds, or violate."""

    def part(self, index: Array, dtype: Any) -> Any:
        """Return the problem of some samples alone, its G of some type."""

    def descend(self, matrix: Array, diagonal: Array, tol: float, most: int) -> int:
        """Make at most some steps on a square of kernel values; return how many."""

    def merge(self, part: Any, index: Array) -> Array:
        """Take over the variables of a part; return what changes the rows of K that make up G."""


def solve(
    gram: Store, problem: Problem, *, tol: float, share: float, max_iter: int, n_jobs: int | None
) -> tuple[int, float]:
    """Solve a problem in place, each square to a share of the tolerance.

    Returns the steps made and the largest violation.
    """
    n_iter, stalled, psi = 0, 0, problem.psi()
    while psi.max() > tol and n_iter < max_iter and stalled < PATIENCE:
        index = _working_set(gram, problem, psi, tol)
        steps, solved = _work(gram, problem, index, share * tol, max_iter - n_iter, n_jobs)
        n_iter, psi = n_iter + steps, problem.psi()
        if solved and psi[index].max() > tol:  # the kernel values are coarse: look again
            stalled += 1
    return n_iter, float(psi.max())


def add(gram: Store, problem: Problem, index: Array, change: Array, n_jobs: int | None) -> None:
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


def relative_gap(primal: float, dual: float) -> float:
    """Return the duality gap over the primal value."""
    return max(0.0, primal - dual) / max(primal, float(np.finfo(float).tiny))


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
    diagonal, part = gram.diagonal[index] + problem.shift, problem.part(index, gram.dtype)
    tol = max(tol, 4.0 * float(np.finfo(part.G.dtype).eps * np.abs(part.G).max()))  # not rounding
    steps, solved = 0, False
    while not solved and steps < max_iter:
        most = min(BURST * max(len(index), SMALL), max_iter - steps)
        done = int(part.descend(matrix, diagonal, tol, most))
        steps, solved = steps + done, done < most
        if _few(len(part.active(part.psi(), tol)), len(index)):
            break
    change = problem.merge(part, index)
    if whole and part.G.dtype == problem.G.dtype:
        problem.G[:] = part.G  # of all samples, and followed without rounding to single precision
    else:
        add(gram, problem, index, change, n_jobs)
    return steps, solved
