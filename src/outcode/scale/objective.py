"""The objective of iterative losses and its gradient: one pass over the blocks for all columns.

Column s has the objective  1/2 a' R a + C sum_i w_i l(t_is phi(x_i) . a).  With the dual variables
alpha_i = -C w_i l'(t_i f_i) the primal and the dual objective differ by exactly 1/2 g' R^-1 g, with
g the gradient: the duality gap costs one solve.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.scale.engine import Engine, Sums
from outcode.scale.features import Features
from outcode.scale.losses import Loss
from outcode.scale.sources import Block, Loader, Source


@dataclass(frozen=True)
class Objective:
    """Some columns of a problem; ``signs`` (n_groups, n_columns) is the target of each group."""

    engine: Engine
    source: Source
    features: Features
    loss: Loss
    signs: Array
    C: float

    def at(self, coef: Array) -> tuple[Array, Array]:
        """Return the objective and the gradient of every column: one pass."""
        leaf = Gradient(self.features, self.loss, self.signs, coef)
        value, gradient = self.engine.total(leaf, self.source)
        pull = self.features.regulariser @ coef
        norm2 = np.einsum("ps,ps->s", coef, pull)
        return 0.5 * norm2 + self.C * value, pull + self.C * gradient

    def of(self, columns: Array | slice) -> Objective:
        """Return the problem of some columns."""
        return replace(self, signs=self.signs[:, columns])

    def exact(self) -> Objective:
        """Return the problem with kernel blocks in float64."""
        return replace(self, features=replace(self.features, dtype=np.dtype(np.float64)))


@dataclass(frozen=True)
class Solution:
    """Trained columns: coefficients, objective, |w|^2, relative duality gap, and whether done."""

    coef: Array
    objective: Array
    norm2: Array
    gap: Array
    converged: Array
    passes: int


def certified(
    features: Features, coef: Array, value: Array, gradient: Array
) -> tuple[Array, Array]:
    """Return |w|^2 and the relative duality gap 1/2 g' R^-1 g / objective."""
    R = features.regulariser
    norm2 = np.einsum("ps,ps->s", coef, R @ coef)
    gap = 0.5 * np.einsum("ps,ps->s", gradient, np.linalg.solve(R, gradient))
    return norm2, gap / np.abs(value)


@dataclass(frozen=True)
class Gradient:
    """Sums of losses and their gradients over a block, for the columns given.

    ``signs`` (n_groups, n_columns) says which target each group has in each column, 0 for none.
    """

    features: Features
    loss: Loss
    signs: Array
    coef: Array

    @property
    def what(self) -> str:
        """What the pass computes, in words."""
        return f"gradients of {self.coef.shape[1]} columns"

    def __call__(self, block: Block) -> Sums:
        value, gradient = np.zeros(self.coef.shape[1]), np.zeros(self.coef.shape)
        coef = self.coef.astype(self.features.dtype)
        for cut, phi in self.features.tiles(block.X, block.phi):
            part = block.take(cut)
            for rows, columns in self._runs(part):
                self._add(value, gradient, (phi[rows], part.take(rows), columns, coef))
        return value, gradient

    def _runs(self, part: Block) -> list[tuple[Any, Any]]:
        """Return sets of rows and the columns that use them: all in one where no sign is 0."""
        if (self.signs != 0).all():
            return [(slice(None), slice(None))]
        assert part.group is not None
        runs = [(part.group == g, np.flatnonzero(self.signs[g])) for g in np.unique(part.group)]
        return [(rows, columns) for rows, columns in runs if len(columns)]

    def _add(self, value: Array, gradient: Array, work: tuple[Array, Block, Any, Array]) -> None:
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


# --- features kept between passes ---


@dataclass(frozen=True)
class KeptLoader:
    """Read a block together with its features, computed the first time."""

    load: Loader
    features: Features
    limit: int
    kept: dict[int, Array]

    @property
    def place(self) -> str | None:
        """Where the block comes from."""
        return getattr(self.load, "place", None)

    def __call__(self) -> Block:
        block = self.load()
        if block.number >= self.limit:
            return block
        if block.number not in self.kept:
            self.kept[block.number] = self.features.whole(block.X)
        return replace(block, phi=self.kept[block.number])


@dataclass(frozen=True)
class Kept:
    """The blocks of a source with features that stay in memory, those of the first ``limit``."""

    source: Source
    features: Features
    limit: int
    kept: dict[int, Array] = field(default_factory=dict)

    def loaders(self) -> Iterator[KeptLoader]:
        """Return the readers."""
        given = self.features, self.limit, self.kept
        return (KeptLoader(load, *given) for load in self.source.loaders())
