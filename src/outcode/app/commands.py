"""What each command does; every function returns the exit code."""

from __future__ import annotations

import importlib.metadata
import io
import os
import platform
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np

from outcode import (
    __version__,
    codes,
    datasets,
    decoders,
    dichotomies,
    machines,
    persistence,
    results,
)
from outcode._checks import Array
from outcode.app import decided, papers, study, terminal
from outcode.app import report as reports
from outcode.app.report.evidence import LEAK
from outcode.app.report.text import csv_cell
from outcode.app.terminal import printable, say
from outcode.capabilities import HasSteps, PredictsProbabilities, can
from outcode.datasets.reading import position
from outcode.words import count, duration, percent, size

#: The data set compared when none is given.
DEFAULT = "digits"

#: Seconds kept for writing the report.
REPORT_SECONDS = 5.0

#: How the name of a report may end.
REPORTS = (".html", ".md", ".json", ".csv")

#: The options of reading a file.
READING = (
    *("target", "drop", "keep", "sample", "bins", "encoding", "delimiter", "decimal", "thousands"),
    *("sheet", "data_dir"),
)

#: What `doctor` lists.
PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl"),
    *("click", "rich", "pandas", "matplotlib", "Jinja2", "safetensors", "psutil", "pyarrow"),
    *("python-calamine", "charset-normalizer"),
)

#: Faults of the user's files and of the world, and their exit codes; anything else is our own.
FAULTS: tuple[tuple[type[Exception], int], ...] = (
    (datasets.DataError, 3),
    (persistence.ModelError, 3),
    (study.StoreError, 3),
    (ImportError, 2),
    (OSError, 3),
    (MemoryError, 3),
    (ValueError, 2),
)


def exit_code(error: Exception) -> int:
    """Return the exit code of an error: 2 usage, 3 data, 1 a fault of the program."""
    return next((code for kind, code in FAULTS if isinstance(error, kind)), 1)


def sentence(error: Exception) -> str:
    """Return what an error says, in words; the system's errors begin with a number."""
    if isinstance(error, OSError) and error.strerror:
        return printable(f"{error.filename or 'The output'}: {error.strerror}.", 2000)
    text = str(error) or "There is not enough memory: take fewer rows or a smaller method."
    return "\n".join(printable(line, 2000) for line in text.splitlines())


def compare(command: str, sources: Sequence[str], **choices: Any) -> int:
    """Run a study within its time and write its report."""
    begin = time.monotonic()
    output = _writable(choices["output"], REPORTS, keep=sources)
    if choices["methods"] is not None:
        study.methods(_names(choices["methods"]))  # a slip is told before the data are read
    found = [dataset(source, **_data(choices)) for source in sources or [DEFAULT]]
    found += [part for source, data in zip(sources, found, strict=False)
              for part in _without_leaks(source, data, choices)]  # fmt: skip
    rows = {data.name: len(data.y) for data in found}
    whole_rows = len(found[0].y) + bool(choices["sample"])  # a sample asked for is asked for again
    plan = study.Study(
        found,
        _methods(found, choices),
        **{name: choices[name] for name in ("folds", "repeats", "seed", "scale")},
    )
    if choices["dry_run"]:
        say(str(study.dry_run(plan, n_jobs=choices["n_jobs"])))
        return 0
    seconds = choices["time"] - (time.monotonic() - begin) if choices["time"] else None
    with terminal.Heartbeat():
        whole = plan
        if seconds is not None:
            plan = _on_fewer_rows(plan, seconds, choices["n_jobs"])
            seconds = choices["time"] - (time.monotonic() - begin)
        store = study.Store(choices["store"] or output.with_suffix(".db"))
        limits = {k: choices[k] for k in ("n_jobs", "time_limit", "cell_timeout", "memory_limit")}

        def described(final: study.Study) -> dict[str, Any]:
            told = study.left_out(whole, final, rows)
            in_full = {"left_out": told, "in_full": f"{command} --time 0"} if told else {}
            return _with_variants(final.meta(command), choices) | in_full

        kept = _Kept(store, output)
        plan, outcome = follow(plan, store, seconds, described, kept.record, **limits)
    summary = kept.write()
    _conclude(summary, output, outcome, sources or [DEFAULT], whole_rows, choices, store)
    return outcome.exit_code


class _Kept:
    """The report on the disk, written anew while the study runs."""

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


def _on_fewer_rows(plan: study.Study, seconds: float, n_jobs: int | None) -> study.Study:
    """Return the plan on as many rows as the time allows for, and say so."""
    rows = max(len(data.y) for data in plan.datasets)
    if rows > study.FEW_ROWS:
        say(f"{rows:,} rows: timing each method on a sample, to answer in {duration(seconds)} ...")
    fewer = study.affordable(plan, seconds, n_jobs=n_jobs)
    for data, before in zip(fewer.datasets, plan.datasets, strict=True):
        if len(data.y) < len(before.y):
            say(f"{data.name}: a sample of {len(data.y):,} of {len(before.y):,} rows is used.")
    return fewer


def _without_leaks(
    source: str, data: datasets.Dataset, choices: dict[str, Any]
) -> Iterator[datasets.Dataset]:
    """Yield the data set without the columns that alone give the class away, if there are any."""
    leaks = [name for f in data.findings if f.code == LEAK for name in f.columns]
    if not leaks or len(leaks) >= len(data.table.names) or not Path(source).exists():
        return
    say(f"A second run leaves out {printable(', '.join(leaks), 200)}, which gives the class away.")
    names = "target", "encoding", "delimiter"
    options = {name: choices[name] for name in names}
    less = datasets.read(source, **options, drop=(*choices["drop"], *leaks))
    less = study.sampled(less, choices["sample"] or len(less.y), choices["seed"])
    yield replace(less, name=f"{data.name} without {', '.join(leaks)}")


def _with_variants(meta: dict[str, Any], choices: dict[str, Any]) -> dict[str, Any]:
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
    if own and len(sources) == 1:
        lines.append(f"Train it: {_fit_command(own, sources[0], rows, choices, store)}")
    say(*lines)


def _own(summary: dict[str, Any]) -> str | None:
    """Return the best method on the (last) leaderboard that a model file can hold."""
    board = summary["sections"]["leaderboard"]["data"]["tables"][-1]["rows"]
    return next((r["full"] for r in board if not r["baseline"] and r["finished"]), None)


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
        **{name: choices[name] for name in ("target", "delimiter", "encoding", "data_dir")},
        "preset": choices["preset"],
        "folds": meta["folds"],
        "seed": choices["seed"] or None,
        "scale": None if choices["scale"] == "standard" else choices["scale"],
        "store": str(store.path),
    }
    options = [f"--{k.replace('_', '-')}={v}" for k, v in given.items() if v is not None]
    leaks = [column for entry in meta["datasets"] for column in entry.get("without", ())]
    options += [f"--drop={column}" for column in (*choices["drop"], *leaks)]
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
    say("Each method is warmed up on a toy first: compiling is in none of the times.")
    if finished:
        say(f"{len(finished)} of them are finished already, from {store.path}.")
    store.given = described(plan)
    with terminal.Leaderboard([m.name for m in plan.methods], len(cells), plan.measure) as board:
        board.take(finished)

        def seen(record: dict[str, Any], view: Any) -> None:
            board.add(record, view.left if seconds is None else None)
            on_record(record, view)

        if seconds is None:
            outcome = study.run(plan, store, on_record=seen, **limits)
        else:
            limit = min(seconds, limits.pop("time_limit") or seconds)
            limit = max(1.0, limit - REPORT_SECONDS)
            plan, outcome = study.run_in_time(
                plan, store, limit, on_record=seen, describe=described, **limits
            )
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


def fit(source: str, output: str, method: str | None, **choices: Any) -> int:
    """Fit one method on all rows, as it was compared, and save it with its preprocessing."""
    from sklearn.pipeline import Pipeline

    method = method or study.DEFAULT
    (chosen,) = study.methods([method], choices["preset"])
    if chosen.baseline:
        raise ValueError(
            f"{method!r} is scikit-learn's own, which a model file cannot hold: fit a method of "
            f"outcode, or use scikit-learn from Python."
        )
    _writable(output, keep=[source])
    data = dataset(source, **_data(choices))
    (chosen,) = study.methods([method], choices["preset"], len(data.y))
    threads = 1 if choices["n_jobs"] == 0 else choices["n_jobs"]  # none but this one
    estimator = study.seeded(chosen.estimator, choices["seed"], threads)
    scale = None if choices["scale"] == "none" else choices["scale"]
    model = Pipeline([("encoder", datasets.TableEncoder(scale)), ("classifier", estimator)])
    with _warnings_said(), terminal.Heartbeat():
        model.fit(data.table, data.y)
    persistence.save(model, output)
    for line in study.facts(model.named_steps["classifier"]):
        say(line)
    if choices["folds"]:
        with terminal.Heartbeat():
            say(_cross_validated(data, chosen, choices))
    say(f"Model: {output} ({size(os.path.getsize(output))})")
    return 0


def _cross_validated(data: datasets.Dataset, method: study.Method, choices: dict[str, Any]) -> str:
    """Return the cross-validated error of a method; folds that `compare` has run are not rerun."""
    settings = {name: choices[name] for name in ("folds", "seed", "scale")}
    plan = study.Study(data, [method], **settings, baselines=False)
    kept = choices["store"] if choices["store"] and os.path.exists(choices["store"]) else None
    with study.Store(kept or ":memory:") as store:
        known = store.records(plan.keys())
        if not known:
            jobs = 0 if len(data.y) <= study.FEW_ROWS else choices["n_jobs"]
            with study.Store(":memory:") as fresh:
                study.run(plan, fresh, n_jobs=jobs)
                known = fresh.records()
    (standing,) = results.leaderboard(known, [method.name])
    told = f"{standing.finished} of {count(choices['folds'], 'fold')}, none of them trained on"
    return f"Cross-validated error: {percent(standing.values['error'])} ({told})"


def predict(
    model: str,
    rows: str,
    proba: bool,
    coverage: float | None,
    explain: bool,
    target: str | None,
    output: str | None,
    **choices: Any,
) -> int:
    """Write a csv of predictions: row, prediction, and what was asked for beside them."""
    if output is not None:
        _writable(output, keep=[model, rows])
    fitted = persistence.load(model)
    encoder = _encoder(fitted)
    table = datasets.read_unlabelled(rows, **choices)
    truth = None if target is None else position(target, table.names, table.source)
    with _warnings_said():
        predicted = fitted.predict(table)
        shares = _proba(fitted, table) if proba else None
        sets = None if coverage is None else decided.sets(fitted, table, coverage)
        added = {} if sets is None else {"set": decided.set_texts(sets, fitted.classes_)}
        added |= {"why": [*decided.reasons(fitted, table)]} if explain else {}
    known = set() if truth is None else {table.names[truth]}
    if unused := set(encoder.unused(table)) - known:
        say(f"Columns the model does not look at: {printable(', '.join(sorted(unused)), 200)}.")
    for column, values in encoder.unseen(table).items():
        new = ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
        say(f"Values of {printable(column)} that no training row had: {printable(new, 200)}.")
    _write_predictions(output, predicted, shares, fitted.classes_, added)
    if truth is not None:
        labels = datasets.as_labels(table.columns[truth])
        say(_error(labels, predicted))
        if sets is not None:
            say(decided.coverage_text(sets, labels, fitted.classes_))
    return 0


def report(store: str, output: str) -> int:
    """Write the report of finished cells."""
    _writable(output, REPORTS, keep=[store])
    finished = study.Store(store) if os.path.getsize(store) else None
    if finished is None or not finished.meta():
        raise study.StoreError(f"{store} holds no study: name the .db file beside a report.")
    reports.write(reports.summarise(finished.meta(), finished.records()), output)
    say(f"Report: {output}")
    return 0


def reproduce(paper: str | None, output: str | None, **choices: Any) -> int:
    """Repeat a paper's experiments."""
    if paper is None:
        print(terminal.columns_left(papers.PAPERS.items()))
        return 0
    if output is not None:
        _writable(output)
    setting = papers.Setting(**choices, verbose=1)
    page = papers.reproduce(paper, setting)
    if output is None:
        print(page)
    else:
        Path(output).write_text(page + "\n", encoding="utf-8")
        say(f"Page: {output}")
    return 0


def code(code: str | None, classes: int | None, data: str | None, seed: int, **choices: Any) -> int:
    """Show a code and its diagnosis, or list what methods are made of."""
    if code is None:
        print(terminal.columns_left(_parts()))
        return 0
    matrix, names = _code(code, classes, data, seed, choices)
    print(terminal.code_picture(matrix, names))
    print()
    print(dichotomies.diagnose(matrix, names))
    return 0


def doctor() -> int:
    """Say what this machine has."""
    print(terminal.columns_left(_facts_of_the_machine()))
    return 0


def dataset(source: str, **choices: Any) -> datasets.Dataset:
    """Read a file, or a data set by name, and say what was seen."""
    folder, sample = choices.pop("data_dir"), choices.pop("sample", None)
    seed = choices.pop("seed", 0)
    if source == "-" or Path(source).exists() or Path(source).suffix:
        data = datasets.read(source, **choices)
    else:
        data = datasets.load(source, folder)
    data = data if sample is None else study.sampled(data, sample, seed)
    n_classes = len(np.unique(data.y))
    say(f"{printable(data.name)}: {len(data.y)} rows, {n_classes} classes ({data.source})")
    for line in (*data.about, *(f"{f.code} {f.message}" for f in data.findings)):
        say(f"  {printable(line, 400)}")
    return data


def _writable(path: str, suffixes: Sequence[str] = (), keep: Sequence[str] = ()) -> Path:
    """Return a path that can be written, checked before the work and not after it.

    The files of ``keep`` are read; they are not written over.
    """
    output = Path(path)
    if suffixes and output.suffix.lower() not in suffixes:
        raise ValueError(f"{path}: a report ends in {', '.join(suffixes)}.")
    if not output.parent.is_dir():
        raise ValueError(f"{path}: the folder {output.parent} does not exist: make it first.")
    if output.exists() and any(Path(k).exists() and output.samefile(k) for k in keep):
        raise ValueError(f"{path} is a file to read, writing would destroy it: name another one.")
    if not os.access(output if output.exists() else output.parent, os.W_OK):
        raise ValueError(f"{path} cannot be written: name another file.")
    return output


def _data(choices: dict[str, Any]) -> dict[str, Any]:
    found = {key: choices[key] for key in (*READING, "seed") if key in choices}
    return found | {"types": dict(choices["types"])}


def _methods(found: Sequence[datasets.Dataset], choices: dict[str, Any]) -> list[study.Method]:
    rows = max(len(data.y) for data in found)
    if choices["methods"] is not None:
        return study.methods(_names(choices["methods"]), choices["preset"], rows)
    classes = max(len(np.unique(data.y)) for data in found)
    return study.preset(choices["preset"], rows, classes)


def _names(given: str) -> list[str]:
    return [name.strip() for name in given.split(",")]


def _encoder(fitted: Any) -> datasets.TableEncoder:
    """Return the first step of a model that takes raw rows."""
    first = fitted.steps[0][1] if can(fitted, HasSteps) else None
    if not isinstance(first, datasets.TableEncoder):
        raise persistence.ModelError(
            "This model was saved without its preprocessing and takes numbers only: load it from "
            "Python, or save a Pipeline of TableEncoder and the classifier."
        )
    return first


def _error(truth: Array, predicted: Array) -> str:
    """Return how many of the rows with a known class are wrong, in words."""
    known = np.array([label is not None for label in truth])
    wrong = int(np.sum(truth[known].astype(str) != predicted[known].astype(str)))
    share = percent(wrong / max(1, int(known.sum())))
    return f"Wrong: {wrong} of {known.sum()} rows with a known class, an error of {share}."


def _proba(fitted: Any, table: datasets.Table) -> Array:
    if not can(fitted, PredictsProbabilities):
        raise ValueError(
            "This model has no probabilities: fit one whose decoder has them, "
            "for example --method ovo+likelihood."
        )
    return np.asarray(fitted.predict_proba(table))


def _write_predictions(
    output: str | None,
    predicted: Array,
    shares: Array | None,
    classes: Array,
    added: dict[str, list[str]],
) -> None:
    head = ["row", "prediction", *added]
    head += [f"p({c})" for c in classes] if shares is not None else []
    lines = (
        [
            *(str(i + 1), str(label), *(column[i] for column in added.values())),
            *(map(repr, shares[i].tolist()) if shares is not None else ()),
        ]
        for i, label in enumerate(predicted)
    )
    if not output and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as in a file, whatever the terminal's is
    shown = (lambda cell: printable(cell, 200)) if not output and sys.stdout.isatty() else str
    with open(output, "w", encoding="utf-8") if output else nullcontext(sys.stdout) as file:
        for line in chain([head], lines):
            file.write(",".join(csv_cell(shown(cell)) for cell in line) + "\n")
    if output:
        say(f"{len(predicted)} predictions: {output}")


@contextmanager
def _warnings_said() -> Iterator[None]:
    """Show each warning as one plain line, once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"Warning: {printable(text, 400)}")


def _code(
    name: str, classes: int | None, data: str | None, seed: int, choices: dict[str, Any]
) -> tuple[Array, list[str]]:
    """Return a code matrix and the names of its rows."""
    if Path(name).suffix or Path(name).is_file():
        matrix = _matrix(Path(name))
        return matrix, [str(q) for q in range(len(matrix))]
    if data is not None:
        rows = dataset(data, **_data(choices))
        names, labels = np.unique(rows.y, return_inverse=True)
        X = datasets.TableEncoder().fit(rows.table).transform(rows.table)
        matrix = codes.code_matrix(name, len(names), X, labels, "svm", random_state=seed)
        return matrix, [str(label) for label in names]
    if classes is None:
        raise click.UsageError("Say how many classes the code is for: --classes 5, or --data FILE.")
    return codes.code_matrix(name, classes, random_state=seed), [str(q) for q in range(classes)]


def _matrix(path: Path) -> Array:
    """Read a csv of +1, -1 and 0."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file if line.strip()]
        return dichotomies.as_code(np.loadtxt(lines, delimiter=",", ndmin=2) if lines else [])
    except ValueError as error:
        raise datasets.DataError(
            f"{path} is no code: {error} A code file has a line per class, and in it a number +1, "
            f"-1 or 0 per column, with commas between them."
        ) from None


def _parts() -> Iterator[tuple[str, str]]:
    """Yield what the name of a method may be made of."""
    yield "method", "code+decoder, code+decoder+machine, or one of " + ", ".join(study.METHODS)
    for part, table in (
        ("codes", codes.CODES),
        ("decoders", decoders.DECODERS),
        ("machines", machines.MACHINES),
    ):
        yield part, ", ".join(table)


def _facts_of_the_machine() -> Iterator[tuple[str, str]]:
    import psutil
    from threadpoolctl import threadpool_info

    yield "outcode", __version__
    yield "python", f"{platform.python_version()} on {platform.platform()}"
    yield "cores", str(os.cpu_count())
    memory = psutil.virtual_memory()
    yield "memory", f"{size(memory.available)} free of {size(memory.total)}"
    for package in PACKAGES:
        yield package, _version(package)
    for pool in threadpool_info():
        yield f"{pool['user_api']} threads", f"{pool['num_threads']} ({pool['internal_api']})"
    yield "compiled code", _compiled()
    yield "data folder", os.environ.get("OUTCODE_DATA", "none (OUTCODE_DATA is not set)")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _compiled() -> str:
    """Say where numba keeps the compiled loops, and whether it can."""
    import outcode

    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(outcode.__file__).parent)
    count = len(list(folder.rglob("*.nbc")))
    kept = f"{count} functions kept" if count else "nothing yet: the first fit compiles for a while"
    return kept if os.access(folder, os.W_OK) else f"{kept}; the folder cannot be written"
