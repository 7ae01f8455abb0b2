"""What a command is doing, said whenever nothing else was said for some seconds.

Only light modules are imported here: it speaks while the others are loaded.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable

from outcode.words import duration

#: Seconds without output after which a command says what it is doing.
SILENCE = 4.0
#: Seconds between looks at the clock.
TICK = 0.25


class _State:
    """What is being done, when something was said last, and whether a line can be erased."""

    what: str | Callable[[], str] = "loading libraries"
    said = 0.0
    erasable = False
    shown_live = False


def doing(what: str | Callable[[], str]) -> None:
    """Set what is said of the work from now on: words, or a function that returns them."""
    _State.what = what


def live(shown: bool) -> None:
    """Say whether a live table shows the progress, so that no line is needed."""
    _State.shown_live, _State.said = shown, time.monotonic()


def speak(text: str) -> None:
    """Print text for a person; the line that said what was being done gives way to it."""
    _State.said = time.monotonic()
    erased = "\r\x1b[K" if _State.erasable else ""
    _State.erasable = False
    print(f"{erased}{text}", file=sys.stderr, flush=True)


class Heartbeat:
    """Says what is being done whenever nothing was said for some seconds.

    A thread of its own does so, whatever the others compute or compile. On a terminal the line is
    written over the last one.

    Examples
    --------
    >>> with Heartbeat():
    ...     doing("reading a file")
    """

    def __enter__(self) -> Heartbeat:
        self.begin, self.over = time.monotonic(), threading.Event()
        _State.said, self.before = self.begin, _State.what
        self.thread = threading.Thread(target=self._beat, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.over.set()
        self.thread.join()
        _State.what = self.before
        if _State.erasable:
            _State.erasable = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _beat(self) -> None:
        while not self.over.wait(TICK):
            if time.monotonic() - _State.said > SILENCE and not _State.shown_live:
                self._say()

    def _say(self) -> None:
        what = _State.what if isinstance(_State.what, str) else _State.what()
        text = f"... {duration(time.monotonic() - self.begin)}: {what}"
        if sys.stderr.isatty():
            text = text[: shutil.get_terminal_size().columns - 1]
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            _State.said, _State.erasable = time.monotonic(), True
        else:
            speak(text)
