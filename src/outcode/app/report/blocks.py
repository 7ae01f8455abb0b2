"""What a section is made of, whatever it is written as: text, points, tables, figures, panels."""

from __future__ import annotations

from dataclasses import dataclass

from outcode.words import count


@dataclass(frozen=True)
class Block:
    """A part of a section; the name of its class says how it is written."""

    @property
    def kind(self) -> str:
        """The name by which the templates know the block."""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Text(Block):
    """Paragraphs; ``tone`` is plain, lead, muted or bad."""

    lines: tuple[str, ...]
    tone: str = "plain"


@dataclass(frozen=True)
class Point:
    """A topic, what is said about it, and how it stands: good, open, bad or plain."""

    topic: str
    text: str
    tone: str = "plain"


@dataclass(frozen=True)
class Points(Block):
    """Topics with a sentence each."""

    items: tuple[Point, ...]


@dataclass(frozen=True)
class Head:
    """The head of a column; ``meaning`` explains it."""

    text: str
    meaning: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Entry:
    """A cell: its text, the number it sorts by, a smaller note, the whole text, marks.

    ``bar`` draws a share beside the text; ``tone`` is best, base, sure or muted.
    """

    text: str
    value: float | None = None
    note: str = ""
    title: str = ""
    tone: str = ""
    bar: float | None = None


@dataclass(frozen=True)
class Table(Block):
    """A table; the first entry of each row is its head."""

    caption: str
    head: tuple[Head, ...]
    rows: tuple[tuple[Entry, ...], ...]
    sortable: bool = False


@dataclass(frozen=True)
class Figure(Block):
    """A drawing of ours, already escaped, with what it shows in words."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Grid(Block):
    """Blocks side by side where there is room; wide ones two at most."""

    blocks: tuple[Block, ...]
    wide: bool = False


@dataclass(frozen=True)
class Finding:
    """A code to look up, what was found, and where."""

    code: str
    message: str
    where: str = ""


@dataclass(frozen=True)
class Findings(Block):
    """A list of findings under a heading."""

    title: str
    items: tuple[Finding, ...]


@dataclass(frozen=True)
class Command(Block):
    """A line to copy into a shell."""

    text: str


@dataclass(frozen=True)
class Panels(Block):
    """Alternatives of which one is shown at a time; all of them where nothing can be clicked."""

    items: tuple[tuple[str, tuple[Block, ...]], ...]


@dataclass(frozen=True)
class Fold(Block):
    """Blocks behind a line that opens them."""

    title: str
    blocks: tuple[Block, ...]


def by_dataset(entries: list[tuple[str, list[Block]]]) -> list[Block]:
    """Return the blocks of one data set, or a panel for each of several."""
    if len(entries) == 1:
        return entries[0][1]
    return [Panels(tuple((name, tuple(blocks)) for name, blocks in entries))]


def side_by_side(figures: list[Block], wide: bool = False) -> Block:
    """Return one block as it is, several in a grid."""
    return figures[0] if len(figures) == 1 else Grid(tuple(figures), wide)


def more_datasets(n: int) -> list[Block]:
    """Return a line about the data sets not shown, if any."""
    return [Text((f"{count(n, 'more data set')} not shown.",), "muted")] if n else []
