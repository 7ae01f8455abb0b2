"""What the command line shows: a leaderboard that fills, a code as signs, lines of facts."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from outcode._checks import Array
from outcode.app import heartbeat
from outcode.app.study import Cell
from outcode.metrics import METRICS, Metric
from outcode.results import Standing, leaderboard
from outcode.words import WRITERS, duration

#: How a code's entries are drawn.
SIGNS = {1: "+", -1: "-", 0: "."}


def say(*lines: str) -> None:
    """Print lines for a person, apart from any output another program may read."""
    shown = "\n".join(lines)
    if sys.stderr.isatty():
        shown = folded(shown, shutil.get_terminal_size().columns)
    heartbeat.speak(shown)


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


def printable(text: str, width: int = 60) -> str:
    """Return text without control characters and no longer than ``width``: names are not ours.

    >>> printable("a\\x1b[31mb")
    'a?[31mb'
    """
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= width else clean[: width - 1] + "…"


def code_picture(code: Array, classes: Sequence[str], columns: int = 100) -> str:
    """Return a code as rows of signs, cut after ``columns``.

    >>> import numpy as np
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
    """The finished cells by method, best first: a live table on a terminal, else plain lines."""

    def __init__(self, methods: Sequence[str], total: int, measure: str = "error") -> None:
        self.methods, self.total, self.measure = tuple(methods), total, measure
        self.records: dict[str, Mapping[str, Any]] = {}
        self.left: float | None = None
        self.live: Any = None
        self.running: dict[str, tuple[str, float]] = {}

    def __enter__(self) -> Leaderboard:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            # the table gives way to the plain text that follows it
            console, shown = Console(stderr=True), self._table
            self.live = Live(
                console=console, refresh_per_second=1, transient=True, get_renderable=shown
            )
            self.live.start()
            heartbeat.live(True)
        heartbeat.doing(self.work)
        return self

    def __exit__(self, *exception: object) -> None:
        if self.live is not None:
            heartbeat.live(False)
            self.live.stop()

    def start(self, cell: Cell) -> None:
        """Take note of a cell that begins to run."""
        self.running[cell.key] = f"{cell.method} (fold {cell.fold})", time.monotonic()

    def work(self) -> str:
        """Return which cells are running, and for how long."""
        now, running = time.monotonic(), list(self.running.values())
        if not running:
            return "starting worker processes"
        return "running " + ", ".join(f"{name} for {duration(now - t)}" for name, t in running)

    def add(self, record: Mapping[str, Any], left: float | None = None) -> None:
        """Take in a cell just finished and show it; ``left`` is the time left in seconds."""
        self.left = left
        self.running.pop(record["key"], None)
        self.take([record])
        self._show(record)

    def take(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Take in finished cells; a cell that was tried again counts once."""
        self.records |= {record["key"]: record for record in records}

    def standings(self) -> list[Standing]:
        """Return the methods, best first."""
        return leaderboard(self.records.values(), self.methods, self.measure)

    def best(self) -> str | None:
        """Return the leading method so far, of those with the most finished cells."""
        standings = self.standings()
        most = max(standing.finished for standing in standings)
        return next(s.method for s in standings if s.finished == most) if most else None

    def table(self) -> list[list[str]]:
        """Return head and rows."""
        brief = [metric for metric in METRICS.values() if metric.brief]
        head = ["method", *(metric.label for metric in brief), "runs"]
        return [head, *(self._row(standing, brief) for standing in self.standings())]

    def _row(self, standing: Standing, shown: Iterable[Metric]) -> list[str]:
        done, cells = standing.finished, standing.cells
        values = (WRITERS[m.kind](standing.values[m.key]) for m in shown)
        return [standing.method, *values, f"{done} of {cells}" if done < cells else str(done)]

    def text(self) -> str:
        """Return the table as plain text."""
        return columns(self.table())

    def reasons(self) -> Iterator[str]:
        """Yield why cells have no result, a line for each method and reason."""
        for standing in self.standings():
            for reason, count in standing.reasons.items():
                yield f"{standing.method}, {count} x {printable(reason, 300)}"

    def _show(self, record: Mapping[str, Any]) -> None:
        if self.live is not None:
            return
        value, metric = record.get("metrics", {}).get(self.measure), METRICS[self.measure]
        failed = f"{record['status']}: {record['reason']}"
        result = WRITERS[metric.kind](value) if record["status"] == "ok" else failed
        say(
            f"[{len(self.records)}/{self.total}] {printable(record['dataset'])} fold "
            f"{record['fold']} {record['method']}: {printable(result, 200)}; "
            f"best so far {self.best() or '-'}"
            + (f"; {duration(self.left)} left" if self.left else "")
        )

    def _table(self) -> Any:
        from rich.table import Table

        head, *rows = self.table()
        left = f", {duration(self.left)} left" if self.left else ""
        table = Table(title=f"{len(self.records)} of {self.total} runs{left}", title_justify="left")
        table.caption, table.caption_justify = printable(self.work(), 200), "left"
        for name in head:  # on a narrow terminal the names are folded, never the numbers
            first = name == "method"
            table.add_column(
                name, justify="left" if first else "right", no_wrap=not first, overflow="fold"
            )
        for row in rows:
            table.add_row(*row, style="bold" if row[0] == self.best() else None)
        return table
