"""Margins of blocks under one model, or under the model that did not see the row's fold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outcode._checks import Array
from outcode.scale.features import Features
from outcode.scale.sources import Block


@dataclass(frozen=True)
class Score:
    """Margins of a block: each row under the model of its group (``model`` None: the first)."""

    features: Features
    coefs: Array
    model: Array | None = None

    def __call__(self, block: Block) -> Array:
        if self.model is None:
            return self.features.margins(block.X, self.coefs[0])
        out, which = np.empty((len(block), self.coefs.shape[2])), self.model[block.group]
        for f in np.unique(which):
            rows = np.flatnonzero(which == f)
            out[rows] = self.features.margins(block.X[rows], self.coefs[f])
        return out


@dataclass(frozen=True)
class Folded:
    """Groups split by folds, and columns that each leave one fold out.

    ``signs`` has the columns of fold 0, then those of fold 1, and so on: a fold is a part of the
    code that is 0. ``model`` says which fold each group belongs to, ``n_folds`` for none.
    """

    signs: Array
    group: Array
    model: Array
    n_folds: int

    def apart(self, coef: Array) -> Array:
        """Return (n_folds, p, n_dichotomies) from the coefficients of all columns."""
        p, columns = coef.shape
        return coef.reshape(p, self.n_folds, columns // self.n_folds).transpose(1, 0, 2)


def folded(signs: Array, group: Array, fold: Array) -> Folded:
    """Split groups by fold; a fold of -1 is never left out."""
    names, place = np.unique(fold, return_inverse=True)
    never = int(np.count_nonzero(names < 0))
    n_folds = len(names) - never
    model = (place.ravel() - never) % (n_folds + 1)
    of_group = np.repeat(np.arange(n_folds + 1), len(signs))
    base = np.tile(signs, (n_folds + 1, 1))
    columns = [np.where(of_group[:, None] == f, 0, base) for f in range(n_folds)]
    return Folded(np.hstack(columns), model * len(signs) + group, of_group, n_folds)
