"""A worker process: reads cells from its standard input, writes records to its standard output.

A message is its length (8 bytes) and a pickle. When the input ends, because the parent closed it or
is no more, the process ends at once, also in the middle of a fit.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import sys
import threading
from typing import IO, Any

LENGTH = struct.Struct(">Q")

#: What the interpreter of a worker is started with; its argument is the parent's sys.path.
START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from outcode.app.study.worker import main; main()"
)


def send(stream: IO[bytes], payload: bytes) -> None:
    """Write one message."""
    stream.write(LENGTH.pack(len(payload)) + payload)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one message, None at the end of the stream, even within a message."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    size = LENGTH.unpack(head)[0]
    payload = stream.read(size)
    return payload if len(payload) == size else None


def main() -> None:
    """Do cells until the input ends."""
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a method prints must not run into the records
    threading.Thread(target=_listen, args=(sys.stdin.buffer, inbox), daemon=True).start()
    import outcode.app.study.cell  # noqa: F401  warm before the first cell's clock runs

    send(results, pickle.dumps("ready"))
    data: dict[str, Any] = {}
    while True:
        send(results, pickle.dumps(_answer(inbox.get(), data)))


def _listen(stream: IO[bytes], inbox: queue.SimpleQueue[bytes]) -> None:
    while (message := receive(stream)) is not None:
        inbox.put(message)
    os._exit(0)


def _answer(message: bytes, data: dict[str, Any]) -> dict[str, Any] | str:
    """Return the record of a cell, or why it could not be read."""
    from outcode.app.study.cell import run_cell, sentence

    try:
        cell, rows = pickle.loads(message)
    except Exception as error:
        return f"A worker process cannot read the method ({sentence(error)})."
    if rows is not None:
        data[cell.dataset] = rows
    return run_cell(cell, data[cell.dataset])
