"""Squared hinge and logistic machines: all columns descend together, a pass per step.

Problem    min_a  1/2 a' R a + C sum_i w_i l(t_is phi(x_i) . a)   for every column s
Algorithm  L-BFGS for all columns at once, one pass over the blocks per step. The first metric is
           P = c C Phi' W Phi + R, with c the usual l'' near a solution. A column whose step is too
           long tries a shorter one in the next pass, beside the others.
Stopping   1/2 g' H g <= tol times the objective, with H the inverse Hessian that L-BFGS has found:
           the decrease that its next step promises; a column that is done is left out.
Returns    coefficients, objective and the duality gap 1/2 g' R^-1 g
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from outcode._checks import Array
from outcode.scale.features import Features
from outcode.scale.objective import Objective, Solution, certified
from outcode.scale.statistics import Factor

#: Steps remembered by L-BFGS.
HISTORY = 8
#: Bytes of steps remembered; more columns are trained in chunks.
HISTORY_BYTES = 2**29
#: Share of the predicted decrease that a step must reach, and rounding it may miss it by.
ARMIJO, ROUNDING = 1e-4, 1e-7


@dataclass
class Columns:
    """Where every column stands: point, objective, gradient, step tried, and steps remembered.

    ``natural`` is P^-1 g, and ``stretch`` how long the last step should have been, by P 1.
    """

    x: Array
    value: Array
    gradient: Array
    natural: Array
    direction: Array
    step: Array
    slope: Array
    stretch: Array
    S: list[Array] = field(default_factory=list)
    Y: list[Array] = field(default_factory=list)
    rho: list[Array] = field(default_factory=list)

    def keep(self, columns: Array) -> None:
        """Leave out columns that are done."""
        for name in ("x", "gradient", "natural", "direction"):
            setattr(self, name, getattr(self, name)[:, columns])
        for name in ("value", "step", "slope", "stretch"):
            setattr(self, name, getattr(self, name)[columns])
        self.S = [s[:, columns] for s in self.S]
        self.Y = [y[:, columns] for y in self.Y]
        self.rho = [r[columns] for r in self.rho]

    def remember(self, s: Array, y: Array, accepted: Array) -> None:
        """Keep a step and the change of gradient of the columns that took it."""
        product = np.einsum("ps,ps->s", s, y)
        good = accepted & (product > 0)
        self.S.append(s)
        self.Y.append(y)
        self.rho.append(np.divide(1.0, product, where=good, out=np.zeros_like(product)))
        if len(self.S) > HISTORY:
            del self.S[0], self.Y[0], self.rho[0]

    def move(
        self, moved: Array, value: Array, gradient: Array, natural: Array, accepted: Array
    ) -> None:
        """Go where the step led, in the columns in which it was accepted."""
        y = gradient - self.gradient
        self.remember(moved, y, accepted)
        ratio = np.einsum("ps,ps->s", moved, y)
        ratio = ratio / np.maximum(np.einsum("ps,ps->s", y, natural - self.natural), 1e-300)
        self.stretch = np.where(accepted & (ratio > 0), ratio, self.stretch)
        self.natural = np.where(accepted, natural, self.natural)
        self.x = np.where(accepted, self.x + moved, self.x)
        self.value = np.where(accepted, value, self.value)
        self.gradient = np.where(accepted, gradient, self.gradient)

    def descend(self, metric: Factor, fresh: Array) -> None:
        """Set the direction -H g of the columns that moved, by the two-loop recursion."""
        q, alphas = self.gradient.copy(), []
        for s, y, rho in zip(self.S[::-1], self.Y[::-1], self.rho[::-1], strict=True):
            alphas.append(rho * np.einsum("ps,ps->s", s, q))
            q -= y * alphas[-1]
        q = self.stretch * metric.solve(q)
        for s, y, rho, alpha in zip(self.S, self.Y, self.rho, alphas[::-1], strict=True):
            q += s * (alpha - rho * np.einsum("ps,ps->s", y, q))
        self.direction = np.where(fresh, -q, self.direction)
        self.slope = np.einsum("ps,ps->s", self.gradient, self.direction)
        self.step = np.where(fresh, 1.0, self.step)


def descend(
    objective: Objective, metric: Factor, start: Array, *, tol: float, max_passes: int
) -> Solution:
    """Train all columns from ``start``, in chunks where they are many."""
    width = max(1, HISTORY_BYTES // (16 * HISTORY * len(objective.features)))
    chunks = [slice(i, i + width) for i in range(0, start.shape[1], width)]
    found = [
        _Run(objective.of(cut), metric, tol, max_passes).train(start[:, cut]) for cut in chunks
    ]
    if len(found) == 1:
        return found[0]
    names = ("coef", "objective", "norm2", "gap", "converged")
    parts = {name: np.concatenate([getattr(one, name) for one in found], axis=-1) for name in names}
    return Solution(**parts, passes=sum(one.passes for one in found))


@dataclass
class _Run:
    """One descent of some columns."""

    objective: Objective
    metric: Factor
    tol: float
    max_passes: int

    def train(self, start: Array) -> Solution:
        """Descend until every column is done or there are too many passes."""
        active = np.arange(start.shape[1])
        done = _Done(start.copy(), np.zeros(len(active)), np.zeros_like(start), active < 0)
        now = self._begin(start)
        fresh, passes = np.ones(len(active), bool), 1
        while True:
            now.descend(self.metric, fresh)
            finished = -0.5 * now.slope <= self.tol * now.value
            done.store(active, now, finished)
            if finished.all() or passes >= self.max_passes:
                return done.result(self.objective.features, passes)
            active = active[~finished]
            now.keep(~finished)
            fresh = self._step(now, active)
            passes += 1

    def _begin(self, start: Array) -> Columns:
        value, gradient = self.objective.at(start)
        natural, zero = self.metric.solve(gradient), np.zeros_like(value)
        rest = np.zeros_like(start)
        return Columns(start.copy(), value, gradient, natural, rest, zero, zero, zero + 1.0)

    def _step(self, now: Columns, active: Array) -> Array:
        """Try a step in every column and return which have moved."""
        moved = now.step * now.direction
        value, gradient = self.objective.of(active).at(now.x + moved)
        goal = now.value + ARMIJO * now.step * now.slope + ROUNDING * np.abs(now.value)
        accepted = value <= goal
        curved = 2.0 * np.maximum(value - now.value - now.step * now.slope, 1e-300)
        shorter = -now.slope * now.step**2 / curved  # the minimum of the parabola through both
        now.step = np.where(accepted, 1.0, np.clip(shorter, 0.1 * now.step, 0.5 * now.step))
        now.move(moved, value, gradient, self.metric.solve(gradient), accepted)
        return accepted


@dataclass
class _Done:
    """The last state of every column."""

    coef: Array
    value: Array
    gradient: Array
    converged: Array

    def store(self, active: Array, now: Columns, finished: Array) -> None:
        self.coef[:, active], self.gradient[:, active] = now.x, now.gradient
        self.value[active], self.converged[active] = now.value, finished

    def result(self, features: Features, passes: int) -> Solution:
        norm2, gap = certified(features, self.coef, self.value, self.gradient)
        return Solution(self.coef, self.value, norm2, gap, self.converged, passes)
