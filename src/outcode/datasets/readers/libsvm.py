"""LIBSVM files: ``label index:value index:value ...``, what is not written is 0."""

from __future__ import annotations

import io
import re
from array import array
from math import isfinite

import numpy as np
from scipy import sparse as sp

from outcode.datasets.cells import objects
from outcode.datasets.encodings import as_utf8
from outcode.datasets.readers import Found, Options, reader
from outcode.datasets.sources import Source
from outcode.datasets.table import DataError

# one way to match each text, so that a hostile file costs no time
_LOOKS = re.compile(
    rb"(?:#[^\n]*\n)*[^\s:,;#]+(?:[ \t]+(?:\d+|qid):[^\s:,]+)+[ \t]*(?:#[^\n]*)?(?:[\r\n]|$)"
)


@reader(
    *(".libsvm", ".svm", ".svmlight", ".scale", ".t"), looks=lambda head: bool(_LOOKS.match(head))
)
def libsvm(source: Source, options: Options) -> Found:
    """Read the sparse matrix and the labels as text; a line without a label has the label None.

    Only features that occur get a column (f1, f7, ...): memory follows the file's size, whatever
    its largest index.
    """
    source, about = as_utf8(source, options.encoding)
    indices, values, ends, labels = array("q"), array("d"), array("q", [0]), []
    known: dict[str, str] = {}
    queries = 0
    for number, line in enumerate(io.TextIOWrapper(io.BytesIO(source.data), "utf-8-sig"), 1):
        entries = line.partition("#")[0].split()
        if not entries:
            continue
        label = None if ":" in entries[0] else entries.pop(0).removeprefix("+")
        labels.append(None if label is None else known.setdefault(label, label))
        if entries and entries[0].startswith("qid:"):
            queries += 1
            del entries[0]
        _parse(entries, indices, values, f"{source.name}, line {number}")
        ends.append(len(values))
        source.limits.check("cells", len(values), source.name)
        source.limits.check("rows", len(labels), source.name)
    if not values:
        raise DataError(f"{source.name} holds no 'index:value' entry: it is empty, or not LIBSVM.")
    present, columns = np.unique(np.frombuffer(indices, np.int64), return_inverse=True)
    source.limits.check("sparse_columns", len(present), source.name)
    parts = (np.frombuffer(values), columns.ravel(), np.frombuffer(ends, np.int64))
    block = sp.csr_matrix(parts, shape=(len(labels), len(present)))
    said = (f"The query numbers (qid) of {queries} rows are not used.",) if queries else ()
    names = tuple(f"f{j}" for j in present.tolist())
    return Found(names, [], about=(*about, *said), sparse=block, labels=objects(labels))


def _parse(entries: list[str], indices: array[int], values: array[float], where: str) -> None:
    """Add the entries of one line."""
    last = -1
    for entry in entries:
        index, colon, value = entry.partition(":")
        try:
            place, number = int(index), float(value)
        except ValueError:
            place, number, colon = 0, 0.0, ""
        if not colon or "_" in entry or not isfinite(number):
            raise DataError(
                f"{where}: expected 'index:value' with finite numbers, got {entry[:40]!r}."
            )
        if not 0 <= place < 2**53:
            raise DataError(
                f"{where}: index {index[:20]}, but indices start at 0 or 1 and stay below 2^53."
            )
        if place <= last:
            raise DataError(
                f"{where}: index {place} follows {last}: they must increase along a line."
            )
        last = place
        indices.append(place)
        values.append(number)
