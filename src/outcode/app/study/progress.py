"""How far a study is, and how it ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from outcode import notebooks, results
from outcode.results import Standing
from outcode.words import duration

#: Records with these states count as failures in the exit code.
FAILURES = "failed", "timeout", "memory", "crashed"
#: What the leaderboard needs of a record.
KEPT = "key", "dataset", "method", "status", "reason", "metrics"


@dataclass(frozen=True)
class Progress:
    """What is known while a study runs.

    Parameters
    ----------
    done : int
        Number of cells with a record.
    total : int
        Number of cells.
    left : float or None
        Time left in seconds. None while it is not known.
    leaderboard : tuple of Standing
        The methods, the best first.
    """

    done: int
    total: int
    left: float | None
    leaderboard: tuple[Standing, ...]

    @property
    def best(self) -> Standing | None:
        """The leading method."""
        return next((s for s in self.leaderboard if s.finished), None)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Parameters
    ----------
    counts : mapping of str to int
        Number of records by status.
    remaining : int
        Number of cells without a record.
    done_now : int
        Number of cells done in this run; the others were there before.
    seconds : float
        Time of the run.
    interrupted : bool, default=False
        Whether the user stopped the run.
    out_of_time : bool, default=False
        Whether the time limit stopped the run.
    """

    counts: Mapping[str, int]
    remaining: int
    done_now: int
    seconds: float
    interrupted: bool = False
    out_of_time: bool = False

    @property
    def sentence(self) -> str:
        """What a person should know, "" if all cells are as they should be."""
        parts = []
        if self.remaining:
            why = "Interrupted" if self.interrupted else "The time is up"
            total = self.remaining + sum(self.counts.values())
            parts.append(
                f"{why}: {total - self.remaining} of {total} runs are finished. Run the same "
                f"command again to go on from here."
            )
        other = [f"{n} {status}" for status, n in self.counts.items() if status != "ok" and n]
        if other:
            parts.append(f"Runs without a result: {', '.join(other)}; the report says why.")
        return " ".join(parts)

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {f"runs {status}": n for status, n in self.counts.items()}
        facts |= {"runs without a record": self.remaining, "time": duration(self.seconds)}
        return notebooks.card("Outcome of a study", {**facts, "note": self.sentence or "complete"})

    @property
    def exit_code(self) -> int:
        """0, 4 if some cells failed, 5 if none is ok, 130 if someone stopped the run."""
        if self.interrupted:
            return 130
        if not self.counts.get("ok", 0):
            return 5
        return 4 if any(self.counts.get(status, 0) for status in FAILURES) else 0


class Tally:
    """Counts records as they come."""

    def __init__(self, total: int, measure: str, workers: int) -> None:
        self.total, self.measure, self.workers = total, measure, workers
        self.counts: Counter[str] = Counter()
        self.records: list[dict[str, Any]] = []
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self.begin, self.done_now = time.monotonic(), 0

    def known(self, records: Iterable[dict[str, Any]]) -> None:
        """Count records of earlier runs."""
        for record in records:
            self._count(record)

    def add(self, record: dict[str, Any]) -> None:
        """Count a new record."""
        self.done_now += 1
        self._count(record)

    def _count(self, record: dict[str, Any]) -> None:
        self.counts[record["status"]] += 1
        self.records.append({key: record[key] for key in KEPT})
        place = record["dataset"], record["method"]
        self.seconds.setdefault(place, []).append(record["seconds"])

    def view(self, waiting: Iterable[tuple[str, str]]) -> Progress:
        """Return the progress, given (data set, method) of the cells still to do."""
        board = tuple(results.leaderboard(self.records, measure=self.measure))
        return Progress(sum(self.counts.values()), self.total, self._left(waiting), board)

    def _left(self, waiting: Iterable[tuple[str, str]]) -> float | None:
        """Return the seconds left: each cell takes as long as its method did on that data set."""
        spent = [second for seconds in self.seconds.values() for second in seconds]
        if not spent:
            return None
        usual = sum(spent) / len(spent)
        known = {place: sum(seconds) / len(seconds) for place, seconds in self.seconds.items()}
        return sum(known.get(place, usual) for place in waiting) / self.workers

    def outcome(self, *, interrupted: bool, out_of_time: bool) -> Outcome:
        """Return how it ended."""
        return Outcome(
            dict(self.counts),
            self.total - sum(self.counts.values()),
            self.done_now,
            time.monotonic() - self.begin,
            interrupted,
            out_of_time,
        )
