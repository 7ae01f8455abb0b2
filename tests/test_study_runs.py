"""The store of a study, and runs that are resumed, limited, interrupted and killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from outcode import datasets, study
from outcode.app.study import Method, Store, estimate, from_arrays, pool, run, store
from test_study import Probe, lasting, plain, probe, results

# --- the store ---


def test_a_finished_cell_is_never_overwritten(tmp_path):
    with Store(tmp_path / "s.db") as kept:
        kept.put(entry("a", "crashed"))
        kept.put(entry("b", "ok"))
        kept.put(entry("a", "ok"))
        kept.put(entry("a", "failed"))
        kept.put(entry("b", "crashed"))
        assert [(r["key"], r["status"]) for r in kept.records()] == [("a", "ok"), ("b", "ok")]
        assert [r["key"] for r in kept.records(["b", "none", "a"])] == ["b", "a"]


def entry(key, status, **details):
    return {"key": key, "status": status, "details": details}


def test_limits_decide_what_is_tried_again():
    with Store(":memory:") as kept:
        for status, limit in [("timeout", 5.0), ("memory", 1e9), ("crashed", 0.0), ("ok", 0.0)]:
            kept.put(entry(status, status, limit=limit))
        assert kept.finished_keys() == {"timeout", "memory", "ok"}
        assert kept.retried_keys(5.0, 1e9) == {"crashed"}
        assert kept.retried_keys(6.0, 1e9) == {"crashed", "timeout"}
        assert kept.retried_keys(5.0, None) == {"crashed", "memory"}


def test_records_are_those_of_the_study_described_last():
    with Store(":memory:") as kept:
        for key in "abc":
            kept.put(entry(key, "ok"))
        assert [r["key"] for r in kept.records()] == ["a", "b", "c"]
        assert kept.meta() == {}
        kept.describe({"title": "t"}, ["c", "a"])
        assert [r["key"] for r in kept.records()] == ["c", "a"]
        assert kept.meta() == {"title": "t"}


def test_files_that_are_no_store_are_refused(tmp_path):
    (tmp_path / "text.db").write_text("x" * 5000)
    with pytest.raises(study.StoreError, match=r"text.db is not a study store"):
        Store(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(study.StoreError, match="an SQLite database, but not a study store"):
        Store(tmp_path / "other.db")
    with pytest.raises(study.StoreError, match="cannot be opened: does its folder exist"):
        Store(tmp_path / "nowhere" / "s.db")


def test_a_store_of_another_version_is_refused(tmp_path):
    Store(tmp_path / "s.db").close()
    with sqlite3.connect(tmp_path / "s.db") as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(study.StoreError, match="of version 99, this program reads version 1"):
        Store(tmp_path / "s.db")


def test_a_locked_store_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    with Store(tmp_path / "s.db") as kept:
        raw = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        raw.execute("BEGIN IMMEDIATE")
        with pytest.raises(study.StoreError, match="is locked by another program"):
            kept.put(entry("a", "ok"))
        raw.execute("ROLLBACK")
        kept.put(entry("a", "ok"))
        raw.close()


def test_an_empty_file_becomes_a_store(tmp_path):
    (tmp_path / "s.db").touch()
    with Store(tmp_path / "s.db") as kept:
        assert kept.records() == []


def open_and_put(path, n_keys):
    """Wait for the signal file, then write the same cells as every other process."""
    wait_until(lambda: path.with_suffix(".go").exists())
    with Store(path) as kept:
        for key in range(n_keys):
            kept.put(entry(str(key), "ok"))


@pytest.mark.slow
def test_processes_that_open_a_new_store_at_once_do_not_collide(tmp_path):
    fork = multiprocessing.get_context("fork")
    for attempt in range(20):
        path = tmp_path / f"{attempt}.db"
        openers = [fork.Process(target=open_and_put, args=(path, 3)) for _ in range(6)]
        for opener in openers:
            opener.start()
        path.with_suffix(".go").touch()
        for opener in openers:
            opener.join()
        assert [opener.exitcode for opener in openers] == [0] * 6
        with Store(path) as kept:
            assert [record["key"] for record in kept.records()] == ["0", "1", "2"]


# --- runs in this process ---


def test_a_second_run_does_only_what_is_new(tmp_path):
    method, seen = Method("nb", GaussianNB()), []
    with Store(tmp_path / "s.db") as kept:
        first = run(plain(method, folds=3), kept, n_jobs=0)
        assert (first.counts, first.done_now, first.remaining) == ({"ok": 3}, 3, 0)
        before = kept.records()
        more = plain(method, probe(), folds=3, repeats=2)
        second = run(more, kept, n_jobs=0, on_record=lambda r, p: seen.append((r, p)))
        assert (second.counts, second.done_now) == ({"ok": 12}, 9)
        assert kept.records(plain(method, folds=3).keys()) == before
        other = run(plain(method, folds=4), kept, n_jobs=0)
        assert other.done_now == 4
        assert len(kept.records()) == 4
        assert len(kept.records(more.keys())) == 12
    assert [p.done for _, p in seen] == list(range(4, 13))
    assert {p.total for _, p in seen} == {12}
    last = seen[-1][1]
    assert last.left == 0.0
    assert last.best.method == "nb"
    assert last.best.cells == 6
    assert [s.method for s in last.leaderboard] == ["nb", "nothing"]


def test_the_leaderboard_is_the_mean_of_the_measure():
    views, records = [], []
    study_ = plain(Method("nb", GaussianNB()), probe(), folds=3, measure="balanced_error")
    with Store(":memory:") as kept:
        run(study_, kept, n_jobs=0, on_record=lambda r, p: (records.append(r), views.append(p)))
    for standing in views[-1].leaderboard:
        mine = [r["metrics"]["balanced_error"] for r in records if r["method"] == standing.method]
        assert standing.values["balanced_error"] == pytest.approx(np.mean(mine))


def test_the_time_limit_leaves_cells_for_later():
    with Store(":memory:") as kept:
        study_ = plain(probe("sleep", 0.2), folds=10)
        outcome = run(study_, kept, n_jobs=0, time_limit=0.5)
        assert outcome.out_of_time
        assert not outcome.interrupted
        assert 0 < outcome.remaining < 10
        assert outcome.remaining + outcome.counts["ok"] == 10
        assert "time is up" in outcome.sentence
        assert "Run the same command again" in outcome.sentence
        assert run(study_, kept, n_jobs=0).remaining == 0


def test_an_interrupt_in_this_process_keeps_what_is_finished():
    def after_two(record, progress):
        if progress.done == 2:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with Store(":memory:") as kept:
        outcome = run(plain(probe(), folds=5), kept, n_jobs=0, on_record=after_two)
        assert (outcome.interrupted, outcome.counts, outcome.remaining) == (True, {"ok": 2}, 3)
        assert outcome.exit_code == 130
        assert "Interrupted: 2 of 5" in outcome.sentence
        assert run(plain(probe(), folds=5), kept, n_jobs=0).counts == {"ok": 5}
    assert signal.getsignal(signal.SIGINT) is before


def test_exit_codes():
    def code(*acts):
        with Store(":memory:") as kept:
            return run(plain(*map(probe, acts)), kept, n_jobs=0).exit_code

    assert code("nothing") == 0
    assert code("nothing", "fail") == 4
    assert code("fail") == 5


def test_limits_that_cannot_be_kept_are_refused():
    for options in ({"cell_timeout": 1}, {"memory_limit": 1e9}):
        with pytest.raises(ValueError, match="cannot be enforced"):
            results(plain(probe()), **options)
    with pytest.raises(ValueError, match="time limit must be a positive"):
        results(plain(probe()), time_limit=-1)


def test_dry_run_foresees_cells_and_grows_with_rows():
    study_ = plain(probe("sleep", 0.05), probe("fail"), folds=5, repeats=2)
    found = study.dry_run(study_, n_jobs=2)
    assert (found.cells, found.workers) == (20, 2)
    sleeper, failing = found.methods
    assert (sleeper.cells, sleeper.reason) == (10, None)
    assert 0.05 <= sleeper.seconds < 1.0
    assert failing.reason == "the rows are not to its taste"
    assert found.seconds == pytest.approx(10 * (sleeper.seconds + failing.seconds) / 2)
    assert found.memory > 2 * 2**28
    assert "An estimate" in str(found)
    assert "20 runs, 2 at a time" in str(found)


def test_dry_run_extrapolates_by_the_power_seen():
    grown = estimate._grown
    assert grown(1.0, 4.0, [100, 200], 400) == pytest.approx(16.0)
    assert grown(1.0, 1.1, [100, 200], 400) == pytest.approx(2.2)  # at least in proportion
    assert grown(1.0, 64.0, [100, 200], 400) == pytest.approx(512.0)  # at most the cube
    assert grown(1.0, 4.0, [100, 200], 150) == 4.0


# --- runs in worker processes ---


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """A store after a run with every kind of trouble, and its outcome."""
    folder = tmp_path_factory.mktemp("troubled")
    with pytest.MonkeyPatch.context() as patch, Store(folder / "s.db") as kept:
        patch.setattr(pool, "RETRIES", 1)
        outcome = run(trouble(folder), kept, n_jobs=2, cell_timeout=6.0, memory_limit=700 * 2**20)
        yield folder, kept, outcome


def trouble(folder):
    class Local(Probe):  # known to this function only
        pass

    methods = [
        Method("well", GaussianNB()),
        Method("mine", Local()),
        probe("sleep", 10),
        probe("eat", 60),
        probe("die"),
        probe("die_once", str(folder / "marker")),
        probe("fail"),
        probe("chatter"),
        Method("open file", Probe("nothing", value=_OpenFile())),
    ]
    split = np.where(np.arange(150) % 3 == 0, "test", "train")
    data = from_arrays("iris", *load_iris(return_X_y=True), split)
    return plain(*methods, data=data, splits="own")


class _OpenFile:
    """Cannot be sent to another process."""

    def __reduce__(self):
        raise TypeError("this stays here")

    def __repr__(self):
        return "an open file"


def test_every_trouble_gets_its_record(troubled):
    _, kept, outcome = troubled
    found = {record["method"]: record for record in kept.records()}
    status = {name: record["status"] for name, record in found.items()}
    assert status == {
        "well": "ok",
        "mine": "ok",
        "sleep": "timeout",
        "eat": "memory",
        "die": "crashed",
        "die_once": "ok",
        "fail": "failed",
        "chatter": "ok",
        "open file": "failed",
    }
    assert outcome.counts == {"ok": 4, "timeout": 1, "memory": 1, "crashed": 1, "failed": 2}
    assert outcome.remaining == 0
    assert outcome.exit_code == 4
    assert found["sleep"]["reason"] == "Stopped after 6 s, the limit of a run."
    assert 6.0 < found["sleep"]["seconds"] < 9.0
    assert "the limit is 700 MB" in found["eat"]["reason"]
    assert found["eat"]["metrics"]["peak_memory"] > 700 * 2**20
    assert "died 2 times, at last by signal SIGKILL" in found["die"]["reason"]
    assert "cannot be sent" in found["open file"]["reason"]
    assert found["well"]["metrics"]["peak_memory"] > 50 * 2**20


def test_no_worker_is_left(troubled):
    assert [
        p for p in psutil.Process().children() if "outcode.app.study.worker" in str(p.cmdline())
    ] == []


def test_a_higher_limit_and_a_new_run_try_again(troubled):
    folder, kept, _ = troubled
    study_ = trouble(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "RETRIES", 0)
        again = run(study_, kept, n_jobs=1, cell_timeout=30.0, memory_limit=700 * 2**20)
    assert again.done_now == 2  # the sleeper has time now, and the one that dies is tried again
    assert again.counts == {"ok": 5, "memory": 1, "crashed": 1, "failed": 2}


@pytest.fixture(scope="module")
def seeded_study():
    methods = [
        *study.methods(["ova+hinge", "sparse+likelihood"], "quick"),
        Method("forest", RandomForestClassifier(5)),
    ]
    return plain(*methods, data=from_arrays("wine", *load_wine(return_X_y=True)), seed=3)


def test_records_do_not_depend_on_processes(seeded_study):
    here = [lasting(record) for record in results(seeded_study)]
    with Store(":memory:") as kept:
        run(seeded_study, kept, n_jobs=2)
        for ours, theirs in zip(here, map(lasting, kept.records()), strict=True):
            assert ours == theirs


# --- runs that are killed ---


def killable():
    """A study of 24 short cells, some random, some at work in compiled code."""
    methods = [
        Method("nb", GaussianNB()),
        Method("forest", RandomForestClassifier(3)),
        probe("work", 0.2),
    ]
    return plain(*methods, folds=8)


def child(path, n_jobs):
    """Run the study in another process; say each key once its record is written."""
    with Store(path) as kept:
        outcome = run(
            killable(), kept, n_jobs=n_jobs, on_record=lambda r, p: print(r["key"], flush=True)
        )
    print(f"{outcome.interrupted} {outcome.remaining} {outcome.exit_code}", flush=True)


def start(path, log, n_jobs=1):
    """Start such a process; what it says goes to a file."""
    code = f"import test_study_runs; test_study_runs.child({str(path)!r}, {n_jobs})"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    with open(log, "a") as out:
        return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=out)


def said(log):
    """Return the keys a process said were written; a line may be cut off by a kill."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [line for line in lines if len(line) == 64]


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def descendants(process):
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def wait_for_a_record(process, log):
    before = len(said(log))
    wait_until(lambda: len(said(log)) > before or process.poll() is not None)


def wait_for_the_end(processes):
    wait_until(lambda: not any(alive(process) for process in processes))


def alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def harass(path, log, rng, kills, n_jobs):
    """Start a run and kill its workers or itself at random moments; return the kills left."""
    process = start(path, log, n_jobs)
    while kills and process.poll() is None:
        if rng.random() < 0.7:  # else at any moment of the start
            wait_for_a_record(process, log)
        time.sleep(rng.uniform(0.0, 0.4))
        workers = descendants(process)
        kill_parent = rng.random() < 0.5 or not workers
        victim = process if kill_parent else rng.choice(workers)
        if process.poll() is None:
            victim.send_signal(signal.SIGKILL)
            kills -= 1
        if kill_parent:
            process.wait()
            wait_for_the_end(workers)  # they end by themselves, also amid a fit
    process.wait()
    return kills


def survive(folder, n_kills, n_jobs):
    """Kill runs until enough kills are spent, on as many studies as that takes."""
    rng = random.Random(n_kills)
    kills, rounds = n_kills, 0
    expected = [lasting(record) for record in results(killable())]
    while kills:
        rounds += 1
        path, log, written = folder / f"{rounds}.db", folder / f"{rounds}.log", set()
        while len(written) < len(expected):
            kills = harass(path, log, rng, kills, n_jobs)
            with Store(path) as kept:
                now = kept.finished_keys()
                assert set(said(log)) <= now  # none that was said to be finished is lost
                assert written <= now
                written = now
        with Store(path) as kept:
            run(killable(), kept, n_jobs=n_jobs)  # what the kills made "crashed" is done now
            count = kept.connection.execute("SELECT count(*), count(DISTINCT key) FROM cells")
            assert count.fetchone() == (24, 24)
            assert [lasting(record) for record in kept.records()] == expected
        assert len(said(log)) == len(set(said(log)))
    return rounds


def test_five_kills_lose_and_double_nothing(tmp_path):
    survive(tmp_path, 5, n_jobs=1)


@pytest.mark.slow
def test_fifty_kills_lose_and_double_nothing(tmp_path):
    survive(tmp_path, 50, n_jobs=2)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_stops_cleanly_and_the_next_run_goes_on(tmp_path, number):
    path, log = tmp_path / "s.db", tmp_path / "log"
    process = start(path, log)
    wait_until(lambda: len(said(log)) >= 3)
    workers = descendants(process)
    assert workers
    process.send_signal(number)
    assert process.wait(timeout=30) == 0
    assert not any(alive(worker) for worker in workers)
    interrupted, remaining, exit_code = log.read_text().splitlines()[-1].split()
    assert (interrupted, exit_code) == ("True", "130")
    with Store(path) as kept:
        assert len(kept.finished_keys()) == 24 - int(remaining) >= 3
        before = kept.records()
        assert run(killable(), kept, n_jobs=0).done_now == int(remaining)
        after = {record["key"]: record for record in kept.records()}
        assert all(after[record["key"]] == record for record in before)


@pytest.mark.slow
def test_two_runs_share_one_store(tmp_path):
    path, logs = tmp_path / "s.db", [tmp_path / "a.log", tmp_path / "b.log"]
    processes = [start(path, log) for log in logs]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert [log.read_text().splitlines()[-1] for log in logs] == ["False 0 0"] * 2
    with Store(path) as kept:
        expected = [lasting(record) for record in results(killable())]
        assert [lasting(record) for record in kept.records()] == expected


def test_processes_that_do_not_start_are_an_error(monkeypatch):
    monkeypatch.setattr(pool, "START", "raise SystemExit(3)")
    with (
        Store(":memory:") as kept,
        pytest.raises(RuntimeError, match=r"do not start .with exit code 3"),
    ):
        run(plain(probe()), kept, n_jobs=1)


def test_scripts_without_a_main_guard_and_their_own_classes_work(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\n"
        "from sklearn.dummy import DummyClassifier\n"
        "from outcode import study\n"
        "class Mine(DummyClassifier):\n    pass\n"
        "data = study.from_arrays('toy', np.eye(8), list('ab' * 4))\n"
        "plan = study.Study(data, [study.Method('mine', Mine())], folds=2, baselines=False)\n"
        "print(study.run(plan, study.Store(':memory:'), n_jobs=1).counts)\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "{'ok': 2}\n"


# --- in time ---


def test_a_sample_has_the_rows_asked_for_in_the_same_shares():
    data = from_arrays("toy", np.arange(1000.0)[:, None], np.repeat(["a", "b", "c"], [790, 208, 2]))
    less = datasets.sampled(data, 100, 0)
    assert np.unique(less.y, return_counts=True)[1].tolist() == [78, 20, 2]
    assert less.hash != data.hash
    assert datasets.sampled(data, 100, 0).hash == less.hash != datasets.sampled(data, 100, 1).hash
    assert datasets.sampled(data, 2000, 0) is data


def slow_and_quick():
    return plain(probe("sleep", 0.6), probe(), *(named(n) for n in "abc"), folds=5)


def named(name):
    return Method(name, GaussianNB())


def test_slow_methods_are_dropped_and_the_others_finish_in_time():
    study_ = slow_and_quick()
    began = time.monotonic()
    with Store(":memory:") as kept:
        final, outcome = study.run_in_time(study_, kept, 1.5, n_jobs=0)
        meta, records = kept.meta(), kept.records()
    assert time.monotonic() - began < 6.0
    names = {method.name for method in final.methods}
    assert "sleep" not in names
    assert len(names) == 4
    assert 3 <= len(final.places) <= 5
    assert outcome.remaining == 0
    assert outcome.exit_code == 0
    assert meta["cells"] == len(records) == len(final.places) * 4
    told = study.left_out(study_, final, {"iris": 150})
    assert "sleep was left out" in told


def test_the_default_method_is_never_dropped():
    from outcode.app.study import budget

    study_ = plain(named(budget.DEFAULT), *(named(n) for n in "abcd"), folds=5)
    plan = budget.Budget(study_, 1.0, 1)
    for method in study_.methods:
        plan.note({"method": method.name, "seconds": 9.0 if method.name == budget.DEFAULT else 0.2})
    plan.decided[plan.places[0]] = {method.name for method in study_.methods}
    assert budget.DEFAULT in plan._methods(plan.places[1])
    assert len(plan.dropped) == 5 - budget.LEAST_METHODS


def test_what_fits_is_run_whole():
    study_ = plain(probe(), named("a"), folds=4)
    with Store(":memory:") as kept:
        final, outcome = study.run_in_time(study_, kept, 60.0, n_jobs=0)
    assert final.keys() == study_.keys()
    assert outcome.counts == {"ok": 8}
    assert study.left_out(study_, final, {"iris": 150}) == []


def test_there_is_an_answer_however_short_the_time():
    study_ = plain(named("a"), named("b"), folds=3)
    with Store(":memory:") as kept:
        final, outcome = study.run_in_time(study_, kept, 1e-6, n_jobs=1)
        records = kept.records()
    assert [record["status"] for record in records] == ["ok"]
    assert outcome.remaining == 0
    assert study.left_out(study_, final, {"iris": 150})[0] == "1 fold of 3 was run"


def test_a_sample_is_chosen_when_reading_took_all_the_time():
    data = from_arrays("d", np.arange(6000.0)[:, None], np.repeat(["a", "b"], 3000))
    plan = study.Study(data, "ova+hinge", baselines=False)
    fewer = study.affordable(plan, -12.0, n_jobs=0)
    assert 100 <= len(fewer.datasets[0].y) <= 6000


def test_rows_are_chosen_from_fits_on_a_sample(monkeypatch):
    from outcode.app.study import budget

    times = [(0.1, 2.0), (0.2, 2.0), (9.0, 1.0)]
    assert budget._most_rows(times, 100, 1000, share=40.0) == 1000
    rows = budget._most_rows(times, 100, 1000, share=5.0)
    assert 300 < rows < 1000
    assert 0.3 * (rows / 100) ** 2 <= 5.0
    assert budget._most_rows(times, 100, 1000, share=0.01) == 100
