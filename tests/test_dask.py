"""Dask: the bits of threads whatever happens to workers, and clear errors where there are none."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas
import pytest

from outcode import OutputCodeClassifier
from outcode.machines import Nystrom
from outcode.scale import cluster, engine, files, sources, survey
from test_scale import NAMES, fit

dask = pytest.importorskip("dask", reason="needs outcode[dask]")
distributed = pytest.importorskip("distributed", reason="needs outcode[dask]")
arrays = pytest.importorskip("dask.array", reason="needs outcode[dask]")
frames = pytest.importorskip("dask.dataframe", reason="needs outcode[dask]")

#: Workers forked from a process with the imports done start at once; those killed start again.
SETTINGS = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.deploy.lost-worker-timeout": "1h",
}
LOSSES = ("least_squares", "squared_hinge")
#: Passes of the squared hinge: enough to be kept apart from one, few enough to be quick.
SHORT = {"tol": 0.005}
QUIET = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0", "silence_logs": 50}


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    labels = rng.randint(5, size=3000)
    X = rng.randn(3000, 6)
    X[:, 0] += labels
    return X, labels


@pytest.fixture(scope="module")
def local():
    with dask.config.set(SETTINGS):
        if hasattr(distributed.utils, "get_mp_context"):
            distributed.utils.get_mp_context()
        imports = ["distributed", "outcode.machines.nystrom", "outcode.scale.cluster"]
        multiprocessing.get_context("forkserver").set_forkserver_preload(imports)
        with (
            distributed.LocalCluster(n_workers=2, **QUIET) as workers,
            distributed.Client(workers) as client,
        ):
            yield workers, client


@pytest.fixture
def alone():
    """A cluster inside this process, and its client."""
    with (
        distributed.LocalCluster(n_workers=1, processes=False, **QUIET) as workers,
        distributed.Client(workers) as client,
    ):
        yield workers, client


@pytest.fixture(scope="module")
def reference(data):
    X, labels = data
    source = sources.Arrays(X, NAMES[labels], block_rows=250)
    return {loss: fit(source, loss=loss, **SHORT).coef_ for loss in LOSSES}


@pytest.fixture
def partitions(data):
    X, labels = data
    rows = arrays.from_array(X, chunks=(250, 3))
    return cluster.partitions(rows, arrays.from_array(NAMES[labels], chunks=500))


# --- partitions are blocks ---


def test_dask_arrays_without_a_client_are_read_by_threads(partitions, reference):
    found = fit(partitions, engine.Threads(2))
    assert np.array_equal(found.coef_, reference["least_squares"])


def test_dask_frames_are_blocks(data):
    X, labels = data
    table = pandas.DataFrame(X, columns=list("abcdef")).assign(species=NAMES[labels])
    rows = frames.from_pandas(table, npartitions=6)
    for source in (
        cluster.partitions(rows, "species"),
        cluster.partitions(rows.drop(columns=["species"]), rows["species"]),
    ):
        parts = [load() for load in source.loaders()]
        assert np.array_equal(np.vstack([part.X for part in parts]), X)
        assert np.concatenate([part.y for part in parts]).tolist() == NAMES[labels].tolist()


def test_partitions_must_go_together(data):
    X, labels = data
    rows = frames.from_pandas(pandas.DataFrame(X), npartitions=6)
    other = frames.from_pandas(pandas.Series(labels), npartitions=5)
    with pytest.raises(sources.BlockError, match="6 partitions and y has 5"):
        cluster.partitions(rows, other)
    with pytest.raises(sources.BlockError, match="y is not"):
        cluster.partitions(rows, labels)


def test_zarr_is_read_by_dask(data, tmp_path):
    pytest.importorskip("zarr", reason="needs zarr")
    X, labels = data
    arrays.from_array(X, chunks=(250, 6)).to_zarr(str(tmp_path / "rows.zarr"))
    rows = arrays.from_zarr(str(tmp_path / "rows.zarr"))
    source = cluster.partitions(rows, arrays.from_array(labels, chunks=250))
    assert np.array_equal(np.vstack([load().X for load in source.loaders()]), X)


# --- workers ---


@pytest.mark.parametrize("loss", LOSSES)
def test_workers_give_the_bits_of_threads(local, partitions, reference, loss):
    _, client = local
    assert np.array_equal(
        fit(partitions, cluster.Cluster(client), loss, **SHORT).coef_, reference[loss]
    )


def test_files_on_workers_give_the_bits_of_threads(local, data, tmp_path):
    _, client = local
    X, labels = data
    table = pandas.DataFrame(X).rename(columns=str).assign(species=NAMES[labels])
    for i in range(3):
        table[1000 * i : 1000 * i + 1000].to_csv(tmp_path / f"{i}.csv", index=False)
    source = files.files(tmp_path, "species")
    assert np.array_equal(fit(source, cluster.Cluster(client)).coef_, fit(source).coef_)


class Killing(cluster.Cluster):
    """Kill a worker in every pass, once its first result is there."""

    def __init__(self, client, workers):
        super().__init__(client)
        self.workers, self.killed = workers, 0

    def _results(self, node, leaf, groups):
        for i, item in enumerate(super()._results(node, leaf, groups)):
            yield item
            if i == 0:
                pids = self._up()
                os.kill(pids[self.killed % len(pids)], signal.SIGKILL)
                self.killed += 1

    def _up(self):
        """Return the workers once all are up: one killed while it starts is not started again."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            known = [nanny.process for nanny in self.workers.workers.values()]
            known = [one for one in known if one is not None and one.status.name == "running"]
            there = self.client.scheduler_info()["workers"]
            if len(known) == 2 and {one.worker_address for one in known} <= set(there):
                return [one.pid for one in known]
            time.sleep(0.05)
        raise AssertionError("the workers did not start again")


def test_a_worker_killed_in_every_pass_changes_no_bit(local, partitions, reference):
    workers, client = local
    run = Killing(client, workers)
    found = fit(partitions, run, "squared_hinge", **SHORT)
    assert np.array_equal(found.coef_, reference["squared_hinge"])
    assert run.killed >= 2 + found.n_iter_ >= 5


def test_a_worker_that_joins_late_takes_part(local, partitions, reference):
    workers, client = local
    workers.scale(1)
    timer = threading.Timer(0.2, workers.scale, (2,))
    timer.start()
    found = fit(partitions, Slow(client))
    timer.join()
    client.wait_for_workers(2, timeout=60)
    assert np.array_equal(found.coef_, reference["least_squares"])


def test_two_fits_at_once_give_the_bits_of_one(local, partitions, reference):
    _, client = local
    found = {}

    def train(loss):
        found[loss] = fit(partitions, cluster.Cluster(client), loss, **SHORT).coef_

    threads = [threading.Thread(target=train, args=(loss,), daemon=True) for loss in reference]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert all(np.array_equal(found[loss], reference[loss]) for loss in reference)


def test_empty_partitions_one_class_each_and_unknown_lengths(local, data):
    _, client = local
    X, labels = data
    order = np.argsort(labels, kind="stable")
    rows, names = X[order], NAMES[labels[order]]
    chunks = (0, *np.bincount(labels).tolist(), 0)  # empty, ant, bee, cow, dog, elk, empty
    ends = np.cumsum(chunks)[:-1]
    parts = zip(np.split(rows, ends), np.split(names, ends), strict=True)
    known = fit(sources.Blocks(list(parts)))
    given = arrays.from_array(rows, chunks=(chunks, 6)), arrays.from_array(names, chunks=(chunks,))
    kept = given[0][:, 0] > -100  # all rows, but Dask does not know how many
    assert np.isnan(given[0][kept].shape[0])
    for source in (cluster.partitions(*given), cluster.partitions(*(a[kept] for a in given))):
        assert np.array_equal(fit(source, cluster.Cluster(client)).coef_, known.coef_)


# --- what cannot be ---


def _times_out(block):
    raise TimeoutError("the store did not answer")


def test_an_error_of_a_block_is_not_one_of_the_cluster(local, partitions):
    _, client = local
    with pytest.raises(TimeoutError, match="the store did not answer"):
        next(cluster.Cluster(client).values(_times_out, [next(partitions.loaders())]))


BAD = {
    "missing value": ("b", np.nan, "row 200: a value is missing"),
    "text": ("b", "n/a", r"row 200: .*'n/a'.*must be numbers"),
    "missing label": ("species", None, "row 200: the label is missing"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_block_that_cannot_be_used_is_named_by_workers(local, data, kind):
    _, client = local
    X, labels = data
    name, value, message = BAD[kind]
    table = pandas.DataFrame(X, columns=list("abcdef")).assign(species=NAMES[labels])
    table[name] = table[name].astype(object)
    table.loc[700, name] = value
    with dask.config.set({"dataframe.convert-string": False}):
        rows = frames.from_pandas(table, chunksize=250, sort=False)
        source = cluster.partitions(rows, "species")
        with pytest.raises(sources.BlockError, match=f"partition, block 2, {message}"):
            fit(source, cluster.Cluster(client))


def _without_workers(workers, client):
    workers.scale(0)
    deadline = time.monotonic() + 30
    while client.scheduler_info()["workers"] and time.monotonic() < deadline:
        time.sleep(0.05)


def test_a_result_lost_when_all_workers_are_gone_is_said(alone, partitions, monkeypatch):
    workers, client = alone
    monkeypatch.setattr(cluster, "PATIENCE", 2.0)
    monkeypatch.setattr(cluster, "GLANCE", 0.5)
    run = cluster.Cluster(client)
    _, future = run._start(cluster._single, survey.glance, [next(partitions.loaders())])
    distributed.wait(future)  # done, but its value stays with the worker
    _without_workers(workers, client)
    with pytest.raises(cluster.ClusterError, match="no worker for 2 seconds"):
        run._awaited(future)


def test_a_client_that_disappears_is_said(alone, partitions):
    workers, _ = alone
    client = distributed.Client(workers)
    timer = threading.Timer(0.5, client.close)
    timer.start()
    with pytest.raises(cluster.ClusterError, match="went away during training"):
        fit(partitions, Slow(client), "squared_hinge")
    timer.join()


class Slow(cluster.Cluster):
    """Wait a little after every result."""

    def _results(self, node, leaf, groups):
        for item in super()._results(node, leaf, groups):
            yield item
            time.sleep(0.1)


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler without workers, in a process of its own, and a client."""
    place = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0"]
    command += ["--no-dashboard", "--scheduler-file", str(place)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while not place.exists() or not place.read_text():
            time.sleep(0.05)
        try:
            with distributed.Client(scheduler_file=str(place), timeout="2s") as client:
                yield process, client
        finally:
            process.kill()


GONE = {signal.SIGKILL: "went away during training", signal.SIGSTOP: "not answered for 1 seconds"}


@pytest.mark.parametrize("sign", GONE)
def test_a_scheduler_that_dies_or_is_silent_is_said(scheduler, partitions, monkeypatch, sign):
    process, client = scheduler
    monkeypatch.setattr(cluster, "GLANCE", 0.3)
    run = cluster.Cluster(client)
    _, future = run._start(cluster._single, survey.glance, [next(partitions.loaders())])
    process.send_signal(sign)
    if sign == signal.SIGSTOP:
        monkeypatch.setattr(cluster, "PATIENCE", 1.0)
    with (
        pytest.raises(cluster.ClusterError, match=GONE[sign]),
        cluster._explained(client),
    ):
        run._awaited(future)
    process.send_signal(signal.SIGCONT)


def test_a_cluster_without_workers_is_said(alone, partitions, monkeypatch):
    workers, client = alone
    _without_workers(workers, client)
    monkeypatch.setattr(cluster, "PATIENCE", 2.0)
    monkeypatch.setattr(cluster, "GLANCE", 0.5)
    with pytest.raises(cluster.ClusterError, match="no worker for 2 seconds"):
        fit(partitions, cluster.Cluster(client))


# --- the classifier on Dask collections ---


def classifier(decoder="likelihood"):
    return OutputCodeClassifier("ova", Nystrom(80, loss="least_squares"), decoder, random_state=0)


@pytest.fixture(scope="module")
def frame(data):
    X, labels = data
    table = pandas.DataFrame(X, columns=list("abcdef")).assign(species=NAMES[labels])
    return frames.from_pandas(table, npartitions=5)


@pytest.fixture(scope="module")
def trained(frame):
    return classifier().fit(frame, "species")


def test_dask_frames_in_dask_frames_out(frame, trained):
    rows = frame.drop(columns=["species"])
    proba, found = trained.predict_proba(rows), trained.predict(rows)
    assert list(proba.columns) == NAMES.tolist()
    assert proba.npartitions == 5
    computed = proba.compute()
    assert computed.dtypes.to_dict() == proba.dtypes.to_dict()
    assert computed.index.equals(frame.compute().index)
    np.testing.assert_array_equal(
        NAMES[computed.to_numpy().argmax(axis=1)], found.compute().to_numpy().astype(str)
    )
    again = classifier().fit(rows, frame["species"])
    assert np.array_equal(again.machine_.coef_, trained.machine_.coef_)


def test_empty_partitions_are_predicted(frame, trained):
    few = frame[frame["a"] > 6].drop(columns=["species"])
    found = trained.predict_proba(few).compute()
    assert 0 < len(found) < 60
    assert list(found.columns) == NAMES.tolist()
    none = frame[frame["a"] > 100].drop(columns=["species"])
    assert len(trained.predict(none).compute()) == 0


def test_dask_arrays_in_dask_arrays_out(data):
    X, labels = data
    rows, y = arrays.from_array(X, chunks=(800, 2)), arrays.from_array(labels, chunks=600)
    clf = classifier().fit(rows, y)
    proba = clf.predict_proba(rows)
    assert proba.shape == (3000, 5)
    assert clf.predict(rows).dtype == clf.predict(X[:1]).dtype
    np.testing.assert_allclose(proba.compute(), clf.predict_proba(X), atol=1e-6)
    assert np.array_equal(clf.predict(rows).compute(), clf.predict(X))
    kept = rows[:, 0] > -100  # Dask does not know how many rows that are
    assert len(clf.predict(rows[kept]).compute()) == 3000


def test_the_command_line_trains_on_a_scheduler(local, data, tmp_path):
    pytest.importorskip("click", reason="needs outcode[app]")
    pytest.importorskip("safetensors", reason="needs outcode[app]")
    workers, _ = local
    X, labels = data
    table = pandas.DataFrame(X[:600], columns=list("abcdef"))
    table = table.assign(kind=np.array(["x", "y"])[labels[:600] % 2], species=NAMES[labels[:600]])
    (tmp_path / "rows").mkdir()
    for i in range(2):
        table[300 * i : 300 * i + 300].to_csv(tmp_path / "rows" / f"{i}.csv", index=False)
    arguments = ["fit", "rows", "--target", "species", "--landmarks", "20", "-o", "m.oc"]
    arguments += ["--method", "ova+hinge", "--dask", workers.scheduler_address]
    command = [sys.executable, "-m", "outcode", *arguments]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Dask: 2 workers at tcp" in done.stderr
    assert "600 rows, 5 classes, 20 landmarks" in done.stdout + done.stderr
    assert (tmp_path / "m.oc").stat().st_size > 1000
    assert not (tmp_path / "m.oc.work").exists()
