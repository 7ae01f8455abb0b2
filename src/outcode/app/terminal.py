"""What the command line shows: a leaderboard that fills, a code as signs, lines of facts."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from outcode._checks import Array

#: How a code's entries are drawn.
SIGNS = {1: "+", -1: "-", 0: "."}


def say(*lines: str) -> None:
    """Print lines for a person, apart from any output another program may read."""
    shown = "\n".join(lines)
    if sys.stderr.isatty():
        shown = folded(shown, shutil.get_terminal_size().columns)
    print(shown, file=sys.stderr, flush=True)


def folded(text: str, width: int) -> str:
    """Return text with its long lines broken between words.

    >>> print(folded("  one two three", 10))
      one two
        three
    """
    lines = text.split("\n")
    return "\n".join(
        textwrap.fill(
            line,
            width,
            subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
        if len(line) > width
        else line
        for line in lines
    )


def percent(value: float | None) -> str:
    """Return a share as text.

    >>> percent(0.0123)
    '1.23 %'
    """
    return "-" if value is None else f"{100 * value:.2f} %"


def duration(seconds: float | None) -> str:
    """Return seconds as a person says them.

    >>> duration(3), duration(75), duration(7300)
    ('3 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(n_bytes: float) -> str:
    """Return a number of bytes as a person says it.

    >>> size(3 * 2**30)
    '3.0 GB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1024:
            return f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.1f} TB"


def printable(text: str, width: int = 60) -> str:
    """Return text without control characters and no longer than ``width``: names are not ours.

    >>> printable("a\\x1b[31mb")
    'a?[31mb'
    """
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= width else clean[: width - 1] + "…"


def code_picture(code: Array, classes: Sequence[str], columns: int = 100) -> str:
    """Return a code as rows of signs, cut after ``columns``.

    >>> print(code_picture(np.array([[1, -1], [0, 1]]), ["a", "b"]))
    a  + -
    b  . +
    """
    names = [printable(name, 20) for name in classes]
    width = max(map(len, names))
    cut = " …" if code.shape[1] > columns else ""
    return "\n".join(
        f"{name:{width}}  " + " ".join(SIGNS[int(m)] for m in row[:columns]) + cut
        for name, row in zip(names, code, strict=True)
    )


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as aligned text, the first column to the left and the others to the right.

    >>> print(columns([["a", "10"], ["long", "9"]]))
    a     10
    long   9
    """
    lines = [list(row) for row in rows]
    widths = [max(len(line[j]) for line in lines) for j in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def columns_left(rows: Iterable[Sequence[str]]) -> str:
    """Return pairs as aligned text.

    >>> print(columns_left([["a", "x"], ["long", "y"]]))
    a     x
    long  y
    """
    lines = [tuple(row) for row in rows]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:{width}}  {text}" for name, text in lines)


class Leaderboard:
    """The mean errors of the finished cells: a live table on a terminal, else plain lines."""

    def __init__(self, methods: Sequence[str], total: int) -> None:
        self.methods, self.total = tuple(methods), total
        self.records: dict[str, Mapping[str, Any]] = {}
        self.left: float | None = None
        self.live: Any = None

    def __enter__(self) -> Leaderboard:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            # the table gives way to the plain text that follows it
            self.live = Live(console=Console(stderr=True), refresh_per_second=4, transient=True)
            self.live.start()
            self.live.update(self._table())
        return self

    def __exit__(self, *exception: object) -> None:
        if self.live is not None:
            self.live.stop()

    def add(self, record: Mapping[str, Any], left: float | None = None) -> None:
        """Take in a cell just finished and show it; ``left`` is the time left in seconds."""
        self.left = left
        self.take([record])
        self._show(record)

    def take(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Take in finished cells; a cell that was tried again counts once."""
        self.records |= {record["key"]: record for record in records}

    def best(self) -> str | None:
        """Return the method with the smallest mean error so far."""
        done = {name: mean for name in self.methods if (mean := self._mean(name, "error"))[1]}
        return min(done, key=lambda name: done[name][0]) if done else None

    def _mean(self, method: str, metric: str) -> tuple[float, int]:
        """Return the mean of a metric over a method's cells with a result, and their number."""
        values = [
            value
            for record in self.records.values()
            if record["method"] == method and record["status"] == "ok"
            if (value := record["metrics"].get(metric)) is not None
        ]
        return float(np.mean(values)) if values else np.inf, len(values)

    def table(self) -> list[list[str]]:
        """Return head and rows: methods by mean error, then the ones without a result."""
        head = ["method", "error", "log loss", "fit", "cells"]
        order = sorted(self.methods, key=lambda name: self._mean(name, "error")[0])
        return [head, *(self._row(name) for name in order)]

    def _row(self, name: str) -> list[str]:
        error, cells = self._mean(name, "error")
        loss, n_losses = self._mean(name, "log_loss")
        failed = len(self._failures(name))
        return [
            name,
            percent(error if cells else None),
            f"{loss:.3f}" if n_losses else "-",
            f"{self._mean(name, 'fit_seconds')[0]:.2f} s" if cells else "-",
            f"{cells} of {cells + failed}" if failed else str(cells),
        ]

    def _failures(self, method: str) -> list[str]:
        return [
            f"{record['status']}: {record['reason']}"
            for record in self.records.values()
            if record["method"] == method and record["status"] != "ok"
        ]

    def text(self) -> str:
        """Return the table as plain text."""
        return columns(self.table())

    def reasons(self) -> Iterator[str]:
        """Yield why cells have no result, a line for each method and reason."""
        for method in self.methods:
            for reason, count in Counter(self._failures(method)).items():
                yield f"{method}, {count} x {printable(reason, 300)}"

    def _show(self, record: Mapping[str, Any]) -> None:
        if self.live is not None:
            self.live.update(self._table())
            return
        status, error = record["status"], record.get("metrics", {}).get("error")
        result = percent(error) if status == "ok" else f"{status}: {record['reason']}"
        say(
            f"[{len(self.records)}/{self.total}] {printable(record['dataset'])} fold "
            f"{record['fold']} {record['method']}: {printable(result, 200)}; "
            f"best so far {self.best() or '-'}"
            + (f"; {duration(self.left)} left" if self.left is not None else "")
        )

    def _table(self) -> Any:
        from rich.table import Table

        head, *rows = self.table()
        left = f", {duration(self.left)} left" if self.left is not None else ""
        table = Table(
            title=f"{len(self.records)} of {self.total} cells{left}", title_justify="left"
        )
        for name in head:  # on a narrow terminal the names are folded, never the numbers
            first = name == "method"
            table.add_column(
                name, justify="left" if first else "right", no_wrap=not first, overflow="fold"
            )
        for row in rows:
            table.add_row(*row, style="bold" if row[0] == self.best() else None)
        return table
