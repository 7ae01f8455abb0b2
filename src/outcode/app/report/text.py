"""Words and numbers for people: foreign text made harmless, figures made short.

Names of classes, columns, methods and data sets come from files: they may hold control
characters, turn the direction of a line, or be 10,000 characters long. :func:`clean` and
:func:`cut` are applied once, where records are read; escaping for HTML, Markdown and CSV happens
where each is written.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

#: Longest name shown in running text and tables, and longest kept for a tooltip.
SHORT, LONG = 40, 300

_REMOVED = "\ufffd"
#: Controls, bidirectional controls, invisible and unassigned-for-ever characters, lone surrogates.
_HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\uffff"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|~-])")


def clean(value: object, limit: int = LONG) -> str:
    """Return the text on one line, harmful characters made visible, cut to ``limit``.

    >>> clean("a\\u202eb")
    'a\\ufffdb'
    """
    # Four times the limit is enough to judge: nobody reads the rest of ten megabytes.
    text = str(value)[: 4 * limit]
    text = re.sub(r"[\t\r\n\u2028\u2029]+", " ", text)
    return cut(_HARMFUL.sub(_REMOVED, text).strip() or "(empty)", limit)


def failure(reason: Exception) -> str:
    """Return an exception as one line: its type and message."""
    return f"{type(reason).__name__}: {clean(reason)}"


def cut(text: str, limit: int = SHORT) -> str:
    """Return at most ``limit`` characters, the last an ellipsis when some are missing."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def isolated(text: str) -> str:
    """Return right-to-left text between isolates: it does not turn what stands around it."""
    turned = any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in text)
    return f"\u2068{text}\u2069" if turned else text


def labels(names: Iterable[object]) -> list[str]:
    """Return one short, harmless and unique label for each name, in order."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        label = isolated(cut(clean(name)))
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


def percent(value: float | None, digits: int | None = None) -> str:
    """Return a share in percent, with one digit more below one percent."""
    if value is None:
        return "–"
    digits = digits if digits is not None else (1 if abs(value) >= 0.0995 or value == 0 else 2)
    return f"{100 * value:.{digits}f}%"


def points(value: float) -> str:
    """Return a difference of shares in percentage points."""
    return f"{100 * value:.{1 if abs(value) >= 0.0995 else 2}f}"


def number(value: float | None) -> str:
    """Return a number with three significant digits, thousands grouped."""
    if value is None:
        return "–"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 or abs(value) < 0.001 else f"{value:.3f}"


def seconds(value: float | None) -> str:
    """Return a duration in the unit that suits it.

    >>> seconds(0.0123), seconds(75)
    ('12 ms', '1.2 min')
    """
    if value is None:
        return "–"
    for size, unit in ((3600, "h"), (60, "min"), (1, "s")):
        if value >= size:
            return f"{value / size:.3g} {unit}" if size == 1 else f"{value / size:.1f} {unit}"
    digits = 0 if value >= 0.01 else 1
    return f"{1000 * value:.{digits}f} ms" if value >= 0.0001 else "<0.1 ms"


def size(value: float | None) -> str:
    """Return a number of bytes in the unit that suits it."""
    if value is None:
        return "–"
    for limit, unit in ((1e9, "GB"), (1e6, "MB")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value / 1e3:.3g} kB"


def listing(words: Sequence[str], most: int = 4) -> str:
    """Return words as "a, b and c", the ones beyond ``most`` counted.

    >>> listing(["a", "b", "c"]), listing(["a", "b", "c", "d"], most=2)
    ('a, b and c', 'a, b and 2 more')
    """
    shown = [*words[:most], f"{len(words) - most} more"] if len(words) > most else list(words)
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Return "1 fold", "1,200 folds"."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def markdown(value: object) -> str:
    """Return text that Markdown and the HTML within it take as text."""
    text = html.escape(str(value), quote=False)
    text = re.sub(r"(?i)(https?|ftp|mailto|javascript)(?=:)|www(?=\.)", r"\g<0>&#8203;", text)
    return _MARKDOWN.sub(r"\\\1", text)


def csv_cell(value: Any) -> str:
    """Return one CSV cell; text that a spreadsheet would take for a formula gets a leading '.

    >>> csv_cell("=1+1"), csv_cell(-0.5), csv_cell('a "b", c')
    ("'=1+1", '-0.5', '"a ""b"", c"')
    """
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    text = str(value)
    if text.lstrip(" \u2068").startswith(
        ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")
    ):
        text = "'" + text
    return '"' + text.replace('"', '""') + '"' if re.search(r'[",\r\n;\t]', text) else text
