"""The sections of the report, and records to a dict: one section after the other, each alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from outcode.app.report import (
    answer,
    classes,
    codes,
    comparison,
    decided,
    influence,
    leaderboard,
    probabilities,
    provenance,
    widths,
)
from outcode.app.report.blocks import Block
from outcode.app.report.evidence import Evidence, read
from outcode.app.report.text import clean, failure

SCHEMA = 1

Data = dict[str, Any]


@dataclass(frozen=True)
class Section:
    """A part of the page: its ``numbers`` as a dict that JSON can hold, and the ``blocks`` that
    show them."""

    title: str
    numbers: Callable[[Evidence], Data]
    blocks: Callable[[Data], list[Block]]


#: The sections of the page, in its order.
SECTIONS = {
    "data": Section("The data", provenance.data_sets, provenance.data_blocks),
    "answer": Section("The answer", answer.numbers, answer.blocks),
    "leaderboard": Section("Leaderboard", leaderboard.numbers, leaderboard.blocks),
    "comparison": Section("Are the differences real?", comparison.numbers, comparison.blocks),
    "influence": Section("Which columns matter", influence.numbers, influence.blocks),
    "classes": Section("Classes and confusions", classes.numbers, classes.blocks),
    "probabilities": Section(
        "Calibration of the probabilities", probabilities.numbers, probabilities.blocks
    ),
    "decisions": Section("Prediction sets, abstaining and costs", decided.numbers, decided.blocks),
    "code": Section("The code", codes.code_matrices, codes.code_blocks),
    "bits": Section("Wrong dichotomies per test row", codes.bit_errors, codes.bit_blocks),
    "paths": Section("Choice of the kernel width", widths.numbers, widths.blocks),
    "findings": Section("Findings and failures", provenance.findings, provenance.finding_blocks),
    "repeat": Section("How to repeat it", provenance.repeat, provenance.repeat_blocks),
}


def summarise(meta: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a summary of the records, as a dict that JSON can represent.

    Parameters
    ----------
    meta : mapping
        The meta dict of the study (titles, data sets, methods, seeds).
    records : iterable of mapping
        One for each cell, finished or not.

    Returns
    -------
    dict
        With ``schema``, ``title``, ``created``, ``measure`` and ``sections``: for each name of
        :data:`SECTIONS` its ``title``, its ``data``, and ``failure``: None, or why it has no data.
        If a section raises an error, the others are not affected.

    Examples
    --------
    >>> summarise({"title": "Two methods"}, [])["title"]
    'Two methods'
    """
    evidence = read(meta, records)
    return {
        "schema": SCHEMA,
        "title": clean(meta.get("title") or "Comparison of multiclass methods", 120),
        "created": _when(meta.get("created")),
        "measure": evidence.measure,
        "sections": {
            name: {"title": section.title, **_run(section, evidence)}
            for name, section in SECTIONS.items()
        },
    }


def _when(moment: Any) -> str:
    """Return an ISO time to the minute, anything else as it is."""
    try:
        return datetime.fromisoformat(moment).strftime("%Y-%m-%d %H:%M %Z").strip()
    except (TypeError, ValueError):
        return clean(moment or "at an unknown time", 40)


def _run(section: Section, evidence: Evidence) -> dict[str, Any]:
    try:
        data = section.numbers(evidence)
        json.dumps(data, allow_nan=False)
    except Exception as reason:  # one section must not take the page with it
        return {"data": None, "failure": failure(reason)}
    return {"data": data, "failure": None}
