"""`outcode report` and `outcode reproduce`: pages of finished runs and of the papers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from outcode.app import papers, study, terminal
from outcode.app import report as reports
from outcode.app.commands.files import REPORTS, writable
from outcode.app.terminal import say


def report(store: str, output: str) -> int:
    """Write the report of finished cells."""
    writable(output, REPORTS, keep=[store])
    finished = study.Store(store) if os.path.getsize(store) else None
    if finished is None or not finished.meta():
        raise study.StoreError(
            f"{store} contains no study: give the .db file that was written with a report."
        )
    reports.write(reports.summarise(finished.meta(), finished.records()), output)
    say(f"Report: {output}")
    return 0


def reproduce(paper: str | None, output: str | None, **choices: Any) -> int:
    """Repeat a paper's experiments."""
    if paper is None:
        print(terminal.columns_left(papers.PAPERS.items()))
        return 0
    if output is not None:
        writable(output)
    setting = papers.Setting(**choices, verbose=1)
    page = papers.reproduce(paper, setting)
    if output is None:
        print(page)
    else:
        Path(output).write_text(page + "\n", encoding="utf-8")
        say(f"Page: {output}")
    return 0
