"""`outcode compare`: a study within its time, its leaderboard in view, its report."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from outcode import datasets, decisions
from outcode.app import report as reports
from outcode.app import study, terminal
from outcode.app.commands import large as large_files
from outcode.app.commands.blocks import LARGE
from outcode.app.commands.files import READING, REPORTS, dataset, reading, tested_rows, writable
from outcode.app.heartbeat import doing
from outcode.app.report.evidence import LEAK
from outcode.app.terminal import printable, say
from outcode.datasets import blocks
from outcode.words import duration

#: The data set compared when none is given.
DEFAULT = "digits"
#: Rows below which there is nothing to compare.
FEWEST = 4


#: Seconds of computing kept for writing the report, and the most that they may take.
REPORT_SECONDS, REPORT_SHARE = 5.0, 0.25


def compare(command: str, began: float, sources: Sequence[str], **choices: Any) -> int:
    """Run a study within its time, which counts from ``began``, and write its report."""
    output = writable(choices["output"], REPORTS, keep=sources)
    if choices["methods"] is not None:
        study.methods(_names(choices["methods"]))  # a slip is told before the data are read
    found, large = _read(sources or [DEFAULT], choices)
    found += [part for data in found for part in _without_leaks(data)]
    choices["folds"] = _possible_folds(found, choices["folds"])
    cost = _cost(choices["cost"], len(np.unique(found[0].y)))
    rows = {data.name: len(data.y) for data in found}
    whole_rows = len(found[0].y) + bool(choices["sample"])  # a sample asked for is asked for again
    plan = study.Study(
        found,
        _on_all_rows(large, _methods(found, choices), choices, began),
        **{name: choices[name] for name in ("folds", "repeats", "seed", "scale")},
    )
    if choices["dry_run"]:
        say(str(study.dry_run(plan, n_jobs=choices["n_jobs"])))
        return 0
    whole, end = plan, _end(choices["time"], began) if choices["time"] else None
    if end is not None and large:  # one fold leaves the time for all rows
        plan = replace(plan, splits="own") if len(large) == len(found) else replace(plan, first=1)
    if end is not None:
        share = 1.0 - large_files.SHARE if large else 1.0
        plan = _on_fewer_rows(plan, share * (end - time.monotonic()), choices["n_jobs"])
    store = study.Store(choices["store"] or output.with_suffix(".db"))
    limits = {k: choices[k] for k in ("n_jobs", "time_limit", "cell_timeout", "memory_limit")}

    def described(final: study.Study) -> dict[str, Any]:
        told = study.left_out(whole, final, rows)
        in_full = {"left_out": told, "in_full": _without_limit(command)} if told else {}
        priced = {} if cost is None else {"cost": cost}
        return _with_variants(final.meta(command)) | in_full | priced

    kept = _Kept(store, output)
    seconds = None if end is None else end - time.monotonic()
    plan, outcome = follow(plan, store, seconds, described, kept.record, **limits)
    summary = kept.write()
    _conclude(summary, output, outcome, sources or [DEFAULT], whole_rows, choices, store)
    if len(large) == len(sources) == 1:
        say(f"Train on all rows: {_fit_large(sources[0], plan, choices)}")
    return outcome.exit_code


def _possible_folds(found: Sequence[datasets.Dataset], asked: int) -> int:
    """Return the number of folds, fewer where there are fewer rows to hold out, and say so."""
    rows, name = min((tested_rows(data), data.name) for data in found)
    if rows < FEWEST:
        raise datasets.DataError(
            f"{name}: only {rows} rows are in classes of two rows or more. Methods are compared on "
            f"rows held out: give at least {FEWEST}."
        )
    if rows < asked:
        say(f"{name}: {rows} folds, one for each row that can be held out.")
    return min(rows, asked)


def _without_limit(command: str) -> str:
    """Return the command that takes its time.

    >>> _without_limit("outcode compare a.csv --time 40 --seed 1")
    'outcode compare a.csv --seed 1 --time 0'
    """
    return re.sub(r" --time[ =]\S+", "", command) + " --time 0"


def _read(
    sources: Sequence[str], choices: dict[str, Any]
) -> tuple[list[datasets.Dataset], list[large_files.Large]]:
    """Return the data sets, large ones as a sample with the rest of their rows beside it."""
    found: list[datasets.Dataset] = []
    large: list[large_files.Large] = []
    for source in sources:
        doing(f"reading {printable(source, 200)}")
        if source != "-" and blocks.in_blocks(source, LARGE):
            large.append(large_files.dataset(source, choices))
            found.append(large[-1].data)
        else:
            found.append(dataset(source, **reading(choices)))
    return found, large


def _on_all_rows(
    large: list[large_files.Large], methods: list[study.Method], choices: dict[str, Any],
    began: float,
) -> list[study.Method]:  # fmt: skip
    """Return the methods, for large files the one on landmarks first, unless others were named."""
    others = [method for method in methods if method.name != "landmarks"]
    if not large or (choices["methods"] is not None and len(others) == len(methods)):
        return methods
    left = began + choices["time"] - time.monotonic() if choices["time"] else None
    return [large_files.method(large[0], choices["scale"], left), *others]


def _end(seconds: float, began: float) -> float:
    """Return when the study must end, so that its report is there in time.

    On a busy machine the report takes longer, as everything so far has.
    """
    busy = max(1.0, (time.monotonic() - began) / max(0.1, time.process_time()))
    return began + seconds - min(REPORT_SECONDS * busy, REPORT_SHARE * seconds)


def _cost(given: str | None, n_classes: int) -> Any:
    """Return the name of a cost, or the matrix of a csv file, checked against the classes."""
    if given is None:
        return None
    if given in decisions.COSTS:
        return given
    if not Path(given).is_file():
        raise ValueError(
            f"--cost {given}: give 'absolute', 'squared' or a CSV file of {n_classes} rows and "
            f"{n_classes} columns, the cost of each predicted class for each true class."
        )
    try:
        matrix = np.loadtxt(given, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"{given} is not a matrix of costs: {error}") from None
    return decisions.cost_matrix(matrix, n_classes).tolist()


class _Kept:
    """The report on the disk, written again while the study runs."""

    #: Seconds between two reports.
    EVERY = 15.0

    def __init__(self, store: study.Store, output: Path) -> None:
        self.store, self.output, self.last = store, output, time.monotonic()

    def record(self, record: dict[str, Any], view: Any) -> None:
        """Write the report of what is finished, if the last one is old."""
        if time.monotonic() - self.last > self.EVERY:
            self.write()
            self.last = time.monotonic()

    def write(self) -> dict[str, Any]:
        """Write the report and return its numbers."""
        summary = reports.summarise(self.store.meta(), self.store.records())
        reports.write(summary, self.output)
        return summary


def _methods(found: Sequence[datasets.Dataset], choices: dict[str, Any]) -> list[study.Method]:
    rows = max(len(data.y) for data in found)
    if choices["methods"] is not None:
        return study.methods(_names(choices["methods"]), choices["preset"], rows)
    classes = max(len(np.unique(data.y)) for data in found)
    return study.preset(choices["preset"], rows, classes)


def _names(given: str) -> list[str]:
    return [name.strip() for name in given.split(",")]


def _on_fewer_rows(plan: study.Study, seconds: float, n_jobs: int | None) -> study.Study:
    """Return the plan on as many rows as the time allows for, and say so."""
    rows = max(len(data.y) for data in plan.datasets)
    if rows > study.FEW_ROWS:
        within = duration(max(seconds, 1.0))
        say(f"{rows:,} rows: timing each method on a sample, to answer in {within} ...")
    fewer = study.affordable(
        plan, seconds, n_jobs=n_jobs, on_start=lambda cell: doing(f"timing {cell.method}")
    )
    for data, before in zip(fewer.datasets, plan.datasets, strict=True):
        if len(data.y) < len(before.y):
            say(f"{data.name}: a sample of {len(data.y):,} of {len(before.y):,} rows is used.")
    return fewer


def _without_leaks(data: datasets.Dataset) -> Iterator[datasets.Dataset]:
    """Yield the data set without the columns that alone determine the class, if there are any."""
    leaks = [name for f in data.findings if f.code == LEAK for name in f.columns]
    if not leaks or len(leaks) >= len(data.table.names) or data.table.sparse is not None:
        return
    say(
        f"A second run leaves out {printable(', '.join(leaks), 200)}: alone, it determines the "
        f"class, which may be leakage."
    )
    yield replace(
        data,
        name=f"{data.name} without {', '.join(leaks)}",
        table=data.table.without(leaks),
        hash="",  # of what is left
        findings=tuple(f for f in data.findings if f.code != LEAK),
    )


def _with_variants(meta: dict[str, Any]) -> dict[str, Any]:
    """Say in the meta dict which data sets are others without their leaking columns."""
    entries = {entry["name"]: entry for entry in meta["datasets"]}
    for entry in entries.values():
        leaks = [c for f in entry["findings"] if f["code"] == LEAK for c in f["columns"]]
        less = entries.get(f"{entry['name']} without {', '.join(leaks)}")
        if leaks and less is not None:
            less["without"] = leaks
    meta["title"] = ", ".join(name for name, entry in entries.items() if "without" not in entry)
    return meta


def _conclude(
    summary: dict[str, Any],
    output: Path,
    outcome: study.Outcome,
    sources: Sequence[str],
    rows: int,
    choices: dict[str, Any],
    store: study.Store,
) -> None:
    """Say the answer, what was left out, and how to train the method to take."""
    meta, answer = store.meta(), summary["sections"]["answer"]["data"] or {}
    lines = [printable(answer["headline"], 800)] if answer else []
    if meta.get("left_out"):
        lines.append(
            f"To answer in time: {'; '.join(meta['left_out'])}. In full: {meta['in_full']}"
        )
    lines += [f"Report: {output}", *([outcome.sentence] if outcome.sentence else [])]
    best = answer.get("best")
    own = _own(summary) if best in study.BASELINES else best
    if best in study.BASELINES:
        lines.append(f"{best} is scikit-learn's own; {own or 'nothing'} is the next of outcode's.")
    if own and len(sources) == 1 and not blocks.in_blocks(sources[0], LARGE):
        lines.append(f"Train it: {_fit_command(own, sources[0], rows, choices, store)}")
    say(*lines)


def _own(summary: dict[str, Any]) -> str | None:
    """Return the best method on the (last) leaderboard that a model file can hold."""
    board = summary["sections"]["leaderboard"]["data"]["tables"][-1]["rows"]
    return next((r["full"] for r in board if not r["baseline"] and r["finished"]), None)


def _fit_large(source: str, plan: study.Study, choices: dict[str, Any]) -> str:
    """Return the command that trains on all rows of a large file, a folder or a pattern."""
    told = [m.estimator.machine.n_landmarks for m in plan.methods if m.name == "landmarks"]
    options = [f"--landmarks={told[0] if told else 1000}"]
    given = {name: choices[name] for name in ("target", "delimiter", "encoding")}
    options += [f"--{name}={value}" for name, value in given.items() if value is not None]
    options += [f"--drop={column}" for column in choices["drop"]]
    return shlex.join(["outcode", "fit", source, *options])


def _fit_command(
    method: str,
    source: str,
    rows: int,
    choices: dict[str, Any],
    store: study.Store,
) -> str:
    """Return the command that trains what was measured, on a file of so many rows."""
    meta = store.meta()
    given = {
        **{name: choices[name] for name in READING if name not in ("drop", "keep", "sample")},
        "preset": choices["preset"],
        "folds": meta["folds"],
        "seed": choices["seed"] or None,
        "scale": None if choices["scale"] == "standard" else choices["scale"],
        "store": str(store.path),
    }
    options = [f"--{k.replace('_', '-')}={v}" for k, v in given.items() if v is not None]
    leaks = [column for entry in meta["datasets"] for column in entry.get("without", ())]
    options += [f"--drop={column}" for column in (*choices["drop"], *leaks)]
    options += [f"--keep={column}" for column in choices["keep"] if column not in leaks]
    options += [f"--types={column}={kind}" for column, kind in choices["types"]]
    if meta["datasets"][0]["n_rows"] < rows:
        options.append(f"--sample={meta['datasets'][0]['n_rows']}")
    return shlex.join(["outcode", "fit", source, "-m", method, *options])


def follow(
    plan: study.Study,
    store: study.Store,
    seconds: float | None,
    described: Callable[[study.Study], dict[str, Any]],
    on_record: Callable[[dict[str, Any], Any], None],
    **limits: Any,
) -> tuple[study.Study, study.Outcome]:
    """Run a study with its leaderboard in view; return what was run, and how it ended."""
    again = store.retried_keys(limits["cell_timeout"], limits["memory_limit"])
    cells = plan.cells()
    finished = store.records([cell.key for cell in cells if cell.key not in again])
    methods, sets = len(plan.methods), len(plan.datasets)
    folds = f"{sets} data sets, {{}} folds of each" if sets > 1 else "{} folds"
    say(f"{len(cells)} runs: {methods} methods, {folds.format(len(cells) // (methods * sets))}")
    say(
        "Each method is fitted on a small data set first, so that times do not include compilation."
    )
    if finished:
        say(f"{len(finished)} of them are finished already, from {store.path}.")
    store.given = described(plan)
    with terminal.Leaderboard([m.name for m in plan.methods], len(cells), plan.measure) as board:
        board.take(finished)

        def seen(record: dict[str, Any], view: Any) -> None:
            board.add(record, view.left if seconds is None else None)
            on_record(record, view)

        if seconds is None:
            outcome = study.run(plan, store, on_record=seen, on_start=board.start, **limits)
        else:
            limit = min(seconds, limits.pop("time_limit") or seconds)
            limit = max(1.0, limit)
            plan, outcome = study.run_in_time(
                plan, store, limit, on_record=seen, on_start=board.start, describe=described,
                **limits,
            )  # fmt: skip
    doing("writing the report")
    _say_boards(plan, store)
    return plan, outcome


def _say_boards(plan: study.Study, store: study.Store) -> None:
    """Say how the methods stand, also where the columns that leak are left out."""
    without = {entry["name"] for entry in store.meta()["datasets"] if "without" in entry}
    records = store.records(plan.keys())  # what another run on the same store has done, too
    for part in (set(), *({name} for name in without)):
        mine = [
            r for r in records if r["dataset"] in part or (not part and r["dataset"] not in without)
        ]
        board = terminal.Leaderboard([m.name for m in plan.methods], len(mine), plan.measure)
        board.take(mine)
        say("", *(f"{printable(name)}:" for name in part), board.text(), "", *board.reasons())
