"""The file itself: a safetensors container, our JSON document in it, a checksum over every byte."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from outcode._checks import Array
from outcode.gram import free_memory
from outcode.saved import ModelError

#: What this version writes, and the only one it reads.
SCHEMA = 1
#: Bytes of the JSON header: labels, names and parameters live there, numbers do not. A longer one,
#: as of a table with many columns, stays below half of the bytes of the numbers, and the larger
#: limit: what reading it takes is bounded by what a file really holds.
HEADER_LIMIT, LARGE_HEADER_LIMIT = 2**20, 32 * 2**20
#: Where the checksum stands, escaped once as it is inside a JSON string. No label can hold these
#: bytes: its own quotes are escaped twice.
MARK = re.compile(rb'\\"sha256\\":\\"([0-9a-f]{64})\\"')
BLANK = "0" * 64
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I8": np.dtype(np.int8),
    "U8": np.dtype(np.uint8),
}


def to_bytes(document: dict[str, Any], tensors: dict[str, Array]) -> bytes:
    """Return the file: the document in the container's metadata, the checksum filled in."""
    text = json.dumps({**document, "sha256": BLANK}, allow_nan=False, separators=(",", ":"))
    raw: bytes = _safetensors().numpy.save(tensors, {"outcode": text})
    place = MARK.search(raw)
    length = struct.unpack("<Q", raw[:8])[0]
    if place is None or length > _header_limit(len(raw) - length):
        raise ModelError(
            f"The labels, names and parameters of this model take {length:,} bytes of text: a "
            f"model file holds {_header_limit(len(raw) - length):,} beside these numbers. Use "
            f"shorter labels and names of columns."
        )
    start, stop = place.span(1)
    return raw[:start] + hashlib.sha256(raw).hexdigest().encode() + raw[stop:]


def _header_limit(rest: int) -> int:
    """Return the most bytes of a header, beside ``rest`` bytes of numbers."""
    return max(HEADER_LIMIT, min(LARGE_HEADER_LIMIT, rest // 2))


def write(raw: bytes, path: Any) -> None:
    """Write a file whole or not at all: beside the target first, then in its place."""
    target = Path(os.path.realpath(path))
    beside = target.parent / f".outcode-{secrets.token_hex(8)}"
    try:
        if target.is_dir():
            raise ModelError(f"Cannot write {str(path)!r}: it is a folder. Give a file name.")
        if target.exists() and not target.is_file():
            raise ModelError(f"Cannot write {str(path)!r}: it is not a regular file. Give another.")
        with open(beside, "xb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as fault:
        raise ModelError(f"Cannot write {str(path)!r}: {fault.strerror}.") from None
    finally:
        with suppress(OSError):
            beside.unlink()


def read(path: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the document and the tensors of a file, or say what is wrong with it."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            raw, stop = _whole(file, str(path))
    except OSError as fault:
        raise ModelError(f"Cannot read {str(path)!r}: {fault.strerror}.") from None
    return from_bytes(raw, stop, str(path))


def from_bytes(raw: bytes, stop: int, name: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the document and the tensors of a file whose header ends at byte ``stop``."""
    document = _document(raw[8:stop], name)
    _check_sum(raw, stop, name)
    _check_schema(document, name)
    try:
        found = _safetensors().deserialize(raw)
    except _safetensors().SafetensorError as fault:
        raise ModelError(f"{name!r} is damaged: {fault}.") from None
    return document, {key: _array(key, item, name) for key, item in found}


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe must not hang us


def _whole(file: BinaryIO, name: str) -> tuple[bytes, int]:
    """Return the bytes of a file and where its header ends, sizes checked before reading on."""
    about = os.fstat(file.fileno())
    if not stat.S_ISREG(about.st_mode):
        raise ModelError(f"Cannot read {name!r}: it is not a file.")
    start = file.read(9)
    if len(start) < 9 or start[8:] != b"{":
        raise ModelError(f"{name!r} is not an outcode model{_guess(start)}.")
    length = struct.unpack("<Q", start[:8])[0]
    if length > LARGE_HEADER_LIMIT:
        raise ModelError(f"{name!r} is not an outcode model{_guess(start)}.")
    if 8 + length > about.st_size:
        raise ModelError(f"{name!r} is cut short: its header is longer than the file.")
    if length > _header_limit(about.st_size - length):
        raise ModelError(
            f"{name!r} is not an outcode model: its header takes {length:,} bytes, more than "
            f"{_header_limit(about.st_size - length):,}."
        )
    if about.st_size > free_memory():
        raise ModelError(f"{name!r} takes {about.st_size:,} bytes, more than the memory there is.")
    return start + file.read(about.st_size - 9), 8 + length


def _guess(start: bytes) -> str:
    if not start:
        return ": the file is empty"
    if start[:1] == b"\x80":
        return ": it looks like a pickle, which is never read because it could run any code"
    return ": it does not begin like one"


def _document(header: bytes, name: str) -> dict[str, Any]:
    outer = _json(header, name)
    metadata = outer.get("__metadata__") if isinstance(outer, dict) else None
    text = metadata.get("outcode") if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ModelError(f"{name!r} is a safetensors file, but not an outcode model.")
    document = _json(text, name)
    if not isinstance(document, dict):
        raise ModelError(f"{name!r} is damaged: its description is not a JSON object.")
    return document


def _json(text: str | bytes, name: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except (ValueError, RecursionError) as fault:
        raise ModelError(f"{name!r} is damaged: its header cannot be read ({fault}).") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a number")


def _check_sum(raw: bytes, stop: int, name: str) -> None:
    places = list(MARK.finditer(raw, 8, stop))
    if len(places) != 1:
        raise ModelError(f"{name!r} is damaged: its checksum is missing.")
    start, end = places[0].span(1)
    view = memoryview(raw)
    digest = hashlib.sha256(view[:start])
    digest.update(BLANK.encode())
    digest.update(view[end:])
    if digest.hexdigest().encode() != raw[start:end]:
        raise ModelError(
            f"{name!r} was altered or is cut short: its checksum does not match. Get the file "
            f"again, or save the model again."
        )


def _check_schema(document: dict[str, Any], name: str) -> None:
    schema, version = document.get("schema"), str(document.get("outcode"))[:40]
    if isinstance(schema, bool) or schema != SCHEMA:
        raise ModelError(
            f"{name!r} has schema {str(schema)[:40]}, written by outcode {version}; this version "
            f"reads schema {SCHEMA}: use outcode {version} or a newer one."
        )


def _array(key: str, item: dict[str, Any], name: str) -> Array:
    if item["dtype"] not in DTYPES:
        raise ModelError(f"{name!r}: {key} has the unknown type {item['dtype']}.")
    numbers: Array = np.frombuffer(item["data"], DTYPES[item["dtype"]])
    return numbers.reshape(item["shape"]).copy()  # in memory as aligned as any other array


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ModelError(
            'Model files need the package safetensors: pip install "outcode[app]".'
        ) from None
    return safetensors
