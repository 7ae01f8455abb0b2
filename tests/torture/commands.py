"""The command line killed, without room or rights, and in odd surroundings."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from functools import cache, partial
from pathlib import Path

import psutil
from sklearn.datasets import load_iris

from outcode.app.study import Store
from outcode.persistence import load

COMPARE = "compare data.csv --target class --methods ova+hinge,ovo+hinge,svc --folds 3 --time 0"
FIT = "fit data.csv --target class -m ova+softmax --folds 0 -o model.oc"
PREDICT = "predict model.oc many.csv --proba -o out.csv"
#: Exit codes that say what happened: done, some runs failed, bad input, interrupted or killed.
CLEAN = {0, 1, 2, 3, 130, 143, -signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL}
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@cache
def rows() -> str:
    """Return iris as a csv file."""
    X, y = load_iris(return_X_y=True)
    lines = [",".join([*map(str, x), "abc"[c]]) for x, c in zip(X.tolist(), y, strict=True)]
    return "\n".join(["a,b,c,d,class", *lines, ""])


def prepare(folder: Path) -> None:
    """Put a file, a longer one of rows to predict, and a model into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.csv").write_text(rows())
    head, *body = rows().splitlines()
    (folder / "many.csv").write_text("\n".join([head, *body * 200, ""]))
    assert start(FIT, folder).wait() == 0


def start(command: str, folder: Path, **how) -> subprocess.Popen:
    """Start a command in a folder, nothing shown."""
    arguments = [sys.executable, "-m", "outcode", *command.split()]
    shown = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    stdin = subprocess.DEVNULL
    return subprocess.Popen(arguments, cwd=folder, stdin=stdin, **shown | how)


def family(process: subprocess.Popen) -> list[psutil.Process]:
    """Return the processes that a command started."""
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def left_behind(workers: list[psutil.Process], seconds: float = 20.0) -> list[str]:
    """Return which processes are still there after some time."""
    _, alive = psutil.wait_procs(workers, timeout=seconds)
    return [f"process {process.pid} left" for process in alive]


def odd_files(folder: Path, known: set[str]) -> list[str]:
    """Return files that belong to no one: temporary, locked or half-written."""
    allowed = known | {
        "report.html",
        "report.db",
        "report.db-wal",
        "report.db-shm",
        "out.csv",
        "new.oc",
    }
    found = {path.name for path in folder.iterdir()} - allowed
    return [f"{name} left" for name in sorted(found)]


def whole(folder: Path) -> list[str]:
    """Return which final files are there but not whole."""
    faults = []
    if (folder / "report.html").exists() and "</html>" not in (folder / "report.html").read_text():
        faults.append("half a report")
    if (folder / "out.csv").exists():
        lines = (folder / "out.csv").read_text().splitlines()
        faults += [] if len(lines) == 200 * 150 + 1 else [f"{len(lines)} lines of predictions"]
    load(folder / "model.oc")
    return faults


def cells(folder: Path) -> list:
    """Return the keys and seconds of finished runs."""
    if not (folder / "report.db").exists():
        return []
    with Store(folder / "report.db") as store:
        return [(r["key"], r["seconds"]) for r in store.records(store.finished_keys())]


def killed(command: str, number: int, folder: Path) -> list[str]:
    """Kill a command, or one of its workers, at a random moment; then let it run to its end."""
    rng, folder = random.Random(number), folder / str(number)
    prepare(folder)
    known = {path.name for path in folder.iterdir()}
    process = start(command, folder)
    time.sleep(rng.uniform(0.0, 6.0))
    workers, sent = family(process), rng.choice(SIGNALS)
    try:
        victim = rng.choice(workers) if workers and rng.random() < 0.3 else process
        victim.send_signal(sent)
        if sent == signal.SIGINT and rng.random() < 0.5:
            time.sleep(rng.uniform(0.0, 0.5))
            victim.send_signal(sent)  # twice: at once
    except psutil.NoSuchProcess:
        pass
    code = process.wait(timeout=60)
    faults = [] if code in CLEAN else [f"exit code {code} after {sent.name}"]
    faults += left_behind(workers)
    before = cells(folder)
    faults += whole(folder)
    code = start(command, folder).wait(timeout=300)
    faults += [] if code == 0 else [f"exit code {code} when run again"]
    after = dict(cells(folder))
    faults += [f"run {key[:8]} lost or computed again" for key, s in before if after.get(key) != s]
    return faults + whole(folder) + odd_files(folder, known)


def no_room(size: int) -> None:
    """Let no file of this process grow beyond a size, like a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def full_disk(number: int, folder: Path) -> list[str]:
    """Write to a disk that is full: a clear end, the old files untouched, nothing half-written."""
    rng, folder = random.Random(number), folder / str(number)
    prepare(folder)
    command = (COMPARE, FIT.replace("-o model.oc", "-o new.oc"), PREDICT)[number % 3]
    known = {path.name for path in folder.iterdir()}
    before = {name: (folder / name).read_bytes() for name in known}
    room = partial(no_room, rng.choice([0, 100, 4096, 20_000]))
    process = start(command, folder, preexec_fn=room, stderr=subprocess.PIPE, text=True)
    told = process.communicate(timeout=120)[1]
    faults = [] if process.returncode in CLEAN else [f"exit code {process.returncode}"]
    faults += ["a traceback"] if "Traceback" in told else []
    changed = [name for name in known if (folder / name).read_bytes() != before[name]]
    faults += [f"{name} changed" for name in changed]
    code = start(command, folder).wait(timeout=300)
    faults += [] if code == 0 else [f"exit code {code} with room again"]
    return faults + odd_files(folder, known)


#: Environments that real machines have.
SURROUNDINGS = {
    "no home": {"HOME": "/nonexistent"},
    "C locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    "Turkish": {"LC_ALL": "tr_TR.UTF-8"},
    "narrow": {"COLUMNS": "20"},
    "dumb": {"TERM": "dumb"},
    "no path": {"PATH": ""},
}


def odd_surroundings(number: int, folder: Path) -> list[str]:
    """Run a command where variables are odd, the output is closed or the folder is read-only."""
    folder = folder / str(number)
    prepare(folder)
    name = list(SURROUNDINGS)[number % len(SURROUNDINGS)]
    how = {"env": os.environ | SURROUNDINGS[name]}
    command = (COMPARE, FIT, PREDICT.replace(" -o out.csv", ""))[number // 6 % 3]
    process = start(command, folder, **how | {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE})
    if number // 18 % 2:
        process.stdout.close()  # as `head` does
        told = process.stderr.read().decode(errors="replace")
        code = process.wait(timeout=300)
        faults = [] if code in CLEAN | {-signal.SIGPIPE, 141} else [f"{name}: exit code {code}"]
    else:
        told = process.communicate(timeout=300)[1].decode(errors="replace")
        faults = [] if process.returncode == 0 else [f"{name}: exit code {process.returncode}"]
    return faults + ([f"{name}: a traceback"] if "Traceback" in told else [])


def two_at_once(number: int, folder: Path) -> list[str]:
    """Let two runs share one store: both end well, and no run is stored twice."""
    folder = folder / str(number)
    prepare(folder)
    processes = [start(COMPARE, folder) for _ in range(2)]
    codes = [process.wait(timeout=300) for process in processes]
    keys = [key for key, _ in cells(folder)]
    faults = [] if codes == [0, 0] else [f"exit codes {codes}"]
    return faults + ([] if len(keys) == len(set(keys)) > 0 else [f"{len(keys)} runs stored"])


def damaged_store(number: int, folder: Path) -> list[str]:
    """Damage the file of finished runs: a clear error or a correct report, and no traceback."""
    rng, folder = random.Random(number), folder / str(number)
    prepare(folder)
    start(COMPARE, folder).wait(timeout=300)
    raw = bytearray((folder / "report.db").read_bytes())
    if number % 2:
        raw = raw[: rng.randrange(len(raw))]
    else:
        for _ in range(rng.choice([1, 20, 500])):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
    (folder / "report.db").write_bytes(raw)
    (folder / "report.db-wal").unlink(missing_ok=True)
    process = start(COMPARE, folder, stderr=subprocess.PIPE, text=True)
    told = process.communicate(timeout=300)[1]
    faults = [] if process.returncode in CLEAN else [f"exit code {process.returncode}"]
    return faults + (["a traceback"] if "Traceback" in told else [])


def parts() -> dict:
    """Return the name of each part and its case, how many in a whole run, and how many a record."""
    return {
        "killed compare": (partial(killed, COMPARE), 300, 1),
        "killed fit": (partial(killed, FIT.replace("model.oc", "new.oc")), 100, 1),
        "killed predict": (partial(killed, PREDICT), 100, 1),
        "full disk": (full_disk, 60, 1),
        "odd surroundings": (odd_surroundings, 36, 1),
        "two runs, one store": (two_at_once, 20, 1),
        "damaged store": (damaged_store, 100, 1),
    }
