"""Blocks as Markdown; drawings become their captions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from outcode.app.report.blocks import (
    Block,
    Command,
    Entry,
    Figure,
    Findings,
    Fold,
    Grid,
    Panels,
    Points,
    Table,
    Text,
)
from outcode.app.report.text import markdown


def blocks_to_markdown(blocks: Iterable[Block]) -> str:
    """Return blocks as Markdown paragraphs."""
    return "\n\n".join(text for block in blocks if (text := _block(block)))


@singledispatch
def _block(block: Block) -> str:
    raise TypeError(f"No Markdown for a {type(block).__name__}.")


@_block.register
def _(block: Text) -> str:
    strong = "**" if block.tone == "lead" else ""
    return "\n\n".join(f"{strong}{markdown(line)}{strong}" for line in block.lines)


@_block.register
def _(block: Points) -> str:
    return "\n".join(f"- **{markdown(p.topic)}**: {markdown(p.text)}" for p in block.items)


@_block.register
def _(block: Table) -> str:
    rule = ["---:" if head.numeric else "---" for head in block.head]
    rows = [[markdown(head.text) for head in block.head], rule]
    rows += [[_entry(entry) for entry in row] for row in block.rows]
    lines = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    return f"{markdown(block.caption)}:\n\n{lines}"


def _entry(entry: Entry) -> str:
    text = markdown(entry.text) + (f" ({markdown(entry.note)})" if entry.note else "")
    return f"**{text}**" if entry.tone in ("best", "sure") else text


@_block.register
def _(block: Figure) -> str:
    return f"*{markdown(block.caption)}*"


@_block.register
def _(block: Grid) -> str:
    return blocks_to_markdown(block.blocks)


@_block.register
def _(block: Findings) -> str:
    items = [
        f"- {markdown(f.code)} {markdown(f.message)}"
        + (f" ({markdown(f.where)})" if f.where else "")
        for f in block.items
    ]
    return "\n".join([f"{markdown(block.title)}:\n", *items])


@_block.register
def _(block: Command) -> str:
    return "    " + block.text


@_block.register
def _(block: Panels) -> str:
    return "\n\n".join(
        f"### {markdown(title)}\n\n{blocks_to_markdown(blocks)}" for title, blocks in block.items
    )


@_block.register
def _(block: Fold) -> str:
    return f"### {markdown(block.title)}\n\n{blocks_to_markdown(block.blocks)}"
