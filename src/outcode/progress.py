"""Progress of long work: a bar in a notebook or a terminal with rich, else plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from threading import Lock
from typing import Protocol


class Progress(Protocol):
    """Something told when one more piece of work is done."""

    def advance(self) -> None:
        """One more piece is done."""


class Silent:
    """Says nothing."""

    def advance(self) -> None:
        """Say nothing."""


class Lines:
    """About ten plain lines: pieces done, share, seconds left."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self.started, self.lock = time.perf_counter(), Lock()

    def advance(self) -> None:
        """Print a line whenever another tenth of the work is done."""
        with self.lock:
            before, self.done = self.done, self.done + 1
            if 10 * before // self.total == 10 * self.done // self.total:
                return
            spent = time.perf_counter() - self.started
            left = spent * (self.total - self.done) / self.done
            print(f"{self.what}: {self.done}/{self.total}, {left:.1f} s left", file=sys.stderr)


@contextmanager
def progress(what: str, total: int, verbose: int) -> Iterator[Progress]:
    """Yield a reporter for ``total`` pieces of ``what``; silent when ``verbose`` is 0."""
    if not verbose or total == 0:
        yield Silent()
        return
    if _in_notebook():
        yield _NotebookBar(what, total)
        return
    bar = _rich_bar(what, total) if sys.stderr.isatty() else None
    if bar is None:
        yield Lines(what, total)
        return
    with bar:
        yield bar


def _in_notebook() -> bool:
    """Return whether the code runs in the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class _NotebookBar:
    """A bar below the cell of a notebook, drawn again at most five times a second."""

    PAUSE = 0.2

    def __init__(self, what: str, total: int) -> None:
        from IPython.display import HTML, display

        self.what, self.total, self.done, self.html = what, total, 0, HTML
        self.started, self.drawn, self.lock = time.perf_counter(), 0.0, Lock()
        self.handle = display(HTML(self._bar(0.0)), display_id=True)

    def advance(self) -> None:
        """Draw the bar with one more piece done."""
        with self.lock:
            self.done, now = self.done + 1, time.perf_counter()
            if now - self.drawn < self.PAUSE and self.done < self.total:
                return
            self.drawn = now
            self.handle.update(self.html(self._bar(now - self.started)))

    def _bar(self, spent: float) -> str:
        left = spent * (self.total - self.done) / max(self.done, 1)
        rest = f", {left:.1f} s left" if 0 < self.done < self.total else ""
        return (
            f'<progress value="{self.done}" max="{self.total}"></progress> '
            f"{escape(self.what)}: {self.done}/{self.total}{rest}"
        )


def _rich_bar(what: str, total: int) -> _RichBar | None:
    try:
        return _RichBar(what, total)
    except ImportError:
        return None


class _RichBar:
    """A rich progress bar with the pieces done and the time left."""

    def __init__(self, what: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        self.bars = Bars(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self.task = self.bars.add_task(what, total=total)

    def __enter__(self) -> _RichBar:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def advance(self) -> None:
        self.bars.advance(self.task)
