"""Machines whose columns are trained apart: some are kept when others are added."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from outcode import gram as grams
from outcode._checks import Array
from outcode.machines.common import as_rows
from outcode.machines.kernel import KernelMachine

#: What is known of each column, and of each row and column.
OF_COLUMNS = ("bias_", "norm2_", "objective_", "gap_", "n_iter_")
OF_ROWS = ("dual_coef_", "training_margins_", "loo_margins_")


class GrowingMachine(KernelMachine):
    """A kernel machine whose columns do not depend on each other."""

    def store(self, X: Any, targets: Array, n_jobs: int | None = None) -> grams.Gram:
        """Return the Gram store of other rows under the kernel as it was fitted."""
        check_is_fitted(self, "bias_")
        if self.kernel_.given:
            raise ValueError(
                "A precomputed kernel has no rows to add to: give rows and the name of a kernel."
            )
        rows = self.kernel_.prepare(as_rows(X), self.origin_)
        options: dict[str, Any] = {
            "origin": self.origin_, "dtype": self.value_type(len(rows)),
            "max_memory": self.max_memory, "order": self.row_order(targets), "n_jobs": n_jobs,
        }  # fmt: skip
        return grams.gram(self.kernel_, rows, **options)

    def grown(
        self,
        gram: grams.Gram,
        targets: Array,
        kept: Array,
        sample_weight: Array,
        new_margins: Array,
        **threads: Any,
    ) -> Any:
        """Return a machine with more rows and columns; only the new columns are trained.

        Parameters
        ----------
        gram : :meth:`store` of all rows, those this machine was trained on first
        targets : (n_samples, n_dichotomies)
        kept : (n_dichotomies,) which column of this machine each one is, -1 for a new one; one that
            is kept does not use the new rows
        sample_weight : (n_samples,)
        new_margins : of the new rows, by this machine
        """
        fresh = kept < 0
        added = clone(self)
        added.fit_gram(gram, targets[:, fresh], sample_weight, **threads)
        found, n_new = clone(self), len(new_margins)
        for name in (name for name in OF_COLUMNS if hasattr(self, name)):
            setattr(found, name, _spread(getattr(self, name), getattr(added, name), kept))
        for name in (name for name in OF_ROWS if hasattr(self, name)):
            below = np.zeros_like(new_margins) if name == "dual_coef_" else new_margins
            mine = np.vstack([getattr(self, name), below[:n_new]])
            setattr(found, name, _spread(mine, getattr(added, name), kept))
        found.gram_diagonal_ = added.gram_diagonal_
        found.expand(gram, targets)
        return found


def _spread(mine: Array, added: Array, kept: Array) -> Array:
    """Return the columns that are kept and those that are new in their order."""
    out = np.empty((*mine.shape[:-1], len(kept)), dtype=np.result_type(mine, added))
    out[..., kept >= 0] = mine[..., kept[kept >= 0]]
    out[..., kept < 0] = added
    return out
