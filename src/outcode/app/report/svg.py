"""The few SVG elements the drawings need: every text escaped, every colour a class of the page."""

from __future__ import annotations

import html
from collections.abc import Iterable

from outcode.app.report.text import cut

#: Width of a character of the drawings' 11 px type, about.
CHARACTER = 6.1


def tag(name: str, content: str = "", **attributes: object) -> str:
    """Return an element; ``cls`` is its class, an underscore in a name a hyphen.

    >>> tag("rect", cls="plus", x=1.50, stroke_width=2)
    '<rect class="plus" x="1.5" stroke-width="2"/>'
    """
    written = "".join(
        f' {"class" if key == "cls" else key.replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def label(x: float, y: float, text: str, *, most: int = 24, **attributes: object) -> str:
    """Return a text, cut to ``most`` characters, whole in its tooltip."""
    short = cut(text, most)
    whole = tag("title", html.escape(text)) if short != text else ""
    return tag("text", html.escape(short) + whole, x=x, y=y, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> str:
    """Return a straight line."""
    return tag("line", cls=cls, x1=x1, y1=y1, x2=x2, y2=y2)


def cells(places: Iterable[tuple[int, int]], side: float, cls: str) -> str:
    """Return squares of a grid, given as (row, column), as one path."""
    d = "".join(
        f"M{_short(c * side)} {_short(r * side)}h{_short(side)}v{_short(side)}h-{_short(side)}z"
        for r, c in places
    )
    return tag("path", cls=cls, d=d) if d else ""


def polyline(points: Iterable[tuple[float, float]], cls: str) -> str:
    """Return a broken line."""
    written = " ".join(f"{_short(x)},{_short(y)}" for x, y in points)
    return tag("polyline", cls=cls, points=written)


def group(body: str, x: float, y: float) -> str:
    """Return the elements moved to (x, y)."""
    return tag("g", body, transform=f"translate({_short(x)} {_short(y)})")


def picture(width: float, height: float, body: str, title: str) -> str:
    """Return the whole drawing, its title for those who cannot see it."""
    text = html.escape(title)
    return (
        f'<svg role="img" aria-label="{text}" width="{_short(width)}" height="{_short(height)}" '
        f'viewBox="0 0 {_short(width)} {_short(height)}">{tag("title", text)}{body}</svg>'
    )


def width_of(texts: Iterable[str], most: int = 24) -> float:
    """Return the room that the longest of some labels takes."""
    return CHARACTER * max((len(cut(text, most)) for text in texts), default=0)


def _attribute(value: object) -> str:
    return _short(value) if isinstance(value, float) else html.escape(str(value))


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
