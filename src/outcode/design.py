"""Designing a code for given machines: discrete columns and continuous codes. [CS02]

``H`` (n_samples, n_columns) holds the machines' outputs on the training rows, ``labels`` their
class indices. A code reads the outputs by H(x) = argmax_r h(x) . M_r.

- *discrete*, entries +1 and -1: the error of a code (Eq. 1), the best column for one machine
  (Theorem 1), the best code by enumeration (the problem is NP-complete, Theorem 2);
- *continuous*, real entries: the code of least norm and least multiclass hinge loss (Eq. 15), for
  the norms 1, 2 and infinity, all columns at once or one after the other (Eq. 32).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import brentq, linprog
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from outcode import _spoc_solver
from outcode._checks import Array, lookup, positive, row_weights

#: best_code_exhaustive enumerates at most this many codes.
EXHAUSTIVE_LIMIT = 2**20
#: The norm that bounds the dual variables, for the norm of the code.
DUAL_NORM = {"1": "inf", "2": "2", "inf": "1"}
#: Duality gap above which a continuous code is said to have stopped early.
GAP = 1e-5


# --- discrete codes ---


def code_error(code: Array, H: Array, labels: Array, sample_weight: Any = None) -> float:
    """Return the expected error of a code, a tie being broken by a fair draw. [CS02] Eq. 1

    epsilon = 1 - (1 / m) sum_i [y_i in H(x_i)] / |H(x_i)|, where H(x) are all the classes whose
    codeword attains max_r h(x) . M_r; with weights their weighted mean.

    Parameters
    ----------
    code : (n_classes, n_columns), any real numbers
    H : (n_samples, n_columns) outputs of the machines
    labels : (n_samples,) class indices
    sample_weight : (n_samples,), 1 each when None

    Examples
    --------
    >>> code_error([[1], [-1], [-1]], [[1], [-1]], [0, 1])
    0.25
    """
    code, H = np.asarray(code, dtype=np.float64), _outputs(H)
    labels, _ = _class_indices(labels, len(H), len(code))
    if code.ndim != 2 or code.shape[1] != H.shape[1]:
        raise ValueError(
            f"code must have a column per column of H ({H.shape[1]}), got shape {code.shape}."
        )
    scores = H @ code.T
    winners = scores == scores.max(axis=1, keepdims=True)
    right = winners[np.arange(len(H)), labels] / winners.sum(axis=1)
    weight = row_weights(sample_weight, len(H))
    return float(1.0 - weight @ right / weight.sum())


def best_column(
    h: Array, labels: Array, *, n_classes: int | None = None, sample_weight: Any = None
) -> Array:
    """Return the column with the least error for one machine. [CS02] Theorem 1

    With a_r^b the weight of the rows of class r that the machine calls b, and w^b the number of
    classes with u_r = b, the accuracy is sum_r a_r^{u_r} / w^{u_r} (Eq. 5). For each w^+ it is
    largest when the +1 go to the classes of largest a_r^+ / w^+ - a_r^- / w^- (Eq. 6). Costs
    O(m + k^2 log k). Among equally good columns the one with fewest +1 is returned, and these go to
    the lower class indices.

    Parameters
    ----------
    h : (n_samples,) outputs, +1 or -1
    labels : (n_samples,) class indices
    n_classes : length of the column; the largest label plus one when None
    sample_weight : (n_samples,), 1 each when None

    Returns
    -------
    (n_classes,) int8

    Examples
    --------
    >>> best_column([1, 1, -1, -1], [0, 0, 1, 2]).tolist()
    [1, -1, -1]
    """
    h = np.asarray(h)
    if h.ndim != 1 or not np.isin(h, (-1, 1)).all():
        raise ValueError("h must hold +1 and -1 only, shape (n_samples,): give np.sign of margins.")
    labels, k = _class_indices(labels, len(h), n_classes)
    weight = row_weights(sample_weight, len(h))
    plus, minus = (np.bincount(labels, weight * (h == sign), minlength=k) for sign in (1, -1))
    size = np.arange(1, k)[:, None]
    gain = plus / size - minus / (k - size)
    order = np.argsort(-gain, axis=1, kind="stable")
    chosen = np.arange(k) < size
    value = (np.take_along_axis(gain, order, axis=1) * chosen).sum(axis=1)
    value += minus.sum() / (k - size.ravel())
    best = int(np.argmax(value > value.max() - 1e-12 * weight.sum()))
    column = np.full(k, -1, dtype=np.int8)
    column[order[best, : best + 1]] = 1
    return column


def best_code_exhaustive(
    H: Array, labels: Array, *, n_classes: int | None = None, sample_weight: Any = None
) -> Array:
    """Return a code of +1 and -1 with the least error, by trying them all. [CS02] Section 4

    Finding it is NP-complete (Theorem 2), so this is for tiny problems: there are
    2^(n_classes n_columns) codes, and an error is raised beyond ``EXHAUSTIVE_LIMIT`` of them.

    Parameters
    ----------
    H : (n_samples, n_columns) outputs of the machines, any real numbers
    labels : (n_samples,) class indices
    n_classes : rows of the code; the largest label plus one when None
    sample_weight : (n_samples,), 1 each when None

    Returns
    -------
    (n_classes, n_columns) int8, the first of equals counting up from all -1

    Examples
    --------
    >>> best_code_exhaustive([[1.0, 1.0], [-1.0, 1.0]], [0, 1]).tolist()
    [[1, -1], [-1, -1]]
    """
    H = _outputs(H)
    labels, k = _class_indices(labels, len(H), n_classes)
    if k * H.shape[1] > np.log2(EXHAUSTIVE_LIMIT):
        raise ValueError(
            f"{k} classes and {H.shape[1]} columns make 2^{k * H.shape[1]} codes, more than the "
            f"{EXHAUSTIVE_LIMIT:,} that are tried: the problem is NP-complete. Use best_column for "
            f"one column, or continuous_code."
        )
    words = 2 * _bits(H.shape[1]) - 1
    mass = _pattern_weights(H @ words.T, labels, k, row_weights(sample_weight, len(H)))
    best, accuracy = np.zeros(k, dtype=np.intp), -1.0
    for start in range(0, len(words) ** k, 2**12):
        stop = min(start + 2**12, len(words) ** k)
        picks = np.stack(np.unravel_index(np.arange(start, stop), (len(words),) * k), axis=1)
        found = _accuracies(picks, *mass)
        if found.max() > accuracy + 1e-12:
            best, accuracy = picks[np.argmax(found)], found.max()
    return words[best].astype(np.int8)


def _accuracies(picks: Array, scores: Array, weights: Array) -> Array:
    """Return the accuracy of codes whose rows are ``picks`` (n_codes, n_classes) of the words."""
    total = np.zeros(len(picks))
    for score, weight in zip(scores, weights, strict=True):
        of_class = score[picks]
        winners = of_class == of_class.max(axis=1, keepdims=True)
        total += (winners @ weight) / winners.sum(axis=1)
    return total


def _pattern_weights(scores: Array, labels: Array, k: int, weight: Array) -> tuple[Array, Array]:
    """Return the distinct rows of ``scores`` and the share of each class among each of them."""
    patterns, inverse = np.unique(scores, axis=0, return_inverse=True)
    shares = np.zeros((len(patterns), k))
    np.add.at(shares, (inverse.ravel(), labels), weight / weight.sum())
    return patterns, shares


def _bits(n: int) -> Array:
    """Return all the 2^n rows of n zeros and ones, counting up."""
    return (np.arange(2**n)[:, None] >> np.arange(n)[::-1]) & 1


# --- continuous codes ---


@dataclass(frozen=True)
class ContinuousDesign:
    """A code of real numbers and its certificate.

    ``code`` (n_classes, n_columns); ``objective`` and ``dual_objective`` the primal and the dual
    value, each computed from ``code`` and ``tau`` alone; ``tau`` (n_samples, n_classes) the dual
    variables c_i [r = y_i] - eta_ir.
    """

    code: Array
    objective: float
    dual_objective: float
    tau: Array

    @property
    def gap(self) -> float:
        """The duality gap over the primal value, or over 1, the loss of a row, if larger."""
        return (self.objective - self.dual_objective) / max(self.objective, 1.0)

    @property
    def support(self) -> Array:
        """The support patterns: rows with a tau that is not 0. [CS02] Section 5.2"""
        return np.flatnonzero((self.tau != 0).any(axis=1))


@dataclass(frozen=True)
class _Data:
    """Outputs, labels, weights and the required leads b (n_samples, n_classes) of one problem."""

    H: Array
    labels: Array
    mass: Array
    b: Array

    def own(self, matrix: Array) -> Array:
        """Return each row's entry of its own class, as a column."""
        return matrix[np.arange(len(self.labels)), self.labels][:, None]

    def loss(self, code: Array) -> float:
        """Return sum_i c_i max_r (h_i.M_r + b_ir - h_i.M_{y_i}). [CS02] Eq. 9"""
        scores = self.H @ code.T
        return float(self.mass @ (scores + self.b - self.own(scores)).max(axis=1))


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
    H : (n_samples, n_columns) outputs of the machines, any real numbers
    labels : (n_samples,) class indices
    norm : 1, 2 or "inf"
    beta : weight of the norm
    radius : if given, minimise the loss alone subject to |M|_p <= radius; beta is not used
    n_classes : rows of the code; the largest label plus one when None
    sample_weight : (n_samples,) the weights c_i, 1 each when None

    Examples
    --------
    >>> found = continuous_code([[2.0], [-2.0]], [0, 1], norm=1, beta=0.1)
    >>> bool(np.all(found.code[0] > found.code[1])), round(found.objective, 6)
    (True, 0.05)
    """
    data = _problem(H, labels, n_classes, sample_weight)
    return _solve(data, _norm_name(norm), positive(beta, "beta"), radius)


def incremental_code(
    H: Array,
    labels: Array,
    *,
    norm: int | str = 2,
    beta: float = 1.0,
    n_classes: int | None = None,
    sample_weight: Any = None,
) -> ContinuousDesign:
    """Return a continuous code found one column after the other. [CS02] Eq. 32

    Each column solves the problem of :func:`continuous_code` for its machine alone, the leads that
    the columns before it have won taken off what is required: b_ir = 1 - [r = y_i] -
    (h_i.M_{y_i} - h_i.M_r). ``objective`` and ``dual_objective`` are those of the last column's
    problem. Parameters as there.

    Examples
    --------
    >>> H = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> found = incremental_code(H, [0, 1, 2], beta=0.01)
    >>> np.argmax(H @ found.code.T, axis=1).tolist()
    [0, 1, 2]
    """
    data = _problem(H, labels, n_classes, sample_weight)
    beta, name = positive(beta, "beta"), _norm_name(norm)
    columns, b = [], data.b
    for h in data.H.T[:, :, None]:
        found = _solve(_Data(h, data.labels, data.mass, b), name, beta, None)
        columns.append(found.code)
        scores = h @ found.code.T
        b = b + scores - data.own(scores)
    return ContinuousDesign(np.hstack(columns), found.objective, found.dual_objective, found.tau)


def _problem(H: Any, labels: Any, n_classes: int | None, sample_weight: Any) -> _Data:
    H = _outputs(H)
    labels, k = _class_indices(labels, len(H), n_classes)
    b = _spoc_solver.margin_requirements(labels, k).T
    return _Data(H, labels, row_weights(sample_weight, len(H)), b)


def _norm_name(norm: int | str) -> str:
    name = "inf" if norm == np.inf else str(norm)
    lookup(DUAL_NORM, name, "norm")
    return name


def _solve(data: _Data, norm: str, beta: float, radius: float | None) -> ContinuousDesign:
    radius = None if radius is None else positive(radius, "radius")
    if norm == "2":
        found = _quadratic(data, beta) if radius is None else _quadratic_ball(data, radius)
    else:
        found = _linear(data, norm, beta, radius)
    if found.gap > GAP:
        warnings.warn(
            f"The continuous code stopped early: its duality gap is {found.gap:.2g}.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return found


# norm 2


def _quadratic(data: _Data, beta: float, start: Any = None) -> ContinuousDesign:
    """Solve min beta/2 |M|^2 + loss by the solver of SPOC; M by Eq. 26."""
    b = np.ascontiguousarray(data.b.T)
    leads = max(1.0, float(np.abs(b).max()))
    found = _spoc_solver.solve_linear(
        data.H, data.labels, b, data.mass, beta=beta, tol=1e-7 * leads, start=start
    )
    code = found.tau.T @ data.H / beta
    return ContinuousDesign(code, found.objective, found.dual_objective, found.tau)


def _quadratic_ball(data: _Data, radius: float) -> ContinuousDesign:
    """Solve min loss s.t. |M|_2 <= radius, by the beta whose code has that norm.

    |M(beta)| falls as beta grows; if it stays within the ball for the smallest beta the constraint
    does not bind. The dual value of any tau is sum_i eta_i.b_i - radius |sum_i tau_i h_i'|_2.
    """
    found: dict[float, ContinuousDesign] = {}

    def excess(log_beta: float) -> float:
        last = next(reversed(found.values())).tau if found else None
        start = None if last is None else (last, last)
        found[log_beta] = _quadratic(data, float(np.exp(log_beta)), start)
        return float(np.log(np.linalg.norm(found[log_beta].code) + 1e-300) - np.log(radius))

    size = float(data.mass @ np.linalg.norm(data.H, axis=1)) / radius
    high = np.log(2.0 * size + 1e-300)  # |M| <= 2 sum_i c_i |h_i| / beta
    low = high - np.log(1e7)
    root = brentq(excess, low, high, xtol=1e-10, rtol=1e-12) if excess(low) > 0 else low
    if root not in found:
        excess(root)
    code, tau = found[root].code, found[root].tau
    code = code * min(1.0, radius / max(matrix_norm(code, "2"), 1e-300))
    return _hard(data, "2", radius, code, tau)


def _hard(data: _Data, norm: str, radius: float, code: Array, tau: Array) -> ContinuousDesign:
    """Return the design of the constrained problem with its two values; tau = 0 proves 0."""
    dual = -float((tau * data.b).sum()) - radius * matrix_norm(tau.T @ data.H, DUAL_NORM[norm])
    if dual < 0:
        dual, tau = 0.0, np.zeros_like(tau)
    return ContinuousDesign(code, data.loss(code), dual, tau)


# norms 1 and infinity


def matrix_norm(matrix: Array, norm: str) -> float:
    """Return the norm "1", "2" or "inf" of all entries in a row."""
    order = {"1": 1, "2": 2, "inf": np.inf}[norm]
    return float(np.linalg.norm(np.ravel(matrix), order))


def _linear(data: _Data, norm: str, beta: float, radius: float | None) -> ContinuousDesign:
    """Solve norm 1 or infinity by a linear program. [CS02] Section 5.1

    With S M the leads h_i.M_{y_i} - h_i.M_r, one row per sample and other class:

        primal  min beta |M| + c.xi          s.t.  S M + xi >= b, xi >= 0
        dual    max b.eta                    s.t.  |S'eta|_* <= beta, sum_r eta_ir <= c_i, eta >= 0

    and with a radius A: |M| <= A without beta |M|, and b.eta - A |S'eta|_* without its bound.
    """
    S, E, b = _leads(data)
    if S.shape[0] <= S.shape[1] + E.shape[1]:
        M, eta = _primal_program(S, E, b, data.mass, norm, beta, radius)
    else:
        M, eta = _dual_program(S, E, b, data.mass, norm, beta, radius)
    code, tau = M.reshape(data.b.shape[1], -1), _other_classes(data, eta)
    if radius is not None:
        code = code * min(1.0, radius / max(matrix_norm(code, norm), 1e-300))
        return _hard(data, norm, radius, code, tau)
    tau = tau * min(1.0, beta / max(matrix_norm(tau.T @ data.H, DUAL_NORM[norm]), 1e-300))
    objective = beta * matrix_norm(code, norm) + data.loss(code)
    return ContinuousDesign(code, objective, -float((tau * data.b).sum()), tau)


def _leads(data: _Data) -> tuple[Any, Any, Array]:
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


def _other_classes(data: _Data, eta: Array) -> Array:
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
    found = _program(
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
    found = _program(
        np.concatenate([-b, terms.costs]),
        sparse.block_diag([E.T, terms.rows]),
        np.concatenate([mass, terms.limit]),
        np.vstack([np.column_stack([np.zeros(pairs), np.full(pairs, np.inf)]), terms.bounds]),
        sparse.hstack([S.T, -eye, eye, sparse.csr_matrix((size, 1))]),
    )
    return -found.eqlin.marginals, found.x[:pairs]


def _program(costs: Array, A: Any, limit: Array, bounds: Array, equal: Any = None) -> Any:
    """Solve min costs.x s.t. A x <= limit, equal x = 0, bounds, by HiGHS."""
    zeros = None if equal is None else np.zeros(equal.shape[0])
    found = linprog(costs, A_ub=sparse.csc_matrix(A), b_ub=limit, A_eq=equal, b_eq=zeros,
                    bounds=bounds, method="highs")  # fmt: skip
    if found.x is None:
        raise RuntimeError(f"The linear program of the code was not solved: {found.message}")
    return found


# --- a column and its machine in turn ---


@dataclass(frozen=True)
class GreedyDesign:
    """A discrete code grown with its machines: ``code``, and ``errors`` after each column."""

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
    """Grow a code of +1 and -1 column by column, a machine and its best column in turn.

    A column starts at random, a machine is trained on it, and the best column for that machine
    (Theorem 1) replaces it, until it stays or ``rounds`` are done; of these the column that gives
    the code the least error (Eq. 1) is kept. Rows the code gets wrong so far count double when a
    column is chosen. [CS02] leaves the next column given the others as an open question; this is a
    heuristic for it.

    Parameters
    ----------
    X : (n_samples, n_features)
    labels : (n_samples,) class indices
    machine : with ``fit(X, targets)`` and ``margins(X)``
    n_columns : columns to find
    rounds : most machines trained for one column
    random_state : seed of the first column of each search
    """
    labels, k = _class_indices(labels, X.shape[0], None)
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
    """Return the best (column, outputs) met while a machine and its column take turns."""
    k, best = len(code), (np.inf, np.zeros(0), np.zeros(0))
    weight = 1.0 + _wrong(code, H, labels)
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


def _wrong(code: Array, H: Array, labels: Array) -> Array:
    """Return 1 for each row whose class does not win alone, 0 for the others."""
    if code.shape[1] == 0:
        return np.zeros(len(labels))
    scores = H @ code.T
    own = scores[np.arange(len(labels)), labels]
    return ((scores >= own[:, None]).sum(axis=1) > 1).astype(np.float64)


# --- input ---


def _outputs(H: Any) -> Array:
    H = np.asarray(H, dtype=np.float64)
    if H.ndim != 2 or 0 in H.shape or not np.isfinite(H).all():
        raise ValueError(
            f"H must be a finite (n_samples, n_columns) matrix of outputs, got shape {H.shape}."
        )
    return H


def _class_indices(labels: Any, n_samples: int, n_classes: int | None) -> tuple[Array, int]:
    """Return the labels as integers 0..n_classes-1, and n_classes."""
    labels = np.asarray(labels)
    if labels.shape != (n_samples,) or labels.dtype.kind not in "iu" or np.any(labels < 0):
        raise ValueError(
            f"labels must be {n_samples} class indices 0, 1, ..., one per row of H, got shape "
            f"{labels.shape} of {labels.dtype}."
        )
    k = int(labels.max()) + 1 if n_classes is None else int(n_classes)
    if k < 2 or labels.max() >= k:
        raise ValueError(
            f"labels reach {labels.max()}, which needs n_classes >= {max(2, labels.max() + 1)}, "
            f"got {k}."
        )
    return labels.astype(np.intp), k
