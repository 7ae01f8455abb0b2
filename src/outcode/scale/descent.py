"""Squared hinge and logistic machines: all columns descend together, a pass per step.

Problem    min_a  1/2 a' R a + C sum_i w_i l(t_is phi(x_i) . a)   for every column s
Algorithm  L-BFGS for all columns at once, one pass over the blocks per step. The first metric is
           P = c C Phi' W Phi + R with l'' <= c, which lies above every Hessian: a full step from
           it never raises the objective. A column whose step is too long tries a shorter one in
           the next pass, beside the others.
Stopping   1/2 g' P^-1 g <= tol times the objective; a column that is done is left out.
Returns    coefficients, objective, and the duality gap 1/2 g' R^-1 g: with the dual variables
           alpha_i = -C w_i l'(t_i f_i) the primal and the dual objective differ by exactly that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from outcode._checks import Array
from outcode.scale.engine import Engine, Sums
from outcode.scale.features import Features
from outcode.scale.losses import Loss
from outcode.scale.sources import Block, Source
from outcode.scale.statistics import Factor

#: Steps remembered by L-BFGS.
HISTORY = 8
#: Bytes of steps remembered; more columns are trained in chunks.
HISTORY_BYTES = 2**29
#: Share of the predicted decrease that a step must reach, and rounding it may miss it by.
ARMIJO, ROUNDING = 1e-4, 1e-7


@dataclass(frozen=True)
class Descent:
    """What a descent found, per column."""

    coef: Array
    objective: Array
    norm2: Array
    gap: Array
    converged: Array
    passes: int


@dataclass(frozen=True)
class Gradient:
    """Sums of losses and their gradients over a block, for the columns given.

    ``signs`` (n_groups, n_columns) says which target each group has in each column, 0 for none.
    """

    features: Features
    loss: Loss
    signs: Array
    coef: Array

    def __call__(self, block: Block) -> Sums:
        block = _sorted(block)
        value, gradient = np.zeros(self.coef.shape[1]), np.zeros(self.coef.shape)
        coef = self.coef.astype(self.features.dtype)
        for cut, phi in self.features.tiles(block.X):
            for rows, columns in self._runs(block.take(cut)):
                self._add(value, gradient, (phi[rows], block.take(cut).take(rows), columns, coef))
        return value, gradient

    def _runs(self, part: Block) -> list[tuple[slice, Array | slice]]:
        """Return runs of rows and the columns that use them: all in one where no sign is 0."""
        group = part.group
        assert group is not None
        if (self.signs != 0).all():
            return [(slice(0, len(part)), slice(None))]
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        stops = [*starts[1:].tolist(), len(part)]
        runs = [(slice(a, b), np.flatnonzero(self.signs[group[a]])) for a, b in zip(starts, stops)]  # noqa: B905
        return [(rows, columns) for rows, columns in runs if len(columns)]

    def _add(
        self, value: Array, gradient: Array, work: tuple[Array, Block, Array | slice, Array]
    ) -> None:
        phi, part, columns, coef = work
        assert part.group is not None
        signs = self.signs[part.group][:, columns].astype(phi.dtype)
        z = signs * (phi @ coef[:, columns])
        losses, slopes = self.loss.value(z), self.loss.slope(z) * signs
        if part.weight is not None:
            losses *= part.weight[:, None]
            slopes *= part.weight[:, None].astype(phi.dtype)
        value[columns] += losses.sum(axis=0, dtype=np.float64)
        gradient[:, columns] += phi.T @ slopes


def _sorted(block: Block) -> Block:
    assert block.group is not None
    return block.take(np.argsort(block.group, kind="stable"))


@dataclass
class Columns:
    """Where every column stands: point, objective, gradient, step tried, and steps remembered.

    ``natural`` is P^-1 g, and ``stretch`` how much longer than by P the last step could have been.
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
    engine: Engine,
    source: Source,
    features: Features,
    loss: Loss,
    signs: Array,
    *,
    C: float,
    metric: Factor,
    start: Array,
    tol: float,
    max_passes: int,
) -> Descent:
    """Train all columns from ``start``, in chunks where they are many."""
    width = max(1, HISTORY_BYTES // (16 * HISTORY * len(features)))
    chunks = [slice(i, i + width) for i in range(0, signs.shape[1], width)]
    found = [
        _Run(engine, source, features, loss, signs[:, cut], C, metric, tol, max_passes).train(
            start[:, cut]
        )
        for cut in chunks
    ]
    names = ("coef", "objective", "norm2", "gap", "converged")
    parts = [np.concatenate([getattr(one, name) for one in found], axis=-1) for name in names]
    return Descent(*parts, passes=sum(one.passes for one in found))


@dataclass
class _Run:
    """One descent of some columns."""

    engine: Engine
    source: Source
    features: Features
    loss: Loss
    signs: Array
    C: float
    metric: Factor
    tol: float
    max_passes: int

    def evaluate(self, coef: Array, columns: Array) -> tuple[Array, Array]:
        """Return objective and gradient of some columns: one pass."""
        leaf = Gradient(self.features, self.loss, self.signs[:, columns], coef)
        value, gradient = self.engine.total(leaf, self.source)
        pull = self.features.regulariser @ coef
        norm2 = np.einsum("ps,ps->s", coef, pull)
        return 0.5 * norm2 + self.C * value, pull + self.C * gradient

    def train(self, start: Array) -> Descent:
        """Descend until every column is done or there are too many passes."""
        active = np.arange(start.shape[1])
        done = _Done(start.copy(), np.zeros(len(active)), np.zeros_like(start), active < 0)
        value, gradient = self.evaluate(start, active)
        now = self._begin(start, value, gradient)
        fresh, passes = np.ones(len(active), bool), 1
        while True:
            left = 0.5 * np.einsum("ps,ps->s", now.gradient, now.natural)
            finished = left <= self.tol * now.value
            done.store(active, now, finished)
            if finished.all() or passes >= self.max_passes:
                return done.result(self.features, passes)
            active, fresh = active[~finished], fresh[~finished]
            now.keep(~finished)
            now.descend(self.metric, fresh)
            fresh = self._step(now, active)
            passes += 1

    def _begin(self, start: Array, value: Array, gradient: Array) -> Columns:
        natural, zero = self.metric.solve(gradient), np.zeros_like(value)
        rest = np.zeros_like(start)
        return Columns(start.copy(), value, gradient, natural, rest, zero, zero, zero + 1.0)

    def _step(self, now: Columns, active: Array) -> Array:
        """Try a step in every column and return which have moved."""
        moved = now.step * now.direction
        value, gradient = self.evaluate(now.x + moved, active)
        goal = now.value + ARMIJO * now.step * now.slope + ROUNDING * np.abs(now.value)
        accepted = value <= goal
        natural, y = self.metric.solve(gradient), gradient - now.gradient
        now.remember(moved, y, accepted)
        # s'y / y' P^-1 y >= 1: rows that are right by 1 have no curvature, P counts them all
        ratio = np.einsum("ps,ps->s", moved, y)
        ratio = ratio / np.maximum(np.einsum("ps,ps->s", y, natural - now.natural), 1e-300)
        now.stretch = np.where(accepted & (ratio > 0), np.maximum(ratio, 1.0), now.stretch)
        now.natural = np.where(accepted, natural, now.natural)
        curved = 2.0 * np.maximum(value - now.value - now.step * now.slope, 1e-300)
        shorter = -now.slope * now.step**2 / curved  # the minimum of the parabola through both
        now.step = np.where(accepted, 1.0, np.clip(shorter, 0.1 * now.step, 0.5 * now.step))
        now.x = np.where(accepted, now.x + moved, now.x)
        now.value = np.where(accepted, value, now.value)
        now.gradient = np.where(accepted, gradient, now.gradient)
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

    def result(self, features: Features, passes: int) -> Descent:
        R = features.regulariser
        norm2 = np.einsum("ps,ps->s", self.coef, R @ self.coef)
        gap = 0.5 * np.einsum("ps,ps->s", self.gradient, np.linalg.solve(R, self.gradient))
        return Descent(
            self.coef, self.value, norm2, gap / np.abs(self.value), self.converged, passes
        )
