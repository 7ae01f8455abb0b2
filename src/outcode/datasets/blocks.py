"""Tables in blocks: folders of files, and files larger than memory, read a part at a time.

Delimited text is cut at line ends and Parquet at row groups; a file of another format is one
block. What a file looks like is found once, in its first rows; the kinds of the columns are
inferred on a sample of rows of all blocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from outcode._checks import Array
from outcode.datasets import cuts
from outcode.datasets.cuts import Cut, cut, found_files, is_parquet
from outcode.datasets.sources import Limits, Source, opened
from outcode.datasets.table import DataError, Dataset, Table

if TYPE_CHECKING:
    from outcode.datasets.readers import Found, Options
    from outcode.datasets.readers.delimited import Plan

TEXT = (".csv", ".tsv", ".tab")
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
#: A file that cannot be cut is read as a whole, and may be no larger than this.
WHOLE = Limits(bytes=2**29)
#: Bytes in which the layout of a text is looked for.
HEAD = 2**19
#: Rows that kinds and encoding of columns are learned on, and the most blocks they come from.
SAMPLE_ROWS, SAMPLE_BLOCKS = 50_000, 200


@dataclass(frozen=True)
class TablePart:
    """A part of a file as columns of any kind."""

    cut: Cut
    plan: Plan | None
    options: Options

    @property
    def where(self) -> str:
        """The file and the block, for messages."""
        return f"{self.cut.path}, block {self.cut.number}"

    def found(self, numbers: Collection[str] = ()) -> Found:
        """Return the columns; those of ``numbers`` are tried as plain numbers first."""
        with self.explained():
            if self.plan is not None:
                encoding = self.options.encoding
                return self.plan.strictly(self.cut.bytes(), self.where, encoding, numbers)
            if self.cut.span:
                from outcode.datasets.readers import Found

                table = self.cut.arrow()
                return Found(tuple(table.column_names), list(table.columns), missing="null")
            return _whole(self.cut.path, self.options)

    def table(self, numbers: Collection[str] = ()) -> Table:
        """Return the rows, cells of text unread: a fitted encoder knows the kinds."""
        from outcode.datasets.kinds import as_text

        return as_text(self.found(numbers), self.where)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Name file, block and row of the file in what is wrong with the part."""
        try:
            yield
        except (OSError, ValueError, ArithmeticError, TypeError) as error:
            said = " ".join(str(error).split()) or type(error).__name__
            if not isinstance(error, DataError):
                said = f"cannot be read ({said})."
            said = said.removeprefix(self.where).lstrip(":, ")
            said = re.sub(r"\brow (\d+)", self._placed, said, count=1)
            raise DataError(f"{self.where}, {said}") from None

    def _placed(self, match: re.Match[str]) -> str:
        return f"row {int(match[1]) + self.cut.first}"


def in_blocks(path: Any, most_bytes: int) -> bool:
    """Return whether a path is to be read in blocks: a folder, a pattern, or a large file."""
    if not isinstance(path, str | os.PathLike):
        return True
    name = os.fspath(path)
    if Path(name).is_dir():
        return True
    if Path(name).is_file():
        large = os.path.getsize(name) > most_bytes
        return large and (is_parquet(name) or name.lower().endswith(TEXT))
    return any(mark in name for mark in "*?[") and name != "-"


def parts(path: Any, **options: Any) -> list[TablePart]:
    """Return the parts of the files that a name, folder, pattern or list of them stands for."""
    from outcode.datasets.readers import READERS, Options

    chosen = Options(**options)
    suffixes = [suffix for one in READERS.values() for suffix in one.suffixes]
    every = (*suffixes, *(s + p for s in suffixes for p in PACKED))
    files = list(found_files(path, every))
    if not files:
        raise DataError(f"{path}: there is no file of a known format ({', '.join(suffixes)}).")
    found: list[TablePart] = []
    for file in files:
        found += _parts(file, len(found), chosen)
    if not found:
        raise DataError(f"{path} holds no rows.")
    return found


def _parts(path: str, number: int, options: Options) -> list[TablePart]:
    plan: Plan | None = None
    spans: list[tuple[tuple[int, ...], int]] = [((), 0)]
    try:
        if is_parquet(path):
            spans = list(cuts.row_spans(path))
        elif path.lower().endswith(TEXT) and (plan := _planned(path, options)):
            spans = list(cuts.text_spans(path, plan.start(_head(path))))
    except (OSError, ValueError):
        plan = None  # reading it will say what is wrong, once its turn comes
    return [TablePart(part, plan, options) for part in cut(path, spans, number)]


def _head(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(HEAD) + file.readline()


def _planned(path: str, options: Options) -> Plan | None:
    """Return the layout of a text, None for an encoding that cannot be cut at line ends."""
    from outcode.datasets.encodings import as_utf8
    from outcode.datasets.readers.delimited import planned

    head = _head(path)
    if b"\0" in head or b"\n" not in head:
        return None
    source, _ = as_utf8(Source(Path(path).name, "", head, Limits()), options.encoding)
    return planned(source, options)


def _whole(path: str, options: Options) -> Found:
    from outcode.datasets.readers import reader_of

    source = opened(path, WHOLE)
    found = reader_of(source)(source, options)
    if found.sparse is not None:
        raise DataError(
            f"{path}: a sparse file cannot be combined with other files: give only this file."
        )
    return found


# --- a sample of all blocks ---


@dataclass(frozen=True)
class Sample:
    """Rows of all blocks as a data set, the columns of the files, and the target among them."""

    data: Dataset
    names: tuple[str, ...]
    target: str


def sample(given: Sequence[TablePart], target: str | int | None, name: str, seed: int) -> Sample:
    """Return rows of blocks spread over all of them: kinds, target, findings."""
    from outcode.datasets.reading import labelled, position
    from outcode.datasets.targets import guessed

    whole = _spread(given, np.random.RandomState(seed))
    names, columns = whole.names, whole.columns
    at = guessed(names, columns)[0] if target is None else position(target, names, name)
    data = labelled(name, whole, target, given[0].options, Limits(classes=100_000))
    return Sample(data, names, names[at])


def _spread(given: Sequence[TablePart], rng: np.random.RandomState) -> Found:
    """Return rows of at most ``SAMPLE_BLOCKS`` blocks as one table."""
    import pyarrow as pa

    at = np.unique(np.linspace(0, len(given) - 1, SAMPLE_BLOCKS).astype(int))
    first, tables = given[0].found(), []
    for part in (given[i] for i in at):
        found = part.found() if part is not given[0] else first
        same_columns(found.names, first.names, part)
        tables.append(_some_rows(found, -(-SAMPLE_ROWS // len(at)), rng))
    with given[0].explained():
        joined = pa.concat_tables(alike(tables), promote_options="permissive")
    plan = given[0].plan
    about = first.about if plan is None else plan.layout.about
    return replace(first, columns=[joined.column(name) for name in first.names], about=about)


def as_arrow(found: Found) -> Any:
    """Return what a reader found as a table of pyarrow."""
    import pyarrow as pa

    return pa.table(dict(zip(found.names, found.columns, strict=True)))


def _some_rows(found: Found, most: int, rng: np.random.RandomState) -> Any:
    table = as_arrow(found)
    if table.num_rows <= most:
        return table
    return table.take(np.sort(rng.choice(table.num_rows, most, replace=False)))


def alike(tables: list[Any]) -> list[Any]:
    """Return tables whose columns have one type each; text where the files do not agree."""
    import pyarrow as pa

    names = tables[0].column_names
    for name in names:
        kinds = {_family(table.schema.field(name).type) for table in tables}
        if len(kinds - {"null"}) > 1 or "dictionary" in kinds:
            for i, table in enumerate(tables):
                column = table.column(name).cast(pa.string())
                tables[i] = table.set_column(names.index(name), name, column)
    return [table.select(names) for table in tables]


def _family(of: Any) -> str:
    import pyarrow as pa

    if pa.types.is_integer(of) or pa.types.is_floating(of):
        return "number"
    return "dictionary" if pa.types.is_dictionary(of) else str(of)


def same_columns(names: Sequence[str], wanted: Sequence[str], part: TablePart) -> None:
    """Refuse a block whose columns are not those of the first file."""
    if missing := [name for name in wanted if name not in names]:
        raise DataError(f"{part.where}: column {missing[0]!r} is missing; the first file has it.")
    if more := [name for name in names if name not in wanted]:
        raise DataError(f"{part.where}: column {more[0]!r} is not in the first file.")


def labels(found: Found, target: str, part: TablePart) -> Array:
    """Return the class of each row as text, or an error that names the row without one."""
    from outcode.datasets.kinds import labels_of

    y = labels_of(found.columns[found.names.index(target)])
    absent = [i for i, label in enumerate(y.tolist()) if label is None]
    if absent:
        row = part.cut.first + absent[0] + 1
        raise DataError(
            f"{part.where}, row {row}: the class is missing. Fill it in or delete the row."
        )
    return y
