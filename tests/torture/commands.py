"""The command line killed, without room or rights, and in odd surroundings."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
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
EXPORT = "export model.oc -o new.py"
#: Exit codes that say what happened: done, some runs failed, bad input, interrupted or killed.
CLEAN = {0, 1, 2, 3, 130, 143, -signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL}
#: Seconds to wait for a command; a machine shared with other work may need them.
PATIENCE = 1800
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@cache
def rows() -> str:
    """Return iris as a csv file."""
    X, y = load_iris(return_X_y=True)
    lines = [",".join([*map(str, x), "abc"[c]]) for x, c in zip(X.tolist(), y, strict=True)]
    return "\n".join(["a,b,c,d,class", *lines, ""])


@cache
def template() -> Path:
    """Return a folder with a file, a longer one of rows to predict, and a model."""
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    (folder / "data.csv").write_text(rows())
    head, *body = rows().splitlines()
    (folder / "many.csv").write_text("\n".join([head, *body * 200, ""]))
    assert start(FIT, folder).wait() == 0
    return folder


def prepare(folder: Path) -> None:
    """Put the files that a command needs into a folder."""
    shutil.copytree(template(), folder, dirs_exist_ok=True)


def start(command: str, folder: Path, **how) -> subprocess.Popen:
    """Start a command in a folder, nothing shown."""
    arguments = [sys.executable, "-m", "outcode", *command.split()]
    shown = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    stdin = subprocess.DEVNULL
    return subprocess.Popen(arguments, cwd=folder, stdin=stdin, **shown | how)


def run_here(command: str, folder: Path) -> None:
    """Be the command, in a process of its own."""
    os.chdir(folder)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    from outcode.app.cli import main

    sys.argv = ["outcode", *command.split()]
    main()


class Forked:
    """A command in a process forked where the libraries are imported: seconds less than a new one.

    It has what the attacks use of ``subprocess.Popen``.
    """

    def __init__(self, command: str, folder: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["__main__", "torture.imported"])
        self.process = context.Process(target=run_here, args=(command, folder))
        self.process.start()
        self.pid, self.send_signal = self.process.pid, partial(os.kill, self.process.pid)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, or raise when it takes longer."""
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("outcode", timeout or 0.0)
        return self.process.exitcode


@cache
def seconds(command: str) -> float:
    """Return how long a forked command takes when nothing happens to it."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        Forked("--version", Path(folder)).wait()  # the server is up
        begin = time.monotonic()
        assert Forked(command, Path(folder)).wait() == 0
        return time.monotonic() - begin


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
        "new.py",
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
    for name in ("model.oc", "new.oc"):
        if (folder / name).exists():
            load(folder / name)
    if (folder / "new.py").exists():
        compile((folder / "new.py").read_text(), "new.py", "exec")
    return faults


def cells(folder: Path) -> list:
    """Return the keys and seconds of finished runs."""
    if not (folder / "report.db").exists():
        return []
    with Store(folder / "report.db") as store:
        return [(r["key"], r["seconds"]) for r in store.records(store.finished_keys())]


def wait_for_moment(command: str, folder: Path, rng: random.Random, cold: bool) -> None:
    """Wait until a random moment of a command, or until shortly after it begins to write."""
    longest = 6.0 if cold else seconds(command)
    if rng.random() < 0.5:
        time.sleep(rng.uniform(0.0, longest))
        return
    known, until = set(os.listdir(folder)), time.monotonic() + 2 * longest
    while set(os.listdir(folder)) == known and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(rng.uniform(0.0, 0.03))


def killed(command: str, number: int, folder: Path) -> list[str]:
    """Kill a command, or one of its workers, at a random moment; then let it run to its end.

    Every tenth is started from nothing, the others are forked.
    """
    rng, folder, cold = random.Random(number), folder / str(number), number % 10 == 0
    prepare(folder)
    run = start if cold else Forked
    known = {path.name for path in folder.iterdir()}
    seconds(command)
    process = run(command, folder)
    wait_for_moment(command, folder, rng, cold)
    workers, sent = family(process), rng.choice(SIGNALS)
    try:
        victim = rng.choice(workers) if workers and rng.random() < 0.3 else process
        victim.send_signal(sent)
        if sent == signal.SIGINT and rng.random() < 0.5:
            time.sleep(rng.uniform(0.0, 0.5))
            victim.send_signal(sent)  # twice: at once
    except (psutil.NoSuchProcess, ProcessLookupError):
        pass
    code = process.wait(timeout=PATIENCE)
    faults = [] if code in CLEAN else [f"exit code {code} after {sent.name}"]
    faults += left_behind(workers)
    before = cells(folder)
    faults += whole(folder)
    code = run(command, folder).wait(timeout=PATIENCE)
    faults += [] if code == 0 else [f"exit code {code} when run again"]
    after = dict(cells(folder))
    faults += [f"run {key[:8]} lost or computed again" for key, s in before if after.get(key) != s]
    faults += whole(folder) + odd_files(folder, known)
    shutil.rmtree(folder)
    return faults


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
    told = process.communicate(timeout=PATIENCE)[1]
    faults = [] if process.returncode in CLEAN else [f"exit code {process.returncode}"]
    faults += ["a traceback"] if "Traceback" in told else []
    changed = [name for name in known if (folder / name).read_bytes() != before[name]]
    faults += [f"{name} changed" for name in changed]
    code = start(command, folder).wait(timeout=PATIENCE)
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
    """Run a command where variables are odd, or the output is closed."""
    folder = folder / str(number)
    prepare(folder)
    name = list(SURROUNDINGS)[number % len(SURROUNDINGS)]
    how = {"env": os.environ | SURROUNDINGS[name]}
    command = (COMPARE, FIT, PREDICT.replace(" -o out.csv", ""))[number // 6 % 3]
    process = start(command, folder, **how | {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE})
    if number // 18 % 2:
        process.stdout.close()  # as `head` does
        told = process.stderr.read().decode(errors="replace")
        code = process.wait(timeout=PATIENCE)
        faults = [] if code in CLEAN | {-signal.SIGPIPE, 141} else [f"{name}: exit code {code}"]
    else:
        told = process.communicate(timeout=PATIENCE)[1].decode(errors="replace")
        faults = [] if process.returncode == 0 else [f"{name}: exit code {process.returncode}"]
    return faults + ([f"{name}: a traceback"] if "Traceback" in told else [])


def two_at_once(number: int, folder: Path) -> list[str]:
    """Let two runs share one store: both end well, and no run is stored twice."""
    folder = folder / str(number)
    prepare(folder)
    processes = [start(COMPARE, folder) for _ in range(2)]
    codes = [process.wait(timeout=PATIENCE) for process in processes]
    keys = [key for key, _ in cells(folder)]
    faults = [] if codes == [0, 0] else [f"exit codes {codes}"]
    return faults + ([] if len(keys) == len(set(keys)) > 0 else [f"{len(keys)} runs stored"])


def spoilt(path: Path, rng: random.Random, kind: int) -> None:
    """Damage the file of finished runs, or put another file in its place."""
    raw = bytearray(path.read_bytes())
    if kind == 0:
        for _ in range(rng.choice([1, 20, 500])):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
    elif kind == 1:
        raw = raw[: rng.randrange(len(raw))]
    elif kind == 2:
        raw = rng.choice([b"", b"a,b\n1,2\n", rng.randbytes(5000)])
    else:
        statement = ("PRAGMA user_version = 99", "PRAGMA application_id = 1", "DROP TABLE cells")
        with sqlite3.connect(path) as store:
            store.execute(statement[kind - 3])
        store.close()
        return
    path.write_bytes(raw)


def damaged_store(number: int, folder: Path) -> list[str]:
    """Damage the file of finished runs: a clear error or a correct report, and no traceback."""
    folder = folder / str(number)
    shutil.copytree(finished_study(), folder)
    spoilt(folder / "report.db", random.Random(number), number % 6)
    process = start(COMPARE, folder, stderr=subprocess.PIPE, text=True)
    told = process.communicate(timeout=PATIENCE)[1]
    faults = [] if process.returncode in CLEAN else [f"exit code {process.returncode}"]
    if process.returncode in (1, 2) and not told.strip():
        faults.append("no reason given")
    return faults + (["a traceback"] if "Traceback" in told else [])


@cache
def finished_study() -> Path:
    """Return a folder in which a study has finished."""
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    prepare(folder)
    assert start(COMPARE, folder).wait(timeout=PATIENCE) == 0
    return folder


def no_rights() -> None:
    """Take the right to write where permissions forbid it, which only root has."""
    drop, override = 24, 1  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
    if os.getuid() == 0:
        ctypes.CDLL(None).prctl(drop, override, 0, 0, 0)


def read_only(number: int, folder: Path) -> list[str]:
    """Run a command where nothing can be written: a clear error, and no file touched."""
    folder = folder / str(number)
    prepare(folder)
    for path in (folder.parent, folder, *folder.iterdir()):
        path.chmod(0o555 if path.is_dir() else 0o444)
    command = (COMPARE, FIT, PREDICT, EXPORT)[number % 4]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    how = {"preexec_fn": no_rights, "stderr": subprocess.PIPE, "text": True}
    process = start(command, folder, **how)
    told = process.communicate(timeout=PATIENCE)[1]
    faults = [] if process.returncode in (1, 2) else [f"exit code {process.returncode}"]
    faults += ["a traceback"] if "Traceback" in told else []
    faults += [] if told.strip() else ["no reason given"]
    same = before == {path.name: path.read_bytes() for path in folder.iterdir()}
    folder.chmod(0o755)
    folder.parent.chmod(0o755)
    return faults + ([] if same else ["a file was changed"])


def parts() -> dict:
    """Return the name of each part and its case, how many in a whole run, and how many a record."""
    return {
        "killed compare": (partial(killed, COMPARE), 300, 1),
        "killed fit": (partial(killed, FIT.replace("model.oc", "new.oc")), 300, 1),
        "killed predict": (partial(killed, PREDICT), 300, 1),
        "killed export": (partial(killed, EXPORT), 300, 1),
        "full disk": (full_disk, 60, 1),
        "odd surroundings": (odd_surroundings, 36, 1),
        "two runs, one store": (two_at_once, 20, 1),
        "damaged store": (damaged_store, 120, 1),
        "read-only folder": (read_only, 12, 1),
    }
