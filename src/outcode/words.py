"""Numbers as people read them: shares, differences, durations, sizes, counts, lists.

Every function takes None and returns a dash for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

#: What stands where there is no number.
NONE = "–"


def percent(value: float | None, digits: int | None = None) -> str:
    """Return a share in percent, with two digits below ten percent and one above.

    >>> percent(0.0123), percent(0.25), percent(0.25, 2)
    ('1.23%', '25.0%', '25.00%')
    """
    return NONE if value is None else f"{points(value, digits)}%"


def points(value: float, digits: int | None = None) -> str:
    """Return a share or a difference of shares in percentage points, without the sign."""
    usual = 1 if abs(value) >= 0.0995 or value == 0 else 2
    return f"{100 * value:.{usual if digits is None else digits}f}"


def number(value: float | None) -> str:
    """Return a number with three significant digits, thousands grouped.

    >>> number(1234.5), number(0.0123)
    ('1,234', '0.012')
    """
    if value is None:
        return NONE
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 or abs(value) < 0.001 else f"{value:.3f}"


def duration(seconds: float | None) -> str:
    """Return a duration in the units that suit it.

    >>> duration(0.0123), duration(3.21), duration(75), duration(7300)
    ('12 ms', '3.2 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds is None:
        return NONE
    if seconds < 0.995:
        digits = 0 if seconds >= 0.01 else 1
        return f"{1000 * seconds:.{digits}f} ms" if seconds >= 0.0001 else "<0.1 ms"
    if seconds < 59.5:
        return f"{seconds:.{1 if seconds < 9.95 else 0}f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(n_bytes: float | None) -> str:
    """Return a number of bytes in the unit that suits it, in steps of 1024.

    >>> size(3 * 2**30), size(300 * 2**20)
    ('3.0 GB', '300 MB')
    """
    if n_bytes is None:
        return NONE
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1023.5:
            return f"{n_bytes:.{1 if n_bytes < 9.95 and unit != 'B' else 0}f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.1f} TB"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    >>> count(1, "fold"), count(1200, "fold"), count(2, "class", "classes")
    ('1 fold', '1,200 folds', '2 classes')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def listing(words: Sequence[str], most: int = 4) -> str:
    """Return words as "a, b and c", the ones beyond ``most`` counted.

    >>> listing(["a", "b", "c"]), listing(["a", "b", "c", "d"], most=2)
    ('a, b and c', 'a, b and 2 more')
    """
    shown = [*words[:most], f"{len(words) - most} more"] if len(words) > most else list(words)
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)


#: How a value is written in a table, by its kind.
WRITERS: dict[str, Callable[[float | None], str]] = {
    "percent": lambda value: percent(value, 2),
    "number": lambda value: NONE if value is None else f"{value:.3f}",
    "seconds": duration,
    "count": number,
    "bytes": size,
}
