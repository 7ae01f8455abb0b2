"""`outcode card`: what a saved model is, what it takes and answers, and how well, in Markdown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from outcode import conformal, datasets, decisions, persistence, results
from outcode._version import __version__
from outcode.app import study
from outcode.app.commands.files import writable
from outcode.app.report.blocks import Block, Entry, Head, Point, Points, Table, Text
from outcode.app.report.markdown import blocks_to_markdown
from outcode.app.report.text import markdown
from outcode.app.terminal import say
from outcode.capabilities import HasProbabilities, HasSteps, can
from outcode.words import count, listing, number, percent, size

#: Shares of the sets and of the answered rows that are told, and columns that are listed.
COVERAGES, SHARES, MOST = (0.9, 0.95), (0.9, 0.75, 0.5), 50


def card(model: str, store: str | None, output: str | None) -> int:
    """Write a model card; what a study measured is in it where its store is given."""
    if output is not None:
        writable(output, (".md",), keep=[model, *([store] if store else [])], what="a card")
    text = described(persistence.load(model), Path(model), store)
    if output is None:
        print(text)
    else:
        Path(output).write_text(text + "\n", encoding="utf-8")
        say(f"Card: {output}")
    return 0


def described(fitted: Any, path: Path, store: str | None) -> str:
    """Return the card of a model as Markdown."""
    steps = [step for _, step in fitted.steps] if can(fitted, HasSteps) else [fitted]
    clf = getattr(steps[-1], "best_estimator_", steps[-1])
    parts: dict[str, list[Block]] = {
        "The model": _model(clf, path),
        "Input": _input(steps[0], clf),
        "Answers": _answers(clf),
        "On held-out rows": _held_out(clf),
        "In the study": _studied(store, clf),
        "Limits": [Text(tuple(_limits(clf)))],
    }
    sections = [f"## {title}\n\n{blocks_to_markdown(b)}" for title, b in parts.items() if b]
    return "\n\n".join([f"# Model card: {markdown(path.name)}", *sections])


def _model(clf: Any, path: Path) -> list[Block]:
    code, machine, decoder = clf.elements()
    rows = study.facts(clf)
    classes = [str(label) for label in clf.classes_]
    return [
        Points(
            (
                Point("Classes", f"{len(classes)}: {listing(classes, MOST)}"),
                Point("Code", f"{_named(code)}, {count(clf.code_.shape[1], 'column')}"),
                Point("Machine", _named(clf.machine_ if machine is None else machine)),
                Point("Decoder", _named(decoder)),
                *(Point(*line.split(": ", 1)) for line in rows if line.startswith("Support")),
                Point("File", f"{size(os.path.getsize(path))}, read by outcode {__version__}"),
            )
        )
    ]


def _named(element: Any) -> str:
    return element if isinstance(element, str) else " ".join(repr(element).split())


def _input(first: Any, clf: Any) -> list[Block]:
    if not isinstance(first, datasets.TableEncoder):
        n = clf.n_features_in_
        return [Text((f"{count(n, 'number')} for each row: the model has no preprocessing.",))]
    if first.sparse_scale_ is not None:
        return [Text((f"A sparse table of {count(first.n_features_in_, 'column')}.",))]
    rows = tuple(
        (Entry(c.name), Entry(c.kind), Entry(_values(c)), Entry(str(c.n_outputs), c.n_outputs))
        for c in first.columns_[:MOST]
    )
    words = "column", "kind", "missing values become"
    heads = *(Head(word, numeric=False) for word in words), Head("features")
    left = len(first.columns_) - len(rows)
    more: list[Block] = [Text((f"{count(left, 'more column')}.",))] if left else []
    return [Table("Columns, as they are in the file", heads, rows), *more]


def _values(column: Any) -> str:
    fill = number(column.fill) if isinstance(column.fill, float) else repr(column.fill)
    text = fill + (", and an indicator" if column.indicator else "")
    return f"{text}; of {listing(list(column.values), 6)}" if column.values else text


def _answers(clf: Any) -> list[Block]:
    proba, kept = can(clf.decoder_, HasProbabilities), conformal.calibration_of(clf.rule_)
    told = {
        "label": "the class with the largest score",
        "probabilities": "yes" if proba else "no: the decoder gives scores",
        "prediction sets and abstaining": "no: the model has no held-out rows"
        if kept is None
        else f"yes, from {count(len(kept.labels), 'held-out row')} ({kept.kind})",
    }
    return [Points(tuple(Point(name, text) for name, text in told.items()))]


def _held_out(clf: Any) -> list[Block]:
    """Return what the held-out rows of the model's own calibration say."""
    kept = conformal.calibration_of(clf.rule_)
    if kept is None:
        return []
    said, sure = decisions.decided(kept.values, "margin")
    wrong = said != kept.labels
    curve = decisions.curve(sure, wrong)
    points = [Point("error", f"{percent(float(wrong.mean()))} of {len(wrong):,} rows")]
    for share in SHARES:
        at = int(np.searchsorted(curve.coverage, share))
        points.append(
            Point(
                f"error of the {percent(share, 0)} most confident rows",
                percent(float(curve.error[min(at, len(curve.error) - 1)])),
            )
        )
    method = "lac" if kept.kind == "probabilities" else "rank"
    for coverage in COVERAGES:
        found = conformal.summary(kept.sets(kept.values, coverage, method), kept.labels)
        text = f"{found.size:.2f} classes on average, {percent(found.single)} with a single class"
        points.append(Point(f"sets with coverage {percent(coverage, 0)}", text))
    worst = _worst(clf.classes_, wrong, kept.labels)
    note = "Training rows, each predicted by machines that were trained without it."
    return [Text((note,), "muted"), Points((*points, Point("classes most often wrong", worst)))]


def _worst(classes: Any, wrong: Any, labels: Any) -> str:
    rows = np.bincount(labels, minlength=len(classes))
    share = np.bincount(labels, weights=wrong, minlength=len(classes)) / np.maximum(rows, 1)
    order = np.argsort(-share, kind="stable")[:3]
    told = [f"{classes[q]} ({percent(float(share[q]))} of {rows[q]})" for q in order if share[q]]
    return ", ".join(told) or "none"


def _studied(store: str | None, clf: Any) -> list[Block]:
    """Return the leaderboard of a study on the same classes."""
    if store is None:
        return []
    with study.Store(store) as kept:
        meta, records = kept.meta(), kept.records()
    if not meta:
        raise study.StoreError(
            f"{store} contains no study: give the .db file that was written with a report."
        )
    data = meta["datasets"][0]
    if set(map(str, data["classes"])) != set(map(str, clf.classes_)):
        raise study.StoreError(
            f"The study in {store} has other classes than the model: give the study of the same "
            f"data."
        )
    board = results.leaderboard([r for r in records if r["dataset"] == data["name"]])
    heads = Head("method", numeric=False), Head("error"), Head("log loss"), Head("folds")
    rows = tuple(
        (
            Entry(s.method),
            Entry(percent(s.values["error"]), s.values["error"]),
            Entry(number(s.values["log_loss"]), s.values["log_loss"]),
            Entry(str(s.finished), s.finished),
        )
        for s in board
        if s.finished
    )
    caption = f"{data['name']}: {data['n_rows']:,} rows, {count(data['n_columns'], 'column')}"
    findings = tuple(f"{f['code']} {f['message']}" for f in data["findings"])
    return [Table(caption, heads, rows), *([Text(findings)] if findings else [])]


def _limits(clf: Any) -> list[str]:
    """Return what a user should know before relying on the model."""
    found = [
        f"The model knows {count(len(clf.classes_), 'class', 'classes')}: a row of any other is "
        f"given one of these.",
        "Errors on rows from another source, or from a later time, can be larger than on these.",
    ]
    if not can(clf.decoder_, HasProbabilities):
        found.append("Scores are not probabilities: only their order counts.")
    return found
