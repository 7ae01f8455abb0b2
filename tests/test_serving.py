"""`outcode predict` on streams: constant memory, answers as rows come, no half-written file."""

from __future__ import annotations

import csv
import gzip
import io
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import load_iris

from outcode.app import cli
from outcode.datasets import DataError, streams

NAMES = ["a", "b", "c", "d", "kind"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("iris")
    X, y = load_iris(return_X_y=True)
    with open(folder / "iris.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        writer.writerows([*map(repr, x.tolist()), f"kind {k}"] for x, k in zip(X, y, strict=True))
    for name, method in (("model.oc", "ovo+likelihood"), ("plain.oc", "ova+hinge")):
        options = ["-m", method, "--folds", "0", "-o", str(folder / name), "-j", "1"]
        with pytest.raises(SystemExit) as stop:
            cli.main(["fit", str(folder / "iris.csv"), "-t", "kind", *options])
        assert stop.value.code in (0, None)
    return folder


def lines(count):
    row = b'5.1,3.5,"1.4",0.2,"two\nlines"\n'
    return row * count


class Counted(io.BytesIO):
    """A stream that says how far it was read."""

    def read1(self, most=-1):
        return super().read1(min(most, 50_000))


def test_a_stream_is_read_as_far_as_it_is_answered():
    raw = b"a,b,c,d,kind\n" + lines(60_000)
    stream, rows = Counted(raw), 0
    for table in streams.tables(stream, ("a",)):
        assert table.names == tuple(NAMES)
        assert table.n_rows < 4000  # a block, whatever the stream holds
        rows += table.n_rows
        assert stream.tell() <= rows * len(lines(1)) + streams.HEAD + 100_000
    assert rows == 60_000


def test_short_streams_and_packed_ones_are_one_table():
    small = b"a,b\n1,2\n3,4\n"
    assert [t.n_rows for t in streams.tables(io.BytesIO(small))] == [2]
    packed = gzip.compress(b"a,b\n" + np.random.default_rng(0).bytes(0) + b"1,2\n" * 200_000)
    assert sum(t.n_rows for t in streams.tables(io.BytesIO(packed))) == 200_000


@pytest.mark.parametrize("start", [b"a;b\n", b"Title of it\na;b\n", b"\xef\xbb\xbfa;b\r\n"])
def test_titles_marks_and_line_ends(start):
    end = b"\r\n" if b"\r" in start else b"\n"
    tables = list(streams.tables(io.BytesIO(start + (b"1,5;x" + end) * 50_000)))
    assert sum(t.n_rows for t in tables) == 50_000
    assert {t.names for t in tables} == {("a", "b")}


def test_faults_of_a_stream_name_the_row():
    ragged = b"a,b\n" + b"1,2\n" * 40_000 + b"1,2,3\n" + b"1,2\n" * 40_000
    with pytest.raises(DataError, match="standard input"):
        list(streams.tables(io.BytesIO(ragged)))
    with pytest.raises(DataError, match="empty"):
        list(streams.tables(io.BytesIO(b"")))


def command(*words):
    return [sys.executable, "-m", "outcode", *map(str, words)]


def test_answers_come_before_the_stream_ends(files):
    words = "predict", files / "model.oc", "-", "--proba", "--set", "0.9"
    running = subprocess.Popen(command(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    rows = (files / "iris.csv").read_bytes()
    running.stdin.write(rows)
    running.stdin.flush()
    first = running.stdout.readline()
    assert first.startswith(b"row,prediction,set,p(")
    got = [running.stdout.readline() for _ in range(150)]  # the stream is still open
    assert got[-1].startswith(b"150,")
    running.stdin.write(rows.splitlines(keepends=True)[1])
    running.stdin.flush()
    assert running.stdout.readline().startswith(b"151,")
    running.stdin.close()
    assert running.wait(60) == 0
    running.stdout.close()


def test_a_closed_pipe_ends_the_command_quietly(files):
    many = (files / "iris.csv").read_bytes() + lines(30_000).replace(b"two\nlines", b"kind 0")
    big = files / "many.csv"
    big.write_bytes(many)
    with open(big, "rb") as rows:
        running = subprocess.Popen(
            command("predict", files / "model.oc", "-"),
            stdin=rows, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        running.stdout.readline()
        running.stdout.close()
        said = running.stderr.read().decode()
        running.stderr.close()
    assert running.wait(60) == 141
    assert "Error" not in said
    assert "Traceback" not in said


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupted_command_leaves_no_file(files, tmp_path):
    output = tmp_path / "answers.csv"
    running = subprocess.Popen(
        command("predict", files / "model.oc", "-", "-o", output),
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    running.stdin.write((files / "iris.csv").read_bytes())
    running.stdin.flush()
    for _ in range(600):
        if (tmp_path / "answers.csv.part").exists():
            break
        time.sleep(0.1)
    time.sleep(2)  # it waits for rows, no longer loads modules
    running.send_signal(signal.SIGINT)
    # Python ends by the signal itself where it came while a library ran a string of code; a shell
    # shows 130 for either.
    assert running.wait(60) in (130, -signal.SIGINT)
    running.stdin.close()
    running.stderr.close()
    assert list(tmp_path.iterdir()) == []


def inside(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    out, said = capsys.readouterr()
    return stop.value.code, out, said


def test_abstaining_leaves_predictions_empty(capsys, files):
    given = "predict", files / "model.oc", files / "iris.csv", "-t", "kind"
    code, out, said = inside(capsys, *given, "--abstain", "0.1")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    answered = [row for row in rows if row["prediction"]]
    assert f"Answered: {len(answered)} of 150 rows" in said
    assert f"of {len(answered)} answered rows" in said
    code, _, said = inside(
        capsys, "predict", files / "plain.oc", files / "iris.csv", "--abstain", "0.1"
    )
    assert code == 2
    assert "abstaining needs" in said
