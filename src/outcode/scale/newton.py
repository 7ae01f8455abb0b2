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
from outcode.scale.descent import ARMIJO
from outcode.scale.engine import Sums
from outcode.scale.features import Features
from outcode.scale.losses import Loss
from outcode.scale.objective import Objective, Solution, certified
from outcode.scale.sources import Block
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
        for cut, phi in self.features.tiles(block.X, block.phi):
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


def refine(objective: Objective, found: Solution, *, tol: float, max_passes: int) -> Solution:
    """Take Newton steps in the columns whose relative duality gap is above ``tol``."""
    exact = objective.exact()
    width = max(1, PASS_BYTES // (8 * packed_size(len(exact.features))))
    while found.passes < max_passes and (found.gap > tol).any():
        worst = np.flatnonzero(found.gap > tol)[:width]
        coef, passes = _step(exact.of(worst), found.coef[:, worst])
        found = _stored(exact.of(worst), found, worst, coef, found.passes + 3 + passes)
    return replace(found, converged=found.gap <= tol)


def _step(objective: Objective, coef: Array) -> tuple[Array, int]:
    """Return the coefficients after a Newton step, and the passes of its line search."""
    features, C = objective.features, objective.C
    leaf = Curvature(features, objective.loss, objective.signs, coef)
    (matrices,) = objective.engine.total(leaf, objective.source)
    value, gradient = objective.at(coef)
    regulariser = packed(features.regulariser)
    steps = [
        Factor.of(C * matrix + regulariser, len(features)).solve(-g[:, None])[:, 0]
        for matrix, g in zip(matrices, gradient.T, strict=True)
    ]
    return _search(objective, coef, value, gradient, np.column_stack(steps))


def _search(
    objective: Objective, coef: Array, value: Array, gradient: Array, step: Array
) -> tuple[Array, int]:
    """Halve the steps that do not lower the objective, at most ten times."""
    slope, size = np.einsum("ps,ps->s", gradient, step), np.ones(len(value))
    good, passes = np.zeros(len(value), bool), 0
    while not good.all() and passes < 10:
        reached, _ = objective.at(coef + size * step)
        good = reached <= value + ARMIJO * size * slope + 1e-12 * np.abs(value)
        size, passes = np.where(good, size, size / 2.0), passes + 1
    return coef + np.where(good, size, 0.0) * step, passes


def _stored(
    objective: Objective, found: Solution, columns: Array, coef: Array, passes: int
) -> Solution:
    """Return what was found with some columns replaced and their gap measured."""
    value, gradient = objective.at(coef)
    norm2, gap = certified(objective.features, coef, value, gradient)
    parts = {"coef": coef, "objective": value, "norm2": norm2, "gap": gap}
    whole = {name: getattr(found, name).copy() for name in parts}
    for name, part in parts.items():
        whole[name][..., columns] = part
    return replace(found, **whole, passes=passes)
