"""Records to a dict: one section after the other, each on its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from outcode.app.report.answer import answer
from outcode.app.report.board import leaderboard
from outcode.app.report.classes import per_class
from outcode.app.report.coding import bit_errors, bound_paths, code_matrices
from outcode.app.report.comparison import compare
from outcode.app.report.evidence import Evidence, read
from outcode.app.report.provenance import data_sets, findings, repeat
from outcode.app.report.text import clean, failure
from outcode.app.report.trust import probabilities

SCHEMA = 1

Section = Callable[[Evidence], dict[str, Any]]

#: The sections of the page, in its order: title and function.
SECTIONS: dict[str, tuple[str, Section]] = {
    "answer": ("The answer", answer),
    "leaderboard": ("Leaderboard", leaderboard),
    "comparison": ("Are the differences real?", compare),
    "classes": ("Classes and confusions", per_class),
    "probabilities": ("What the probabilities are worth", probabilities),
    "code": ("The code", code_matrices),
    "bits": ("Wrong columns per test row", bit_errors),
    "paths": ("Choice of the kernel width", bound_paths),
    "findings": ("Findings and failures", findings),
    "data": ("The data", data_sets),
    "repeat": ("To repeat it", repeat),
}


def summarise(meta: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the records say, as a dict that JSON can hold.

    Parameters
    ----------
    meta : the study's meta dict (titles, data sets, methods, seeds)
    records : one dict per cell, finished or not

    Returns
    -------
    dict with ``schema``, ``title``, ``created``, ``measure`` and ``sections``: for each name of
    :data:`SECTIONS` its ``title``, its ``data``, and ``failure``: None, or why it has no data. A
    section that raises fails alone.
    """
    evidence = read(meta, records)
    return {
        "schema": SCHEMA,
        "title": clean(meta.get("title") or "Comparison of multiclass methods", 120),
        "created": _when(meta.get("created")),
        "measure": evidence.measure,
        "sections": {
            name: {"title": title, **_run(section, evidence)}
            for name, (title, section) in SECTIONS.items()
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
        data = section(evidence)
        json.dumps(data, allow_nan=False)
    except Exception as reason:  # one section must not take the page with it
        return {"data": None, "failure": failure(reason)}
    return {"data": data, "failure": None}
