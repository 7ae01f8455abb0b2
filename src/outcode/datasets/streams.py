"""Delimited text from a stream, block by block: memory does not grow with the rows."""

from __future__ import annotations

import select
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, cast

from outcode.datasets.sources import STDIN, Limits, Source, is_packed
from outcode.datasets.table import DataError, Table

if TYPE_CHECKING:
    from outcode.datasets.readers import Options
    from outcode.datasets.readers.delimited import Plan

#: Bytes in which the layout is looked for, and bytes read at a time after them.
HEAD, BLOCK = 2**16, 2**21
#: Rows and seconds of silence after which a slow stream is answered before the head is full.
FEW, SILENCE = 20, 0.5
#: A row, with line ends in quotes, may have no more bytes.
LONGEST = 2**25


def tables(stream: IO[bytes], numbers: Collection[str] = (), **options: Any) -> Iterator[Table]:
    """Yield the rows of a stream as tables, whose cells a fitted encoder reads.

    A stream that ends within its first bytes, or is no plain delimited text, is one table; else
    there is one for what can be read at a time.
    """
    from outcode.datasets.readers import Options, reader_of
    from outcode.datasets.readers.delimited import delimited
    from outcode.datasets.reading import read_unlabelled

    chosen, (head, ended) = Options(**options), _head(stream)
    source = Source(STDIN, "", head, Limits())
    text = not ended and b"\0" not in head and not is_packed(head)
    if text and reader_of(source) is delimited:
        yield from _blocks(stream, head, chosen, numbers)
    else:
        yield read_unlabelled(cast(IO[bytes], _Again(head, stream)), **options)


class _Again:
    """A stream with its first bytes put back."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self.head, self.stream = head, stream

    def read(self, most: int = -1) -> bytes:
        """Return the first bytes, then what follows."""
        head, self.head = self.head, b""
        return head or self.stream.read(most)


def _head(stream: IO[bytes]) -> tuple[bytes, bool]:
    """Return the first bytes, and whether they are all."""
    data = b""
    while len(data) < HEAD:
        if data.count(b"\n") > FEW and _silent(stream):
            return data, False
        more = _read(stream, HEAD)
        if not more:
            return data, True
        data += more
    return data, False


def _read(stream: Any, most: int) -> bytes:
    """Return what there is, at least a byte, or nothing at the end."""
    return bytes(stream.read1(most) if hasattr(stream, "read1") else stream.read(most))


def _silent(stream: Any) -> bool:
    """Return whether nothing comes for a while; False where that cannot be asked."""
    try:
        return not select.select([stream], [], [], SILENCE)[0]
    except (OSError, ValueError, TypeError):
        return False


def _blocks(
    stream: IO[bytes], head: bytes, options: Options, numbers: Collection[str]
) -> Iterator[Table]:
    from outcode.datasets.encodings import as_utf8
    from outcode.datasets.readers.delimited import planned

    source, _ = as_utf8(
        Source(STDIN, "", head[: head.rfind(b"\n") + 1], Limits()), options.encoding
    )
    plan = planned(source, options)
    left, rows = head[plan.start(head) :].removeprefix(b"\xef\xbb\xbf"), 0
    more = left
    while more:
        end = _last_row(left)
        if end:
            table = _table(left[:end], plan, options, numbers, rows)
            rows += 0 if table is None else table.n_rows
            yield from () if table is None else (table,)
        left = left[end:]
        if len(left) > LONGEST:
            raise DataError(f"{STDIN}, row {rows + 1}: a quote is not closed, or a row has no end.")
        more = _read(stream, BLOCK)
        left += more
    table = _table(left, plan, options, numbers, rows)
    yield from () if table is None else (table,)


def _last_row(data: bytes) -> int:
    """Return the place after the last line end that no quotes enclose, 0 if there is none."""
    at = data.rfind(b"\n") + 1
    while at and data.count(b'"', 0, at) % 2:
        at = data.rfind(b"\n", 0, at - 1) + 1
    return at


def _table(
    data: bytes, plan: Plan, options: Options, numbers: Collection[str], before: int
) -> Table | None:
    from outcode.datasets.kinds import as_text

    if not data.strip():
        return None
    where = f"{STDIN}, after row {before}" if before else STDIN
    found = plan.strictly(data, where, options.encoding, numbers)
    return replace(as_text(found, STDIN), source=where)
