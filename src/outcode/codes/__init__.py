"""Codes: n_classes (and, if a code wants it, the data) -> a matrix of +1, -1 and 0.

Rows are codewords, columns are two-class problems. A code is a small parameter object with one
verb, :meth:`Code.matrix`; a code that does not look at the data defines :meth:`Code.draw` instead.
To add one, write the class in the file of its family and enter its name at that file's foot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from outcode._checks import Array, gathered, lookup
from outcode.codes import algebraic, embedding, fixed, joint, partitions
from outcode.codes.algebraic import BCH, PRIMITIVE, Hadamard, bch_generator, bch_words
from outcode.codes.assignment import Similar
from outcode.codes.common import Code, checked_code, with_pairs
from outcode.codes.designed import Designed, DesignedTree
from outcode.codes.embedding import Growth, NodeEmbedding
from outcode.codes.fixed import (
    EXHAUSTIVE_LIMIT,
    DenseRandom,
    Exhaustive,
    OneVsAll,
    OneVsOne,
    Ordinal,
    SparseRandom,
)
from outcode.codes.joint import JointCode, JointLearning
from outcode.codes.partitions import Discriminant, Forest
from outcode.dichotomies import row_distances, separation, validate

__all__ = [
    "BCH",
    "CODES",
    "EXHAUSTIVE_LIMIT",
    "PRIMITIVE",
    "Code",
    "DenseRandom",
    "Designed",
    "DesignedTree",
    "Discriminant",
    "Exhaustive",
    "Forest",
    "Growth",
    "Hadamard",
    "JointCode",
    "JointLearning",
    "NodeEmbedding",
    "OneVsAll",
    "OneVsOne",
    "Ordinal",
    "Similar",
    "SparseRandom",
    "bch_generator",
    "bch_words",
    "code_matrix",
    "resolve",
    "resolve_weighted",
    "row_distances",
    "separation",
    "validate",
]

CODES: dict[str, type[Code]] = {
    **fixed.NAMES,
    **algebraic.NAMES,
    **partitions.NAMES,
    **embedding.NAMES,
    **joint.NAMES,
    **gathered(__name__, __path__),
}


def code_matrix(
    code: Any,
    n_classes: int,
    X: Any = None,
    y: Any = None,
    machine: Any = None,
    random_state: Any = None,
) -> Array:
    """Return the validated matrix of a code given by name, by object or as a matrix.

    Parameters
    ----------
    code : str, Code or array-like of shape (n_classes, n_dichotomies)
        Name of a code, a code or a matrix of +1, -1 and 0.
    n_classes : int
        Number of classes.
    X : array-like of shape (n_samples, n_features) or None, default=None
        Training rows, for a code that is learned from the data.
    y : array-like of shape (n_samples,) or None, default=None
        Labels of the rows.
    machine : Machine or None, default=None
        Machine for a code that is learned with its machines.
    random_state : int, RandomState instance or None, default=None
        Seed of a code that is drawn at random.

    Returns
    -------
    ndarray of shape (n_classes, n_dichotomies)
        The matrix, int8, once it can be decoded.

    Examples
    --------
    >>> code_matrix("ova", 3).shape
    (3, 3)
    """
    names: Any = None
    labels = None
    if y is not None:
        names, labels = np.unique(y, return_inverse=True)
    return resolve(code, n_classes, names, X, labels, machine, check_random_state(random_state))


def extended(
    code: Any, matrix: Array, places: Array, n_classes: int, rng: np.random.RandomState
) -> Array:
    """Return the matrix of a fitted code with more classes, ``places`` those of its own."""
    element = lookup(CODES, code, "code")() if isinstance(code, str) else code
    if isinstance(element, Code):
        return element.extended(matrix, places, n_classes, rng)
    return with_pairs(matrix, places, n_classes)


def resolve(code: Any, n_classes: int, *data: Any) -> Array:
    """Return the checked matrix of a code without the weights of its columns.

    Parameters
    ----------
    code : str, Code or array-like of shape (n_classes, n_dichotomies)
        Name of a code, a code or a matrix of +1, -1 and 0.
    n_classes : int
        Number of classes.
    *data : tuple
        The further arguments of :func:`resolve_weighted`, in its order.

    Returns
    -------
    ndarray of shape (n_classes, n_dichotomies)
        The matrix, int8, once it can be decoded.

    Examples
    --------
    >>> resolve("ova", 2).tolist()
    [[-1], [1]]
    """
    return resolve_weighted(code, n_classes, *data)[0]


def resolve_weighted(
    code: Any,
    n_classes: int,
    class_names: Any = None,
    X: Any = None,
    labels: Array | None = None,
    machine: Any = None,
    rng: np.random.RandomState | None = None,
) -> tuple[Array, Array | None]:
    """Return the checked matrix of ``code`` for classes already numbered 0..n_classes-1.

    Parameters
    ----------
    code : str, Code or array-like of shape (n_classes, n_dichotomies)
        Name of a code, a code or a matrix of +1, -1 and 0.
    n_classes : int
        Number of classes.
    class_names : sequence or None, default=None
        Names of the classes, for error messages.
    X : array-like of shape (n_samples, n_features) or None, default=None
        Training rows, for a code that is learned from the data.
    labels : ndarray of shape (n_samples,) or None, default=None
        Numbers of the classes of the rows.
    machine : Machine or None, default=None
        Machine for a code that is learned with its machines.
    rng : RandomState instance or None, default=None
        Generator of random numbers.

    Returns
    -------
    matrix : ndarray of shape (n_classes, n_dichotomies)
        The matrix, int8, once it can be decoded.
    weights : ndarray of shape (n_dichotomies,) or None
        Weights of its columns, None for a code without.

    Examples
    --------
    >>> matrix, weights = resolve_weighted("ovo", 4)
    >>> matrix.shape, weights
    ((4, 6), None)
    """
    data = {"X": X, "labels": labels, "machine": machine, "rng": rng}
    return checked_code(code, CODES, n_classes, class_names, **data)
