"""What was noticed, what failed, what the data are, and how to repeat it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from outcode.app.report.blocks import (
    Block,
    Command,
    Entry,
    Finding,
    Findings,
    Fold,
    Head,
    Point,
    Points,
    Table,
    Text,
    by_dataset,
    more_datasets,
)
from outcode.app.report.classes import MOST_DATASETS
from outcode.app.report.codes import code_matrices
from outcode.app.report.evidence import Data, Evidence
from outcode.app.report.text import clean, failure, whole_name
from outcode.results import detail
from outcode.words import count, size

#: Findings, warnings and failures listed; classes counted in a table.
MOST_LISTED, MOST_CLASSES = 40, 60
#: Findings told with the data; all of them have a section of their own.
MOST_FACTS = 6


def findings(evidence: Evidence) -> dict[str, Any]:
    """Return the findings about data and codes, the warnings, and the cells without a result."""
    data, code = _data_findings(evidence), _code_findings(evidence)
    warnings, failures = _warnings(evidence), _failures(evidence)
    return {
        "data": data[:MOST_LISTED],
        "code": code[:MOST_LISTED],
        "warnings": warnings[:MOST_LISTED],
        "failures": failures[:MOST_LISTED],
        "left_out": sum(max(0, len(x) - MOST_LISTED) for x in (data, code, warnings, failures)),
        "cells": len(evidence.cells),
        "finished": len(evidence.finished()),
    }


def _data_findings(evidence: Evidence) -> list[dict[str, str]]:
    return [
        {
            "code": clean(f.get("code"), 12),
            "message": clean(f.get("message")),
            "where": data.name,
        }
        for data in evidence.datasets
        for f in data.about.get("findings") or []
    ]


def _code_findings(evidence: Evidence) -> list[dict[str, str]]:
    try:
        codes = code_matrices(evidence)["datasets"]
    except Exception as reason:  # the section of the codes says the same
        return [{"code": "–", "message": f"unreadable: {failure(reason)}", "where": "codes"}]
    return [
        {**found, "where": f"{entry['dataset']}, {method['method']}"}
        for entry in codes
        for method in entry["methods"]
        for found in method["findings"]
    ]


def _warnings(evidence: Evidence) -> list[dict[str, Any]]:
    seen = Counter(
        (cell["method"], clean(text))
        for cell in evidence.of()
        for text in detail(cell, "warnings") or []
    )
    return [{"method": m, "message": text, "times": n} for (m, text), n in seen.most_common()]


def _failures(evidence: Evidence) -> list[dict[str, Any]]:
    seen = Counter(
        (
            cell["dataset"],
            cell["method"],
            cell["status"],
            cell["reason"] or "no reason was recorded",
        )
        for cell in evidence.of()
        if cell["status"] != "ok"
    )
    return [
        {"dataset": d, "method": m, "status": status, "reason": reason, "cells": n}
        for (d, m, status, reason), n in sorted(seen.items())
    ]


def data_sets(evidence: Evidence) -> dict[str, Any]:
    """Return what each data set is: rows, columns, classes with counts, what was inferred."""
    return {
        "datasets": [_data(data) for data in evidence.datasets[:MOST_DATASETS]],
        "datasets_left_out": max(0, len(evidence.datasets) - MOST_DATASETS),
    }


def _data(data: Data) -> dict[str, Any]:
    order = sorted(range(len(data.counts)), key=lambda q: (-data.counts[q], q))[:MOST_CLASSES]
    about = data.about
    return {
        "dataset": data.name,
        "full": data.full,
        "source": clean(about.get("source") or "unknown", 400),
        "hash": clean(about.get("hash") or "unknown", 80),
        "n_rows": about.get("n_rows"),
        "n_columns": about.get("n_columns"),
        "n_features": about.get("n_features"),
        "missing": about.get("missing"),
        "n_classes": len(data.classes),
        "classes": [
            {"class": data.classes[q], "full": data.full_classes[q], "rows": data.counts[q]}
            for q in order
        ],
        "classes_left_out": len(data.classes) - len(order),
        "about": [clean(text) for text in (about.get("about") or [])[:20]],
        "encoding": [[clean(part, 200) for part in pair] for pair in about.get("encoding") or []],
        "findings": [clean(f.get("message")) for f in (about.get("findings") or [])[:MOST_LISTED]],
    }


def repeat(evidence: Evidence) -> dict[str, Any]:
    """Return everything needed to run the study again: command, seeds, versions, machine."""
    meta = evidence.meta
    machine = meta.get("machine") or {}
    return {
        "command": clean(meta.get("command") or "", 2000) if meta.get("command") else None,
        "seed": meta.get("seed"),
        "folds": meta.get("folds"),
        "repeats": meta.get("repeats"),
        "scale": clean(meta.get("scale"), 40),
        "measure": evidence.measure,
        "created": clean(meta.get("created") or "unknown", 40),
        "machine": {str(k): clean(v, 120) for k, v in sorted(machine.items())},
        "versions": _versions(evidence),
        "hashes": [
            {"dataset": d.name, "hash": clean(d.about.get("hash") or "unknown", 80)}
            for d in evidence.datasets[:MOST_LISTED]
        ],
        "methods": [
            {"method": m.name, "full": m.full, "title": m.title, "estimator": m.estimator}
            for m in evidence.methods[:MOST_LISTED]
        ],
    }


def _versions(evidence: Evidence) -> list[dict[str, Any]]:
    """Return the packages with their versions; several when cells were run with several."""
    sources: list[Mapping[str, Any]] = [evidence.meta.get("versions") or {}]
    sources += [cell.get("versions") or {} for cell in evidence.of()]
    found: dict[str, set[str]] = {}
    for versions in sources:
        for package, version in versions.items():
            found.setdefault(clean(package, 60), set()).add(clean(version, 60))
    return [{"package": p, "versions": sorted(v)} for p, v in sorted(found.items())][:MOST_LISTED]


def state(evidence: Evidence) -> str:
    """Return how many runs came to a result, in words."""
    done, total = len(evidence.finished()), len(evidence.cells)
    told = f"All {total:,} runs finished." if total != 1 else "The only run finished."
    if done < total:
        told = f"{done:,} of {count(total, 'run')} finished; the others are listed with reasons."
    if evidence.open:
        told = (
            f"{done:,} of {total + evidence.open:,} runs finished, {evidence.open:,} not started."
        )
    return told


# --- shown ---


def finding_blocks(data: dict[str, Any]) -> list[Block]:
    """Findings with codes, warnings, and cells without a result."""
    state = f"{data['finished']:,} of {count(data['cells'], 'run')} finished."
    blocks: list[Block] = [Text((state,))]
    for title, part in (("About the data", "data"), ("About the codes", "code")):
        if data[part]:
            items = tuple(Finding(f["code"], f["message"], f["where"]) for f in data[part])
            blocks.append(Findings(title, items))
    if data["warnings"]:
        items = tuple(
            Finding(f"{w['times']}×", w["message"], w["method"]) for w in data["warnings"]
        )
        blocks.append(Findings("Warnings", items))
    if data["failures"]:
        blocks.append(_failure_table(data["failures"]))
    if data["left_out"]:
        blocks.append(
            Text((f"{data['left_out']:,} more are in the JSON file's records.",), "muted")
        )
    if len(blocks) == 1:
        blocks.append(Text(("Nothing was found, nothing failed.",)))
    return blocks


def _failure_table(failures: list[dict[str, Any]]) -> Table:
    head = (
        Head("method", numeric=False),
        Head("data set", numeric=False),
        Head("what", numeric=False),
        Head("runs"),
        Head("reason", numeric=False),
    )
    rows = tuple(
        (
            Entry(f["method"]),
            Entry(f["dataset"]),
            Entry(f["status"], tone="warn"),
            Entry(f"{f['cells']:,}", float(f["cells"])),
            Entry(f["reason"]),
        )
        for f in failures
    )
    return Table("Runs without a result", head, rows)


def data_blocks(data: dict[str, Any]) -> list[Block]:
    """What each data set is."""
    shown = by_dataset([(d["dataset"], _data_shown(d)) for d in data["datasets"]])
    return shown + more_datasets(data["datasets_left_out"])


def _data_shown(d: dict[str, Any]) -> list[Block]:
    facts = [
        ("Source", d["source"]),
        ("Rows", _maybe(d["n_rows"])),
        ("Columns", f"{_maybe(d['n_columns'])}, {_maybe(d['n_features'])} after encoding"),
        ("Missing values", _maybe(d["missing"])),
        ("Classes", _maybe(d["n_classes"])),
        *([("Detected", " ".join(d["about"]))] if d["about"] else []),
    ]
    total = sum(c["rows"] for c in d["classes"]) or 1
    rows = tuple(
        (
            Entry(c["class"], title=whole_name(c["full"], c["class"])),
            Entry(f"{c['rows']:,}", float(c["rows"]), bar=c["rows"] / total),
        )
        for c in d["classes"]
    )
    more = d["classes_left_out"]
    rest = (
        f", largest first; {count(more, 'smaller class', 'smaller classes')} not listed"
        if more
        else ""
    )
    head = (Head("class", numeric=False), Head("rows"))
    table = Table(f"Classes of {d['dataset']}{rest}", head, rows, sortable=True)
    facts += [("Look at", text) for text in d["findings"][:MOST_FACTS]]
    told = Points(tuple(Point(topic, text) for topic, text in facts))
    return [told, Fold("Rows of each class", (table,)), *_encoded(d["encoding"])]


def _encoded(pairs: list[list[str]]) -> list[Block]:
    """What each column becomes, where a study has kept it."""
    head = (Head("column", numeric=False), Head("becomes", numeric=False))
    rows = tuple((Entry(name), Entry(words)) for name, words in pairs)
    table = Table(
        "Encoding of each column, fitted here on all rows, in the study on the rows of each fold",
        head,
        rows,
    )
    return [Fold("Encoding of the columns", (table,))] if rows else []


def _maybe(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else "unknown"


def repeat_blocks(data: dict[str, Any]) -> list[Block]:
    """The command, and everything the numbers depend on."""
    machine = dict(data["machine"])
    if machine.get("memory", "").isdigit():
        machine["memory"] = size(float(machine["memory"]))
    facts = [
        ("Seed", str(data["seed"])),
        ("Folds", f"{data['folds']}, repeats {data['repeats']}, the same for all methods"),
        ("Scaling", f"{data['scale']}, fitted within each fold"),
        ("Measure", data["measure"]),
        ("Run at", data["created"]),
        ("Machine", ", ".join(f"{k} {v}" for k, v in machine.items())),
        (
            "Versions",
            ", ".join(f"{v['package']} {'/'.join(v['versions'])}" for v in data["versions"]),
        ),
        *((f"Hash of {h['dataset']}", h["hash"]) for h in data["hashes"]),
    ]
    command: list[Block] = [Command(data["command"])] if data["command"] else []
    head = (
        Head("method", numeric=False),
        Head("what it is", numeric=False),
        Head("estimator", numeric=False),
    )
    rows = tuple(
        (
            Entry(m["method"], title=whole_name(m["full"], m["method"])),
            Entry(m["title"]),
            Entry(m["estimator"]),
        )
        for m in data["methods"]
    )
    methods = Fold("The methods as estimators", (Table("Methods", head, rows),))
    return [*command, Points(tuple(Point(topic, text) for topic, text in facts)), methods]
