"""A fitted model as formulas of its input, from which every export is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from outcode._checks import Array
from outcode._version import __version__
from outcode.capabilities import HasFormula, HasProbabilities, HasSteps, can, require, rule_of
from outcode.datasets import TableEncoder
from outcode.export import inputs
from outcode.export.inputs import Column
from outcode.formula import FormulaError, Symbol, evaluated, merged, symbol
from outcode.saved import ModelError


@dataclass(frozen=True, eq=False)
class Description:
    """The formulas that a fitted model computes.

    Parameters
    ----------
    columns : tuple of Column
        What a row of the input holds.
    classes : ndarray of shape (n_classes,)
        Labels of the classes.
    scores : Symbol
        Scores of the classes, of shape (n_classes,); larger is better.
    label : Symbol
        Index of the predicted class.
    proba : Symbol or None
        Probabilities, of shape (n_classes,). None where the decoder has none.
    rows : callable
        Turns rows as ``predict`` takes them into the (n_samples, n_columns) input of the formulas.
    encoded : str, default=""
        Why the input is the encoded features and not the columns of the table; "" if it is not.
    exact : bool, default=True
        Whether the model itself computes in float64.
    """

    columns: tuple[Column, ...]
    classes: Array
    scores: Symbol
    label: Symbol
    proba: Symbol | None
    rows: Callable[[Any], Array]
    encoded: str = ""
    exact: bool = True

    @property
    def outputs(self) -> dict[str, Symbol]:
        """The formulas by name: label, scores, probabilities."""
        found = {"label": self.label, "scores": self.scores}
        return found if self.proba is None else found | {"probabilities": self.proba}

    def run(self, x: Array) -> dict[str, Array]:
        """Return the outputs for rows of the input."""
        found = evaluated(self.outputs, x)
        return found | {"label": self.classes[found["label"]]}

    @property
    def metadata(self) -> dict[str, str]:
        """What a file says of its model: texts, lists as JSON."""
        return {
            "outcode": __version__,
            "input": str(self),
            "columns": json.dumps([column.as_dict() for column in self.columns]),
            "classes": json.dumps([str(label) for label in self.classes]),
        }

    def __str__(self) -> str:
        """Return what the input is, in words."""
        n = len(self.columns)
        lines = [f"Input X: {n} number{'s' * (n != 1)} for each row, in this order."]
        if self.encoded:
            lines.append(
                f"They are the features of the encoder and not the columns of the table, because "
                f"{self.encoded}: encode rows with model[:-1].transform(rows)."
            )
        return "\n".join([*lines, *(f"  {column}" for column in self.columns)])


def describe(model: Any) -> Description:
    """Return the formulas of a fitted classifier, search or pipeline.

    A model that is no formula raises a ValueError that says which part of it, and why.

    Parameters
    ----------
    model : estimator
        Fitted classifier, search, or pipeline of encoders and one of these.

    Returns
    -------
    Description
        The input, the classes and the formulas.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> found = describe(OutputCodeClassifier("ovo", "svm", "likelihood").fit(X, y))
    >>> len(found.columns), sorted(found.outputs)
    (4, ['label', 'probabilities', 'scores'])
    """
    encoders, clf = _taken_apart(model)
    rule = clf.rule_
    require(rule.machine, HasFormula, "Export")
    _check_labels(clf.classes_)
    columns, features, rows, encoded = _start(encoders, clf)
    margins = _formula(rule.machine, rule.machine.formula, features)
    scores = _formula(rule.decoder, rule.decoder.scores, margins)
    label = _formula(rule.decoder, rule.decoder.best, margins)
    found = [scores, label]
    if can(rule.decoder, HasProbabilities):
        found.append(_formula(rule.decoder, rule.decoder.proba, margins))
    scores, label, *proba = merged(found)
    exact = np.dtype(getattr(rule.machine, "gram_dtype_", np.float64)) == np.float64
    shares = proba[0] if proba else None
    return Description(columns, clf.classes_, scores, label, shares, rows, encoded, exact)


def _taken_apart(model: Any) -> tuple[list[Any], Any]:
    """Return the encoders of a pipeline and the classifier at its end."""
    parts = [step for _, step in model.steps] if can(model, HasSteps) else [model]
    encoders = [step for step in parts[:-1] if step not in (None, "passthrough")]
    clf = getattr(parts[-1], "best_estimator_", parts[-1])
    if can(clf, HasSteps):
        inner, clf = _taken_apart(clf)
        encoders += inner
    rule_of(clf, "Export")
    return encoders, clf


def _check_labels(classes: Array) -> None:
    if classes.dtype.kind not in "biufUSO":
        raise ModelError(
            f"Labels of type {classes.dtype} cannot be exported: train on numbers or text, for "
            f"example y.astype(str)."
        )


def _formula(element: Any, function: Callable[[Any], Any], given: Symbol) -> Symbol:
    """Return a function of symbolic rows, or say which element has no formula, and why."""
    try:
        found = function(given)
    except FormulaError as why:
        name = type(element).__name__
        raise ModelError(f"{name} cannot be exported: {why}.") from None
    if not isinstance(found, Symbol):
        raise ModelError(
            f"{type(element).__name__} cannot be exported: it cannot be written as a formula."
        )
    return found


def _start(encoders: Sequence[Any], clf: Any) -> Any:
    """Return the input's columns, the features, how rows become the input, and a remark."""
    if not encoders:
        given = inputs.named(clf)
        return given, symbol(len(given)), inputs.numbers, ""
    try:
        return *_encoded(encoders), ""
    except FormulaError as why:
        names = encoders[-1].get_feature_names_out()
        columns = tuple(Column(str(name), "feature") for name in names)
        return columns, symbol(len(columns)), partial(_transformed, encoders), str(why)


def _encoded(encoders: Sequence[Any]) -> tuple[tuple[Column, ...], Symbol, Any]:
    first = encoders[0]
    table = isinstance(first, TableEncoder)
    columns = inputs.of_table(first) if table else inputs.named(first)
    rows = partial(inputs.table_numbers, first) if table else inputs.numbers
    found = symbol(len(columns))
    for encoder in encoders:
        if isinstance(encoder, StandardScaler):
            found = _scaled(encoder, found)
        elif can(encoder, HasFormula):
            found = encoder.formula(found)
        else:
            raise FormulaError(f"the step {type(encoder).__name__} cannot be written as a formula")
    return columns, found, rows


def _scaled(scaler: StandardScaler, x: Symbol) -> Symbol:
    x = x if scaler.mean_ is None else x - scaler.mean_
    return x if scaler.scale_ is None else x / scaler.scale_


def _transformed(encoders: Sequence[Any], X: Any) -> Array:
    for encoder in encoders:
        X = encoder.transform(X)
    return inputs.numbers(X)
