"""`outcode predict`: the rows of a file through a saved model."""

from __future__ import annotations

import io
import sys
from contextlib import nullcontext
from itertools import chain
from typing import Any

import numpy as np

from outcode import datasets, persistence
from outcode._checks import Array
from outcode.app import decided
from outcode.app.commands.files import warnings_said, writable
from outcode.app.report.text import csv_cell
from outcode.app.terminal import printable, say
from outcode.capabilities import HasSteps, PredictsProbabilities, can
from outcode.datasets.reading import position
from outcode.words import percent


def predict(
    model: str,
    rows: str,
    proba: bool,
    coverage: float | None,
    explain: bool,
    target: str | None,
    output: str | None,
    **choices: Any,
) -> int:
    """Write a csv of predictions: row, prediction, and what was asked for beside them."""
    if output is not None:
        writable(output, keep=[model, rows])
    fitted = persistence.load(model)
    encoder = _encoder(fitted)
    table = datasets.read_unlabelled(rows, **choices)
    truth = None if target is None else position(target, table.names, table.source)
    with warnings_said():
        predicted = fitted.predict(table)
        shares = _proba(fitted, table) if proba else None
        sets = None if coverage is None else decided.sets(fitted, table, coverage)
        added = {} if sets is None else {"set": decided.set_texts(sets, fitted.classes_)}
        added |= {"why": [*decided.reasons(fitted, table)]} if explain else {}
    known = set() if truth is None else {table.names[truth]}
    if unused := set(encoder.unused(table)) - known:
        say(f"Columns the model does not look at: {printable(', '.join(sorted(unused)), 200)}.")
    for column, values in encoder.unseen(table).items():
        new = ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
        say(f"Values of {printable(column)} that no training row had: {printable(new, 200)}.")
    _write_predictions(output, predicted, shares, fitted.classes_, added)
    if truth is not None:
        labels = datasets.as_labels(table.columns[truth])
        say(_error(labels, predicted))
        if sets is not None:
            say(decided.coverage_text(sets, labels, fitted.classes_))
    return 0


def _encoder(fitted: Any) -> datasets.TableEncoder:
    """Return the first step of a model that takes raw rows."""
    first = fitted.steps[0][1] if can(fitted, HasSteps) else None
    if not isinstance(first, datasets.TableEncoder):
        raise persistence.ModelError(
            "This model was saved without its preprocessing and takes numbers only: load it from "
            "Python, or save a Pipeline of TableEncoder and the classifier."
        )
    return first


def _error(truth: Array, predicted: Array) -> str:
    """Return how many of the rows with a known class are wrong, in words."""
    known = np.array([label is not None for label in truth])
    wrong = int(np.sum(truth[known].astype(str) != predicted[known].astype(str)))
    share = percent(wrong / max(1, int(known.sum())))
    return f"Wrong: {wrong} of {known.sum()} rows with a known class, an error of {share}."


def _proba(fitted: Any, table: datasets.Table) -> Array:
    if not can(fitted, PredictsProbabilities):
        raise ValueError(
            "This model has no probabilities: fit one whose decoder has them, "
            "for example --method ovo+likelihood."
        )
    return np.asarray(fitted.predict_proba(table))


def _write_predictions(
    output: str | None,
    predicted: Array,
    shares: Array | None,
    classes: Array,
    added: dict[str, list[str]],
) -> None:
    head = ["row", "prediction", *added]
    head += [f"p({c})" for c in classes] if shares is not None else []
    lines = (
        [
            *(str(i + 1), str(label), *(column[i] for column in added.values())),
            *(map(repr, shares[i].tolist()) if shares is not None else ()),
        ]
        for i, label in enumerate(predicted)
    )
    if not output and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as in a file, whatever the terminal's is
    shown = (lambda cell: printable(cell, 200)) if not output and sys.stdout.isatty() else str
    with open(output, "w", encoding="utf-8") if output else nullcontext(sys.stdout) as file:
        for line in chain([head], lines):
            file.write(",".join(csv_cell(shown(cell)) for cell in line) + "\n")
    if output:
        say(f"{len(predicted)} predictions: {output}")
