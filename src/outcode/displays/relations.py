"""How the columns' machines are related. [LZCX16]"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode import gram as grams
from outcode._checks import Array, lookup
from outcode.displays.common import Display, mark, mark_x, mark_y, pandas, with_code
from outcode.parallel import single_blas


@dataclass
class RelationDisplay(Display):
    """The relation matrix of joint machines, or how alike the columns' weight vectors are.

    Parameters
    ----------
    matrix : (n_dichotomies, n_dichotomies)
    kind : "relation" (M of [LZCX16] Eq. 15) or "correlation": the cosine of the angle between w_l
        and w_m, from W'W = A'KA with A the dual coefficients (Fig. 1, there for a linear kernel)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova").fit(X, y)
    >>> RelationDisplay.from_estimator(clf).frame().round(1).to_numpy().diagonal().tolist()
    [1.0, 1.0, 1.0]
    """

    matrix: Array
    kind: str

    @classmethod
    def from_estimator(
        cls, clf: Any, X: Any = None, y: Any = None, *, kind: str | None = None
    ) -> RelationDisplay:
        """Take the relation matrix of joint machines; of other kernel machines the correlation."""
        machine = with_code(clf)[0].machine_
        kind = kind or ("relation" if hasattr(machine, "relation_") else "correlation")
        return cls(lookup(KINDS, kind, "kind")(machine), kind)

    def frame(self) -> Any:
        return pandas().DataFrame(self.matrix)

    def size(self) -> tuple[float, float]:
        side = float(np.clip(2.5 + 0.22 * len(self.matrix), 4, 10))
        return side + 1.2, side

    def _draw(self, ax: Any) -> None:
        largest = 1.0 if self.kind == "correlation" else float(np.abs(self.matrix).max()) or 1.0
        image = ax.imshow(
            self.matrix, "RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest"
        )
        ax.figure.colorbar(image, ax=ax, shrink=0.85)
        columns = range(len(self.matrix))
        mark_x(ax, columns)
        mark_y(ax, columns)
        ax.spines[:].set_visible(False)
        mark(ax, "column", "column", TITLES[self.kind])


def weight_products(machine: Any) -> Array:
    """Return W'W = A'KA, (n_dichotomies, n_dichotomies), of kernel machines."""
    rows = getattr(machine, "support_rows_", None)
    if rows is None:
        raise ValueError(
            f"The weight vectors of {type(machine).__name__} are not at hand: the correlation "
            f"needs a kernel machine with a kernel other than 'precomputed'."
        )
    coef, total = machine.dual_coef_[machine.pooled_], np.zeros((len(machine.bias_),) * 2)
    with single_blas():
        for cut in grams.cross_blocks(len(rows), len(rows)):
            total += coef[cut].T @ (machine.kernel_.block(rows[cut], rows) @ coef)
    return (total + total.T) / 2.0


def _correlation(machine: Any) -> Array:
    products = weight_products(machine)
    length = np.sqrt(np.maximum(products.diagonal(), np.finfo(float).tiny))
    return np.clip(products / np.outer(length, length), -1.0, 1.0)


def _relation(machine: Any) -> Array:
    if not hasattr(machine, "relation_"):
        raise ValueError(
            f"{type(machine).__name__} learns its columns one by one and has no relation matrix: "
            f"use machine='jcl', or kind='correlation'."
        )
    matrix: Array = machine.relation_
    return matrix


KINDS = {"relation": _relation, "correlation": _correlation}
TITLES = {"relation": "relation of the columns", "correlation": "cosines between weight vectors"}
