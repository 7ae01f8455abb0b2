"""Objects as HTML in a notebook: self-contained, without scripts, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from outcode._checks import Array
from outcode.words import count, listing, number

#: Classes, columns and rows of a table beyond which the rest is only counted.
MOST_CLASSES, MOST_COLUMNS, MOST_ROWS = 20, 40, 10
#: Characters of a text beyond which it is cut.
LONGEST = 200
#: How an entry of a code is shown: sign, background, text colour.
SIGNS = {1: ("+", "#2166ac", "#fff"), -1: ("−", "#b2182b", "#fff"), 0: ("0", "#eee", "#555")}
CELL = "padding:2px 8px;text-align:left"
SIGN = "padding:1px 5px;text-align:center"


class InNotebook(BaseEstimator):
    """An estimator that a notebook shows with what it learned.

    A subclass defines ``_summary``. Without a summary, scikit-learn's diagram is shown.
    """

    def _summary(self) -> str | None:
        """Return the object as HTML, None as long as there is nothing to say."""
        return None

    def _repr_html_(self) -> str | None:
        return self._repr_mimebundle_().get("text/html")

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        summary = self._summary() if "text/html" in bundle else None
        return bundle if summary is None else {**bundle, "text/html": summary}


def text(value: Any) -> str:
    """Return a value as escaped text, cut where it is long.

    >>> text("<b>"), text(np.float64(0.123456))
    ('&lt;b&gt;', '0.123')
    """
    shown = number(float(value)) if isinstance(value, float | np.floating) else str(value)
    return escape(shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…")


def card(title: Any, facts: Mapping[str, Any], *parts: str) -> str:
    """Return a title, a table of facts and further parts, which are HTML already.

    >>> "<b>A</b>" in card("A", {"rows": 3})
    True
    """
    lines = "".join(_row([f"<i>{text(name)}</i>", text(value)]) for name, value in facts.items())
    return f"<div><b>{text(title)}</b><table>{lines}</table>{''.join(parts)}</div>"


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table of values, the first rows of it where there are many.

    >>> table(["C"], [[1.0]]).count("<tr>")
    2
    """
    rows = list(rows)
    lines = [_row([f"<b>{text(name)}</b>" for name in head])]
    lines += [_row([text(value) for value in row]) for row in rows[:MOST_ROWS]]
    return f"<table>{''.join(lines)}</table>{_more(len(rows) - MOST_ROWS, 'row')}"


def signs(code: Array, names: Sequence[Any]) -> str:
    """Return a code as a table of coloured signs, a row for each class.

    >>> signs(np.array([[1], [-1]]), ["a", "b"]).count("<tr>")
    2
    """
    lines = [
        _row([text(name), *(_sign(int(entry)) for entry in row[:MOST_COLUMNS])], SIGN)
        for name, row in zip(names[:MOST_CLASSES], code[:MOST_CLASSES], strict=True)
    ]
    hidden = _more(len(code) - MOST_CLASSES, "class", "classes")
    hidden += _more(code.shape[1] - MOST_COLUMNS, "column")
    return f"<table>{''.join(lines)}</table>{hidden}"


def classifier(title: str, classes: Array, code: Array, machine: Any, decoder: Any) -> str:
    """Return a fitted classifier: its classes, machine, decoder, largest gap and code."""
    facts = {
        "classes": f"{len(classes)}: {listing([str(name) for name in classes.tolist()], 8)}",
        "machine": machine,
        "decoder": decoder,
    }
    gap = getattr(machine, "gap_", None)
    if gap is not None and np.size(gap):
        facts["largest duality gap"] = float(np.max(gap))
    facts["code"] = f"{code.shape[0]} classes x {count(code.shape[1], 'column')}"
    return card(f"{title}, fitted", facts, signs(code, classes.tolist()))


def search(
    title: str, params: Mapping[str, Any], results: Mapping[str, Array], best: int, by: str
) -> str:
    """Return a fitted search: the best setting, and the settings tried, best first.

    ``by`` is the column of the results to sort by, with a minus where larger is better.
    """
    values = results[by.removeprefix("-")]
    order = np.argsort(-values if by.startswith("-") else values, kind="stable").tolist()
    order = [best, *(i for i in order if i != best)]
    shown = [name for name, column in results.items() if column.ndim == 1]
    rows = ([results[name][i] for name in shown] for i in order)
    facts = {**params, by.removeprefix("-"): values[best], "settings tried": len(values)}
    return card(f"{title}, fitted", facts, table(shown, rows))


def _row(cells: Iterable[str], style: str = CELL) -> str:
    return "<tr>" + "".join(
        cell if cell.startswith("<td") else f'<td style="{style}">{cell}</td>' for cell in cells
    ) + "</tr>"  # fmt: skip


def _sign(entry: int) -> str:
    sign, background, colour = SIGNS[entry]
    return f'<td style="{SIGN};background:{background};color:{colour}">{sign}</td>'


def _more(n: int, noun: str, plural: str | None = None) -> str:
    return (
        f"<div>… and {count(n, f'more {noun}', plural and f'more {plural}')}</div>" if n > 0 else ""
    )
