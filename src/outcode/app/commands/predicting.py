"""`outcode predict`: the rows of a file through a saved model."""

from __future__ import annotations

import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
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
from outcode.datasets import blocks, streams
from outcode.datasets.reading import position
from outcode.scale.tables import numbers
from outcode.words import percent


def predict(
    model: str,
    rows: str,
    proba: bool,
    coverage: float | None,
    explain: bool,
    abstain: float | None,
    target: str | None,
    output: str | None,
    **choices: Any,
) -> int:
    """Write a csv of predictions: row, prediction, and what was asked for beside them."""
    if output is not None:
        writable(output, keep=[model, rows])
    fitted = persistence.load(model)
    encoder = _encoder(fitted)
    careful = None if abstain is None else decided.abstaining(fitted, abstain)
    asked = _Asked(fitted, encoder, proba, coverage, explain, careful, target)
    try:
        with warnings_said(), _written(output) as write:
            for table in _tables(rows, encoder, choices):
                asked.answer(table, write)
    except BrokenPipeError:  # whoever read the output wants no more
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # what is left in it goes nowhere
        return 141
    say(*asked.told(output))
    return 0


def _tables(
    rows: str, encoder: datasets.TableEncoder, choices: dict[str, Any]
) -> Iterator[datasets.Table]:
    """Yield the rows: a table, or one per block of a stream, a folder, or a large file."""
    if rows == "-":
        yield from streams.tables(sys.stdin.buffer, numbers(encoder), **choices)
        return
    if not blocks.in_blocks(rows, LARGE):
        yield datasets.read_unlabelled(rows, **choices)
        return
    for part in blocks.parts(rows, **choices):
        with part.explained():
            yield part.table(numbers(encoder))


@dataclass
class _Asked:
    """What is asked of every row, and what was seen of the rows so far."""

    fitted: Any
    encoder: datasets.TableEncoder
    proba: bool
    coverage: float | None
    explain: bool
    careful: Any
    target: str | None
    rows: int = 0
    unused: set[str] = field(default_factory=set)
    unseen: dict[str, dict[str, None]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def answer(self, table: datasets.Table, write: Callable[[Iterable[list[str]]], None]) -> None:
        """Predict some rows, and write what was asked for."""
        fitted, (truth, known) = self.fitted, self._truth(table)
        predicted = fitted.predict(table)
        shares = _proba(fitted, table) if self.proba else None
        added: dict[str, list[str]] = {}
        if self.coverage is not None:
            sets = decided.sets(fitted, table, self.coverage)
            added["set"] = decided.set_texts(sets, fitted.classes_)
            if truth is not None:
                self.counts.update(decided.set_counts(sets, truth, fitted.classes_))
        if self.explain:
            added["why"] = [*decided.reasons(fitted, table)]
        said = predicted
        if self.careful is not None:
            said, answered = decided.answers(self.careful, fitted, table)
            self.counts["answered"] += int(answered.sum())
        self._look(table, known)
        if not self.rows:
            write([_head(added, fitted.classes_ if self.proba else ())])
        write(_lines(self.rows, said, shares, added))
        self.rows += len(predicted)
        if truth is not None:
            self.counts.update(_errors(truth, said))

    def _look(self, table: datasets.Table, known: set[str]) -> None:
        """Take in columns that are not used, and values that were not seen; a few are enough."""
        self.unused |= set(self.encoder.unused(table)) - known
        for column, values in self.encoder.unseen(table).items():
            kept = self.unseen.setdefault(column, {})
            kept.update(dict.fromkeys(values[: max(0, 6 - len(kept))]))

    def _truth(self, table: datasets.Table) -> tuple[Array | None, set[str]]:
        """Return the true classes and the name of their column."""
        if self.target is None:
            return None, set()
        at = position(self.target, table.names, table.source)
        return datasets.as_labels(table.columns[at]), {table.names[at]}

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
        if self.careful is not None:
            share = percent(self.counts["answered"] / max(1, self.rows))
            yield f"Answered: {self.counts['answered']} of {self.rows} rows, {share}."
        if self.target is not None:
            wrong, known = self.counts["wrong"], self.counts["known"]
            share = percent(wrong / max(1, known))
            what = "answered rows" if self.careful is not None else "rows"
            yield f"Wrong: {wrong} of {known} {what} with a known class, an error of {share}."
            if self.coverage is not None:
                yield decided.coverage_text(self.counts)


def _errors(truth: Array, said: Array) -> dict[str, int]:
    """Return how many rows have a known class and an answer, and how many of these are wrong."""
    known = np.array([t is not None and s is not None for t, s in zip(truth, said, strict=True)])
    wrong = truth[known].astype(str) != said[known].astype(str)
    return {"known": int(known.sum()), "wrong": int(wrong.sum())}


def _encoder(fitted: Any) -> datasets.TableEncoder:
    """Return the first step of a model that takes raw rows."""
    first = fitted.steps[0][1] if can(fitted, HasSteps) else None
    if not isinstance(first, datasets.TableEncoder):
        raise persistence.ModelError(
            "This model was saved without its preprocessing and takes numbers only: load it from "
            "Python, or save a Pipeline of TableEncoder and the classifier."
        )
    return first


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
        yield [str(first + i + 1), "" if label is None else str(label), *own, *more]


@contextmanager
def _written(output: str | None) -> Iterator[Callable[[Iterable[list[str]]], None]]:
    """Give a function that writes lines of cells to a file, or prints them."""
    if not output and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as in a file, whatever the terminal's is
    shown = (lambda cell: printable(cell, 200)) if not output and sys.stdout.isatty() else str
    unfinished = f"{output}.part" if output else ""
    try:
        with open(unfinished, "w", encoding="utf-8") if output else nullcontext(sys.stdout) as file:

            def write(lines: Iterable[list[str]]) -> None:
                for line in lines:
                    file.write(",".join(csv_cell(shown(cell)) for cell in line) + "\n")
                file.flush()

            yield write
        if output:
            os.replace(unfinished, output)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
