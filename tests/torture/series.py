"""Numbered cases in chunks; what each chunk found is appended to a file of JSON lines."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Part:
    """A series of cases.

    ``case(number, folder)`` returns what went wrong, an empty list if nothing did; ``chunk`` cases
    are written down together, ``cases`` is how many there are in a whole run.
    """

    name: str
    case: Callable[[int, Path], list[str]]
    cases: int
    chunk: int = 1

    def run(self, number: int) -> dict:
        """Run one chunk and return its record."""
        begin, wrong = time.perf_counter(), []
        with tempfile.TemporaryDirectory() as folder:
            for i in range(number * self.chunk, (number + 1) * self.chunk):
                wrong += [f"{self.name} {i}: {fault}" for fault in self.case(i, Path(folder))]
        seconds = round(time.perf_counter() - begin, 3)
        return {"part": self.name, "chunk": number, "tried": self.chunk, "wrong": wrong} | {
            "seconds": seconds
        }


def records(path: Path) -> list[dict]:
    """Return what was written so far; a last line that was cut off does not count."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def go_on(part: Part, path: Path, until: float, share: float = 1.0) -> None:
    """Run the chunks that have no record yet, until the time or the cases are used up."""
    done = {record["chunk"] for record in records(path) if record["part"] == part.name}
    for number in range(max(1, round(part.cases * share / part.chunk))):
        if time.monotonic() > until:
            return
        if number not in done:
            with path.open("a") as out:
                out.write(json.dumps(part.run(number)) + "\n")


def table(path: Path) -> str:
    """Return the counts of each part as a Markdown table, and every failure under it."""
    found: dict[str, list[dict]] = {}
    for record in records(path):
        found.setdefault(record["part"], []).append(record)
    rows = ["| part | tried | failed | seconds |", "| --- | --- | --- | --- |"]
    for name, chunks in found.items():
        tried, seconds = (sum(chunk[key] for chunk in chunks) for key in ("tried", "seconds"))
        failed = sum(len(chunk["wrong"]) for chunk in chunks)
        rows.append(f"| {name} | {tried:,} | {failed} | {seconds:.0f} |")
    faults = [fault for chunks in found.values() for chunk in chunks for fault in chunk["wrong"]]
    return "\n".join([*rows, "", *(f"- {fault}" for fault in faults[:50])])
