"""How the columns' machines are related. [LZCX16]"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array, lookup
from outcode.capabilities import HasRelation, HasWeightProducts, can, require
from outcode.displays.common import Display, mark, mark_x, mark_y, pandas, with_code


@dataclass
class RelationDisplay(Display):
    """The relation matrix of joint machines, or the cosines of the columns' weight vectors.

    Parameters
    ----------
    matrix : ndarray of shape (n_dichotomies, n_dichotomies)
        One value for each pair of columns.
    kind : {"relation", "correlation"}
        What the values are. "relation" is M of [LZCX16] Eq. 15; "correlation" is the cosine of the
        angle between w_l and w_m, from W'W = A'KA with A the dual coefficients (Fig. 1, there for a
        linear kernel).

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
        kind = kind or ("relation" if can(machine, HasRelation) else "correlation")
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


def _correlation(machine: Any) -> Array:
    require(machine, HasWeightProducts, "The correlation of the columns")
    products = machine.weight_products()
    length = np.sqrt(np.maximum(products.diagonal(), np.finfo(float).tiny))
    return np.clip(products / np.outer(length, length), -1.0, 1.0)


def _relation(machine: Any) -> Array:
    require(machine, HasRelation, "The relation of the columns")
    matrix: Array = machine.relation_
    return matrix


KINDS = {"relation": _relation, "correlation": _correlation}
TITLES = {"relation": "relation of the columns", "correlation": "cosines between weight vectors"}
