"""From what a reader found to a data set: what is refused, what is left out and said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from outcode._checks import Array
from outcode.datasets.cells import HUGE, is_number, separators
from outcode.datasets.columns import (
    Facts,
    count,
    describe,
    facts,
    listed,
    separated,
    stray_texts,
)
from outcode.datasets.files import Limits
from outcode.datasets.table import DataError, Dataset, Finding, Table, absent

LONGEST_LABEL = 1_000


@dataclass(frozen=True)
class Raw:
    """What a reader found: ``labels`` are text, None where missing."""

    name: str
    table: Table
    labels: Array
    target: str
    missing: str
    about: tuple[str, ...] = ()


def finish(raw: Raw, limits: Limits) -> Dataset:
    """Leave out what cannot be learned from, check the classes, and describe what is left."""
    findings: list[Finding] = []
    refuse_separators(raw.table)
    table, y = _labelled(raw, findings)
    check_classes(y, raw, table, limits)
    table = _useful(table, findings)
    if not table.names:
        raise _nothing_left(raw, findings)
    about = (*raw.about, f"A missing cell is {raw.missing}.") if table.missing else raw.about
    name = Path(raw.name.removesuffix(".gz")).stem
    return describe(Dataset(name, table, y, None, raw.name, findings=tuple(findings), about=about))


def _nothing_left(raw: Raw, findings: list[Finding]) -> DataError:
    reasons = " ".join(finding.message for finding in findings)
    where = f"{raw.name}: no column is left to learn from besides the target {raw.target!r}."
    advice = "Check how missing cells are written." if reasons else "Drop fewer columns."
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


def check_classes(y: Array, raw: Raw, table: Table, limits: Limits) -> None:
    """Refuse a target that is no set of classes, and say which columns may be one."""
    counts = Counter(y.tolist())
    fault, way_out = "", ""
    if len(counts) == 1:
        fault = f"has one class, {str(y[0])!r}: there is nothing to tell apart."
    elif looks_continuous(list(counts), len(y)):
        fault = (
            f"looks like a quantity ({len(counts)} different numbers in {len(y)} rows, such as "
            f"{y[0]}), not like classes."
        )
        way_out = " Or group the numbers into classes first."
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
    texts = (facts(name, column) for name, column in pairs if column.dtype == object)
    unique = [fact for fact in texts if fact.unique]
    findings += _left_out(unique)
    out = {*empty, *(fact.name for fact in unique)}
    return table.select(name for name in table.names if name not in out)


def _left_out(unique: list[Facts]) -> Iterator[Finding]:
    """Yield why text that differs in every row is left out: identifiers, or numbers with a slip."""
    strays = {fact.name: stray_texts(fact) for fact in unique}
    for name, why in strays.items():
        if why:
            yield Finding("OD014", f"Left out: {why}", (name,))
    ids = tuple(name for name, why in strays.items() if not why)
    if ids:
        message = f"Left out, every row has another text, like an identifier: {listed(ids)}."
        yield Finding("OD001", message, ids)


def refuse_separators(table: Table) -> None:
    """Refuse text columns of many numbers that are written with commas or separators."""
    pairs = zip(table.names, table.columns, strict=False)
    for fact in (facts(name, column) for name, column in pairs if column.dtype == object):
        how = separated(fact)
        if not how or fact.n_values <= 20:
            continue
        row = next(i for i, cell in enumerate(fact.column.tolist()) if cell and separators(cell))
        where = f"{table.source}, row {row + 1}, column {fact.name!r}"
        raise DataError(
            f"{where}: {fact.column[row]!r} is a number with {how}. Write numbers with a decimal "
            "point and no separators, or drop the column."
        )


def _finite(table: Table, findings: list[Finding]) -> Table:
    infinite = [np.abs(c) > HUGE if c.dtype != object else np.zeros(1, bool) for c in table.columns]
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
    return Table(table.names, table.kinds, columns, source=table.source)
