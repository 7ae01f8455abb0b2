"""From what a reader found to a data set: what is refused, what is left out and said."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from outcode._checks import Array
from outcode.datasets.cells import HUGE, is_number
from outcode.datasets.columns import Facts, count, describe, facts, listed
from outcode.datasets.sources import Limits
from outcode.datasets.table import DataError, Dataset, Finding, Table, absent

LONGEST_LABEL = 1_000
_ROW_NUMBER = re.compile(
    r"(?i)(|c1|row|index|rowid|row.?(id|number)|.*\bid|id\b.*|nr|no|number|#|unnamed: ?0)"
)


@dataclass(frozen=True)
class Raw:
    """What a reader found: ``labels`` are text, None where missing."""

    name: str
    table: Table
    labels: Array
    target: str
    missing: str
    about: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def finish(raw: Raw, limits: Limits) -> Dataset:
    """Leave out what cannot be learned from, check the classes, and describe what is left."""
    findings = list(raw.findings)
    table, y = _labelled(raw, findings)
    check_classes(y, raw, table, limits)
    table, y = _without_single(table, y, findings)
    table = _useful(table, findings)
    if not table.names:
        raise _nothing_left(raw, findings)
    about = (*raw.about, f"A missing cell is {raw.missing}.") if table.missing else raw.about
    name = re.sub(r"(\.\w{1,8}){1,2}$", "", raw.name) or raw.name
    return describe(Dataset(name, table, y, None, raw.name, findings=tuple(findings), about=about))


def _nothing_left(raw: Raw, findings: list[Finding]) -> DataError:
    reasons = " ".join(finding.message for finding in findings)
    where = f"{raw.name}: no column is left to learn from besides the target {raw.target!r}."
    advice = "Check how missing cells are written." if reasons else "Drop fewer columns."
    if found := [finding for finding in findings if finding.code == "OD001"]:
        advice = f"If these are different words, say so (types {found[0].columns[0]}=text)."
    return DataError(" ".join(filter(None, (where, reasons, advice))))


def _labelled(raw: Raw, findings: list[Finding]) -> tuple[Table, Array]:
    """Return the rows whose class is known."""
    known = np.array([label is not None for label in raw.labels.tolist()], dtype=bool)
    if not known.any():
        raise DataError(f"{raw.name}: the target {raw.target!r} is missing in every row.")
    longest = max(raw.labels[known].tolist(), key=len)
    if len(longest) > LONGEST_LABEL:
        raise DataError(
            f"{raw.name}: the target {raw.target!r} holds a text of {len(longest)} characters: "
            "this is not the name of a class. Choose another target."
        )
    lost = int(np.sum(~known))
    if lost:
        first = int(np.argmin(known)) + 1
        message = f"{count(lost, 'row')} left out: the class is missing (first in row {first})."
        findings.append(Finding("OD008", message, (raw.target,)))
        return raw.table.take(known), raw.labels[known].astype(str)
    return raw.table, raw.labels.astype(str)


def _without_single(table: Table, y: Array, findings: list[Finding]) -> tuple[Table, Array]:
    """Return the rows of classes that have two or more, if there are two such classes."""
    counts = Counter(y.tolist())
    single = sorted(name for name, count in counts.items() if count == 1)
    if not single or len(counts) - len(single) < 2:
        return table, y
    message = (
        f"{count(len(single), 'row')} left out: a class of one row cannot be both learned and "
        f"tested: {listed(single)}."
    )
    findings.append(Finding("OD009", message))
    rows = np.array([counts[label] > 1 for label in y.tolist()])
    return table.take(rows), y[rows]


def check_classes(y: Array, raw: Raw, table: Table, limits: Limits) -> None:
    """Refuse a target that is no set of classes, and say which columns may be one."""
    counts = Counter(y.tolist())
    fault, way_out = "", ""
    if len(counts) == 1:
        fault = f"has one class, {str(y[0])!r}: a classifier needs at least two."
    elif looks_continuous(list(counts), len(y)):
        fault = (
            f"looks like a quantity ({len(counts)} different numbers in {len(y)} rows, such as "
            f"{y[0]}), not like classes."
        )
        way_out = " Or cut the numbers into classes (bins=5); to predict a number is regression."
    elif len(counts) > limits.classes:
        fault = f"has {len(counts)} classes, the limit is {limits.classes}."
        way_out = f" Or raise the limit: Limits(classes={len(counts)})."
    elif len(counts) == len(y) > 2:
        fault = "is different in every row, like an identifier."
    if fault:
        where = f"{raw.name}: the target {raw.target!r}"
        raise DataError(f"{where} {fault} {_candidates(table)}{way_out}")


def looks_continuous(values: list[str], n_rows: int) -> bool:
    """Say whether the labels are numbers, most of them different, some of them not whole."""
    if len(values) <= max(20, n_rows // 2) or not all(map(is_number, values)):
        return False
    return any(not float(value).is_integer() for value in values) or len(values) > 100


def _candidates(table: Table) -> str:
    """Return advice on columns that may be the target."""
    most = min(50, table.n_rows // 2)
    pairs = zip(table.names, table.columns, strict=False)  # a sparse table has no columns
    few = [name for name, column in pairs if 2 <= facts(name, column).n_values <= most]
    return f"Choose another target{f'; it may be: {listed(few)}' if few else ''}."


def _useful(table: Table, findings: list[Finding]) -> Table:
    """Return the table without empty columns and text identifiers, infinite numbers as missing."""
    if table.sparse is not None:
        return table
    table = _finite(table, findings)
    pairs = list(zip(table.names, table.columns, strict=True))
    empty = tuple(name for name, column in pairs if absent(column).all())
    if empty:
        message = f"Left out, all cells are missing: {listed(empty)}."
        findings.append(Finding("OD007", message, empty))
    triples = zip(table.names, table.columns, table.kinds, strict=True)
    ids = tuple(n for n, column, kind in triples if _identifies(facts(n, column), kind))
    ids = tuple(name for name in ids if name not in empty)
    if ids:
        message = f"Left out, every row has another value, like an identifier: {listed(ids)}."
        findings.append(Finding("OD001", message, ids))
    return table.without((*empty, *ids))


def _identifies(fact: Facts, kind: str) -> bool:
    """Say whether a column names the rows: words that all differ, or numbered rows called id."""
    if kind == "nominal":
        return fact.unique
    counts = kind == "numeric" and fact.unique and not fact.n_missing
    return bool(counts and _ROW_NUMBER.fullmatch(fact.name) and np.all(np.diff(fact.column) == 1))


def _finite(table: Table, findings: list[Finding]) -> Table:
    infinite = [np.abs(c) > HUGE if c.dtype == float else np.zeros(1, bool) for c in table.columns]
    names = tuple(n for n, bad in zip(table.names, infinite, strict=True) if bad.any())
    if not names:
        return table
    bad_cells = sum(int(bad.sum()) for bad in infinite)
    message = f"{count(bad_cells, 'infinite cell')} taken as missing: {listed(names)}."
    findings.append(Finding("OD012", message, names))
    columns = tuple(
        np.where(bad, np.nan, c) if bad.any() else c
        for c, bad in zip(table.columns, infinite, strict=True)
    )
    return replace(table, columns=columns)
