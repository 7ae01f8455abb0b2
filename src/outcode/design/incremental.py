"""Codes found one column after the other, continuous and discrete. [CS02] Eq. 32"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from outcode._checks import Array, positive
from outcode.design.continuous import norm_name, solve
from outcode.design.discrete import best_column, code_error
from outcode.design.problem import ContinuousDesign, Data, class_indices, problem


def incremental_code(
    H: Array,
    labels: Array,
    *,
    norm: int | str = 2,
    beta: float = 1.0,
    n_classes: int | None = None,
    sample_weight: Any = None,
) -> ContinuousDesign:
    """Return a continuous code found one column after the other.

    [CS02] Eq. 32. Each column solves the problem of :func:`continuous_code` for its machine alone,
    the leads that the columns before it have won taken off what is required: b_ir = 1 - [r = y_i] -
    (h_i.M_{y_i} - h_i.M_r). ``objective`` and ``dual_objective`` are those of the last column's
    problem.

    Parameters
    ----------
    H : array-like of shape (n_samples, n_columns)
        Outputs of the machines, any real numbers.
    labels : array-like of shape (n_samples,)
        Class indices.
    norm : {1, 2, "inf"}, default=2
        The norm of each column.
    beta : float, default=1.0
        Weight of the norm.
    n_classes : int or None, default=None
        Number of rows of the code; the largest label plus one when None.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weights of the rows, 1 each when None.

    Returns
    -------
    ContinuousDesign
        The code, with the objective and duality gap of the last column's problem.

    Examples
    --------
    >>> H = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> found = incremental_code(H, [0, 1, 2], beta=0.01)
    >>> np.argmax(H @ found.code.T, axis=1).tolist()
    [0, 1, 2]
    """
    data = problem(H, labels, n_classes, sample_weight)
    beta, name = positive(beta, "beta"), norm_name(norm)
    columns, b = [], data.b
    for h in data.H.T[:, :, None]:
        found = solve(Data(h, data.labels, data.mass, b), name, beta, None)
        columns.append(found.code)
        scores = h @ found.code.T
        b = b + scores - data.own(scores)
    return ContinuousDesign(np.hstack(columns), found.objective, found.dual_objective, found.tau)


# --- a column and its machine in turn ---


@dataclass(frozen=True)
class GreedyDesign:
    """A discrete code grown with its machines.

    Parameters
    ----------
    code : ndarray of shape (n_classes, n_columns)
        Entries -1 and +1.
    errors : ndarray of shape (n_columns,)
        Error of the code after each column.
    """

    code: Array
    errors: Array


def greedy_code(
    X: Any,
    labels: Array,
    machine: Any,
    *,
    n_columns: int,
    rounds: int = 5,
    random_state: int = 0,
) -> GreedyDesign:
    """Grow a code of +1 and -1: train a machine, find its best column, and repeat.

    A column starts at random, a machine is trained on it, and the best column for that machine
    (Theorem 1) replaces it, until it stays or ``rounds`` are done; of these the column that gives
    the code the least error (Eq. 1) is kept. Rows the code gets wrong so far count double when a
    column is chosen. [CS02] leaves the next column given the others as an open question; this is a
    heuristic for it.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Training rows.
    labels : array-like of shape (n_samples,)
        Class indices.
    machine : machine
        With ``fit(X, targets)`` and ``margins(X)``.
    n_columns : int
        Number of columns to find.
    rounds : int, default=5
        Largest number of machines trained for one column.
    random_state : int, default=0
        Seed of the first column of each search.

    Returns
    -------
    GreedyDesign
        The code, and its error after each column.

    Examples
    --------
    >>> from outcode import machines
    >>> from sklearn.datasets import load_iris
    >>> found = greedy_code(*load_iris(return_X_y=True), machines.LeastSquares(), n_columns=3)
    >>> found.code.shape, bool(found.errors[-1] <= found.errors[0])
    ((3, 3), True)
    """
    labels, k = class_indices(labels, X.shape[0], None)
    rng = np.random.RandomState(random_state)
    code, H = np.zeros((k, 0), dtype=np.int8), np.zeros((len(labels), 0))
    errors = []
    for _ in range(n_columns):
        found = _alternate(X, labels, machine, code, H, rounds, rng)
        code, H = np.column_stack([code, found[0]]), np.column_stack([H, found[1]])
        errors.append(code_error(code, H, labels))
    return GreedyDesign(code, np.array(errors))


def _alternate(
    X: Any, labels: Array, machine: Any, code: Array, H: Array, rounds: int, rng: Any
) -> tuple[Array, Array]:
    """Return the best (column, outputs) found while alternating machine and column."""
    k, best = len(code), (np.inf, np.zeros(0), np.zeros(0))
    weight = 1.0 + not_won(code, H, labels)
    column = np.where(rng.permutation(k) < max(1, k // 2), 1, -1).astype(np.int8)
    for _ in range(rounds):
        fitted = clone(machine).fit(X, column[labels][:, None])
        h = np.where(fitted.margins(X).ravel() >= 0, 1.0, -1.0)
        after = best_column(h, labels, n_classes=k, sample_weight=weight)
        error = code_error(np.column_stack([code, after]), np.column_stack([H, h]), labels)
        if error < best[0]:
            best = error, after, h
        if np.array_equal(after, column):
            break
        column = after
    return best[1], best[2]


def not_won(code: Array, H: Array, labels: Array) -> Array:
    """Return 1 for each row whose class does not win alone, 0 for the others."""
    if code.shape[1] == 0:
        return np.zeros(len(labels))
    scores = H @ code.T
    own = scores[np.arange(len(labels)), labels]
    return ((scores >= own[:, None]).sum(axis=1) > 1).astype(np.float64)
