"""What every code shares: its verb, and what columns it may hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state, get_tags

from outcode import notebooks
from outcode._checks import Array, lookup
from outcode.capabilities import WeighsColumns, can
from outcode.dichotomies import validate
from outcode.saved import Saved

#: Number of classes of the example that a notebook shows.
SHOWN = 5


class Code(Saved, notebooks.InNotebook):
    """Base class of codes: assigns codewords to ``n_classes`` classes.

    A subclass defines :meth:`draw`, or :meth:`matrix` if it looks at the data.

    Examples
    --------
    >>> class Binary(Code):
    ...     def draw(self, n_classes, rng):
    ...         places = np.arange(int(np.ceil(np.log2(n_classes))))
    ...         return 2 * (np.arange(n_classes)[:, None] >> places & 1) - 1
    >>> Binary().matrix(3).tolist()
    [[-1, -1], [1, -1], [-1, 1]]
    """

    room = "code"

    def matrix(
        self,
        n_classes: int,
        X: Any = None,
        labels: Array | None = None,
        machine: Any = None,
        rng: np.random.RandomState | None = None,
    ) -> Array:
        """Return the (n_classes, n_dichotomies) int8 code."""
        return self.draw(n_classes, check_random_state(rng))

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        """Return the code, for those that do not look at the data."""
        raise NotImplementedError(f"{type(self).__name__} must define draw() or matrix()")

    def extended(
        self, code: Array, places: Array, n_classes: int, rng: np.random.RandomState
    ) -> Array:
        """Return a fitted code with more classes; ``places`` are those of its own among them.

        One that does not look at the data is drawn anew. The columns of one that does are kept and
        do not use the new classes; a column opposes each pair with a new class.
        """
        return self.draw(n_classes, rng) if self._drawn else with_pairs(code, places, n_classes)

    @property
    def _drawn(self) -> bool:
        """Whether the code does not look at the data."""
        return type(self).matrix is Code.matrix

    def _summary(self) -> str | None:
        facts = self.get_params(deep=False)
        if not self._drawn:
            return notebooks.card(f"{type(self).__name__}, learned from the data", facts)
        try:
            code = self.draw(SHOWN, np.random.RandomState(0))
        except ValueError:  # these parameters do not allow so few classes
            return notebooks.card(type(self).__name__, facts)
        names = [f"class {number}" for number in range(SHOWN)]
        title = f"{type(self).__name__}, here for {SHOWN} classes"
        return notebooks.card(title, facts, notebooks.signs(code, names))


def with_pairs(code: Array, places: Array, n_classes: int) -> Array:
    """Return a code with new classes, its columns first, then one for each pair with a new class.

    >>> with_pairs(np.array([[1], [-1]]), np.array([0, 2]), 3).tolist()
    [[1, 1, 0], [0, -1, 1], [-1, 0, -1]]
    """
    kept = np.zeros((n_classes, code.shape[1]), dtype=np.int8)
    kept[places] = code
    first, second = np.triu_indices(n_classes, 1)
    new = ~(np.isin(first, places) & np.isin(second, places))
    pairs = np.zeros((n_classes, int(new.sum())), dtype=np.int8)
    pairs[first[new], np.arange(pairs.shape[1])] = 1
    pairs[second[new], np.arange(pairs.shape[1])] = -1
    return np.hstack([kept, pairs])


def two_classes() -> Array:
    return np.array([[-1], [1]], dtype=np.int8)


def column_count(asked: int | None, usual: float, n_classes: int, most: int) -> int:
    """Return how many columns to draw, or an error if the classes do not allow as many."""
    if asked is None:
        return min(int(np.ceil(usual)), most)
    least = int(np.ceil(np.log2(n_classes)))
    if not least <= asked <= most:
        raise ValueError(
            f"{n_classes} classes allow between {least} and {most} different columns, "
            f"got n_columns={asked}."
        )
    return int(asked)


def all_dense_columns(n_classes: int) -> Array:
    """Every +1/-1 column once, up to sign: the first class is always +1."""
    count = np.arange(2 ** (n_classes - 1) - 1)
    bits = (count[None, :] >> np.arange(n_classes - 2, -1, -1)[:, None]) & 1
    first = np.ones((1, len(count)), dtype=np.int8)
    return np.vstack([first, 2 * bits - 1]).astype(np.int8)


def distinct_columns(code: Array) -> Array:
    """Drop columns with one sign only, and every repeat or negative of an earlier one."""
    code = code[:, (code > 0).any(axis=0) & (code < 0).any(axis=0)]
    leading = code[(code != 0).argmax(axis=0), np.arange(code.shape[1])]
    _, first = np.unique(code * leading, axis=1, return_index=True)
    return code[:, np.sort(first)]


def new_columns(code: Array, before: Array) -> Array:
    """Return the columns of ``code`` that ``before`` does not have, with either sign."""
    old = distinct_columns(before)
    return distinct_columns(np.hstack([old, code]))[:, old.shape[1] :]


def checked_matrix(
    code: Any,
    table: Mapping[str, type[Code]],
    n_classes: int,
    class_names: Any = None,
    **data: Any,
) -> Array:
    """Return the matrix of a name in ``table``, of an object or as given, once it can be decoded.

    ``data`` is what :meth:`Code.matrix` takes beside the number of classes.
    """
    return checked_code(code, table, n_classes, class_names, **data)[0]


def checked_code(
    code: Any,
    table: Mapping[str, type[Code]],
    n_classes: int,
    class_names: Any = None,
    **data: Any,
) -> tuple[Array, Array | None]:
    """Return the matrix as :func:`checked_matrix` does, and the weights of its columns, if any."""
    weights = None
    if isinstance(code, str):
        code = lookup(table, code, "code")()
    if can(code, WeighsColumns):
        code, weights = code.weighted_matrix(n_classes, **data)
    elif hasattr(code, "matrix"):
        code = code.matrix(n_classes, **data)
    else:  # the caller's own, who may change it
        code = np.array(code)
    matrix = validate(code, class_names if np.shape(code)[:1] == (n_classes,) else None)
    if len(matrix) != n_classes:
        raise ValueError(
            f"The code has {len(matrix)} rows, but the data has {n_classes} classes: "
            f"give one row per class, in the order of the sorted labels."
        )
    return matrix, weights


def check_learnable(code: Code, n_classes: int, X: Any, labels: Any) -> tuple[Any, Array]:
    """Return rows and labels a code can be learned from, or an error saying what is missing."""
    name = type(code).__name__
    if X is None or labels is None:
        raise ValueError(
            f"{name} is learned from the data: give X and y (the classifier does), or take a code "
            f"that needs only the number of classes, such as 'ova'."
        )
    X, labels = X if sparse.issparse(X) else np.asarray(X), np.asarray(labels)
    if X.ndim != 2 or len(labels) != X.shape[0]:
        raise ValueError(f"{name} needs a row per label, got {X.shape} and {len(labels)} labels.")
    if X.dtype.kind not in "biuf" and not _numeric(X):
        raise ValueError(f"{name} measures distances of rows, but X holds text: encode it first.")
    counts = np.bincount(labels, minlength=n_classes)
    if len(counts) != n_classes or not counts.all():
        raise ValueError(
            f"{name} needs rows of each of the {n_classes} classes, got "
            f"{np.count_nonzero(counts)} classes in the labels."
        )
    return X, labels


def _numeric(X: Array) -> bool:
    try:
        X.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def is_pairwise(machine: Any) -> bool:
    """Say whether the machine takes a Gram matrix for rows."""
    return hasattr(machine, "__sklearn_tags__") and get_tags(machine).input_tags.pairwise
