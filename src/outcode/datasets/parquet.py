"""Parquet files, through pyarrow where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.datasets.cells import objects, text_of
from outcode.datasets.files import Limits
from outcode.datasets.frames import table_of
from outcode.datasets.table import DataError, Table, distinct


def table(path: Path, limits: Limits) -> Table:
    """Return a Parquet file of flat columns as a table; what is no number is text."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise DataError(
            f"{path.name}: Parquet files need the package pyarrow: pip install pyarrow, or save "
            "the table as CSV."
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            return _read(file, path.name, limits)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path.name} is no Parquet file, or is damaged: {reason}.") from None


def _read(file: Any, name: str, limits: Limits) -> Table:
    about, schema = file.metadata, file.schema_arrow
    limits.check("rows", about.num_rows, name)
    limits.check("columns", len(schema.names), name)
    limits.check("cells", about.num_rows * len(schema.names), name)
    groups = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
    limits.check("bytes", sum(groups), name)
    distinct(tuple(schema.names), name)
    if not about.num_rows or not schema.names:
        raise DataError(f"{name} holds no rows.")
    nested = [field.name for field in schema if field.type.num_fields and not _listed(field.type)]
    nested += [field.name for field in schema if _binary(field.type)]
    if nested:
        raise DataError(
            f"{name}: column {nested[0]!r} holds no single numbers or texts: leave it out."
        )
    columns = tuple(_column(file.read(columns=[column])) for column in schema.names)
    return table_of(schema.names, columns, name)


def _listed(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_dictionary(kind))


def _binary(kind: Any) -> bool:
    import pyarrow as pa

    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(check(kind) for check in kinds)


def _column(read: Any) -> Array:
    import pyarrow as pa

    column = read.column(0)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = column.cast(pa.float64(), safe=False)
        return np.asarray(numbers.to_numpy(), dtype=np.float64)
    if not pa.types.is_dictionary(kind):
        column = column.dictionary_encode()
    # each text once, however many rows repeat it
    return np.concatenate([_texts(chunk) for chunk in column.chunks])


def _texts(chunk: Any) -> Array:
    words = objects([text_of(value) for value in chunk.dictionary.to_pylist()] + [None])
    places = chunk.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)
    return words[places]
