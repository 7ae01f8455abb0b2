"""The results store: one SQLite file, one row per finished cell.

A row is written in one transaction when its cell is finished, never before, and a finished cell is
never overwritten: whatever is killed and whenever, the file holds whole cells, each once.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outcode import notebooks, results
from outcode.metrics import METRICS
from outcode.words import WRITERS

#: The layout of the file and of the records; part of every cell's key.
SCHEMA = 1
#: What the file's header says it is: "OCST" in ASCII.
APPLICATION = 0x4F435354
#: Seconds to wait for another process that is writing.
PATIENCE = 30.0
#: States after which another run may do better; the others stand.
RETRIED = "crashed", "timeout", "memory"

TABLES = """
CREATE TABLE IF NOT EXISTS cells (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL,
    record TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    meta TEXT NOT NULL,
    keys TEXT NOT NULL
);
"""

PUT = f"""
INSERT INTO cells (key, status, record) VALUES (:key, :status, :record)
ON CONFLICT (key) DO UPDATE SET status = excluded.status, record = excluded.record
WHERE cells.status IN {RETRIED}
"""


class StoreError(ValueError):
    """The file is not a store, has another version, or cannot be used now.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "notes.txt")
    ...     _ = path.write_text("This is not a store. " * 100)
    ...     try:
    ...         Store(path)
    ...     except StoreError as error:
    ...         print("notes.txt" in str(error))
    True
    """


class Store:
    """The database file of finished cells.

    Parameters
    ----------
    path : str or path-like
        Where the file is, or will be.
    meta : dict, default=None
        The meta dict of the study whose records will come, if known.

    Examples
    --------
    >>> store = Store(":memory:")
    >>> store.put({"key": "a", "status": "ok", "dataset": "wine"})
    >>> store.put({"key": "a", "status": "failed", "dataset": "wine"})
    >>> [record["status"] for record in store.records()]
    ['ok']
    >>> store.close()
    """

    def __init__(self, path: str | os.PathLike[str], meta: dict[str, Any] | None = None) -> None:
        self.path, self.given = Path(path), meta
        with self._explained():
            self.connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
            try:
                self._open_patiently()
            except BaseException:
                self.connection.close()
                raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def put(self, record: dict[str, Any]) -> None:
        """Write a finished cell; one that is there already stays, unless it may be retried."""
        row = {"key": record["key"], "status": record["status"], "record": _text(record)}
        with self._explained():
            self.connection.execute(PUT, row)

    def records(self, keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return the records of these cells, in their order, as far as they are finished.

        Without ``keys``: those of the study described last, or all if none was described.
        """
        with self._explained():
            if keys is None:
                described = self.connection.execute("SELECT keys FROM meta").fetchone()
                rows = self.connection.execute("SELECT key FROM cells ORDER BY number")
                keys = [key for (key,) in rows] if described is None else json.loads(described[0])
            found = [self._record(key) for key in keys]
        return [record for record in found if record is not None]

    def _record(self, key: str) -> dict[str, Any] | None:
        query = "SELECT record FROM cells WHERE key = ?"
        row = self.connection.execute(query, [key]).fetchone()
        return None if row is None else json.loads(row[0])

    def finished_keys(self) -> set[str]:
        """Return the keys of all cells with a record, but those whose worker crashed."""
        with self._explained():
            rows = self.connection.execute("SELECT key FROM cells WHERE status != 'crashed'")
            return {key for (key,) in rows}

    def retried_keys(
        self, cell_timeout: float | None = None, memory_limit: float | None = None
    ) -> set[str]:
        """Return the keys of cells worth another try: crashed, or stopped by a lower limit."""
        most = {"crashed": None, "timeout": cell_timeout, "memory": memory_limit}
        question = f"SELECT key, status, record FROM cells WHERE status IN {RETRIED}"
        with self._explained():
            rows = self.connection.execute(question).fetchall()
        limits = [(key, _limit(record), most[status]) for key, status, record in rows]
        return {key for key, limit, now in limits if now is None or limit < now}

    def describe(self, meta: dict[str, Any], keys: Iterable[str]) -> None:
        """Write what was run: the study's meta dict and the keys of its cells."""
        with self._explained():
            self.connection.execute(
                "INSERT OR REPLACE INTO meta VALUES (1, ?, ?)", [_text(meta), _text(list(keys))]
            )

    def meta(self) -> dict[str, Any]:
        """Return the meta dict of the study described last, {} if none was."""
        with self._explained():
            row = self.connection.execute("SELECT meta FROM meta").fetchone()
        return {} if row is None else json.loads(row[0])

    def _repr_html_(self) -> str:
        records, meta = self.records(), self.meta()
        brief = [metric for metric in METRICS.values() if metric.brief]
        rows = [
            [s.method, *(WRITERS[m.kind](s.values[m.key]) for m in brief), s.finished, s.cells]
            for s in results.leaderboard(records, measure=meta.get("measure", "error"))
        ]
        head = ["method", *(metric.label for metric in brief), "runs finished", "runs"]
        facts = {"file": self.path, "study": meta.get("title", "none"), "runs": len(records)}
        return notebooks.card("Results of a study", facts, notebooks.table(head, rows))

    def _open_patiently(self) -> None:
        """Open; SQLite does not wait itself while two runs switch a new file to WAL."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self._open()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            time.sleep(0.02)

    def _open(self) -> None:
        self._check()
        self.connection.execute("PRAGMA journal_mode = WAL")
        # a commit waits for the disk: milliseconds, against the seconds a cell takes, and a cell
        # said to be finished survives a power cut too
        self.connection.execute("PRAGMA synchronous = FULL")
        if self._mark("application_id") == APPLICATION:
            return
        self.connection.executescript(
            f"BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION};"
            f"PRAGMA user_version = {SCHEMA}; COMMIT;"
        )

    def _check(self) -> None:
        """Refuse a database that is another program's or another version's."""
        self.connection.execute("BEGIN")  # one look: another run may be making the store just now
        try:
            ours, version = self._mark("application_id") == APPLICATION, self._mark("user_version")
            tables = self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        finally:
            self.connection.execute("ROLLBACK")
        if ours and version != SCHEMA:
            raise StoreError(
                f"{self.path} is a study store of version {version}, this program reads version "
                f"{SCHEMA}: use the outcode that wrote it, or name another file."
            )
        if tables and not ours:
            raise StoreError(
                f"{self.path} is an SQLite database, but not a study store: name another file."
            )

    def _mark(self, name: str) -> int:
        return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in words what SQLite says in codes."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} {_reason(error)}") from error


def _limit(record: str) -> float:
    """Return the limit that stopped a cell, 0 if it was none of ours."""
    return float(json.loads(record)["details"].get("limit", 0.0))


def _reason(error: sqlite3.Error) -> str:
    text = str(error)
    if "not a database" in text or "malformed" in text:
        return f"is not a study store, or is damaged ({text}): name another file."
    if "locked" in text or "busy" in text:
        return f"is locked by another program for more than {PATIENCE:g} s: try again later."
    if "unable to open" in text:
        return "cannot be opened: does its folder exist, and may you write there?"
    return f"cannot be used ({text})."


def _text(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
