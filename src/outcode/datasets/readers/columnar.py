"""Parquet and Feather (Arrow IPC) files, by pyarrow; sizes are checked before data is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import feather as arrow_feather
from pyarrow import ipc
from pyarrow import parquet as arrow_parquet

from outcode.datasets.columns import listed
from outcode.datasets.readers import Found, Options, reader
from outcode.datasets.sources import Source
from outcode.datasets.table import DataError, Finding


@reader(".parquet", ".pq", looks=lambda head: head.startswith(b"PAR1"), binary=True)
def parquet(source: Source, options: Options) -> Found:
    """Read a Parquet file of flat columns."""
    with (
        _said_damaged(source, "Parquet"),
        arrow_parquet.ParquetFile(pa.BufferReader(source.data)) as file,
    ):
        about, names = file.metadata, file.schema_arrow.names
        source.limits.table(about.num_rows, len(names), source.name)
        groups = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
        source.limits.check("bytes", sum(groups), source.name)
        flat = _flat(file.schema_arrow)
        return _found(file.read(columns=flat), source, file.schema_arrow)


@reader(
    *(".feather", ".arrow", ".ipc"),
    looks=lambda head: head.startswith((b"ARROW1", b"FEA1")),
    binary=True,
)
def feather(source: Source, options: Options) -> Found:
    """Read a Feather file of flat columns, a batch of rows at a time."""
    with _said_damaged(source, "Feather"):
        if source.data.startswith(b"FEA1"):
            table = arrow_feather.read_table(pa.BufferReader(source.data))
            return _found(table, source, table.schema)
        file = ipc.open_file(pa.BufferReader(source.data))
        batches: list[Any] = []
        rows = size = 0
        for i in range(file.num_record_batches):
            batches.append(file.get_batch(i))
            rows, size = rows + batches[-1].num_rows, size + batches[-1].nbytes
            source.limits.table(rows, len(file.schema.names), source.name)
            source.limits.check("bytes", size, source.name)
        whole = pa.Table.from_batches(batches, file.schema)
        return _found(whole.select(_flat(file.schema)), source, file.schema)


@contextmanager
def _said_damaged(source: Source, kind: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, NotImplementedError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise DataError(f"{source.name} is not a {kind} file, or is damaged: {reason}.") from None


def _flat(schema: Any) -> list[str]:
    """Return the names of the columns of single numbers and texts."""
    return [field.name for field in schema if not _nested(field.type)]


def _nested(of: Any) -> bool:
    parts = of.num_fields and not pa.types.is_dictionary(of)
    return bool(parts or "binary" in str(of) or "extension" in str(of))


def _found(table: Any, source: Source, schema: Any) -> Found:
    if not table.num_rows or not table.num_columns:
        raise DataError(f"{source.name} holds no rows of single numbers and texts.")
    source.limits.table(table.num_rows, table.num_columns, source.name)
    table.validate(full=True)  # text that is no UTF-8, places beyond a list of categories
    names, kept = tuple(map(str, table.column_names)), set(table.column_names)
    out = tuple(name for name in schema.names if name not in kept)
    message = f"Left out, the cells are lists, records or bytes: {listed(out)}."
    findings = (Finding("OD017", message, out),) if out else ()
    return Found(names, list(table.columns), missing="null", findings=findings)
