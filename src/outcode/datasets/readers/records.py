"""JSON: a list of records, a record per line, a list inside an object, or lists as columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from outcode.datasets.encodings import as_utf8
from outcode.datasets.readers import Found, Options, reader
from outcode.datasets.sources import Source
from outcode.datasets.table import DataError
from outcode.datasets.values import ValueColumns

_LOOKS = re.compile(rb"(?:\xef\xbb\xbf)?\s*(\[\s*)?\{\s*[\"}]")
_BETWEEN = re.compile(r"[\s,]*")


@reader(*(".json", ".jsonl", ".ndjson", ".geojson"), looks=lambda head: bool(_LOOKS.match(head)))
def records(source: Source, options: Options) -> Found:
    """Read records one at a time; a record inside a record gives columns like "place.city"."""
    source, about = as_utf8(source, options.encoding)
    text = source.data.decode().lstrip("\ufeff")
    try:
        found = _collected(_records(text), source)
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        where = text[: getattr(error, "pos", 0)].count("\n") + 1
        raise DataError(
            f"{source.name}, line {where}: this is not JSON with records, or it is cut off "
            f"({error})."
        ) from None
    if not found.n_rows:
        raise DataError(f"{source.name} holds no records: expected a list of JSON objects.")
    return Found(found.names, found.arrays(), about=about, missing="null or left out")


def _records(text: str) -> Iterator[Any]:
    """Yield the objects of a list, of lines, or of the list an object holds."""
    at = _BETWEEN.match(text).end()  # type: ignore[union-attr]  # matches the empty text
    if text[at : at + 1] == "[":
        yield from _sequence(text, at + 1, "]")
        return
    objects = _sequence(text, at, "")
    first = next(objects, None)
    second = next(objects, None)
    if second is None and isinstance(first, dict):
        yield from _inside(first)
        return
    yield from (one for one in (first, second) if one is not None)
    yield from objects


def _sequence(text: str, at: int, end: str) -> Iterator[Any]:
    decode = json.JSONDecoder().raw_decode
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # as above
        if text[at : at + 1] == end:
            return
        one, at = decode(text, at)
        yield one


def _inside(whole: dict[str, Any]) -> Iterator[Any]:
    """Yield the records of an object: of its longest list, of its columns, or itself.

    Columns are lists, or objects with a cell for each row, or as pandas splits a frame: names under
    "columns" and rows under "data". Lists of like records are joined; "list" is their name.
    """
    lists = {name: value for name, value in whole.items() if isinstance(value, list) and value}
    of_records = {name: value for name, value in lists.items() if isinstance(value[0], dict)}
    inner = [value for value in whole.values() if isinstance(value, dict)]
    if {"columns", "data"} <= set(lists):
        yield from _named(lists["columns"], lists["data"])
    elif len(of_records) == len(whole) > 1 and len({*map(_keys, of_records.values())}) == 1:
        yield from ({**one, "list": name} for name in of_records for one in of_records[name])
    elif of_records:
        yield from max(of_records.values(), key=len)
    elif len(lists) == len(whole) > 0 and len({len(value) for value in lists.values()}) == 1:
        yield from _named(list(lists), zip(*lists.values(), strict=True))
    elif len(whole) > 1 and len(inner) == len(whole):
        yield from _crossed(whole)
    elif len(inner) == 1 and any(isinstance(value, list | dict) for value in inner[0].values()):
        yield from _inside(inner[0])
    else:
        yield whole


def _keys(records: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(records[0])


def _named(names: list[str], rows: Iterable[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    return (dict(zip(map(str, names), row, strict=False)) for row in rows)


def _crossed(whole: dict[str, dict[str, Any]]) -> Iterator[Any]:
    """Yield the rows of an object of objects: the longer side are the rows."""
    longest = max(whole.values(), key=len)
    if len(whole) >= len(longest):
        yield from whole.values()
    else:
        yield from ({name: whole[name].get(row) for name in whole} for row in longest)


def _collected(found: Iterator[Any], source: Source) -> ValueColumns:
    columns = ValueColumns(source)
    names: list[str] = []
    for number, record in enumerate(found, 1):
        if isinstance(record, dict):
            columns.add(dict(_flat(record, "", 0)))
        elif isinstance(record, list) and number == 1 and _are_names(record):
            names = record
        elif isinstance(record, list):
            names = names or [f"c{j + 1}" for j in range(len(record))]
            columns.add({name: _plain(value) for name, value in zip(names, record, strict=False)})
        else:
            raise DataError(
                f"{source.name}, record {number}: expected an object or a list of cells, found "
                f"{str(record)[:40]!r}."
            )
    return columns


def _are_names(record: list[Any]) -> bool:
    return len({cell for cell in record if isinstance(cell, str) and cell}) == len(record) > 0


def _flat(record: dict[str, Any], before: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict) and depth < 3:
            yield from _flat(value, f"{before}{name}.", depth + 1)
        else:
            yield before + name, _plain(value)


def _plain(value: Any) -> Any:
    """Return a value as one cell: a list is its values with commas between them."""
    if isinstance(value, list):
        return ", ".join(str(_plain(one)) for one in value)
    return json.dumps(value) if isinstance(value, dict) else value
