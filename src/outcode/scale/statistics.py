"""Sums over rows that train landmark machines without seeing the rows again.

For every kind of rows (rows used by the same columns: a class, a fold, or all of them) the matrix
Phi' W Phi, for every group (a class, or a class in a fold) the vector Phi' w and the weight. They
add over blocks, so new rows are added and old ones subtracted; they depend on the landmarks and the
kernel, not on the code, C or the decoder.

Matrices are kept as LAPACK's rectangular full packed format: half the memory, full speed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import lapack

from outcode._checks import Array
from outcode.scale.engine import Engine, Sums
from outcode.scale.features import Features
from outcode.scale.sources import Block, Source

#: Bytes of packed matrices kept at once.
MATRICES_BYTES = 2**32
#: Bytes of packed matrices summed in one pass; more kinds take more passes.
PASS_BYTES = 2**28


@dataclass(frozen=True)
class Statistics:
    """What a landmark machine learns from.

    Attributes
    ----------
    gram : (n_kinds, p (p + 1) / 2) packed Phi' W Phi of each kind of rows
    moments : (n_groups, p) sums of w phi(x) over each group
    weight : (n_groups,) sums of w
    rows : (n_groups,) numbers of rows
    kind : (n_groups,) the kind each group belongs to
    """

    gram: Array
    moments: Array
    weight: Array
    rows: Array
    kind: Array

    def __add__(self, other: Statistics) -> Statistics:
        return self._combined(other, 1)

    def __sub__(self, other: Statistics) -> Statistics:
        return self._combined(other, -1)

    def _combined(self, other: Statistics, sign: int) -> Statistics:
        if self.gram.shape != other.gram.shape or not np.array_equal(self.kind, other.kind):
            raise ValueError(
                "These statistics belong to other landmarks, classes or folds: they cannot be "
                "added or subtracted."
            )
        names = ("gram", "moments", "weight", "rows")
        sums = {name: getattr(self, name) + sign * getattr(other, name) for name in names}
        if sums["rows"].min() < 0:
            raise ValueError(
                "More rows of a class would be forgotten than were learned: give rows that were "
                "in the training set."
            )
        return Statistics(**sums, kind=self.kind)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sums to a .npz file."""
        np.savez(path, **vars(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            return cls(**{name: file[name] for name in cls.__dataclass_fields__})

    def of(self, groups: Array) -> Array:
        """Return the packed Phi' W Phi of the groups marked; they must make up whole kinds."""
        used = np.unique(self.kind[groups])
        if not np.isin(self.kind[~groups], used, invert=True).all():
            raise ValueError("A column uses part of a kind of rows: the statistics are too coarse.")
        total = self.gram[used[0]].copy()
        for k in used[1:]:
            total += self.gram[k]
        return total

    def whole(self) -> Array:
        """Return the packed Phi' W Phi of all rows."""
        return self.of(np.ones(len(self.kind), bool))


def kinds(signs: Array) -> Array:
    """Return the kind of every group: groups used by the same columns of ``signs`` are one kind.

    >>> kinds(np.array([[1, 0], [-1, 1], [0, -1], [1, -1]])).tolist()
    [1, 2, 0, 2]
    """
    _, kind = np.unique(signs != 0, axis=0, return_inverse=True)
    return np.asarray(kind).ravel()


def collect(engine: Engine, source: Source, features: Features, kind: Array) -> Statistics:
    """Return the statistics of all blocks, in as many passes as memory asks for."""
    n_kinds, size = int(kind.max()) + 1, packed_size(len(features))
    if 8 * n_kinds * size > MATRICES_BYTES:
        raise ValueError(
            f"Least squares with this code needs {n_kinds} matrices of {len(features)} landmarks, "
            f"{8 * n_kinds * size / 2**30:.1f} GiB: use fewer landmarks, a code without zeros, or "
            f"loss='squared_hinge'."
        )
    per_pass = max(1, PASS_BYTES // (8 * size))
    passes = [
        engine.total(Leaf(features, kind, first, min(first + per_pass, n_kinds)), source)
        for first in range(0, n_kinds, per_pass)
    ]
    if len(passes) == 1:
        gram, moments, weight, rows = passes[0]
        return Statistics(gram, moments, weight, rows, kind)
    gram = np.concatenate([sums[0] for sums in passes])
    moments, weight, rows = (np.sum([sums[i] for sums in passes], axis=0) for i in (1, 2, 3))
    return Statistics(gram, moments, weight, rows, kind)


@dataclass(frozen=True)
class Leaf:
    """The statistics of one block, for the kinds ``first`` to ``last - 1``."""

    features: Features
    kind: Array
    first: int
    last: int
    what: ClassVar[str] = "sums of squares"

    def __call__(self, block: Block) -> Sums:
        p, n_groups = len(self.features), len(self.kind)
        gram = np.zeros((self.last - self.first, packed_size(p)))
        sums = np.zeros((n_groups, p)), np.zeros(n_groups), np.zeros(n_groups)
        for kind, rows in self._runs(block):
            part = block.take(rows)
            for cut, phi in self.features.tiles(part.X):
                _add_moments(*sums, phi, part.take(cut))
                _add_gram(gram[kind - self.first], phi, part, cut)
        return (gram, *sums)

    def _runs(self, block: Block) -> list[tuple[int, Array]]:
        """Return the rows of each kind, those of a group together."""
        assert block.group is not None
        order = np.argsort(block.group, kind="stable")
        kind = self.kind[block.group[order]]
        return [(k, order[kind == k]) for k in range(self.first, self.last) if np.any(kind == k)]


def _add_moments(moments: Array, weight: Array, rows: Array, phi: Array, part: Block) -> None:
    assert part.group is not None
    starts = np.flatnonzero(np.diff(part.group, prepend=-1))
    groups, w = part.group[starts], part.weight
    weighted = phi if w is None else phi * w[:, None]
    moments[groups] += np.add.reduceat(weighted, starts, axis=0, dtype=np.float64)
    rows[groups] += np.diff(starts, append=len(part))
    weight[groups] += np.diff(starts, append=len(part)) if w is None else np.add.reduceat(w, starts)


def _add_gram(packed: Array, phi: Array, part: Block, cut: slice) -> None:
    """packed += Phi' W Phi in float64."""
    rows = phi.astype(np.float64, copy=False)
    if part.weight is not None:
        rows = rows * np.sqrt(part.weight[cut])[:, None]
    out = lapack.dsfrk(rows.shape[1], len(rows), 1.0, rows.T, 1.0, packed, uplo="L", overwrite_c=1)
    assert np.shares_memory(out, packed)


# --- packed symmetric matrices ---


def packed_size(p: int) -> int:
    """Return how many numbers a packed p x p matrix has."""
    return p * (p + 1) // 2


def packed(matrix: Array) -> Array:
    """Return a symmetric matrix packed."""
    return np.asarray(lapack.dtrttf(np.asfortranarray(matrix), uplo="L")[0])


def unpacked(values: Array) -> Array:
    """Return a packed matrix as a symmetric one."""
    p = int((np.sqrt(8 * len(values) + 1) - 1) / 2)
    lower = np.tril(lapack.dtfttr(p, values, uplo="L")[0])
    return np.asarray(lower + np.tril(lower, -1).T)


@dataclass(frozen=True)
class Factor:
    """A packed Cholesky factor: P = L L'."""

    size: int
    lower: Array

    @classmethod
    def of(cls, matrix: Array, size: int) -> Factor:
        """Factorise a packed positive definite matrix, which is written over."""
        lower, info = lapack.dpftrf(size, matrix, uplo="L", overwrite_a=1)
        if info:
            raise ValueError(
                "The sums of squares plus the kernel matrix of the landmarks are not positive "
                "definite: use a smaller C, dtype='float64', or a positive definite kernel."
            )
        return cls(size, lower)

    def solve(self, rhs: Array) -> Array:
        """Return P^-1 rhs."""
        return np.asarray(lapack.dpftrs(self.size, self.lower, rhs, uplo="L")[0])

    @cached_property
    def triangle(self) -> Any:
        """L as a full matrix, Fortran ordered."""
        return np.asfortranarray(np.tril(lapack.dtfttr(self.size, self.lower, uplo="L")[0]))
