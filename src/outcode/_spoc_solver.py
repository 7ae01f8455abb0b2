"""The dual problem of the multiclass kernel machine (SPOC), solved and certified. [CS02]

Primal, over one row M_r per class and one slack per sample, c_i the weight of sample i (Eq. 31):

    minimise  beta/2 sum_r |M_r|^2 + sum_i c_i xi_i   s.t.  M_{y_i}.x_i - M_r.x_i >= b_ir - xi_i

Dual, with eta_i >= 0 and sum_r eta_ir = c_i (Eq. 25), and tau_i = c_i 1_{y_i} - eta_i (Eq. 29):

    maximise  -1/(2 beta) sum_ij K_ij tau_i.tau_j - sum_i tau_i.b_i,   M_r = 1/beta sum_i tau_ir x_i

``G`` (n_classes, n) holds M_r.x_i + b_ir. At the optimum eta_ir > 0 only where G_ir is largest:
the violation of sample i is psi_i = max_r G_ir - min_{r: eta_ir > 0} G_ir, and the duality gap is
sum_ir eta_ir (max_s G_is - G_ir). b_ir = 1 - [r = y_i], except for codes built column by column.

Three levels of work, as for binary machines:

- *one sample*: the reduced problem (Eq. 37, Fig. 3), solved exactly by a projection on a simplex;
- *a square*: the samples worth working on, their kernel values gathered, largest violation first;
- *all samples*: after each square G is brought up to date in float64 from the samples that moved,
  and the violation measured on it decides whether to stop.

For the linear kernel M itself is kept instead of G, and no kernel value is ever computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from outcode._checks import Array
from outcode.gram import TILE, Gram
from outcode.parallel import single_blas, thread_map

HUGE = 1e30
#: Curvature at or below this times the largest is taken for a linear problem.
FLAT = 1e-14
#: Samples with at least this share of the largest violation are worked on one after the other.
SHARE = 0.5
#: Steps, as a multiple of the samples worked on, before looking whether few of them are active.
BURST = 2
#: Samples are gathered into a square once at most this share is active, unless they are this few.
SHRINK, SMALL = 1 / 2, 600
#: A square not solved after this many bursts (a linear problem: sweeps) is badly conditioned: from
#: then on each burst is followed by FACE_STEPS conjugate gradients, on at most FACE_LIMIT samples.
EASY, FACE_STEPS, FACE_LIMIT = 15, 50, 1000
#: Rounds in which the violation of all samples may fail to fall before giving up.
PATIENCE = 10

Product = Callable[[Array], Array]

FAST = {"contract", "reassoc", "nsz", "arcp", "nnan", "ninf"}
compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
compiled_fast = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)


# --- one sample ---


@compiled
def threshold(D: Any, mass: float) -> float:
    """Return the theta with sum_r max(0, D_r - theta) = mass: theta_0 of [CS02] Eq. 46.

    Figure 3 finds it by sorting. This is the search without a sort (Michelot 1986): with all
    classes taken theta is too small; drop the classes below it until none is left to drop. A pass
    costs k, and two or three are enough.
    """
    most = D.max()
    theta, count = -np.inf, D.shape[0] + 1
    while True:
        total, kept = 0.0, 0
        for r in range(D.shape[0]):
            if D[r] - most > theta:
                total += D[r] - most
                kept += 1
        if kept >= count or kept == 0:  # more than before: rounding, where D_r is about theta
            return theta + most
        theta, count = (total - mass) / kept, kept


@compiled
def reduced(g: Any, eta: Any, mass: float, curvature: float, out: Any) -> None:
    """Solve the reduced problem of one sample exactly, all others held. [CS02] Eq. 37-39

    max over tau  -A/2 tau.tau - B.tau  s.t.  tau <= c 1_y, tau.1 = 0, with A = K_pp / beta and
    B = g - A tau. In eta = c 1_y - tau it is the projection of D = eta + g / A on the simplex of
    mass c: out = max(0, D - theta). With A = 0 the problem is linear: all mass on argmax g.
    """
    k = g.shape[0]
    if curvature <= 0.0:
        out[:] = 0.0
        out[np.argmax(g)] = mass
        return
    for r in range(k):
        out[r] = eta[r] + g[r] / curvature
    theta = threshold(out, mass)
    for r in range(k):
        out[r] = max(0.0, out[r] - theta)


# --- a square ---


@compiled_fast
def violations(G: Any, eta: Any, out: Any) -> None:
    """out_i = psi_i = max_r G_ir - min_{r: eta_ir > 0} G_ir; negative where all eta are 0."""
    k, n = G.shape
    huge = G.dtype.type(HUGE)
    for start in range(0, n, 1024):
        width = min(1024, n - start)
        top, low = np.full(width, -huge), np.full(width, huge)
        for r in range(k):
            g, e = G[r, start : start + width], eta[r, start : start + width]
            for p in range(width):
                top[p] = max(top[p], g[p])
                low[p] = min(low[p], g[p] if e[p] > 0.0 else huge)
        for p in range(width):
            out[start + p] = top[p] - low[p]


@compiled
def violation_of(g: Any, eta: Any) -> float:
    """Return psi of one sample."""
    top, low = -HUGE, HUGE
    for r in range(g.shape[0]):
        top = max(top, g[r])
        low = min(low, g[r] if eta[r] > 0.0 else HUGE)
    return top - low


@compiled_fast
def add_multiple(out: Any, a: Any, x: Any, c: Any) -> None:
    """out += a x + c."""
    for p in range(out.shape[0]):
        out[p] += a * x[p] + c


@compiled
def descend(
    matrix: Any,
    diagonal: Any,
    G: Any,
    eta: Any,
    mass: Any,
    beta: float,
    shift: float,
    tol: float,
    max_iter: int,
) -> int:
    """Solve the dual on a square of kernel values, one sample at a time. [CS02] Figure 4

    Samples are chosen by their violation: those with at least ``SHARE`` of the largest are
    taken in order of their violation, each looked at again when its turn comes; then the
    violations of all are measured anew. Only the classes whose eta changed are updated in ``G``:
    a step costs one row of ``matrix`` times two or three classes. Stops when the largest
    violation is at most ``tol``. ``shift`` is added to every kernel value but ``diagonal``, which
    has it. ``G`` and ``eta`` (n_classes, n) are changed in place; returns the number of steps.
    """
    k, n = G.shape
    psi = np.empty(n, G.dtype)
    g, before, after = np.empty(k), np.empty(k), np.empty(k)
    flat, steps = FLAT * np.abs(diagonal).max(), 0
    while steps < max_iter:
        violations(G, eta, psi)
        largest = psi.max()
        if largest <= tol:
            return steps
        least, before_pass = max(tol, SHARE * largest), steps
        chosen = np.flatnonzero(psi > least)
        for p in chosen[np.argsort(-psi[chosen])]:
            for r in range(k):
                g[r], before[r] = G[r, p], eta[r, p]
            if violation_of(g, before) <= least:
                continue
            curvature = diagonal[p] / beta if diagonal[p] > flat else 0.0
            reduced(g, before, mass[p], curvature, after)
            for r in range(k):
                if after[r] != before[r]:
                    eta[r, p] = after[r]
                    a = (before[r] - after[r]) / beta
                    add_multiple(G[r], G.dtype.type(a), matrix[p], G.dtype.type(a * shift))
            steps += 1
            if steps == max_iter:
                break
        if steps == before_pass:  # what is left of the largest violation is rounding
            return steps
    return steps


# --- the face ---


def descend_face(product: Product, G: Array, eta: Array, beta: float, tol: float) -> None:
    """Lower the dual on the face of the variables that are positive, by conjugate gradients.

    With the zeros of eta held, the problem is quadratic with only sum_r eta_ir fixed; the reduced
    problems alone approach its optimum slowly when the kernel is badly conditioned. A variable
    that reaches 0 leaves the face, and the directions start anew (Moré & Toraldo 1991).

    ``product`` maps (n_classes, n) arrays p to p K; ``G`` and ``eta`` are changed in place. Stops
    after ``FACE_STEPS``, or when G varies by at most ``tol`` within the positive eta of a sample.
    """
    residual = _on_face(G, eta)
    direction = residual
    for _ in range(FACE_STEPS):
        if np.abs(residual).max() <= tol:
            return
        change = product(direction)
        slope, curvature = (float((direction * a).sum()) for a in (residual, change / beta))
        falling = direction < 0
        room = np.divide(eta, -direction, out=np.full(eta.shape, np.inf), where=falling)
        step = min(float(room.min()), slope / curvature if curvature > 0 else np.inf)
        if not (np.isfinite(step) and slope > 0):
            return
        eta += step * direction
        eta[room <= step * (1.0 + 1e-12)] = 0.0
        G -= (step / beta * change).astype(G.dtype)
        before, residual = residual, _on_face(G, eta)
        keep = 0.0 if step == room.min() else float((residual**2).sum() / (before**2).sum())
        direction = residual + keep * direction


def _on_face(G: Array, eta: Array) -> Array:
    """Return G less its mean over the positive eta of each sample, 0 where eta is 0."""
    free = eta > 0
    mean = (G * free).sum(axis=0, dtype=np.float64) / np.maximum(1, np.count_nonzero(free, axis=0))
    return np.where(free, G - mean, 0.0)


# --- all samples ---


@dataclass(frozen=True)
class Solution:
    """The optimum and its certificate.

    ``tau`` and ``scores`` (M_r.x_i) are (n_samples, n_classes), ``norm2`` (n_classes,) the squared
    norms |M_r|^2, ``objective`` and ``dual_objective`` the primal and the dual value, ``gap`` their
    difference over the primal value, ``violation`` the largest psi_i.
    """

    tau: Array
    scores: Array
    norm2: Array
    objective: float
    dual_objective: float
    gap: float
    violation: float
    n_iter: int
    converged: bool


@dataclass
class _Problem:
    """One problem: eta and G as they stand, and b, (n_classes, n); the masses (n,)."""

    eta: Array
    G: Array
    b: Array
    mass: Array
    labels: Array
    beta: float
    shift: float = 0.0

    def psi(self) -> Array:
        """Return the violation of every sample."""
        out = np.empty(self.G.shape[1])
        violations(self.G, self.eta, out)
        return out

    def active(self, psi: Array, tol: float) -> Array:
        """Return the samples that are between their bounds, or violate."""
        return np.flatnonzero((np.count_nonzero(self.eta, axis=0) > 1) | (psi > tol))


def margin_requirements(labels: Array, k: int) -> Array:
    """Return b_ir = 1 - [r = y_i], (n_classes, n). [CS02] Eq. 11"""
    b = np.ones((k, len(labels)))
    b[labels, np.arange(len(labels))] = 0.0
    return b


def solve(
    gram: Gram,
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
    problem = _begin(gram, _fresh(labels, b, mass, beta, shift), start, n_jobs)
    n_iter, stalled, psi = 0, 0, problem.psi()
    while psi.max() > tol and n_iter < max_iter and stalled < PATIENCE:
        index = _working_set(gram, problem, psi, tol)
        steps, solved = _work(gram, problem, index, tol / 2, max_iter - n_iter, n_jobs)
        n_iter, psi = n_iter + steps, problem.psi()
        if solved and psi[index].max() > tol:  # the kernel values are coarse: look again
            stalled += 1
    return _certify(problem, n_iter, float(psi.max()), tol)


def _fresh(labels: Array, b: Array, mass: Array, beta: float, shift: float) -> _Problem:
    """Return the problem at tau = 0."""
    eta = np.zeros(b.shape)
    eta[labels, np.arange(len(labels))] = mass
    return _Problem(eta, b.copy(), b, mass, labels, beta, shift)


def _begin(
    gram: Gram, problem: _Problem, start: tuple[Array, Array] | None, n_jobs: int | None
) -> _Problem:
    if start is not None:
        before, product = start
        tau = feasible(before, problem.labels, problem.mass)
        problem.G += product.T / problem.beta
        _add(gram, problem, np.arange(len(tau)), (tau - before).T / problem.beta, n_jobs)
        problem.eta -= tau.T
    return problem


def as_tau(eta: Array, labels: Array, mass: Array) -> Array:
    """Return tau_i = c_i 1_{y_i} - eta_i, (n, n_classes), rows contiguous."""
    tau = np.negative(eta, order="C") + 0.0  # no -0
    tau[np.arange(len(labels)), labels] += mass
    return tau


def feasible(tau: Array, labels: Array, mass: Array) -> Array:
    """Return tau with the rows shrunk that are beyond tau_i <= c_i 1_{y_i}."""
    own = tau[np.arange(len(labels)), labels]
    share = np.divide(mass, own, out=np.ones_like(own), where=own > mass)
    return tau * share[:, None]


def _working_set(gram: Gram, problem: _Problem, psi: Array, tol: float) -> Array:
    """Return the samples to work on next; all of them while more than half are active."""
    index = problem.active(psi, tol / 2)
    if gram.matrix is not None:
        return index if _few(len(index), len(gram)) else np.arange(len(gram))
    limit = int(np.sqrt(gram.capacity * len(gram)))
    if len(index) <= limit:
        return index
    shuffled = np.random.RandomState(0).permutation(index)  # equal violations: any class
    return np.sort(shuffled[np.argsort(-psi[shuffled], kind="stable")[:limit]])


def _few(active: int, n: int) -> bool:
    return n > SMALL and active <= SHRINK * n


def _work(
    gram: Gram, problem: _Problem, index: Array, tol: float, max_iter: int, n_jobs: int | None
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


def _gram_face(matrix: Any, part: _Problem, tol: float) -> None:
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


def _add(gram: Gram, problem: _Problem, index: Array, change: Array, n_jobs: int | None) -> None:
    """G += change @ (K + shift)[index], only where ``change`` (n_classes, n_index) is not 0."""
    G = problem.G
    G += problem.shift * change.sum(axis=1, keepdims=True)
    if gram.matrix is None:
        moved = np.flatnonzero(change.any(axis=0))
        with single_blas():
            for batch in gen_batches(len(moved), TILE):
                rows = gram.rows[index[moved[batch]]]
                G += change[:, moved[batch]] @ gram.kernel.block(rows, gram.rows)
        return

    def one_class(r: int) -> None:
        moved = np.flatnonzero(change[r])
        gram.add(index[moved], change[r, moved], G[r])

    thread_map(one_class, range(len(G)), n_jobs)


def _certify(problem: _Problem, n_iter: int, violation: float, tol: float) -> Solution:
    """Norms, objectives and gap of what was found."""
    rows = np.arange(len(problem.labels))
    tau = as_tau(problem.eta.T, problem.labels, problem.mass)
    scores = (problem.G - problem.b).T
    norm2 = np.maximum(0.0, np.einsum("ir,ir->r", tau, scores) / problem.beta)
    loss = problem.mass @ (problem.G.max(axis=0) - problem.G[problem.labels, rows])
    primal = 0.5 * problem.beta * norm2.sum() + float(loss)
    dual = -0.5 * problem.beta * norm2.sum() - float(np.einsum("ir,ri->", tau, problem.b))
    return Solution(
        tau=tau,
        scores=np.ascontiguousarray(scores),
        norm2=norm2,
        objective=float(primal),
        dual_objective=float(dual),
        gap=max(0.0, primal - dual) / max(primal, np.finfo(float).tiny),
        violation=violation,
        n_iter=n_iter,
        converged=violation <= tol,
    )


# --- the linear kernel ---


@compiled
def sweep(
    order: Any,
    starts: Any,
    columns: Any,
    values: Any,
    norms: Any,
    M: Any,
    eta: Any,
    b: Any,
    mass: Any,
    beta: float,
    tol: float,
    psi: Any,
) -> int:
    """Visit samples in ``order`` and solve the reduced problem of each that violates.

    The samples are the rows of a CSR matrix (``starts``, ``columns``, ``values``), ``norms`` their
    squared lengths; ``M`` (n_features, n_classes) is kept up to date, so that a visit costs the
    sample's entries times the classes, whatever the number of samples (Keerthi et al. 2008).
    ``eta``, ``b`` (n, n_classes). The violation each sample had when visited goes to ``psi``;
    returns the number of steps.
    """
    k = M.shape[1]
    g, after = np.empty(k), np.empty(k)
    flat, steps = FLAT * norms.max(), 0
    for p in order:
        g[:] = b[p]
        for e in range(starts[p], starts[p + 1]):
            add_multiple(g, values[e], M[columns[e]], 0.0)
        psi[p] = violation_of(g, eta[p])
        if psi[p] <= tol:
            continue
        reduced(g, eta[p], mass[p], norms[p] / beta if norms[p] > flat else 0.0, after)
        for r in range(k):
            change = (eta[p, r] - after[r]) / beta
            if change != 0.0:
                eta[p, r] = after[r]
                for e in range(starts[p], starts[p + 1]):
                    M[columns[e], r] += change * values[e]
        steps += 1
    return steps


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
    problem = _Problem(np.ascontiguousarray(eta.T), G, b, mass, labels, beta, shift)
    return _certify(problem, n_iter, float(problem.psi().max()), tol)


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
