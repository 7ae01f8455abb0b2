"""Newton steps to a certified duality gap: a matrix of the rows in play for every column.

Near the solution the squared hinge is least squares on the rows with t f < 1, so a step solves that
problem exactly; the logistic loss weighs the rows by p (1 - p). A pass sums the matrices of as many
columns as memory allows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack

from outcode._checks import Array
from outcode.scale.descent import ARMIJO, Descent, Gradient
from outcode.scale.engine import Engine, Sums
from outcode.scale.features import Features
from outcode.scale.losses import Loss
from outcode.scale.sources import Block, Source
from outcode.scale.statistics import PASS_BYTES, Factor, packed, packed_size


@dataclass(frozen=True)
class Curvature:
    """Sums of w l''(t f) phi phi' over a block, packed, one matrix per column."""

    features: Features
    loss: Loss
    signs: Array
    coef: Array

    def __call__(self, block: Block) -> Sums:
        assert block.group is not None
        out = np.zeros((self.coef.shape[1], packed_size(len(self.features))))
        for cut, phi in self.features.tiles(block.X):
            wide = phi.astype(np.float64, copy=False)
            signs = self.signs[block.group[cut]]
            second = self.loss.second(signs * (wide @ self.coef)) * (signs != 0)
            if block.weight is not None:
                second *= block.weight[cut][:, None]
            for s, weight in enumerate(second.T):
                rows = np.flatnonzero(weight > 0)
                part = wide[rows] * np.sqrt(weight[rows])[:, None]
                n, k = part.shape[1], len(part)
                if k:
                    lapack.dsfrk(n, k, 1.0, part.T, 1.0, out[s], uplo="L", overwrite_c=1)
        return (out,)


def refine(
    engine: Engine,
    source: Source,
    features: Features,
    loss: Loss,
    signs: Array,
    *,
    C: float,
    found: Descent,
    tol: float,
    max_passes: int,
) -> Descent:
    """Take Newton steps in the columns whose relative duality gap is above ``tol``."""
    width = max(1, PASS_BYTES // (8 * packed_size(len(features))))
    regulariser = packed(features.regulariser)
    while found.passes < max_passes and (found.gap > tol).any():
        worst = np.flatnonzero(found.gap > tol)[:width]
        part = signs[:, worst]
        leaf = Curvature(features, loss, part, found.coef[:, worst])
        (matrices,) = engine.total(leaf, source)
        exact = replace(features, dtype=np.dtype(np.float64))
        point = _Point(engine, source, exact, loss, part, C)
        value, gradient = point.at(found.coef[:, worst])
        step = np.column_stack(
            [
                Factor.of(C * matrix + regulariser, len(features)).solve(-g[:, None])[:, 0]
                for matrix, g in zip(matrices, gradient.T, strict=True)
            ]
        )
        coef, passes = point.search(found.coef[:, worst], value, gradient, step)
        found = point.stored(found, worst, coef, found.passes + 2 + passes)
    return replace(found, converged=found.gap <= tol)


@dataclass(frozen=True)
class _Point:
    """Objective and gradient of some columns, in float64."""

    engine: Engine
    source: Source
    features: Features
    loss: Loss
    signs: Array
    C: float

    def at(self, coef: Array) -> tuple[Array, Array]:
        leaf = Gradient(self.features, self.loss, self.signs, coef)
        value, gradient = self.engine.total(leaf, self.source)
        pull = self.features.regulariser @ coef
        norm2 = np.einsum("ps,ps->s", coef, pull)
        return 0.5 * norm2 + self.C * value, pull + self.C * gradient

    def search(self, coef: Array, value: Array, gradient: Array, step: Array) -> tuple[Array, int]:
        """Halve the steps that do not lower the objective, at most ten times."""
        slope, size = np.einsum("ps,ps->s", gradient, step), np.ones(len(value))
        for passes in range(1, 11):
            reached, _ = self.at(coef + size * step)
            good = reached <= value + ARMIJO * size * slope + 1e-12 * np.abs(value)
            if good.all():
                return coef + size * step, passes
            size = np.where(good, size, size / 2.0)
        return coef + np.where(good, size, 0.0) * step, passes

    def stored(self, found: Descent, columns: Array, coef: Array, passes: int) -> Descent:
        """Return what was found with some columns replaced and their gap measured."""
        value, gradient = self.at(coef)
        R = self.features.regulariser
        gap = 0.5 * np.einsum("ps,ps->s", gradient, np.linalg.solve(R, gradient)) / np.abs(value)
        norm2 = np.einsum("ps,ps->s", coef, R @ coef)
        out = {"coef": coef, "objective": value, "norm2": norm2, "gap": gap}
        new = {name: getattr(found, name).copy() for name in out}
        for name, part in out.items():
            new[name][..., columns] = part
        return replace(found, **new, passes=passes)
