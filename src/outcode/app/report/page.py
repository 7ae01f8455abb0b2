"""The dict to a page: HTML in one file, Markdown, JSON, and the leaderboard as CSV."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from outcode._checks import lookup
from outcode.app.report.blocks import Block, Text
from outcode.app.report.markdown import blocks_to_markdown
from outcode.app.report.sections import SECTIONS
from outcode.app.report.text import csv_cell, failure, markdown
from outcode.metrics import METRICS, Metric
from outcode.words import size

Summary = Mapping[str, Any]

#: Bytes for all sections, and for the JSON within the page: it stays below 1 MB.
SECTIONS_LIMIT, ISLAND_LIMIT = 640_000, 260_000


def render(summary: Summary, format: str = "html") -> str:
    """Return a summary as a page.

    Parameters
    ----------
    summary : dict
        What :func:`outcode.app.report.summarise` returned.
    format : {"html", "md", "json"}, default="html"
        Format of the page. "html" is one self-contained file.

    Returns
    -------
    str
        The page.

    Examples
    --------
    >>> from outcode.app.report import summarise
    >>> render(summarise({"title": "Two methods"}, []), "md").splitlines()[0]
    '# Two methods'
    """
    return lookup(FORMATS, format, "format")(summary)


def write(summary: Summary, path: str | os.PathLike[str]) -> Path:
    """Write a summary to a file in the format of its suffix: .html, .md, .json or .csv.

    A file is written whole or not at all.

    Parameters
    ----------
    summary : dict
        What :func:`outcode.app.report.summarise` returned.
    path : str or path-like
        The file to write.

    Returns
    -------
    Path
        The file written.

    Examples
    --------
    >>> import tempfile
    >>> from outcode.app.report import summarise
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(summarise({}, []), folder + "/report.html").name
    'report.html'
    """
    path = Path(path)
    suffix = path.suffix.lower().removeprefix(".")
    written = {**FORMATS, "csv": leaderboard_csv, "htm": _html, "markdown": _markdown}
    page = lookup(written, suffix, "suffix of a report")(summary)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} to write {path.name} into.")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(page, encoding="utf-8", newline="\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def leaderboard_csv(summary: Summary) -> str:
    """Return the leaderboard as CSV, a row per data set and method; no cell is a formula.

    Parameters
    ----------
    summary : dict
        What :func:`outcode.app.report.summarise` returned.

    Returns
    -------
    str
        The text of the CSV file.

    Examples
    --------
    >>> from outcode.app.report import summarise
    >>> leaderboard_csv(summarise({}, [])).split(",")[:3]
    ['dataset', 'method', 'baseline']
    """
    keys = [key for m in METRICS.values() for key in (m.key, *_ends(m))]
    lines = [["dataset", "method", "baseline", "rank", *keys, "finished", "cells", "reasons"]]
    data = summary["sections"]["leaderboard"]["data"]
    for table in data["tables"] if data else []:
        lines += [_csv_row(table["dataset"] or "(all)", row) for row in table["rows"]]
    return "".join(",".join(map(csv_cell, cells)) + "\r\n" for cells in lines)


def _ends(metric: Metric) -> tuple[str, ...]:
    return (f"{metric.key}_low", f"{metric.key}_high") if metric.function is not None else ()


def _csv_row(dataset: str, row: dict[str, Any]) -> list[Any]:
    cells: list[Any] = [dataset, row["full"], "yes" if row["baseline"] else "no", row["rank"]]
    for metric in METRICS.values():
        found = row[metric.key]
        cells.append(found["mean"])
        if _ends(metric):
            cells += found["interval"] or [None, None]
    return [*cells, row["finished"], row["cells"], "; ".join(row["reasons"])]


def _shown(
    summary: Summary, write_blocks: Callable[[list[Block]], str]
) -> Iterator[dict[str, Any]]:
    """Yield each section written; one that fails says why."""
    for name, section in summary["sections"].items():
        reason, body = section["failure"], ""
        if reason is None:
            try:
                body = write_blocks(lookup(SECTIONS, name, "section").blocks(section["data"]))
            except Exception as error:  # one section must not take the page with it
                reason = failure(error)
        if reason is not None:
            told = Text((f"This section could not be made: {reason}",), "bad")
            body = write_blocks([told])
        yield {"id": name, "title": section["title"], "body": body}


def _json(summary: Summary) -> str:
    return json.dumps(summary, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def _markdown(summary: Summary) -> str:
    parts = [f"# {markdown(summary['title'])}", f"Run at {markdown(summary['created'])}."]
    for section in _shown(summary, blocks_to_markdown):
        parts += [f"## {section['title']}", section["body"]]
    return "\n\n".join(part for part in parts if part) + "\n"


def _html(summary: Summary) -> str:
    environment = _environment()
    macros = environment.get_template("blocks.html").module
    sections = list(_within(_shown(summary, lambda b: str(macros.blocks(b))), macros))
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    return environment.get_template("page.html").render(
        title=summary["title"],
        created=summary["created"],
        sections=sections,
        style=style,
        script=script,
        policy=_policy(style, script),
        csv=base64.b64encode(leaderboard_csv(summary).encode()).decode(),
        island=_island(summary),
    )


def _within(sections: Iterator[dict[str, Any]], macros: Any) -> Iterator[dict[str, Any]]:
    """Yield the sections as long as the page stays small; one too large is left out and says so."""
    used = 0
    for section in sections:
        length = len(section["body"].encode())
        if used + length > SECTIONS_LIMIT:
            told = f"Left out: it would take {size(length)} of a page kept below 1 MB. The JSON \
output has its numbers."
            section["body"] = str(macros.blocks([Text((told,), "bad")]))
            length = len(section["body"])
        used += length
        yield section


def _island(summary: Summary) -> str | None:
    """Return the summary as JSON that cannot end its element, None when it is too large."""
    text = json.dumps(summary, allow_nan=False, separators=(",", ":"))  # ASCII: no U+2028
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text if len(text) <= ISLAND_LIMIT else None


def _policy(style: str, script: str) -> str:
    """Return a content-security policy under which only our own style and script run."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return resources.files("outcode.app.report").joinpath(name).read_text(encoding="utf-8")


def _environment() -> Any:
    try:
        import jinja2
    except ImportError as reason:
        raise ImportError(
            'The HTML report needs Jinja2: pip install "outcode[app]". '
            "Markdown and JSON need nothing more."
        ) from reason
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


FORMATS: dict[str, Callable[[Summary], str]] = {"html": _html, "md": _markdown, "json": _json}
