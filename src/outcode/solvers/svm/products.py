"""Products of kernel values with the dual variables of all columns, zeros left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.parallel import single_blas, thread_map
from outcode.solvers.store import TILE, Store, cuts
from outcode.solvers.svm.bank import Solutions
from outcode.solvers.svm.layout import Layout

#: As many dual variables are multiplied as one matrix.
DENSE = 2**24


def groups(layout: Layout, coef: Array, dtype: Any = np.float64) -> list[tuple[Array, Any, Array]]:
    """Return the support rows in groups: the user's rows, their columns, dual variables there.

    A group are rows that the same columns use; its dual variables are a (rows, columns) matrix
    without zeros but those the solver found.
    """
    return [
        (layout.order[places], columns, values)
        for places, columns, values in placed_groups(layout, coef, dtype)
    ]


def placed_groups(layout: Layout, coef: Array, dtype: Any) -> list[tuple[Array, Any, Array]]:
    """Return the groups of :func:`groups` with places in the store instead of the user's rows."""
    out: list[tuple[Array, Any, Array]] = []
    kind, column, start = layout.pieces
    by_kind = np.argsort(kind, kind="stable")
    cuts = np.searchsorted(kind[by_kind], np.arange(len(layout.kinds) + 1))
    for u, places in enumerate(layout.kinds):
        pieces = by_kind[cuts[u] : cuts[u + 1]]
        values = coef[start[pieces][:, None] + np.arange(len(places))]
        support = np.flatnonzero((values != 0).any(axis=0))
        columns = slice(None) if len(layout.kinds) == 1 else column[pieces]
        out.append((places[support], columns, values[:, support].T.astype(dtype)))
    return out


def margins(
    gram: Store,
    solutions: Solutions,
    k: int,
    free: bool,
    rows: Array | None = None,
    n_jobs: int | None = None,
) -> Array:
    """Return the (len(rows), n_columns) margins of some of the user's rows, by default of all.

    Rows that a column uses have theirs from the solver already; the others are found by one
    product for each group of support rows.

    Parameters
    ----------
    k : the problem
    free : whether the bias is free, and so left out of what the solver has
    """
    layout, bias = solutions.layout, solutions.certificate[k, :, 0]
    rows = np.arange(layout.shape[0]) if rows is None else rows
    out = np.empty((len(rows), layout.shape[1]))
    if not layout.whole():
        _multiply(gram, placed_groups(layout, solutions.coef[k], gram.dtype), rows, out, n_jobs)
        out += bias
    line = np.full(layout.shape[0], -1)
    line[rows] = np.arange(len(rows))
    asked = np.flatnonzero(line[layout.rows] >= 0)
    place = line[layout.rows[asked]], layout.columns[asked]
    out[place] = solutions.fitted[k, asked] + (bias[place[1]] if free else 0.0)
    return out


def path_margins(
    gram: Store,
    solutions: Solutions,
    problems: Array,
    free: bool,
    rows: Array,
    n_jobs: int | None = None,
) -> Array:
    """Return the (len(problems), len(rows), n_columns) margins of some rows in several problems.

    They are one product if the dual variables, zeros and all, are few enough to be kept.
    """
    layout = solutions.layout
    if layout.whole():  # every margin is known
        known = solutions.fitted[problems].reshape(len(problems), *layout.shape[::-1])
        bias = solutions.certificate[problems, None, :, 0] * free
        return known[:, :, layout.places[rows]].swapaxes(1, 2) + bias
    if gram.matrix is None or len(problems) * layout.shape[0] * layout.shape[1] > DENSE:
        return np.stack([margins(gram, solutions, k, free, rows, n_jobs) for k in problems])
    dual_coef = np.zeros((len(problems), *layout.shape))
    dual_coef[:, layout.index, layout.columns] = solutions.coef[problems]
    with single_blas():
        product = gram.matrix[layout.places[rows]] @ dual_coef
    return product + solutions.certificate[problems, None, :, 0]


def _multiply(
    gram: Store, groups_: list[tuple[Array, Any, Array]], rows: Array, out: Array, n_jobs: Any
) -> None:
    """out = K[rows] @ dual_coef, in blocks of rows."""
    place = np.empty(len(gram), dtype=np.intp)
    place[slice(None) if gram.order is None else gram.order] = np.arange(len(gram))
    support = np.concatenate([places for places, _, _ in groups_])

    def block(cut: slice) -> None:
        cross = gram.cross(place[rows[cut]], support)
        total, a = np.zeros((len(cross), out.shape[1])), 0
        for places, columns, values in groups_:
            total[:, columns] += cross[:, a : a + len(places)] @ values
            a += len(places)
        out[cut] = total

    thread_map(block, cuts(len(rows), TILE), n_jobs)
