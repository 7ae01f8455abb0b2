"""The alternating solver of joint least-squares machines ([LZCX16] section 3.3).

Problem (Eq. 4), with c_i the weight of row i and N_l = sum of c_i over the rows of column l:

    min over W, b, M   sum_l 1/N_l sum_i c_i (t_il - w_l.x_i - b_l)^2
                       + lambda1/2 tr(W W') + lambda2/2 tr(W M^-1 W'),   M >= 0, tr M = 1

M may be singular, so only T = M (lambda1 M + lambda2 I)^-1 = R diag(theta) R' is ever used. The
optimality conditions of W, b (Eq. 7-10) are W = Phi' V T with V_il = 2 c_i / N_l (t_il - f_il) and
columns of V that sum to 0. Of M they give Eq. 15, M = (W'W)^1/2 / tr (W'W)^1/2, from the singular
values of W, which is always explicit here, so that no digits are lost.

Coordinates: the rows of positive weight, centred (the free biases absorb any shift) and multiplied
by d_i = sqrt(c_i), are Q diag(sqrt s) B' (:class:`Spectrum`), from one eigendecomposition of the
n x n Gram or one SVD of n x p rows. W is r x L in the basis B, r <= min(n - 1, p).

Cases, by which rows the columns use:

- all columns use all rows (:class:`SharedRows`): closed form for each pair of an eigenvalue of the
  Gram and one of T. An alternation costs O(r L^2), whatever lambda1 and lambda2;
- few unknowns, r L in the primal (:class:`SmallPrimal`) or sum N_l in the dual
  (:class:`SmallDual`): one Cholesky factorisation of that size per alternation;
- else (:class:`ConjugateGradients`): products O(n r L), preconditioned by the exact inverse for
  each eigenvector of T as if it were a column of its own. It is exact for T = I and for columns
  that use the same rows. Nothing of size r L or sum N_l squared is built.

The alternation as printed can stall above the optimum: with fewer features than columns (r < L)
Eq. 15 is singular from the first round on, and W never leaves the row space it then has; and a
direction that has become tiny grows back slowly. With r < L from the start, else once a round gains
less than STALL of the gap, M = (W'W + e^2 I)^1/2 / tr instead, with e a share of the largest
singular value that shrinks by DECAY per round (Argyriou, Evgeniou & Pontil 2008); the round with
the lowest objective is kept.

Input: a Spectrum, targets, lambda1, lambda2. Output: a :class:`Round`. Start: M = I / L.
Stopping: relative duality gap <= tol. Minimising over M leaves the convex problem
loss + lambda1/2 |W|_F^2 + lambda2/2 |W|_*^2 (squared trace norm), whose dual is evaluated at V
(:func:`lower_bound`): the gap bounds how far the alternation is from the one optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas, cho_factor, cho_solve, eigh, svd

from outcode._checks import Array

#: Unknowns up to which a code with zeros is solved by Cholesky factorisation.
SMALL = 3000
#: Steps of the conjugate gradients, and steps after which the preconditioner is renewed.
CG_STEPS, CG_REFRESH = 2000, 15
#: The relative residual they stop at is this share of tol, within these limits.
CG_SHARE, CG_LIMITS = 1e-4, (1e-12, 1e-6)
#: A relative gain per round below this share of the gap is a stall; M is then smoothed, and this
#: much of the smoothing is left after each round.
STALL, DECAY = 0.01, 0.9
#: Numbers the blocks of the preconditioner may hold.
BLOCK_NUMBERS = 2**24
#: Eigenvalues of a kernel below minus this share of the largest are not rounding.
INDEFINITE = 1e-6


@dataclass(frozen=True)
class Spectrum:
    """Weighted and centred rows  D^1/2 (Phi - mean) = Q diag(sqrt s) B'.

    ``basis`` Q (n, r) orthonormal and orthogonal to ``root`` (n,), the square roots of the weights;
    ``s`` (r,) ascending; ``rows`` (n,) which rows of the user's these are.
    """

    basis: Array
    s: Array
    root: Array
    rows: Array

    @classmethod
    def of_gram(cls, matrix: Array, place: Array, weight: Array) -> Spectrum:
        """Return the spectrum of a Gram matrix whose entry ``place[i]`` is row i."""
        rows = np.flatnonzero(weight > 0)
        d = np.sqrt(weight[rows])
        K = matrix[np.ix_(place[rows], place[rows])].T.astype(np.float64, order="F")
        K *= d
        K *= d[:, None]
        unit = d / np.linalg.norm(d)
        product = K @ unit
        size = float(np.linalg.norm(product))
        product -= 0.5 * (unit @ product) * unit
        K = blas.dsyr2(-1.0, unit, product, a=K, lower=1, overwrite_a=1)  # (I - uu') K (I - uu')
        s, Q = eigh(K, lower=True, overwrite_a=True, check_finite=False, driver="evr")
        first = _first_positive(s, size, matrix.dtype)
        Q = blas.dger(-1.0, unit, unit @ Q, a=Q, overwrite_a=1)  # small s: mixed with u's 0
        return cls(Q[:, first:], s[first:], d, rows)

    @classmethod
    def of_rows(cls, X: Array, weight: Array) -> Spectrum:
        """Return the spectrum of dense rows, for the linear kernel."""
        rows = np.flatnonzero(weight > 0)
        c = weight[rows]
        d = np.sqrt(c)
        centred = (X[rows] - (c / c.sum()) @ X[rows]) * d[:, None]
        Q, lengths, _ = svd(centred, full_matrices=False, check_finite=False)
        r = int((lengths > max(X.shape) * np.finfo(float).eps * lengths[0]).sum())
        return cls(Q[:, :r][:, ::-1].copy(order="F"), lengths[:r][::-1] ** 2, d, rows)

    @cached_property
    def scale(self) -> Array:
        """sqrt(s) as a column."""
        return np.sqrt(self.s)[:, None]

    def dual_coef(self, W: Array) -> Array:
        """Return what V T is on the rows, up to what the kernel maps to zero: sums of columns 0."""
        coef = self.root[:, None] * (self.basis @ (W / self.scale))
        return coef - np.outer(self.root**2 / (self.root @ self.root), coef.sum(axis=0))


def _first_positive(s: Array, size: float, dtype: np.dtype[Any]) -> int:
    """Return where the eigenvalues beyond rounding begin, or an error if some are negative.

    ``size`` is that of the matrix before it was centred: what rounding is a share of.
    """
    size = max(float(s[-1]), size)
    if s[0] < -INDEFINITE * size:
        raise ValueError(
            f"The kernel is not positive definite: the centred kernel matrix has the eigenvalues "
            f"{s[0]:.3g} to {s[-1]:.3g}. Use a positive definite kernel."
        )
    return int(np.searchsorted(s, 10 * np.finfo(dtype).eps * size, side="right"))


@dataclass(frozen=True)
class Relation:
    """M = R diag(m) R' or T = R diag(m) R': ``vectors`` R (L, k) orthonormal, ``values`` m (k,)."""

    vectors: Array
    values: Array

    def matrix(self) -> Array:
        """Return the L x L matrix."""
        return (self.vectors * self.values) @ self.vectors.T

    def coupling(self, lambda1: float, lambda2: float) -> Relation:
        """Return T = M (lambda1 M + lambda2 I)^-1."""
        return Relation(self.vectors, self.values / (lambda1 * self.values + lambda2))


class SharedRows:
    """All columns use all rows: U = Q Z R' with Z_jk = y_jk / (s_j theta_k + N/2)."""

    def __init__(self, spectrum: Spectrum, targets: Array) -> None:
        d = spectrum.root
        self.spectrum, self.N = spectrum, float(d @ d)
        Y = d[:, None] * targets
        Y -= np.outer(d, d @ Y) / self.N
        self.y = spectrum.basis.T @ Y
        self.outside = Y - spectrum.basis @ self.y
        self.rest = float((self.outside**2).sum())
        self.n_columns = targets.shape[1]

    def half_weights(self, T: Relation, start: Array | None, tol: float) -> Array:
        """Return H (r, L), where W = H T^1/2, of the best W for this T."""
        theta, R = T.values, T.vectors
        H = 2 / self.N * self.spectrum.scale * (self.y @ R) * np.sqrt(theta)
        H /= 1.0 + np.outer(2 / self.N * self.spectrum.s, theta)
        return H @ R.T

    def evaluate(self, W: Array) -> tuple[float, Array]:
        """Return the loss and the gradient G = Phi'V (with the sign of W)."""
        error = self.y - self.spectrum.scale * W
        return (
            float((error**2).sum() + self.rest) / self.N,
            2 / self.N * self.spectrum.scale * error,
        )

    def gradient(self, error: Array) -> Array:
        """Return G from the errors t - f of the rows (n, L)."""
        weighted = self.spectrum.root[:, None] * error
        return 2 / self.N * self.spectrum.scale * (self.spectrum.basis.T @ weighted)

    def leave_one_out(self, T: Relation, targets: Array) -> Array:
        """Return the margins of each row under W, b trained without it, T held fixed.

        The row's targets are the L entries that go; in the basis R they part, and each is
        t_i - v_i / [B^-1]_ii (Cawley & Talbot 2004) of its own system B, with N less the weight of
        the row.
        """
        out, (theta, R) = np.empty_like(self.outside), (T.values, T.vectors)
        whole = R if R.shape[1] == len(R) else np.linalg.qr(np.hstack([R, np.eye(len(R))]))[0]
        theta = np.append(theta, np.zeros(len(R) - len(theta)))
        c, Q, y = self.spectrum.root**2, self.spectrum.basis, self.y @ whole
        for weight in np.unique(c):
            rows, N = c == weight, self.N - weight
            inverse = 1.0 / (np.outer(self.spectrum.s, theta) + N / 2)
            u = Q[rows] @ (y * inverse) + 2 / N * self.outside[rows] @ whole
            free = 1.0 - weight / self.N - (Q[rows] ** 2).sum(axis=1, keepdims=True)
            h = Q[rows] ** 2 @ inverse + 2 / N * np.maximum(free, 0.0)
            out[rows] = targets[rows] - (u / h) @ whole.T / np.sqrt(weight)
        return out


class _OwnRows:
    """Columns that use rows of their own: mask, weights N_l and the centring of each column."""

    def __init__(self, spectrum: Spectrum, targets: Array) -> None:
        self.spectrum = spectrum
        self.mask = targets != 0
        self.roots = self.mask * spectrum.root[:, None]
        self.N = (self.roots**2).sum(axis=0)
        self.Y = self.centred(self.roots * targets)
        self.G0 = self._pull(self.Y)
        self.n_columns = targets.shape[1]

    def centred(self, E: Array) -> Array:
        """Mask the columns and take out their weighted means: the free biases."""
        E = E * self.mask
        E -= self.roots * ((self.roots * E).sum(axis=0) / self.N)
        return E

    def _pull(self, E: Array) -> Array:
        return self.spectrum.scale * (self.spectrum.basis.T @ (E * (2 / self.N)))

    def evaluate(self, W: Array) -> tuple[float, Array]:
        """Return the loss and the gradient G = Phi'V (with the sign of W)."""
        E = self.Y - self.centred(self.spectrum.basis @ (self.spectrum.scale * W))
        return float(((E**2).sum(axis=0) / self.N).sum()), self._pull(E)

    def gradient(self, error: Array) -> Array:
        """Return G from the errors t - f of the rows (n, L)."""
        return self._pull(self.centred(self.spectrum.root[:, None] * error))

    def column_rows(self, s: int) -> Array:
        """Return the centred features of the rows of column s times sqrt(2 / N_s)."""
        used = self.mask[:, s]
        d, rows = self.spectrum.root[used], self.spectrum.basis[used] * self.spectrum.scale.T
        rows -= np.outer(d, (d @ rows) / self.N[s])
        return rows * np.sqrt(2 / self.N[s])

    def curvature(self, W: Array) -> Array:
        """Return A_l w_l for every column, A_l = 2/N_l times the scatter of its rows."""
        return self._pull(self.centred(self.spectrum.basis @ (self.spectrum.scale * W)))


class SmallPrimal(_OwnRows):
    """H + [A_l (H T^1/2)_l]_l T^1/2 = G0 T^1/2 as one symmetric system of r L unknowns."""

    @cached_property
    def scatters(self) -> Array:
        """A_l (L, r, r)."""
        columns = (self.column_rows(s) for s in range(self.n_columns))
        return np.stack([rows.T @ rows for rows in columns])

    def half_weights(self, T: Relation, start: Array | None, tol: float) -> Array:
        """Return H (r, L), where W = H T^1/2, of the best W for this T."""
        half = Relation(T.vectors, np.sqrt(T.values)).matrix()
        L, r = self.n_columns, len(self.spectrum.s)
        pairs = (half[:, :, None] * half[:, None, :]).reshape(L, -1)
        blocks = (pairs.T @ self.scatters.reshape(L, -1)).reshape(L, L, r, r)
        system = blocks.transpose(0, 2, 1, 3).reshape(L * r, L * r)
        system.flat[:: L * r + 1] += 1.0
        side = (self.G0 @ half).T.ravel()
        factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        return cho_solve(factor, side).reshape(L, r).T


class SmallDual(_OwnRows):
    """Eq. 10 without its border, the biases taken out by centring: sum N_l unknowns."""

    @cached_property
    def _rows(self) -> tuple[Array, Array]:
        """The column of each unknown, and its centred features times sqrt(2 / N_l)."""
        parts = [self.column_rows(s) for s in range(self.n_columns)]
        return np.repeat(np.arange(self.n_columns), [len(part) for part in parts]), np.vstack(parts)

    @cached_property
    def _products(self) -> Array:
        features = self._rows[1]
        return features @ features.T

    def half_weights(self, T: Relation, start: Array | None, tol: float) -> Array:
        """Return H (r, L), where W = H T^1/2, of the best W for this T."""
        column, features = self._rows
        system = T.matrix()[np.ix_(column, column)]
        system *= self._products
        system.flat[:: len(system) + 1] += 1.0
        side = (self.Y * np.sqrt(2 / self.N)).T[self.mask.T]
        u = cho_solve(cho_factor(system, lower=True, overwrite_a=True, check_finite=False), side)
        G = np.stack([features[column == s].T @ u[column == s] for s in range(self.n_columns)], 1)
        return G @ Relation(T.vectors, np.sqrt(T.values)).matrix()


class ConjugateGradients(_OwnRows):
    """The system of :class:`SmallPrimal`, never built, by preconditioned conjugate gradients."""

    blocks: _Blocks | None = None

    def half_weights(self, T: Relation, start: Array | None, tol: float) -> Array:
        """Return H (r, L), where W = H T^1/2, of the best W for this T, from ``start``."""
        half = Relation(T.vectors, np.sqrt(T.values)).matrix()
        if self.blocks is None:
            self.blocks = _Blocks(self, T)
        side = self.G0 @ half
        x = np.zeros_like(side) if start is None else start
        residual = side - x - self.curvature(x @ half) @ half
        enough = float(np.clip(CG_SHARE * tol, *CG_LIMITS) * np.linalg.norm(side))
        p, before, steps = np.zeros_like(x), 1.0, 0
        while float(np.linalg.norm(residual)) > enough and steps < CG_STEPS:
            z = self.blocks.solve(residual)
            now = float((residual * z).sum())
            p = z + (now / before) * p
            image = p + self.curvature(p @ half) @ half
            length = now / float((p * image).sum())
            x = x + length * p
            residual = residual - length * image
            before, steps = now, steps + 1
        if steps > CG_REFRESH:  # T has moved away from the one the blocks are of
            self.blocks = None
        return x


class _Blocks:
    """The preconditioner: I + theta_k sum_l R_lk^2 A_l inverted for each eigenvector k of T.

    The leading directions of the Gram that fit in memory are inverted together, the others alone.
    """

    def __init__(self, problem: _OwnRows, T: Relation) -> None:
        spectrum, self.vectors = problem.spectrum, T.vectors
        squares = T.vectors**2 / problem.N[:, None] * 2  # (L, k)
        most = int(np.sqrt(BLOCK_NUMBERS / len(T.values)))
        self.alone = max(0, len(spectrum.s) - most)
        spread = (spectrum.basis**2).T @ (problem.mask @ squares)
        self.diagonal = 1.0 + spectrum.s[:, None] * spread * T.values
        lead = spectrum.basis[:, self.alone :] * spectrum.scale[self.alone :].T
        kinds, kind = np.unique(problem.mask, axis=0, return_inverse=True)
        kind = kind.ravel()
        scatter = np.stack([lead[kind == q].T @ lead[kind == q] for q in range(len(kinds))])
        means = lead.T @ problem.roots  # (r, L)
        self.factors = [
            self._factor(scatter, kinds @ squares[:, k], means, squares[:, k] / problem.N, theta)
            for k, theta in enumerate(T.values)
        ]

    @staticmethod
    def _factor(scatter: Array, share: Array, means: Array, border: Array, theta: float) -> Array:
        block = np.tensordot(share * theta, scatter, axes=1)
        block -= (means * (border * theta)) @ means.T
        block.flat[:: len(block) + 1] += 1.0
        return cho_factor(block, lower=True, overwrite_a=True, check_finite=False)[0]

    def solve(self, X: Array) -> Array:
        """Return the preconditioner applied to X (r, L); the identity off the span of R."""
        turned = X @ self.vectors
        solved = turned / self.diagonal
        for k, factor in enumerate(self.factors):
            solved[self.alone :, k] = cho_solve(
                (factor, True), turned[self.alone :, k], check_finite=False
            )
        return X + (solved - turned) @ self.vectors.T


Problem = SharedRows | SmallPrimal | SmallDual | ConjugateGradients


def problem_of(spectrum: Spectrum, targets: Array) -> Problem:
    """Return the problem of the targets (n, L) of the spectrum's rows, in the form it is solved."""
    targets = targets.astype(np.float64)
    if (targets != 0).all():
        return SharedRows(spectrum, targets)
    primal, dual = len(spectrum.s) * targets.shape[1], np.count_nonzero(targets)
    if min(primal, dual) > SMALL:
        return ConjugateGradients(spectrum, targets)
    return (SmallPrimal if primal <= dual else SmallDual)(spectrum, targets)


@dataclass(frozen=True)
class Round:
    """One round of the alternation.

    ``W`` (r, L) and ``half`` H with W = H T^1/2, T the ``coupling`` W was solved with; ``relation``
    Eq. 15 of W; ``start`` the H of W under the T of that relation; ``objective`` Eq. 4 of W and
    this relation; ``bound`` a lower bound of its minimum.
    """

    W: Array
    half: Array
    coupling: Relation
    relation: Relation
    start: Array
    objective: float
    bound: float


def alternate(
    problem: Problem,
    lambda1: float,
    lambda2: float,
    *,
    max_iter: int,
    tol: float,
    smoothing: float,
) -> tuple[Round, Array, float]:
    """Alternate W, b (Eq. 10) and M (Eq. 15) until the duality gap is at most ``tol``.

    Returns the round with the lowest objective, the objectives of all rounds that lowered it, and
    its relative duality gap, under the largest lower bound met.
    """
    L = problem.n_columns
    relation = Relation(np.eye(L), np.full(L, 1 / L))
    best = now = _round(problem, relation, lambda1, lambda2, None, tol)
    share, lower, path = smoothing if len(now.W) < L else 0.0, now.bound, [now.objective]
    for _ in range(max_iter - 1):
        if 1.0 - lower / best.objective <= tol:
            break
        relation = _smoothed(now.W, share) if share else now.relation
        before, now = now, _round(problem, relation, lambda1, lambda2, now.start, tol)
        lower = max(lower, now.bound)
        if now.objective <= best.objective:
            best = now
            path.append(now.objective)
        elif not smoothing:  # rounding: there is nothing left to gain
            break
        if share or 1.0 - now.objective / before.objective < STALL * (1.0 - lower / now.objective):
            share = share * DECAY or smoothing
    return best, np.array(path), max(0.0, 1.0 - lower / best.objective)


def _round(
    problem: Problem,
    relation: Relation,
    lambda1: float,
    lambda2: float,
    start: Array | None,
    tol: float,
) -> Round:
    """Solve W for this M, then M for this W, and bound the optimum."""
    T = relation.coupling(lambda1, lambda2)
    half = problem.half_weights(T, start, tol)
    W = half @ Relation(T.vectors, np.sqrt(T.values)).matrix()
    P, sigma, Rt = svd(W, full_matrices=False, check_finite=False)
    loss, G = problem.evaluate(W)
    total = float(sigma.sum())
    return Round(
        W=W,
        half=half,
        coupling=T,
        relation=Relation(Rt.T, sigma / total) if total > 0 else relation,
        start=(P * np.sqrt(sigma * (lambda1 * sigma + lambda2 * total))) @ Rt,
        objective=loss + lambda1 / 2 * float(sigma @ sigma) + lambda2 / 2 * total**2,
        bound=lower_bound(W, G, loss, lambda1, lambda2),
    )


def _smoothed(W: Array, share: float) -> Relation:
    """Return (W'W + e^2 I)^1/2 over its trace, e the share of the largest singular value."""
    _, sigma, Rt = svd(W, full_matrices=True, check_finite=False)
    lengths = np.hypot(np.append(sigma, np.zeros(len(Rt) - len(sigma))), share * sigma[0])
    return Relation(Rt.T, lengths / lengths.sum())


def lower_bound(W: Array, G: Array, loss: float, lambda1: float, lambda2: float) -> float:
    """Return a dual value of the squared-trace-norm form of Eq. 4: its minimum is not below.

    The dual variables are V = 2 c / N (t - f), scaled to the best length: the dual value is
    (2 loss + <W, G>)^2 / 4 (loss + Omega*(G)), G = Phi'V.
    """
    linear = 2 * loss + float((W * G).sum())
    g = svd(G, compute_uv=False, check_finite=False)
    return linear**2 / max(4 * (loss + conjugate(g, lambda1, lambda2)), np.finfo(float).tiny)


def conjugate(g: Array, lambda1: float, lambda2: float) -> float:
    """Return Omega*(G) of Omega(W) = lambda1/2 |W|_F^2 + lambda2/2 |W|_*^2, g descending.

    It is 1/2 sum_j sigma_j g_j with sigma_j = max(0, g_j - lambda2 sum sigma) / lambda1.

    >>> conjugate(np.array([2.0]), 1.0, 1.0)
    1.0
    """
    totals = np.cumsum(g) / (lambda1 + lambda2 * np.arange(1, len(g) + 1))
    active = np.flatnonzero(g > lambda2 * totals)
    total = totals[active[-1]] if len(active) else 0.0
    return float(0.5 * (np.maximum(0.0, g - lambda2 * total) @ g) / lambda1)
