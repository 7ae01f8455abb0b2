"""Trees of class partitions that say most about the data: Discriminant and Forest."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from outcode._checks import Array
from outcode.codes.common import Code, check_learnable, distinct_columns, is_pairwise
from outcode.codes.information import Potentials, floating_search, interaction_potentials


class Discriminant(Code):
    """A binary tree of class partitions, each the most informative about the data [PRV06].

    The root splits all classes in two, and each side is split again until it has one class. This
    gives n_classes - 1 columns; classes outside a node have 0 in its column. The partition of a
    node is found by sequential forward floating search, which maximises the quadratic mutual
    information
    between rows and sides, a function of class-pair potentials that are computed once
    (:mod:`outcode.codes.information`).

    Parameters
    ----------
    width : float, default=0.5
        Parzen width: sigma^2 = width^2 m / 2, m the mean squared distance of two rows whose
        features have unit variance.
    max_rows : int, default=20_000
        Beyond this many rows the potentials come from a random sample, every class in proportion.

    Notes
    -----
    With a machine on precomputed kernels the distances are those of the kernel's feature space.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [9.0], [10.0]])
    >>> Discriminant().matrix(4, X, np.array([0, 1, 2, 3]))[:, 0]
    array([-1, -1,  1,  1], dtype=int8)
    """

    def __init__(self, width: float = 0.5, max_rows: int = 20_000) -> None:
        self.width = width
        self.max_rows = max_rows

    def matrix(
        self,
        n_classes: int,
        X: Any = None,
        labels: Array | None = None,
        machine: Any = None,
        rng: np.random.RandomState | None = None,
    ) -> Array:
        return tree(self.potentials(n_classes, X, labels, machine, rng))

    def potentials(
        self, n_classes: int, X: Any, labels: Any, machine: Any = None, rng: Any = None
    ) -> Potentials:
        """Return the class potentials that the partitions are chosen by."""
        X, labels = check_learnable(self, n_classes, X, labels)
        return interaction_potentials(
            X,
            labels,
            width=self.width,
            max_rows=self.max_rows,
            pairwise=is_pairwise(machine),
            rng=check_random_state(rng),
        )


class Forest(Discriminant):
    """The columns of several different discriminant trees [EPR07].

    Each tree is grown like :class:`Discriminant`, but where a node has another partition it does
    not take one that an earlier tree used, so that columns do not repeat; those that must (two
    classes split in one way only) are kept once. Few classes have few trees: two classes one.

    Parameters
    ----------
    n_trees : int, default=3
        How many trees are grown.
    width : float, default=0.5
        Parzen width, as for :class:`Discriminant`.
    max_rows : int, default=20_000
        Largest number of rows for the potentials, as for :class:`Discriminant`.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [9.0], [10.0]])
    >>> Forest(n_trees=2).matrix(4, X, np.array([0, 1, 2, 3])).shape
    (4, 5)
    """

    def __init__(self, n_trees: int = 3, width: float = 0.5, max_rows: int = 20_000) -> None:
        super().__init__(width, max_rows)
        self.n_trees = n_trees

    def matrix(
        self,
        n_classes: int,
        X: Any = None,
        labels: Array | None = None,
        machine: Any = None,
        rng: np.random.RandomState | None = None,
    ) -> Array:
        if self.n_trees < 1:
            raise ValueError(f"n_trees must be at least 1, got {self.n_trees}.")
        potentials = self.potentials(n_classes, X, labels, machine, rng)
        code = tree(potentials)
        for _ in range(self.n_trees - 1):
            used = {column.tobytes() for column in code.T}
            code = distinct_columns(np.hstack([code, tree(potentials, used)]))
        return code


def tree(potentials: Potentials, used: Set[bytes] = frozenset()) -> Array:
    """Return one column per node of a tree, top down, taking no ``used`` one if it has a choice."""
    nodes, columns = [np.arange(len(potentials.shares))], []
    while nodes:
        classes = nodes.pop(0)
        column = _node(potentials, classes, used)
        columns.append(column)
        sides = np.flatnonzero(column < 0), np.flatnonzero(column > 0)
        nodes += [side for side in sides if len(side) > 1]
    return np.column_stack(columns)


def _node(potentials: Potentials, classes: Array, used: Set[bytes]) -> Array:
    """Return a node's column; its first class is -1, so that a partition has one column only."""

    def column(inside: Array) -> Array:
        out = np.zeros(len(potentials.shares), dtype=np.int8)
        out[classes] = np.where(inside == inside[0], -1, 1)
        return out

    def unused(inside: Array) -> bool:
        return column(inside).tobytes() not in used

    return column(floating_search(potentials.centred(classes), unused))


NAMES: dict[str, type[Code]] = {"decoc": Discriminant, "forest": Forest}
