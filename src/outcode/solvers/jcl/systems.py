"""What the columns' rows make of the loss: W, b for a fixed relation, and one step of a splitting.

The forms of Eq. 10, W, b for a given T, by which rows the columns use:

- all columns use all rows (:class:`SharedRows`): closed form for each pair of an eigenvalue of the
  Gram and one of T, O(r L^2);
- few unknowns, r L in the primal (:class:`SmallPrimal`) or sum N_l in the dual
  (:class:`SmallDual`): one Cholesky factorisation of that size;
- else :class:`.gradients.ConjugateGradients`, in which nothing of that size is built.

``resolvent(Q, rho)`` is the W that minimises loss + rho/2 |W - Q|_F^2. It takes one column at a
time, in the eigenbasis of the column's own rows, the same for every rho: O(r L) for shared rows,
else O(n r L) and the squares of the N_l (or of r, where the features are fewer).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from outcode._checks import Array
from outcode.solvers.jcl.spectrum import Relation, Spectrum


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

    def resolvent(self, Q: Array, rho: float) -> tuple[Array, float]:
        """Return W that minimises loss + rho/2 |W - Q|_F^2, and the loss of it."""
        step = 2 / self.N * self.spectrum.scale * (self.y - self.spectrum.scale * Q)
        W = Q + step / (2 / self.N * self.spectrum.s[:, None] + rho)
        return W, self.evaluate(W)[0]

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


class OwnRows:
    """Columns that use rows of their own: mask, weights N_l and the centring of each column.

    F_l are the centred features of the rows of column l times sqrt(2 / N_l): the loss is
    1/2 sum_l |y_l - F_l w_l|^2 and its curvature A_l = F_l'F_l.
    """

    def __init__(self, spectrum: Spectrum, targets: Array) -> None:
        self.spectrum = spectrum
        self.mask = targets != 0
        self.roots = self.mask * spectrum.root[:, None]
        self.N = (self.roots**2).sum(axis=0)
        self.size = np.sqrt(2 / self.N)
        self.Y = self.centred(self.roots * targets)
        self.G0 = self.pull(self.size * self.Y)
        self.n_columns = targets.shape[1]
        self.few_features = len(spectrum.s) * self.n_columns <= np.count_nonzero(targets)

    def centred(self, E: Array) -> Array:
        """Mask the columns and take out their weighted means: the free biases."""
        E = E * self.mask
        E -= self.roots * ((self.roots * E).sum(axis=0) / self.N)
        return E

    def push(self, W: Array) -> Array:
        """Return F_l w_l for every column (n, L)."""
        return self.size * self.centred(self.spectrum.basis @ (self.spectrum.scale * W))

    def pull(self, u: Array) -> Array:
        """Return F_l'u_l for every column (r, L); u has columns that are masked and centred."""
        return self.spectrum.scale * (self.spectrum.basis.T @ (self.size * u))

    def evaluate(self, W: Array) -> tuple[float, Array]:
        """Return the loss and the gradient G = Phi'V (with the sign of W)."""
        error = self.size * self.Y - self.push(W)
        return float(0.5 * (error**2).sum()), self.pull(error)

    def gradient(self, error: Array) -> Array:
        """Return G from the errors t - f of the rows (n, L)."""
        return self.pull(self.size * self.centred(self.spectrum.root[:, None] * error))

    def column_rows(self, s: int) -> Array:
        """Return F_s of the rows of column s (N_s, r)."""
        used = self.mask[:, s]
        d, rows = self.spectrum.root[used], self.spectrum.basis[used] * self.spectrum.scale.T
        rows -= np.outer(d, (d @ rows) / self.N[s])
        return rows * self.size[s]

    @cached_property
    def scatters(self) -> Array:
        """A_l (L, r, r)."""
        columns = (self.column_rows(s) for s in range(self.n_columns))
        return np.stack([rows.T @ rows for rows in columns])

    @cached_property
    def _scatter_eigen(self) -> tuple[Array, Array]:
        """Eigenvalues (L, r) and eigenvectors (L, r, r) of the A_l."""
        values, vectors = np.linalg.eigh(self.scatters)
        return np.maximum(values, 0.0), vectors

    @cached_property
    def _gram_eigen(self) -> list[tuple[Array, Array, Array]]:
        """Rows of each column; eigenvalues and eigenvectors of F_l F_l'."""
        out = []
        for s in range(self.n_columns):
            rows = self.column_rows(s)
            values, vectors = eigh(rows @ rows.T, overwrite_a=True, check_finite=False)
            out.append((np.flatnonzero(self.mask[:, s]), np.maximum(values, 0.0), vectors))
        return out

    def _ridge_features(self, G: Array, rho: Array) -> Array:
        """Return (A_l + rho_l I)^-1 g_l for every column."""
        values, vectors = self._scatter_eigen
        turned = np.matmul(G.T[:, None, :], vectors) / (values + rho[:, None])[:, None, :]
        return np.matmul(vectors, turned.transpose(0, 2, 1))[:, :, 0].T

    def ridge(self, E: Array, rho: Array) -> Array:
        """Return (F_l F_l' + rho_l I)^-1 e_l for every column."""
        if self.few_features:
            return (E - self.push(self._ridge_features(self.pull(E), rho))) / rho
        out = np.zeros_like(E)
        for s, (rows, values, vectors) in enumerate(self._gram_eigen):
            out[rows, s] = vectors @ ((E[rows, s] @ vectors) / (values + rho[s]))
        return self.centred(out)

    def resolvent(self, Q: Array, rho: float) -> tuple[Array, float]:
        """Return W that minimises loss + rho/2 |W - Q|_F^2, and the loss of it.

        W = Q + F'(F F' + rho I)^-1 (y - F Q), which leaves rho times that inverse as errors.
        """
        each = np.full(self.n_columns, rho)
        if self.few_features:
            W = Q + self._ridge_features(self.evaluate(Q)[1], each)
            return W, self.evaluate(W)[0]
        u = self.ridge(self.size * self.Y - self.push(Q), each)
        return Q + self.pull(u), float(rho**2 / 2 * (u**2).sum())


class SmallPrimal(OwnRows):
    """H + [A_l (H T^1/2)_l]_l T^1/2 = G0 T^1/2 as one symmetric system of r L unknowns."""

    def half_weights(self, T: Relation, start: Array | None, tol: float) -> Array:
        """Return H (r, L), where W = H T^1/2, of the best W for this T."""
        half = T.root()
        L, r = self.n_columns, len(self.spectrum.s)
        pairs = (half[:, :, None] * half[:, None, :]).reshape(L, -1)
        blocks = (pairs.T @ self.scatters.reshape(L, -1)).reshape(L, L, r, r)
        system = blocks.transpose(0, 2, 1, 3).reshape(L * r, L * r)
        system.flat[:: L * r + 1] += 1.0
        side = (self.G0 @ half).T.ravel()
        factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        return cho_solve(factor, side).reshape(L, r).T


class SmallDual(OwnRows):
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
        side = (self.Y * self.size).T[self.mask.T]
        u = cho_solve(cho_factor(system, lower=True, overwrite_a=True, check_finite=False), side)
        G = np.stack([features[column == s].T @ u[column == s] for s in range(self.n_columns)], 1)
        return G @ T.root()
