"""What the columns and classes of a data set are like, in words and findings (OD001, ...)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from outcode._checks import Array
from outcode.datasets.cells import is_number
from outcode.datasets.table import Dataset, Finding, Table, absent

FEW_ROWS = 10  # below this, all values may well differ by chance
MANY_VALUES = 50
MANY_NUMBERS = 10  # classes that are numbers: perhaps a quantity
FAR = 50.0  # interquartile ranges
SLIPS = 0.01  # share of cells; more of them are how the column is spread
#: What the kinds of columns are called in what users read, where it is not their name.
WORDS = {"nominal": "categorical"}


def describe(data: Dataset) -> Dataset:
    """Return the data set with ``about`` and ``findings`` completed from its content."""
    findings = (*data.findings, *column_findings(data.table, data.y), *class_findings(data.y))
    ordered = tuple(sorted(findings, key=lambda finding: finding.code))
    return replace(data, about=(*data.about, *about(data.table, data.y)), findings=ordered)


def about(table: Table, y: Array) -> Iterator[str]:
    """Yield what was inferred, in plain sentences."""
    counts = Counter(y.tolist())
    shown = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    classes = listed([f"{name} {count}" for name, count in shown], 10)
    yield f"{table.n_rows:,} rows in {len(counts)} classes: {classes}."
    if len(counts) > MANY_NUMBERS and all(map(is_number, counts)):
        yield (
            f"The classes are {len(counts)} numbers. If they are a quantity, cut it into classes "
            "(--bins 5), or predict it by regression."
        )
    columns = "1 column" if len(table.names) == 1 else f"{len(table.names)} columns"
    yield f"{columns}: {', '.join(_kinds(table))}."
    if table.sparse is not None:
        share = table.sparse.nnz / max(1, table.n_rows * len(table.names))
        yield f"The table is sparse: {100 * share:.2g} % of its cells are not zero."
    if table.missing:
        yield f"{count(table.missing, 'cell')} missing."
    codes = [name for name, column in _numeric(table) if _small_codes(column)]
    if codes:
        yield (
            f"Columns of few different whole numbers are read as numbers: {listed(codes)}. "
            "If the numbers of a column are codes without an order, add "
            f"--types {codes[0]}=category."
        )


def _kinds(table: Table) -> Iterator[str]:
    """Yield how many columns there are of each kind, and which."""
    for kind in ("numeric", "nominal", "date", "text"):
        names = [n for n, other in zip(table.names, table.kinds, strict=True) if other == kind]
        if kind == "numeric":
            yield f"{len(names)} {kind}"
        elif names:
            yield f"{len(names)} {WORDS.get(kind, kind)} ({listed(names, 10)})"


def count(number: int, what: str) -> str:
    """Return a number of things with the verb that follows.

    Examples
    --------
    >>> count(1, "row"), count(2, "row")
    ('1 row is', '2 rows are')
    """
    return f"{number} {what} is" if number == 1 else f"{number} {what}s are"


def listed(names: Iterable[object], most: int = 5) -> str:
    """Return names with commas between them, the first few of many.

    Examples
    --------
    >>> listed("abcdefg")
    'a, b, c, d, e and 2 more'
    """
    texts = [str(name) for name in names]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def _numeric(table: Table) -> Iterator[tuple[str, Array]]:
    for name, column in zip(table.names, table.columns, strict=False):  # a sparse table has none
        if column.dtype == float:
            yield name, column


def _small_codes(column: Array) -> bool:
    for part in (column[:1000], column):  # the first rows tell most columns apart
        values = np.unique(part[~np.isnan(part)])
        if len(values) > 10 or np.any(values != np.floor(values)):
            return False
    return len(values) >= 3 and len(column) > 30


@dataclass(frozen=True)
class Facts:
    """A column and the number of its distinct and missing cells."""

    name: str
    column: Array
    n_values: int
    n_missing: int

    @property
    def nominal(self) -> bool:
        return self.column.dtype == object

    @property
    def n_present(self) -> int:
        return len(self.column) - self.n_missing

    @property
    def unique(self) -> bool:
        """Every cell differs: an identifier, if the numbers are whole or the cells are text."""
        if self.n_present < FEW_ROWS or self.n_values < self.n_present:
            return False
        if self.column.dtype.kind == "M":
            return False
        return self.nominal or bool(
            np.all(np.isnan(self.column) | (np.floor(self.column) == self.column))
        )

    @property
    def codes(self) -> Array:
        """Numbers for the distinct cells, missing ones among them."""
        if not self.nominal:
            return np.unique(self.column, return_inverse=True)[1]
        known: dict[str | None, int] = {}
        return np.array([known.setdefault(cell, len(known)) for cell in self.column.tolist()])


def facts(name: str, column: Array) -> Facts:
    """Count the distinct and the missing cells of a column."""
    if column.dtype == object:
        cells = column.tolist()
        return Facts(name, column, len(set(cells) - {None}), cells.count(None))
    ordered = np.sort(column)  # NaN comes last
    missing = int(np.sum(np.isnan(column)))
    present = ordered[: len(ordered) - missing]
    return Facts(
        name, column, int(np.sum(present[1:] != present[:-1])) + (len(present) > 0), missing
    )


def column_findings(table: Table, y: Array) -> Iterator[Finding]:
    """Yield what is odd about the columns, one finding per kind of oddity."""
    if table.sparse is not None or not table.n_rows:
        return
    odd: dict[str, list[str]] = defaultdict(list)
    labels = np.unique(y, return_inverse=True)[1]
    for name, column, kind in zip(table.names, table.columns, table.kinds, strict=True):
        fact = facts(name, column)
        for code in _oddities(fact, labels, kind):
            odd[code].append(name)
        if column.dtype == float:
            yield from _outliers(fact) or _sentinels(fact)
    for code, names in odd.items():
        yield Finding(code, _MESSAGES[code].format(listed(names)), tuple(names))
    yield from _duplicates(table)


_MESSAGES = {
    "OD001": "Another number in every row, like an identifier: {}. Leave it out (drop) if it is.",
    "OD002": "The same value in every row: {}. It cannot help and is left out of the encoding.",
    "OD004": "A column that alone tells all classes: {}. If it is not known before the class is, "
    "leave it out (drop).",
    "OD005": "Many different values: {}. The most frequent become columns of their own, the others "
    "are compared by their letters. Leave it out (drop), or group the values.",
    "OD006": "More than half of the cells are missing: {}.",
}


def _oddities(fact: Facts, labels: Array, kind: str) -> Iterator[str]:
    if fact.unique and kind != "text":
        yield "OD001"
    elif kind == "nominal" and fact.n_values > min(MANY_VALUES, max(20, fact.n_present // 2)):
        yield "OD005"
    if fact.n_values <= 1 and fact.n_missing in (0, len(labels)):
        yield "OD002"
    if _leaks(fact, labels):
        yield "OD004"
    if len(labels) > fact.n_missing > len(labels) / 2:
        yield "OD006"


def _leaks(fact: Facts, labels: Array) -> bool:
    """Say whether each value has one class: few values, and too many rows for that by chance."""
    n_classes = int(labels.max()) + 1
    if n_classes < 2 or len(labels) < max(20, 5 * n_classes) or fact.n_values < n_classes:
        return False
    if len(labels) < 5 * fact.n_values or len(labels) - np.bincount(labels).max() < 10:
        return False
    pairs = np.unique(fact.codes * n_classes + labels)
    return len(pairs) == fact.n_values + (fact.n_missing > 0)


def _outliers(fact: Facts) -> list[Finding]:
    """Return a finding if a few cells are far from the others."""
    present = fact.column[~np.isnan(fact.column)] if fact.n_missing else fact.column
    if len(present) < FEW_ROWS:
        return []
    with np.errstate(over="ignore", invalid="ignore"):
        low, middle, high = np.quantile(present, [0.25, 0.5, 0.75])
        reach = FAR * (high - low)
        distance = np.abs(fact.column - middle)
    n_far = int(np.sum(distance > reach))
    if 0 < reach < np.inf and 0 < n_far <= max(1, SLIPS * len(present)):
        row = int(np.nanargmax(distance))
        message = (
            f"{fact.name}: {count(n_far, 'cell')} more than {FAR:g} interquartile ranges from the "
            f"median {middle:g}, the farthest {fact.column[row]:g} in row {row + 1}: a slip, or a "
            "code for missing?"
        )
        return [Finding("OD013", message, (fact.name,))]
    return []


def _sentinels(fact: Facts) -> list[Finding]:
    """Return a finding if one value that recurs is farther from all others than those are apart."""
    if fact.n_values <= 20:
        return []
    values, counts = np.unique(fact.column[~np.isnan(fact.column)], return_counts=True)
    with np.errstate(over="ignore"):
        inner = {0: values[-1] - values[1], -1: values[-2] - values[0]}
        gaps = {0: values[1] - values[0], -1: values[-1] - values[-2]}
    codes = [at for at in inner if counts[at] > 1 and gaps[at] > inner[at]]
    if not codes:
        return []
    rest = values[1:] if codes[0] == 0 else values[:-1]
    message = (
        f"{fact.name}: {count(int(counts[codes[0]]), 'cell')} {values[codes[0]]:g}, all others "
        f"from {rest[0]:g} to {rest[-1]:g}: a code for missing? If so, leave these cells empty."
    )
    return [Finding("OD013", message, (fact.name,))]


def _duplicates(table: Table) -> Iterator[Finding]:
    """Yield one finding for every group of equal columns."""
    groups: dict[int, list[int]] = defaultdict(list)
    for j, column in enumerate(table.columns):
        nominal = column.dtype == object
        groups[hash(tuple(column.tolist()) if nominal else column.tobytes())].append(j)
    for group in groups.values():
        first = table.columns[group[0]]
        same = [j for j in group if _equal(first, table.columns[j])]
        names = tuple(table.names[j] for j in same)
        if len(names) > 1 and not absent(first).all() and not _constant(first):
            yield Finding("OD003", f"Columns with the same content: {listed(names)}.", names)


def _equal(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=a.dtype != object))


def _constant(column: Array) -> bool:
    return bool(np.all(column == column[0]))


def class_findings(y: Array) -> Iterator[Finding]:
    """Yield what is odd about the classes."""
    counts = Counter(y.tolist())
    same: dict[str, list[str]] = defaultdict(list)
    for name in sorted(counts):
        same["".join(name.lower().split())].append(name)
    if alike := [names for names in same.values() if len(names) > 1]:
        shown = "; ".join(listed(map(repr, names)) for names in alike[:3])
        yield Finding("OD016", f"Classes that differ only by case or blanks: {shown}.")
    single = sorted(name for name, count in counts.items() if count == 1)
    small = sorted(name for name, count in counts.items() if 1 < count < 5)
    if single:
        yield Finding(
            "OD009",
            f"Classes with one row, which cannot be both learned and tested: {listed(single)}.",
        )
    if small:
        yield Finding("OD010", f"Classes with fewer than 5 rows: {listed(small)}.")
    (most, largest), *_ = counts.most_common(1)
    if len(counts) > 1 and largest > 0.9 * len(y):
        yield Finding(
            "OD011",
            f"{100 * largest / len(y):.3g} % of the rows are of class {most}: always saying so is "
            "hardly ever wrong. Look at the balanced error.",
        )
