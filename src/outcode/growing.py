"""Growing class sets: a fitted classifier learns a new class, and keeps what does not see it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from outcode import codes, decoders, machines
from outcode._checks import Array, class_labels, row_weights
from outcode.capabilities import Grows, can
from outcode.posing import pose
from outcode.saved import LeftOut
from outcode.training import Rule, read, train


def grown(clf: Any, old: Any, new: Any, y_new: Array, weight: Any) -> tuple[Rule, Any]:
    """Return the rule of a classifier with more classes, and all training rows.

    Parameters
    ----------
    clf : fitted
    old, new : the rows it was trained on, and those of the new classes, validated
    y_new : labels of the new rows, none of them known
    weight : of the new rows, None is one each
    """
    problem, (code, machine, decoder) = clf.rule_.problem, clf.elements()
    _check_type(y_new, clf.classes_)
    known = np.isin(y_new, clf.classes_)
    if known.any():
        raise ValueError(
            f"Class {y_new[known].tolist()[0]!r} is already a class of the model. New rows of an "
            f"existing class change every column that uses it: fit again with all rows."
        )
    rows, y = stacked(old, new), np.concatenate([clf.classes_[problem.labels], y_new])
    classes, _ = class_labels(y)
    places = np.searchsorted(classes, clf.classes_)
    rng = check_random_state(clf.random_state)
    matrix = codes.extended(code, clf.code_, places, len(classes), rng)
    kept = same_columns(matrix, clf.code_, places)
    weights = np.concatenate([np.ones(len(problem.labels)), row_weights(weight, len(y_new))])
    fresh = machines.resolve(machine)
    posed = pose(matrix, fresh, rows, y, weights, rng, n_jobs=clf.n_jobs)
    own = np.concatenate([problem.weight, posed.weight[len(problem.labels) :]])
    posed = replace(posed, weight=own)
    threads: dict[str, Any] = {"n_jobs": clf.n_jobs, "verbose": clf.verbose}
    reader = decoders.resolve(decoder)
    if not can(clf.machine_, Grows) or np.all(kept < 0):
        return train(posed, fresh, reader, **threads), rows
    store = clf.machine_.store(rows, posed.targets, clf.n_jobs)
    args = store, posed.targets, kept, posed.weight, clf.machine_.margins(new)
    larger = clf.machine_.grown(*args, **threads)
    return read(replace(posed, source=store), larger, reader, **threads), rows


def _check_type(y_new: Array, classes: Array) -> None:
    text = [labels.dtype.kind in "USO" for labels in (y_new, classes)]
    if text[0] != text[1]:
        raise ValueError(
            f"y_new holds {y_new.dtype} labels, but the classes of the classifier are "
            f"{classes.dtype}: give labels of the same type."
        )


def same_columns(matrix: Array, code: Array, places: Array) -> Array:
    """Return which column of a code each column of a larger one is, -1 if it is none.

    It is one if it has the same signs in the old classes and does not use the new ones.

    >>> same_columns(np.array([[1, 1, 0], [-1, 0, 1], [0, -1, -1]]), np.array([[1], [-1]]), [0, 1])
    array([ 0, -1, -1])
    """
    new = np.setdiff1d(np.arange(len(matrix)), places)
    first = {column.tobytes(): s for s, column in enumerate(np.ascontiguousarray(code.T))}
    own = np.ascontiguousarray(matrix[places].T.astype(code.dtype))
    unseen = ~matrix[new].any(axis=0)
    return np.array(
        [first.get(c.tobytes(), -1) if u else -1 for c, u in zip(own, unseen, strict=True)]
    )


def stacked(old: Any, new: Any) -> Any:
    """Return rows below each other, sparse if either is."""
    if sparse.issparse(old) or sparse.issparse(new):
        return sparse.vstack([sparse.csr_matrix(old), sparse.csr_matrix(new)], format="csr")
    return np.vstack([old, new])


def training_rows(clf: Any, X: Any) -> Any:
    """Return the rows a classifier was trained on: those given, or those it still has."""
    if isinstance(clf.labels_, LeftOut):
        raise ValueError(
            "A model file does not keep the training labels, which are needed to learn a new "
            "class: fit again with all rows."
        )
    rows = vars(clf).get("_rows") if X is None else clf.training_rows(X)
    if rows is None:
        raise ValueError(
            "The training rows are not in memory: give them, add_class(X_new, y_new, X=X_train)."
        )
    return rows
