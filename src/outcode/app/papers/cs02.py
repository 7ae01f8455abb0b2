"""[CS02] Fig. 5: the time of SPOC against a generic quadratic program on four quadrants.

    outcode reproduce CS02 [--quick]

Points uniform over [-1, 1]^2, labelled by their quadrant, linear kernel, m = 10 to 250, three
problems each. The paper prints curves and a sentence ("two orders of magnitude faster" than
Matlab's QP package); the generic solver here is SciPy's SLSQP on the dense dual of Eq. 25, cut off
after a minute a problem; it is not started on more points than those it was cut off at. Times are
CPU seconds, which do not depend on what else runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from outcode._checks import Array
from outcode.app.papers.comparison import Setting, markdown
from outcode.classifier import SPOC

SIZES = (10, 25, 50, 100, 150, 200, 250)
QUICK = (10, 25, 50)
RUNS = 3
BETA = 1.0
#: CPU seconds after which SLSQP is cut off.
LIMIT = 60.0

NOTES = """\
CPU seconds, means over three problems; ">=" marks a solver cut off after a minute, which is not run
on more points. The objectives show that both solved the same problem. Against a modern
interior-point solver the ratio is far smaller: `benchmarks/spoc.py` prints it."""


def reproduce(setting: Setting) -> str:
    """Run the comparison and return the page; the quick version stops at 50 points."""
    by_spoc(*quadrants(20, 0))  # compiles before the clock
    rows, runs = [], True
    for m in QUICK if setting.quick else SIZES:
        row, runs = _row(m, runs)
        rows.append(row)
    head = ["m", "SPOC, CPU s", "SLSQP, CPU s", "times faster", "objective: SPOC", "SLSQP"]
    said = "The paper says: up to two orders of magnitude faster than a standard QP package."
    return "\n\n".join(["## Fig. 5", said, markdown(head, rows), NOTES])


def quadrants(m: int, seed: int) -> tuple[Array, Array]:
    """Return m points uniform over [-1, 1]^2, no quadrant empty, and their quadrants."""
    X = np.random.RandomState(seed).uniform(-1, 1, (m, 2))
    X[:4] = np.abs(X[:4]) * [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    return X, 2 * (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)


def dual(X: Array, labels: Array) -> tuple[Array, Array, float, Array]:
    """Return P, q, c, A of  min 1/2 eta'P eta + q'eta + c  with  A eta = 1, eta >= 0  (Eq. 25)."""
    own = np.eye(4)[labels].ravel()
    P = np.kron(X @ X.T / BETA, np.eye(4))
    sums = np.kron(np.eye(len(X)), np.ones((1, 4)))
    return P, -P @ own - (1.0 - own), float(0.5 * own @ P @ own), sums


def by_spoc(X: Array, labels: Array) -> float:
    """Return SPOC's objective."""
    return float(SPOC("linear", beta=BETA, tol=1e-3, folds=None).fit(X, labels).objective_)


def by_slsqp(X: Array, labels: Array) -> float:
    """Return the objective of the dense dual, NaN when the time is up."""
    P, q, constant, A = dual(X, labels)
    start, until = np.eye(4)[labels].ravel(), time.process_time() + LIMIT

    def value(eta: Array) -> float:
        if time.process_time() > until:
            raise TimeoutError
        return float(0.5 * eta @ P @ eta + q @ eta)

    try:
        found = minimize(
            value,
            start,
            jac=lambda eta: P @ eta + q,
            bounds=[(0, None)] * len(q),
            constraints={"type": "eq", "fun": lambda eta: A @ eta - 1.0, "jac": lambda eta: A},
            method="SLSQP",
            options={"maxiter": 200, "ftol": 1e-6},
        )
    except TimeoutError:
        return float("nan")
    return -float(found.fun + constant)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds a call takes, and what it returns."""
    start = time.process_time()
    value = function()
    return time.process_time() - start, value


def _row(m: int, runs: bool) -> tuple[list[str], bool]:
    """Return the row of m points, and whether SLSQP ran to its end; it starts if ``runs``."""
    problems = [quadrants(m, seed) for seed in range(RUNS)]
    ours, mine = np.mean([timed(lambda p=p: by_spoc(*p)) for p in problems], axis=0)  # type: ignore[misc]
    row = [str(m), f"{ours:.4f}", "-", "-", f"{mine:.4f}", "not run"]
    if not runs:
        return row, False
    theirs, peer = np.mean([timed(lambda p=p: by_slsqp(*p)) for p in problems], axis=0)  # type: ignore[misc]
    cut = ">= " if np.isnan(peer) else ""
    row[2:4] = [f"{cut}{theirs:.3f}", f"{cut}{theirs / ours:.0f}"]
    row[5] = "cut off" if cut else f"{peer:.4f}"
    return row, not cut
