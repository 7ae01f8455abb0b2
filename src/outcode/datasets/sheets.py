"""A program of its own: a workbook on standard input becomes one sheet as CSV on standard output.

Its parser cannot be told how much memory it may take, and ends the process where there is not
enough: so it runs in a process with limits. The first line of the output is JSON: the sheet's name
and all names, or an error.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from typing import Any

import python_calamine as calamine


def limited(megabytes: int, seconds: int) -> None:
    """Take no more than this, where the system can hold us to it."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the parser aborts where there is no memory
    resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds,) * 2)


def chosen(book: Any, sheet: str) -> tuple[str, Any] | None:
    """Return the sheet of this name or position, for "" the first that holds a table."""
    names = book.sheet_names
    if not sheet:
        found = ((name, book.get_sheet_by_name(name)) for name in names)
        filled = [pair for pair in found if pair[1].height > 1]
        tables = [pair for pair in filled if pair[1].width > 1]
        return next(iter(tables or filled), None)
    if sheet not in names and sheet.isdecimal() and int(sheet) < len(names):
        sheet = names[int(sheet)]
    return (sheet, book.get_sheet_by_name(sheet)) if sheet in names else None


def cell(value: Any) -> str:
    """Return a cell as text: whole numbers without a point, dates as ISO has them."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if hasattr(value, "total_seconds"):
        return str(value.total_seconds())
    return value.isoformat(" ") if hasattr(value, "hour") and hasattr(value, "year") else str(value)


def main(megabytes: str, seconds: str, sheet: str = "") -> None:
    """Write the sheet."""
    limited(int(megabytes), int(seconds))
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(sys.stdin.buffer.read()))
        found = chosen(book, sheet)
        rows = found[1].to_python(skip_empty_area=True) if found else []
    except (calamine.CalamineError, OSError, ValueError, MemoryError) as error:
        out.write(json.dumps({"error": str(error) or type(error).__name__}) + "\n")
    else:
        out.write(json.dumps({"sheet": found and found[0], "names": book.sheet_names}) + "\n")
        writer, title = csv.writer(out), True
        for row in rows:
            cells = [cell(value) for value in row]
            filled = [text for text in cells if text]
            title = title and len(filled) < 2 < len(cells)
            if filled:
                writer.writerow(filled if title else cells)
    out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
