"""What a fitted classifier tells about itself: its parameters, support vectors, columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from outcode import dichotomies, results
from outcode._checks import Array
from outcode.capabilities import HasCode, HasSteps, HasSupport, can
from outcode.metrics import error
from outcode.words import percent


def seeded(estimator: Any, seed: int, n_jobs: int | None = 1) -> Any:
    """Return a clone with this seed wherever it has none, and this ``n_jobs`` everywhere.

    Parameters
    ----------
    estimator : estimator
        The estimator to clone.
    seed : int
        Seed for every ``random_state`` that is None.
    n_jobs : int, default=1
        Value of every ``n_jobs``.

    Returns
    -------
    estimator
        The clone, not fitted.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> seeded(OutputCodeClassifier(), 7).random_state
    7
    """
    fresh = clone(estimator)
    params = fresh.get_params(deep=True)
    threads = {name: n_jobs for name in params if _last(name) == "n_jobs"}
    seeds = {n: seed for n, v in params.items() if _last(n) == "random_state" and v is None}
    return fresh.set_params(**threads, **seeds)


def _last(name: str) -> str:
    return name.rpartition("__")[2]


def chosen(fitted: Any) -> Any:
    """Return the classifier inside searches and pipelines."""
    while True:
        if hasattr(fitted, "best_estimator_"):
            fitted = fitted.best_estimator_
        elif can(fitted, HasSteps):
            fitted = fitted.steps[-1][1]
        else:
            return fitted


def parameters(fitted: Any) -> dict[str, Any]:
    """Return the parameters a search chose, {} without one."""
    found = getattr(fitted, "best_params_", {})
    return {name: plain(value) for name, value in found.items()}


def plain(value: Any) -> Any:
    """Return a value as JSON knows it."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


def support_vectors(fitted: Any) -> int | None:
    """Return how many training rows a prediction looks at, None where the classifier tells not."""
    inner = chosen(fitted)
    rows = _support(getattr(inner, "machine_", inner))
    return None if rows is None else len(np.unique(rows))


def _support(machine: Any) -> Array | None:
    if can(machine, HasSupport):
        return np.asarray(machine.support_)
    fitted = getattr(machine, "estimators_", ())
    if not len(fitted) or not all(can(part, HasSupport) for part in fitted):
        return None
    parts: list[Array] = [part.support_ for part in fitted]
    used = getattr(machine, "used_", None)  # a bank trains each column on its own rows
    if used is not None:
        parts = [rows[part] for rows, part in zip(used, parts, strict=True)]
    return np.concatenate(parts)


def width_path(fitted: Any) -> dict[str, Any] | None:
    """Return what each gamma tried came to at the C chosen, None without a search of gamma.

    "bound" are the leave-one-out bounds, or the held-out errors, as "by" says.
    """
    table = getattr(fitted, "results_", {})
    by = "bound" if "bound" in table else "folds"
    if not {"gamma", "C", "bound" if by == "bound" else "mean_score"} <= set(table):
        return None
    if not np.all(np.isfinite(table["gamma"])):
        return None
    same = (table["C"] == table["C"][fitted.best_index_]) | np.isnan(table["C"])
    values = table["bound"] if by == "bound" else 1.0 - table["mean_score"]
    return {"gamma": table["gamma"][same].tolist(), "bound": values[same].tolist(), "by": by}


def path_errors(
    fitted: Any, gammas: list[float], train: tuple[Any, Array], test: tuple[Any, Array]
) -> list[float]:
    """Return the test error of each gamma of a bound path, fitted again: what the bound ranks."""
    inner = chosen(fitted)
    tried = (clone(inner).set_params(machine__gamma=gamma) for gamma in gammas)
    return [error(test[1], np.asarray(clf.fit(*train).predict(test[0]))) for clf in tried]


def columns(fitted: Any, X: Any, labels: Array) -> dict[str, Any]:
    """Return how the code's columns did on test rows, {} for a classifier without a code.

    "columns": the error of each column on the rows it uses (a margin of 0 is wrong) and its share
    of +1 among them; "bit_errors": how many rows have 0, 1, 2, ... wrong columns.
    """
    inner = chosen(fitted)
    if not can(inner, HasCode):
        return {}
    targets = dichotomies.targets(labels, inner.code_)
    wrong = results.wrong_columns(inner.margins(X), targets)
    shares = [list(map(results.plain, part)) for part in results.column_shares(wrong, targets)]
    return {
        "columns": dict(zip(("error", "positives"), shares, strict=True)),
        "bit_errors": np.bincount(wrong.sum(axis=1)).tolist(),
    }


def facts(fitted: Any) -> list[str]:
    """Return a few lines for people about a fitted classifier.

    Parameters
    ----------
    fitted : estimator
        Fitted classifier or search.

    Returns
    -------
    list of str
        The lines.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> facts(OutputCodeClassifier("ovo").fit(X, y))[0]
    'Code: 3 classes, 3 columns'
    """
    inner, lines = chosen(fitted), []
    if found := parameters(fitted):
        listed = (f"{_last(name)} = {_short(value)}" for name, value in found.items())
        lines.append(f"Chosen: {', '.join(listed)}")
    if hasattr(fitted, "best_bound_"):
        lines.append(f"Leave-one-out bound: {percent(fitted.best_bound_)}")
    elif hasattr(fitted, "best_score_"):
        lines.append(f"Error by inner folds: {percent(1 - fitted.best_score_)}")
    if can(inner, HasCode):
        lines.append(f"Code: {inner.code_.shape[0]} classes, {inner.code_.shape[1]} columns")
    if (count := support_vectors(fitted)) is not None:
        lines.append(f"Support vectors: {count}")
    return lines


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
