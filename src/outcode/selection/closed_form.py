"""Least squares in closed form: leave-one-out margins of every column, for many ridge values.

Column s, on the rows it uses, minimises  ridge |w|^2 + sum_i w_i (t_is - f_s(x_i))^2  with the
constant 1 in the kernel, so  alpha = (K + 1 + ridge W^-1)^-1 t = G^-1 t.  The margin of row i under
the column trained without it is  t_i - alpha_i / [G^-1]_ii,  and nothing is trained again.

With H = W^1/2 (K + 1) W^1/2 and the Cholesky factorisation H + ridge I = L L'

    alpha = W^1/2 L'^-1 L^-1 W^1/2 t,    [G^-1]_ii = w_i sum_k [L^-1]_ki^2

for each ridge value: ten of them cost as much as one eigendecomposition of H, and three to five
are enough. Where the ridge value is far above the rounding of float32, float32 does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.solvers.triangular import solved

#: Numbers in the stacked matrices of one batch of columns.
BATCH = 2**19
#: Larger systems are factorised one by one.
SMALL = 48
#: They are in float32 where the ridge value is at least so many times the rounding of H.
SAFE = 100.0


@dataclass(frozen=True)
class Systems:
    """Columns that are solved together: B systems of p rows, each with c columns.

    ``rows``, ``root`` (B, p): the rows of each system and the square roots of their weights;
    systems of fewer rows are filled up with rows of weight 0, which change nothing.
    ``columns`` (B, c), ``targets`` (B, p, c).
    """

    rows: Array
    root: Array
    columns: Array
    targets: Array

    def scaled(self, gram: Array) -> Array:
        """Return H = W^1/2 (K + 1) W^1/2 of every system, (B, p, p)."""
        H = gram.take(self.rows[:, :, None] * len(gram) + self.rows[:, None, :])
        H += 1.0
        if np.any(self.root != 1.0):
            H *= self.root[:, :, None]
            H *= self.root[:, None, :]
        return H

    def apart(self, gram: Array) -> Iterator[Array]:
        """Yield the same one by one, for large systems."""
        for rows, root in zip(self.rows, self.root, strict=True):
            whole = len(rows) == len(gram) == rows[-1] + 1  # none is filled up
            H = gram + 1.0 if whole else gram.take(rows, axis=0).take(rows, axis=1) + 1.0
            if np.any(root != 1.0):
                H *= root[:, None]
                H *= root
            yield H


def loo_margins(
    gram: Array,
    targets: Array,
    ridges: Array,
    weight: Array,
    systems: Sequence[Systems] | None = None,
) -> Array:
    """Return the (n_ridges, n_samples, n_dichotomies) leave-one-out margins.

    Parameters
    ----------
    gram : (n_samples, n_samples) kernel values, without the constant
    targets : (n_samples, n_dichotomies) +1, -1, 0; where it is 0 the margin is that of the column,
        which has not seen the row
    ridges : (n_ridges,) positive; where H + ridge I is not positive definite the margins are NaN
    weight : (n_samples,); a row is left out with all of its weight
    systems : :func:`grouped` of the targets and the weight, where they are known already

    Examples
    --------
    >>> gram, targets = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([[-1], [1]])
    >>> loo_margins(gram, targets, np.array([1.0]), np.ones(2)).round(3).ravel().tolist()
    [0.0, 0.0]
    """
    ridges = np.asarray(ridges, dtype=np.float64)
    dual = np.zeros((len(ridges), *targets.shape))
    held_out = np.zeros_like(dual)
    for part in grouped(targets, weight) if systems is None else systems:
        alpha, inverse = _factorised(gram, part, ridges)
        real = part.root > 0
        left_out = part.targets - alpha / np.where(real, inverse, 1.0)[:, :, :, None]
        rows, columns = part.rows[:, :, None], part.columns[:, None, :]
        if not real.all():
            system, place = np.nonzero(real)
            rows, columns = part.rows[system, place, None], part.columns[system]
            alpha, left_out = alpha[:, system, place], left_out[:, system, place]
        dual[:, rows, columns], held_out[:, rows, columns] = alpha, left_out
    used = (targets != 0) & (weight > 0)[:, None]
    if not used.all():
        for k in range(len(ridges)):
            plain = gram @ dual[k] + dual[k].sum(axis=0)
            np.copyto(held_out[k], plain, where=~used)
    return held_out


def _factorised(gram: Array, systems: Systems, ridges: Array) -> tuple[Array, Array]:
    """Return alpha (n_ridges, B, p, c) and [G^-1]_ii (n_ridges, B, p)."""
    root = systems.root[:, :, None]
    aims = root * systems.targets
    alpha = np.empty((len(ridges), *systems.targets.shape))
    inverse = np.empty((len(ridges), *systems.root.shape))
    if systems.rows.shape[1] <= SMALL:
        H, diagonal = systems.scaled(gram), np.arange(systems.rows.shape[1])
        for k, ridge in enumerate(ridges):
            M = H.copy()
            M[:, diagonal, diagonal] += ridge
            whole = _inverses(M)
            alpha[k], inverse[k] = whole @ aims, whole[:, diagonal, diagonal]
    else:
        for b, one in enumerate(systems.apart(gram)):
            for k, (ridge, kind) in enumerate(zip(ridges, _precisions(one, ridges), strict=True)):
                m = one.astype(kind, copy=k + 1 < len(ridges))
                m.flat[:: len(m) + 1] += ridge
                alpha[k, b], inverse[k, b] = solved(m.T, aims[b])
    return root * alpha, systems.root**2 * inverse


def _precisions(H: Array, ridges: Array) -> list[Any]:
    """Return the type in which H + ridge I is factorised, for each ridge value.

    Rounding H to float32 changes it by a matrix of norm about eps sqrt(p) max H_ii.
    """
    rounding = np.finfo(np.float32).eps * np.sqrt(len(H)) * H.diagonal().max()
    return [np.float32 if ridge >= SAFE * rounding else np.float64 for ridge in ridges]


def _inverses(M: Array) -> Array:
    """Return the inverses of a stack of matrices, NaN unless all are positive definite."""
    try:
        np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        return np.full(M.shape, np.nan)
    return np.linalg.inv(M)


def grouped(targets: Array, weight: Array) -> list[Systems]:
    """Return all columns, those of like size together; columns that use the same rows share one."""
    groups = sorted(_groups(targets, weight), key=lambda group: len(group[0]))
    root, found = np.sqrt(weight), []
    while groups:
        size = len(groups[-1][0])
        c = len(groups[-1][1])
        many = max(1, BATCH // max(size, 1) ** 2)
        batch: list[tuple[Array, Array]] = []
        while groups and len(batch) < many:
            rows, columns = groups[-1]
            if len(columns) != c or len(rows) < 0.8 * size - 2:
                break
            batch.append(groups.pop())
        found.append(_stacked(batch, size, root, targets))
    return found


def _groups(targets: Array, weight: Array) -> Iterator[tuple[Array, Array]]:
    """Yield each distinct set of rows that some columns use, and those columns."""
    used = (targets != 0) & (weight > 0)[:, None]
    packed = np.ascontiguousarray(np.packbits(used, axis=0).T)
    keys: dict[bytes, list[int]] = {}
    for s, row in enumerate(packed):
        keys.setdefault(row.tobytes(), []).append(s)
    for columns in keys.values():
        yield np.flatnonzero(used[:, columns[0]]), np.array(columns)


def _stacked(batch: list[tuple[Array, Array]], size: int, root: Array, targets: Array) -> Systems:
    rows = np.zeros((len(batch), size), dtype=np.intp)
    roots = np.zeros((len(batch), size))
    columns = np.array([columns for _, columns in batch])
    for b, (index, _) in enumerate(batch):
        rows[b, : len(index)] = index
        roots[b, : len(index)] = root[index]
    signs = targets[rows[:, :, None], columns[:, None, :]].astype(np.float64)
    return Systems(rows, roots, columns, signs * (roots > 0)[:, :, None])
