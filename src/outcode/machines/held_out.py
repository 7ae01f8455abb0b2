"""Margins of held-out rows: those that a column uses at once, all others when someone asks."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode import gram as grams
from outcode._checks import Array
from outcode.solvers.svm import products
from outcode.solvers.svm.bank import Solutions
from outcode.training import Used


class HeldOutMargins:
    """Margins (n_samples, n_dichotomies) of each row under machines trained without its fold.

    The solver has them for the rows that a column uses, which is all that sigmoids are fitted on;
    ``np.asarray`` computes those of all rows.

    Parameters
    ----------
    machine : fitted SVM
    gram : the Gram store it was trained on, a weak reference
    solutions : without each fold in turn, and with all rows
    fold : (n_samples,) fold of each row, -1 for one that is never left out
    """

    def __init__(self, machine: Any, gram: Any, solutions: list[Solutions], fold: Array) -> None:
        self.kernel, self.rows, self.origin = (
            machine.kernel_,
            machine.training_rows_,
            machine.origin_,
        )
        self.dtype, self.budget = machine.gram_dtype_, machine.max_memory
        self.gram, self.solutions, self.free = gram, solutions, machine.bias == "free"
        found, place = np.unique(fold, return_inverse=True)
        self.place = place - 1 if found[0] < 0 else place  # the last solution is of all rows
        self._dense: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_dichotomies)"""
        return self.solutions[0].layout.shape

    def __len__(self) -> int:
        return self.shape[0]

    def used(self) -> Used:
        """Return the margins of the rows that each column uses."""
        layout = self.solutions[0].layout
        values, place = np.empty(len(layout.index)), self.place[layout.rows]
        for k, solution in enumerate(self.solutions):
            mine = place == (k if k < len(self.solutions) - 1 else -1)
            values[mine] = solution.margins(self.free)[0, mine]
        return Used(values, layout.y, layout.rows, layout.columns)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self._dense is None:
            self._dense = self._all()
        found = np.asarray(self._dense, dtype=dtype)
        return found.copy() if copy else found

    def _all(self) -> Array:
        out, gram = np.empty(self.shape), self.gram.get()
        if gram is None:
            budget, order = grams.memory_budget(self.budget), self.solutions[0].layout.order
            gram = grams.RowGram(self.kernel, self.rows, self.dtype, budget, order, self.origin)
        for k in np.unique(self.place):
            rows = np.flatnonzero(self.place == k)
            out[rows] = products.margins(gram, self.solutions[k], 0, self.free, rows)
        return out
