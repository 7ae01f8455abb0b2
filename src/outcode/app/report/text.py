"""Foreign text made harmless.

Names of classes, columns, methods and data sets come from files: they may hold control
characters, turn the direction of a line, or be 10,000 characters long. :func:`clean` and
:func:`cut` are applied once, where records are read; escaping for HTML, Markdown and CSV happens
where each is written.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
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


def whole_name(full: str, shown: str) -> str:
    """Return the whole of a name that is shown cut, "" if all of it is shown."""
    return full if full != shown else ""


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
