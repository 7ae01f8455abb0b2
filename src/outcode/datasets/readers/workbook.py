"""Workbooks (.xlsx, .xlsb, .xls, .ods), by python-calamine: one sheet is a table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from outcode.datasets import sources
from outcode.datasets.columns import listed
from outcode.datasets.readers import Found, Options, reader
from outcode.datasets.readers.delimited import delimited
from outcode.datasets.sources import Source
from outcode.datasets.table import DataError, unknown

SHEETS = Path(sources.__file__).with_name("sheets.py")
#: Memory of the parser in MiB, and for every byte of the workbook; its seconds.
MEMORY, PER_BYTE, SECONDS = 512, 100, 120


@reader(
    *(".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
    looks=lambda head: head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")),
    binary=True,
)
def workbook(source: Source, options: Options) -> Found:
    """Read a sheet: the first that holds rows, or the one asked for."""
    sheet = "" if options.sheet is None else str(options.sheet)
    about, rows = _converted(source, sheet)
    if "error" in about:
        raise DataError(
            f"{source.name} is not a workbook, or is damaged or cut off: {about['error']}."
        )
    if sheet and about["sheet"] is None:
        raise unknown(sheet, tuple(about["names"]), "sheet", source.name)
    if not rows.strip():
        raise DataError(f"{source.name}: the sheets hold no rows.")
    found = delimited(replace(source, data=rows), replace(options, encoding=None, delimiter=","))
    others = [name for name in about["names"] if name != about["sheet"]]
    more = f" The others are {listed(others)}." if others else ""
    said = (f"The sheet is {about['sheet']!r}.{more}", *found.about[1:])  # of no delimiter
    return replace(found, about=said, missing="empty")


def _converted(source: Source, sheet: str) -> tuple[dict[str, Any], bytes]:
    """Return what a process of its own, within limits, makes of the workbook."""
    memory = MEMORY + PER_BYTE * len(source.data) // 2**20
    program = [sys.executable, "-I", str(SHEETS), str(memory), str(SECONDS), sheet]
    quiet = os.environ | {"RUST_BACKTRACE": "0"}  # the parser's last words took most of its time
    try:
        done = subprocess.run(
            program, input=source.data, capture_output=True, timeout=2 * SECONDS, check=False,
            env=quiet,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _too_large(source) from None
    head, _, rows = done.stdout.partition(b"\n")
    if done.returncode or not head:
        raise _too_large(source)
    source.limits.check("bytes", len(rows), source.name)
    about: dict[str, Any] = json.loads(head)
    return about, rows


def _too_large(source: Source) -> DataError:
    return DataError(
        f"{source.name}: the workbook is damaged, or a sheet reaches far beyond its table and "
        "takes too much memory or time: delete what is far out, or save the sheet as CSV."
    )
