"""What the command line shows: a leaderboard that fills, a code as signs, lines of facts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from outcode._checks import Array

#: How a code's entries are drawn.
SIGNS = {1: "+", -1: "-", 0: "."}


def say(*lines: str) -> None:
    """Print lines for a person, apart from any output another program may read."""
    print(*lines, sep="\n", file=sys.stderr, flush=True)


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
        self.errors: dict[str, list[float]] = {name: [] for name in methods}
        self.seconds: dict[str, list[float]] = {name: [] for name in methods}
        self.losses: dict[str, list[float]] = {name: [] for name in methods}
        self.other: dict[str, int] = dict.fromkeys(methods, 0)
        self.total, self.done = total, 0
        self.left: float | None = None
        self.live: Any = None

    def __enter__(self) -> Leaderboard:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self.live = Live(self._table(), console=Console(stderr=True), refresh_per_second=4)
            self.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.live is not None:
            self.live.stop()

    def add(self, record: Mapping[str, Any], left: float | None = None) -> None:
        """Take in a cell just finished and show it; ``left`` is the time left in seconds."""
        self.left = left
        self.take(record)
        self._show(record)

    def take(self, record: Mapping[str, Any]) -> None:
        """Take in a finished cell."""
        self.done += 1
        name, metrics = record["method"], record.get("metrics", {})
        if record["status"] == "ok":
            self.errors[name].append(metrics["error"])
            self.seconds[name].append(metrics["fit_seconds"])
            if metrics.get("log_loss") is not None:
                self.losses[name].append(metrics["log_loss"])
        else:
            self.other[name] += 1

    def best(self) -> str | None:
        """Return the method with the smallest mean error so far."""
        done = {name: np.mean(errors) for name, errors in self.errors.items() if errors}
        return min(done, key=lambda name: done[name]) if done else None

    def rows(self) -> list[list[str]]:
        """Return the table: methods by mean error, then the ones without a result."""
        order = sorted(self.errors, key=lambda n: (not self.errors[n], _mean(self.errors[n]) or 0))
        return [self._row(name) for name in order]

    def _row(self, name: str) -> list[str]:
        errors, loss = self.errors[name], _mean(self.losses[name])
        failed = f"{self.other[name]} without result" if self.other[name] else ""
        return [
            name,
            percent(_mean(errors)),
            "-" if loss is None else f"{loss:.3f}",
            "-" if not errors else f"{_mean(self.seconds[name]):.2f} s",
            str(len(errors)),
            failed,
        ]

    def text(self) -> str:
        """Return the table as plain text."""
        return columns([["method", "error", "log loss", "fit", "cells", ""], *self.rows()])

    def _show(self, record: Mapping[str, Any]) -> None:
        if self.live is not None:
            self.live.update(self._table())
            return
        status, error = record["status"], record.get("metrics", {}).get("error")
        result = percent(error) if status == "ok" else f"{status}: {record['reason']}"
        say(
            f"[{self.done}/{self.total}] {printable(record['dataset'])} fold {record['fold']} "
            f"{record['method']}: {printable(result, 200)}; best so far {self.best() or '-'}"
            + (f"; {duration(self.left)} left" if self.left is not None else "")
        )

    def _table(self) -> Any:
        from rich.table import Table

        left = f", {duration(self.left)} left" if self.left is not None else ""
        table = Table(title=f"{self.done} of {self.total} cells{left}", title_justify="left")
        for head in ("method", "error", "log loss", "fit", "cells", ""):
            table.add_column(head, justify="left" if head == "method" else "right")
        for row in self.rows():
            table.add_row(*row, style="bold" if row[0] == self.best() else None)
        return table


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
