"""The command line, used as a person would, mistakes included."""

import csv
import gzip
import io
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from outcode import load as outcode_load
from outcode.app import cli, heartbeat, study, terminal
from outcode.app.study import plan
from outcode.words import percent

ENVIRONMENT = {**os.environ, "OUTCODE_DATA": ""}


def outcode(*arguments, cwd=None, timeout=300):
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "outcode", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=timeout,
        env={k: v for k, v in ENVIRONMENT.items() if v},
        check=False,
    )


def inside(capsys, *arguments):
    """Run the command line in this process; return exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return stop.value.code, captured.out, captured.err


@pytest.fixture
def flowers(tmp_path):
    """Three classes of 20 rows: two numbers, one word, one gap."""
    rng = np.random.RandomState(0)
    path = tmp_path / "flowers.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["length", "width", "colour", "species"])
        for i in range(60):
            q = i % 3
            length = "" if i == 7 else f"{q + rng.randn() * 0.2:.3f}"
            colour = ["red", "blue", "red"][q]
            writer.writerow([length, f"{rng.randn():.3f}", colour, ["rose", "iris", "lily"][q]])
    return path


QUICK = ("--methods", "ova+hinge,ovo+likelihood", "--folds", "2", "-j", "0")


def test_help_is_quick():
    outcode("--help")
    spent = []
    for _ in range(3):
        start = time.perf_counter()
        shown = outcode("--help")
        spent.append(time.perf_counter() - start)
    assert shown.returncode == 0
    for command in ("compare", "fit", "predict", "report", "reproduce", "code", "doctor"):
        assert command in shown.stdout
    bare = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import click"], check=True)
    bare = time.perf_counter() - bare
    assert min(spent) < max(0.3, 3 * bare)  # 0.3 s on a quiet machine


def test_compare_fills_a_leaderboard_and_writes_a_report(capsys, flowers, tmp_path):
    output = tmp_path / "out.html"
    code, _, said = inside(capsys, "compare", flowers, "--target", "species", *QUICK, "-o", output)
    assert code == 0
    assert "60 rows, 3 classes" in said
    assert "best so far" in said
    assert "ovo+likelihood" in said
    page = output.read_text()
    assert "svc" in page  # the baselines join the methods named
    assert "lily" in page
    assert f"Report: {output}" in said
    assert "on flowers: " in said  # the report's first sentence
    assert "Take " in said

    code, _, said = inside(capsys, "compare", flowers, "--target", "species", *QUICK, "-o", output)
    assert code == 0
    assert "finished already" in said
    assert "[1/" not in said  # nothing is run twice


def test_the_report_again_in_other_formats(capsys, flowers, tmp_path):
    store = tmp_path / "cells.db"
    code, *_ = inside(capsys, "compare", flowers, *QUICK, "--store", store, "-o", tmp_path / "a.md")
    assert code == 0
    for name in ("b.json", "b.md", "b.html", "b.csv"):
        assert inside(capsys, "report", store, "-o", tmp_path / name)[0] == 0
    summary = json.loads((tmp_path / "b.json").read_text())
    rows = summary["sections"]["leaderboard"]["data"]["tables"][0]["rows"]
    assert {row["full"] for row in rows} == {"ova+hinge", "ovo+likelihood", *study.BASELINES}
    assert (tmp_path / "a.md").read_text() == (tmp_path / "b.md").read_text()


def test_dry_run_runs_nothing(capsys, flowers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, said = inside(capsys, "compare", flowers, *QUICK, "--dry-run")
    assert code == 0
    assert "12 runs" in said
    assert not (tmp_path / "report.html").exists()


def test_a_cell_that_fails_is_told_and_counted(capsys, flowers, tmp_path):
    given = ("--methods", "random-forest", "--folds", "2", "-j", "1", "--cell-timeout", "0.001s")
    code, _, said = inside(capsys, "compare", flowers, *given, "-o", tmp_path / "r.html")
    assert code == 5
    assert "random-forest, 2 x timeout: Stopped after 0.001 s" in said
    assert "0 of 2" in said
    assert (tmp_path / "r.html").exists()


def test_fit_then_predict_raw_rows(capsys, flowers, tmp_path, monkeypatch):
    model, found = tmp_path / "m.oc", tmp_path / "found.csv"
    code, _, said = inside(capsys, "fit", flowers, "-t", "species", "-o", model)
    assert code == 0
    assert "Chosen: " in said
    assert model.exists()

    with open(flowers) as file:
        rows = list(csv.DictReader(file))
    raw = tmp_path / "raw.csv"
    with open(raw, "w", newline="") as file:  # no target, other order, an unknown colour
        writer = csv.DictWriter(file, ["colour", "width", "length"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows([{**rows[0], "colour": "green"}, *rows[1:]])
    assert inside(capsys, "predict", model, raw, "--proba", "-o", found)[0] == 0
    with open(found) as file:
        predictions = list(csv.DictReader(file))
    assert [row["row"] for row in predictions[:2]] == ["1", "2"]
    right = [p["prediction"] == row["species"] for p, row in zip(predictions, rows, strict=True)]
    assert np.mean(right) > 0.9
    shares = np.array(
        [[float(p[f"p({c})"]) for c in ("iris", "lily", "rose")] for p in predictions]
    )
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    best = np.array(["iris", "lily", "rose"])[shares.argmax(axis=1)]
    assert best.tolist() == [p["prediction"] for p in predictions]

    code, out, said = inside(capsys, "predict", model, flowers, "--target", "species")
    assert code == 0
    assert out.startswith("row,prediction\n1,")
    assert "Wrong: 0 of 60 rows with a known class, an error of 0.0%." in said
    assert inside(capsys, "predict", model, flowers, "-t", "-1") == (0, out, said)

    code, out, said = inside(capsys, "predict", model, flowers, "-t", "specie")
    assert code == 3
    assert "Did you mean 'species'" in said
    assert not out  # told before the predictions, not after them

    before = model.read_bytes(), flowers.read_bytes()
    for output in (model, flowers):
        code, _, said = inside(capsys, "predict", model, flowers, "-o", output)
        assert code == 2
        assert "would destroy it" in said
    assert (model.read_bytes(), flowers.read_bytes()) == before

    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")  # as under LC_ALL=C
    monkeypatch.setattr(sys, "stdout", narrow)
    fitted = outcode_load(model)
    fitted.steps[-1][1].classes_ = np.array(["\u00e9", "\u6570", "z"])
    monkeypatch.setattr("outcode.persistence.load", lambda path: fitted)
    with pytest.raises(SystemExit) as stop:
        cli.main(["predict", str(model), str(raw), "--proba"])
    assert stop.value.code == 0
    narrow.flush()
    assert "p(\u6570)" in narrow.buffer.getvalue().decode("utf-8")


def test_compare_ends_with_the_command_that_fits_what_it_measured(capsys, flowers, tmp_path):
    output = tmp_path / "out.html"
    given = ("compare", flowers, "-t", "species", "--seed", 3, *QUICK, "-o", output)
    code, _, said = inside(capsys, *given)
    assert code == 0
    (line,) = (text for text in said.splitlines() if text.startswith("Train it: "))
    words = shlex.split(line.removeprefix("Train it: outcode "))
    assert "--seed=3" in words
    method = words[words.index("-m") + 1]
    with study.Store(tmp_path / "out.db") as store:
        mine = [r for r in store.records() if r["method"] == method]
    error = np.mean([r["metrics"]["error"] for r in mine])
    code, _, said = inside(capsys, *words, "-o", tmp_path / "m.oc", "-j", 0)
    assert code == 0, said
    assert f"Cross-validated error: {percent(error)} (2 of 2 folds" in said
    estimator = study.methods([method], "quick", 60)[0].estimator
    assert plan.describe_estimator(estimator) == plan.describe_estimator(
        next(m for m in study.preset("quick", 60, 3) if m.name == method).estimator
    )


def test_fit_alone_prints_its_cross_validated_error(capsys, flowers, tmp_path):
    given = ("fit", flowers, "-t", "species", "-m", "ova+hinge", "-o", tmp_path / "m.oc", "-j", 0)
    assert "Cross-validated error: " in inside(capsys, *given, "--folds", 3)[2]
    assert "Cross-validated error: " not in inside(capsys, *given, "--folds", 0)[2]


@pytest.fixture
def leaking(tmp_path):
    """Three classes that one column gives away and another one hardly tells."""
    rng = np.random.RandomState(0)
    path = tmp_path / "leaking.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["size", "deck", "class"])
        rows = ([f"{i % 3 + rng.randn():.3f}", "xyz"[i % 3], "uvw"[i % 3]] for i in range(90))
        writer.writerows(rows)
    return path


def test_columns_that_give_the_class_away_are_left_out_of_a_second_run(capsys, leaking, tmp_path):
    output = tmp_path / "r.json"
    given = ("compare", leaking, "--methods", "ova+hinge,ovo+likelihood", "--folds", 3, "-j", 0)
    code, _, said = inside(capsys, *given, "-o", output)
    assert code == 0, said
    assert "Possible leakage: deck alone determines the class." in said
    assert "leaking without deck:" in said
    answer = json.loads(output.read_text())["sections"]["answer"]["data"]
    assert "on leaking without deck" in answer["headline"]
    if answer["best"] and answer["best"] not in study.BASELINES:
        assert "--drop=deck" in said


def test_a_study_answers_in_its_time(capsys, tmp_path):
    rng = np.random.RandomState(0)
    path, output = tmp_path / "large.csv", tmp_path / "r.html"
    y = rng.randint(4, size=6000)
    X = rng.randn(4, 6)[y] + rng.randn(6000, 6)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*"abcdef", "class"])
        writer.writerows([*map("{:.3f}".format, row), f"c{q}"] for row, q in zip(X, y, strict=True))
    begin = time.monotonic()
    given = ("compare", path, "--methods", "ova+hinge,svc", "--time", "25s", "-j", 0)
    code, _, said = inside(capsys, *given, "-o", output)
    assert time.monotonic() - begin < 60  # on a busy machine
    assert code == 0, said
    assert "To answer in time: " in said
    assert "of 6,000 rows of large were used" in said
    assert "--time 0" in said
    assert "Left out" in output.read_text()


def test_silence_is_broken_while_work_goes_on(capsys, monkeypatch):
    monkeypatch.setattr(heartbeat, "SILENCE", 0.1)
    with heartbeat.Heartbeat():
        heartbeat.doing("compiling")
        time.sleep(1.3)
    assert "s: compiling" in capsys.readouterr().err


def test_on_a_terminal_what_is_being_done_gives_way_to_what_is_said(capsys, monkeypatch):
    monkeypatch.setattr(heartbeat, "SILENCE", 0.1)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with heartbeat.Heartbeat():
        heartbeat.doing("compiling")
        time.sleep(1.3)
        terminal.say("done")
        heartbeat.live(True)
        time.sleep(0.6)
        heartbeat.live(False)
    shown = capsys.readouterr().err
    assert "s: compiling\r\x1b[K" in shown
    assert shown.endswith("\r\x1b[Kdone\n")  # the live table shows the rest


def test_the_progress_names_the_methods_that_run():
    board = terminal.Leaderboard(["a", "b"], 2)
    assert board.work() == "starting worker processes"
    board.start(SimpleNamespace(key="1", method="a", fold=2))
    assert board.work().startswith("running a (fold 2) for ")
    board.take([])
    board.add(cell("1", "a"))
    assert "a (fold 2)" not in board.work()


def test_hostile_labels_come_out_harmless(capsys, tmp_path, monkeypatch):
    rng = np.random.RandomState(0)
    labels = ["=cmd|' /C calc'!A0", "\x1b[31mred", "<script>alert(1)</script>"]
    path = tmp_path / "hostile.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "class"])
        writer.writerows([i % 3 + rng.randn() / 9, rng.randn(), labels[i % 3]] for i in range(30))
    model = tmp_path / "m.oc"
    assert inside(capsys, "fit", path, "-m", "ova+linear", "-o", model)[0] == 0
    code, out, _ = inside(capsys, "predict", model, path)
    assert code == 0
    assert "'=cmd" in out
    assert "\x1b[31mred" in out  # a program gets the label as it is
    assert "\n1,=cmd" not in out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = inside(capsys, "predict", model, path)
    assert code == 0
    assert "\n2,?[31mred\n" in out  # a terminal does not obey it
    code, _, said = inside(capsys, "compare", path, *QUICK, "-o", tmp_path / "r.html")
    assert code == 0
    assert "\x1b" not in said
    assert "<script>alert" not in (tmp_path / "r.html").read_text()


GOOD = "a,b,class\n" + "".join(f"{i},{i % 5},{'xyz'[i % 3]}\n" for i in range(30))


def many_classes():
    return ("a,class\n" + "".join(f"{i % 7},c{i}\n" for i in range(1_000_000))).encode()


def bomb():
    """50 million rows in some 300 kB."""
    block = b"1,2,x\n" * 1_000_000
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as file:
        file.write(b"a,b,class\n")
        for _ in range(50):
            file.write(block)
    return packed.getvalue()


#: Name -> what the file holds, options, and words of the message.
BAD_FILES = {
    "empty.csv": (lambda: b"", (), "empty"),
    "header.csv": (lambda: b"a,b,class\n", (), "no row"),
    "ragged.csv": ((GOOD + "1,2\n" * 5).encode, (), "row 31 (line 32)"),
    "delimiter.csv": (lambda: GOOD.replace(",", "_").encode(), (), "delimiter"),
    "encoding.csv": (
        lambda: GOOD.replace("x", "\xe9").encode("latin-1"),
        ("--encoding", "utf-8"),
        "is not utf-8",
    ),
    "target.csv": (GOOD.encode, ("-t", "clas"), "Did you mean 'class'"),
    "one.csv": (lambda: GOOD.translate(str.maketrans("xy", "zz")).encode(), (), "one class"),
    "many.csv": (many_classes, (), "classes"),
    "bomb.csv.gz": (bomb, (), "unpacks to more than 64 times its size"),
    "missing.csv": (("a,b,class\n" + ",,x\n,,y\n" * 20).encode, (), "missing"),
    "absent.csv": (None, (), "absent.csv"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_each_bad_file_has_its_message_and_exit_code(capsys, tmp_path, name):
    content, options, words = BAD_FILES[name]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content())
    output = tmp_path / "r.html"
    code, _, said = inside(capsys, "compare", path, *options, *QUICK, "-o", output)
    assert code == 3
    assert words.lower() in said.lower()
    assert name in said
    assert "Traceback" not in said
    assert not output.exists()


def test_usage_mistakes(capsys, flowers, tmp_path):
    mistakes = {
        ("compare", flowers, "--folds", "1"): "folds",
        ("compare", flowers, "--methods", "ovo+likelyhood"): "Did you mean 'likelihood'",
        ("compare", flowers, "--methods", "ovo"): "'ovo+hinge'",
        ("compare", flowers, "--time-limit", "soon"): "30s, 10m or 2h",
        ("compare", flowers, "-o", tmp_path / "report.pdf"): ".html",
        ("compare", flowers, "-o", tmp_path / "no" / "report.html"): "does not exist",
        ("compare", flowers, "--time-limit", "0s"): "30s, 10m or 2h",
        ("compare", flowers, "--seed", 2**32): "--seed",
        ("compare", flowers, "--methods", ""): "Unknown method ''",
        ("compare", flowers, "-o", flowers): "would destroy it",
        ("fit", flowers, "-o", flowers): "would destroy it",
        ("fit", flowers, "-m", "svc", "-o", tmp_path / "m.oc"): "scikit-learn's own",
        ("fit", flowers, "-o", tmp_path / "no" / "model.oc"): "does not exist",
        ("reproduce", "LZ05", "-o", tmp_path / "no" / "page.md"): "does not exist",
        ("code", "ova"): "--classes",
        ("code", "dense", "-k", 10**5): "1000",
        ("code", "ovaa", "-k", "4"): "Did you mean 'ova'",
        ("reproduce", "LZ06"): "Did you mean",
        ("predict", tmp_path / "none.oc", flowers): "does not exist",
    }
    for arguments, words in mistakes.items():
        code, _, said = inside(capsys, *arguments)
        assert code == 2, (arguments, said)
        assert words in said, (arguments, said)
        assert "Traceback" not in said
        assert "rows" not in said  # told before the data are read


def test_an_unknown_data_set_is_a_fault_of_the_data(capsys, data_dir):
    code, _, said = inside(capsys, "compare", "vehicel", "--data-dir", data_dir)
    assert code == 3
    assert "vehicle" in said


def test_without_a_network_that_is_said(capsys, monkeypatch):
    def unreachable(*_, **__):
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    monkeypatch.delenv("OUTCODE_DATA", raising=False)
    code, _, said = inside(capsys, "compare", "nosuchset")
    assert code == 3
    assert "URLError" in said
    assert "check the name and the network" in said
    assert len(said.splitlines()) == 1


def test_a_fault_of_the_program_has_no_traceback_but_with_debug(capsys, monkeypatch):
    from outcode.app import commands

    def broken():
        raise KeyError("lost")

    monkeypatch.setattr(commands, "doctor", broken)
    code, _, said = inside(capsys, "doctor")
    assert code == 1
    assert "--debug" in said
    with pytest.raises(KeyError):
        cli.main(["doctor", "--debug"])


def test_a_model_file_that_is_none(capsys, flowers):
    code, _, said = inside(capsys, "predict", flowers, flowers)
    assert code == 3
    assert "flowers.csv" in said


def test_code_shows_and_diagnoses(capsys, flowers, tmp_path):
    code, out, _ = inside(capsys, "code", "ovo", "-k", "3")
    assert code == 0
    assert out.splitlines()[:3] == ["0  + + .", "1  - . +", "2  . - -"]
    assert "row distance" in out
    matrix = tmp_path / "mine.csv"
    matrix.write_text("1,-1\n-1,1\n1,1\n")
    code, out, _ = inside(capsys, "code", matrix)
    assert code == 0
    assert "OC007" in out
    code, out, _ = inside(capsys, "code", "decoc", "--data", flowers, "-t", "species")
    assert code == 0
    assert "lily" in out
    for wrong in ("1,two\n", "", "1,3\n-1,1\n", "1,-1\n1\n"):
        matrix.write_text(wrong)
        code, _, said = inside(capsys, "code", matrix)
        assert code == 3
        assert "mine.csv is not a code" in said
    code, _, said = inside(capsys, "code", tmp_path / "none.csv")
    assert code == 3
    assert "No such file" in said


def test_code_lists_what_methods_are_made_of(capsys):
    code, out, _ = inside(capsys, "code")
    assert code == 0
    for name in ("bch", "likelihood", "ls", "spoc"):
        assert name in out.replace(",", " ").split()


def test_a_store_without_a_study_is_told_and_left_alone(capsys, tmp_path):
    empty = tmp_path / "empty.db"
    empty.touch()
    code, _, said = inside(capsys, "report", empty, "-o", tmp_path / "r.html")
    assert code == 3
    assert "empty.db contains no study" in said
    assert not empty.stat().st_size
    assert not (tmp_path / "r.html").exists()


def test_a_model_does_not_replace_a_device(capsys, flowers, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code, _, said = inside(capsys, "fit", flowers, "-m", "ova+hinge", "-j", 0, "-o", pipe)
    assert code == 3
    assert "not a regular file" in said
    assert pipe.is_fifo()


def test_no_place_for_compiled_code(capsys, monkeypatch):
    from outcode.app import commands

    def broken():
        raise RuntimeError("cannot cache function 'f': no locator available for file 'g.py'")

    monkeypatch.setattr(commands, "doctor", broken)
    code, _, said = inside(capsys, "doctor")
    assert code == 2
    assert "Set NUMBA_CACHE_DIR" in said


def test_without_click_the_command_says_what_to_install():
    script = "import sys; sys.modules['click'] = None; import outcode.app.cli"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "additional packages: pip install" in done.stderr


def test_closed_streams_are_no_fault(monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    opened = sys.stdin, sys.stdout, sys.stderr
    for stream in opened:
        stream.close()
    assert not stop.value.code


def test_errors_of_the_system_are_sentences(capsys, monkeypatch):
    from outcode.app import commands

    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(commands, "doctor", full)
    code, _, said = inside(capsys, "doctor")
    assert code == 3
    assert said == "Error: The output: No space left on device.\n"


def cell(key, method="a", status="ok", error=0.25):
    metrics = {"error": error, "log_loss": None, "fit_seconds": 1.0} if status == "ok" else {}
    return {
        **{"key": key, "dataset": "d", "fold": 0, "method": method, "status": status},
        **{"reason": None if status == "ok" else "Too slow.", "metrics": metrics},
    }


def test_a_cell_tried_again_counts_once_on_the_leaderboard(capsys):
    board = terminal.Leaderboard(["a", "b"], 2)
    board.take([cell("1", "a", "timeout"), cell("2", "b", error=0.5)])
    assert list(board.reasons()) == ["a, 1 x timeout: Too slow."]
    assert [row[0] for row in board.table()] == ["method", "b", "a"]
    board.add(cell("1", "a"), 3.0)
    assert capsys.readouterr().err == "[2/2] d fold 0 a: 25.00%; best so far a; 3.0 s left\n"
    assert not list(board.reasons())
    assert [row[-1] for row in board.table()] == ["runs", "1", "1"]
    assert board.table()[1][:2] == ["a", "25.00%"]


def test_a_narrow_terminal_folds_names_and_no_numbers():
    from rich.console import Console

    name = "exhaustive+bradley-terry"
    board = terminal.Leaderboard([name, "b"], 2)
    board.take([cell("1", name, error=0.125), cell("2", "b", "memory")])
    console = Console(width=50, file=io.StringIO())
    console.print(board._table())
    shown = console.file.getvalue()
    for whole in ("12.50%", "1.0 s", "0 of 1", "log loss"):
        assert whole in shown
    assert "\u2026" not in shown
    assert max(map(len, shown.splitlines())) <= 50


def test_doctor_says_what_is_there(capsys):
    code, out, _ = inside(capsys, "doctor")
    assert code == 0
    for word in ("numpy", "cores", "memory", "compiled"):
        assert word in out


def test_reproduce_lists_and_runs(capsys, tmp_path):
    code, out, _ = inside(capsys, "reproduce")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        *("PPF04", "LZ05", "CS02", "LZCX16", "EPY08")
    ]


def test_interrupted_then_resumed(flowers, tmp_path):
    command = [sys.executable, "-m", "outcode", "compare", str(flowers), *QUICK]
    command += ["-o", str(tmp_path / "r.html")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("[1/"):
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
    assert process.returncode == 130
    assert "Traceback" not in rest
    assert "again" in rest
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0
    assert "finished already" in done.stderr


def test_an_interrupt_within_an_error_of_a_module_is_one(monkeypatch, capsys):
    def load(*_, **__):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise RuntimeError("Error calling __set_name__") from error

    monkeypatch.setattr(cli.cli, "main", load)
    with pytest.raises(SystemExit) as stop:
        cli.main([])
    assert stop.value.code == 130
    assert "bug" not in capsys.readouterr().err
