"""Least squares from statistics: one factorisation for all columns that use the same rows.

Column s minimises  1/2 a' R a + C/2 sum_i w_i (t_is - phi(x_i) . a)^2,  so that

    (C Phi' W Phi + R) a_s = C Phi' W t_s.

Without zeros in the code Phi' W t = (class sums) @ code: every dense code is a linear map of the
one-vs-all solution, and decodes like it. Solving in the coordinates of the landmarks, without
whitening, keeps the error of the margins near that of exact kernel ridge regression.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, solve_triangular

from outcode._checks import Array
from outcode.scale.engine import Engine
from outcode.scale.features import Features
from outcode.scale.objective import Solution
from outcode.scale.sources import Block, Source
from outcode.scale.statistics import Factor, Statistics, packed, unpacked


def factor(features: Features, gram: Array, C: float) -> Factor:
    """Return the factor of C Phi' W Phi + R."""
    return Factor.of(C * gram + packed(features.regulariser), len(features))


def guide(features: Features, gram: Array, C: float) -> Factor:
    """Return the factor of C Phi' W Phi + R + e I, with e = 0 or as small as rounding allows.

    For a metric of a descent, which any e leaves at the same minimum.
    """
    unit = packed(np.eye(len(features)))
    matrix = C * gram + packed(features.regulariser)
    size = float(matrix @ unit) / len(features)
    for raised in (0.0, 1e-12, 1e-10, 1e-8, 1e-6):
        try:
            return Factor.of(matrix + raised * size * unit, len(features))
        except ValueError:
            continue
    return Factor.of(matrix + 1e-4 * size * unit, len(features))


def solve(features: Features, statistics: Statistics, signs: Array, C: float) -> Array:
    """Return the (p, n_columns) coefficients; ``signs`` (n_groups, n_columns) is the code."""
    coef = np.empty((len(features), signs.shape[1]))
    for groups, columns in _patterns(signs):
        rhs = C * (statistics.moments.T @ signs[:, columns].astype(np.float64))
        coef[:, columns] = factor(features, statistics.of(groups), C).solve(rhs)
    return coef


def _patterns(signs: Array) -> Iterator[tuple[Array, Array]]:
    """Yield each distinct set of groups that some columns use, and those columns."""
    masks, which = np.unique(signs != 0, axis=1, return_inverse=True)
    for k in range(masks.shape[1]):
        yield masks[:, k], np.flatnonzero(np.asarray(which).ravel() == k)


def solved(features: Features, statistics: Statistics, signs: Array, C: float) -> Solution:
    """Return the columns with their objective, all from sums."""
    coef = solve(features, statistics, signs, C)
    norm2 = np.einsum("ps,ps->s", coef, features.regulariser @ coef)
    rhs = statistics.moments.T @ signs.astype(np.float64)
    weight = statistics.weight @ (signs != 0)
    # at the solution the squared errors are  t'Wt - a'Phi'Wt - a'Ra / C
    errors = np.maximum(weight - np.einsum("ps,ps->s", coef, rhs) - norm2 / C, 0.0)
    value, none = 0.5 * norm2 + 0.5 * C * errors, np.zeros(signs.shape[1])
    return Solution(coef, value, norm2, none, none == 0, 1)


# --- leave-one-out over a path of C, landmarks fixed ---


@dataclass(frozen=True)
class Path:
    """Phi' W Phi and R diagonalised together: every C from one eigendecomposition.

    With R = L L' and L^-1 Phi' W Phi L^-T = V diag(mu) V', z(x) = V' L^-1 phi(x) has
    z' diag(C / (C mu + 1)) z as leverage, so that a row left out has the margin
    (f - h t) / (1 - h) with h = w z' diag(C / (C mu + 1)) z.
    """

    features: Features
    directions: Array
    mu: Array
    moments: Array
    signs: Array

    @classmethod
    def of(cls, features: Features, statistics: Statistics, signs: Array) -> Path:
        """Diagonalise; all columns must use all rows."""
        if not (signs != 0).all():
            raise ValueError("The leave-one-out path needs a code without zeros.")
        lower = np.linalg.cholesky(features.regulariser)
        gram = unpacked(statistics.of(np.ones(len(signs), bool)))
        half = solve_triangular(lower, gram, lower=True, overwrite_b=True, check_finite=False)
        white = solve_triangular(lower, half.T, lower=True, overwrite_b=True, check_finite=False)
        mu, V = eigh((white + white.T) / 2, driver="evd", overwrite_a=True, check_finite=False)
        directions = solve_triangular(lower, V, lower=True, trans="T", check_finite=False)
        targets = statistics.moments.T @ signs.astype(np.float64)
        return cls(features, directions, np.maximum(mu, 0.0), directions.T @ targets, signs)

    def leave_one_out(self, block: Block, C: float) -> Array:
        """Return the (n_rows, n_columns) margins of each row under machines trained without it."""
        return next(self.along(block, np.array([C])))

    def along(self, block: Block, path: Array) -> Iterator[Array]:
        """Yield the leave-one-out margins of a block for every C of the path."""
        assert block.group is not None
        phi = np.concatenate([tile for _, tile in self.features.tiles(block.X)])
        z = phi.astype(np.float64, copy=False) @ self.directions
        shrink = path[:, None] / (path[:, None] * self.mu + 1.0)
        leverage = z**2 @ shrink.T
        if block.weight is not None:
            leverage *= block.weight[:, None]
        targets = self.signs[block.group]
        leverage = np.minimum(leverage, 1.0 - 1e-12)
        for h, s in zip(leverage.T[:, :, None], shrink, strict=True):
            fitted = z @ (s[:, None] * self.moments)
            yield (fitted - h * targets) / (1.0 - h)


@dataclass(frozen=True)
class PathErrors:
    """The weight of the rows of a block that leave-one-out decoding gets wrong, for every C."""

    path: Path
    values: Array
    code: Array

    def __call__(self, block: Block) -> tuple[Array, Array]:
        assert block.group is not None
        weight = np.ones(len(block)) if block.weight is None else block.weight
        wrong = np.zeros(len(self.values))
        for cut in _cuts(len(block)):
            part = block.take(cut)
            assert part.group is not None
            for c, margins in enumerate(self.path.along(part, self.values)):
                chosen = np.argmax(margins @ self.code.T, axis=1)
                wrong[c] += weight[cut] @ (chosen != part.group)
        return wrong, np.array([weight.sum()])


def _cuts(n: int) -> list[slice]:
    return [slice(i, i + 2048) for i in range(0, n, 2048)]


def path_errors(
    engine: Engine,
    source: Source,
    features: Features,
    statistics: Statistics,
    *,
    code: Array,
    values: Array,
) -> Array:
    """Return the exact leave-one-out error of the decoded rule for every C, landmarks fixed.

    Rows are decoded by the inner product of their margins with the codewords; with least squares a
    code whose columns are orthogonal decodes as one-vs-all.
    """
    path = Path.of(features, statistics, code)
    leaf = PathErrors(path, np.asarray(values, dtype=np.float64), code.astype(np.float64))
    wrong, weight = engine.total(leaf, source)
    return wrong / weight[0]
