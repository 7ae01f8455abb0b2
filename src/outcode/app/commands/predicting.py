"""`outcode predict`: the rows of a file through a saved model."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from outcode import datasets, persistence
from outcode._checks import Array
from outcode.app import decided
from outcode.app.commands.blocks import LARGE
from outcode.app.commands.files import warnings_said, writable
from outcode.app.report.text import csv_cell
from outcode.app.terminal import printable, say
from outcode.capabilities import HasSteps, PredictsProbabilities, can
from outcode.datasets import blocks
from outcode.datasets.reading import position
from outcode.scale.tables import numbers
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
    asked = _Asked(fitted, encoder, proba, coverage, explain, target)
    with warnings_said(), _written(output) as write:
        for table in _tables(rows, encoder, choices):
            asked.answer(table, write)
    say(*asked.told(output))
    return 0


def _tables(
    rows: str, encoder: datasets.TableEncoder, choices: dict[str, Any]
) -> Iterator[datasets.Table]:
    """Yield the rows: a table, or one per block of a folder, a pattern or a large file."""
    if not blocks.in_blocks(rows, LARGE):
        yield datasets.read_unlabelled(rows, **choices)
        return
    for part in blocks.parts(rows, **choices):
        with part.explained():
            yield part.table(numbers(encoder))


class _Asked:
    """What is asked of every row, and what was seen of the rows so far."""

    def __init__(
        self, fitted: Any, encoder: datasets.TableEncoder, proba: bool, coverage: float | None,
        explain: bool, target: str | None,
    ) -> None:  # fmt: skip
        self.fitted, self.encoder, self.target = fitted, encoder, target
        self.proba, self.coverage, self.explain = proba, coverage, explain
        self.rows = 0
        self.unused: set[str] = set()
        self.unseen: dict[str, dict[str, None]] = {}
        self.truth: list[Array] = []
        self.predicted: list[Array] = []
        self.sets: list[Array] = []

    def answer(self, table: datasets.Table, write: Callable[[Iterable[list[str]]], None]) -> None:
        """Predict some rows, and write what was asked for."""
        fitted, known = self.fitted, self._known(table)
        predicted = fitted.predict(table)
        shares = _proba(fitted, table) if self.proba else None
        added: dict[str, list[str]] = {}
        if self.coverage is not None:
            self.sets.append(decided.sets(fitted, table, self.coverage))
            added["set"] = decided.set_texts(self.sets[-1], fitted.classes_)
        if self.explain:
            added["why"] = [*decided.reasons(fitted, table)]
        self.unused |= set(self.encoder.unused(table)) - known
        for column, values in self.encoder.unseen(table).items():
            self.unseen.setdefault(column, {}).update(dict.fromkeys(values))
        if not self.rows:
            write([_head(added, fitted.classes_ if self.proba else ())])
        write(_lines(self.rows, predicted, shares, added))
        self.rows += len(predicted)
        if self.target is not None:
            self.predicted.append(predicted)

    def _known(self, table: datasets.Table) -> set[str]:
        """Take in the true classes and return the name of their column."""
        if self.target is None:
            return set()
        at = position(self.target, table.names, table.source)
        self.truth.append(datasets.as_labels(table.columns[at]))
        return {table.names[at]}

    def told(self, output: str | None) -> Iterator[str]:
        """Yield what to say once all rows are predicted."""
        if self.unused:
            names = printable(", ".join(sorted(self.unused)), 200)
            yield f"Columns that the model does not use: {names}."
        for column, values in self.unseen.items():
            new = ", ".join([*values][:5]) + (", ..." if len(values) > 5 else "")
            yield f"Values of {printable(column)} not seen in training: {printable(new, 200)}."
        if output:
            yield f"{self.rows} predictions: {output}"
        if self.truth:
            labels = np.concatenate(self.truth)
            yield _error(labels, np.concatenate(self.predicted))
            if self.sets:
                yield decided.coverage_text(np.concatenate(self.sets), labels, self.fitted.classes_)


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


def _head(added: dict[str, list[str]], classes: Iterable[Any]) -> list[str]:
    return ["row", "prediction", *added, *(f"p({c})" for c in classes)]


def _lines(
    first: int, predicted: Array, shares: Array | None, added: dict[str, list[str]]
) -> Iterator[list[str]]:
    for i, label in enumerate(predicted):
        more = map(repr, shares[i].tolist()) if shares is not None else ()
        own = (column[i] for column in added.values())
        yield [str(first + i + 1), str(label), *own, *more]


@contextmanager
def _written(output: str | None) -> Iterator[Callable[[Iterable[list[str]]], None]]:
    """Give a function that writes lines of cells to a file, or prints them."""
    if not output and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as in a file, whatever the terminal's is
    shown = (lambda cell: printable(cell, 200)) if not output and sys.stdout.isatty() else str
    unfinished = f"{output}.part" if output else ""
    with open(unfinished, "w", encoding="utf-8") if output else nullcontext(sys.stdout) as file:

        def write(lines: Iterable[list[str]]) -> None:
            for line in lines:
                file.write(",".join(csv_cell(shown(cell)) for cell in line) + "\n")

        yield write
    if output:
        os.replace(unfinished, output)
