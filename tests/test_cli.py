"""The command line, used as a person would, mistakes included."""

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from outcode import cli

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
    assert {row["full"] for row in rows} == {"ova+hinge", "ovo+likelihood", "svc", "ovr-svc"}
    assert (tmp_path / "a.md").read_text() == (tmp_path / "b.md").read_text()


def test_dry_run_runs_nothing(capsys, flowers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, said = inside(capsys, "compare", flowers, *QUICK, "--dry-run")
    assert code == 0
    assert "8 cells" in said
    assert not (tmp_path / "report.html").exists()


def test_a_cell_that_fails_is_told_and_counted(capsys, flowers, tmp_path):
    given = ("--methods", "ova+hinge", "--folds", "2", "-j", "1", "--cell-timeout", "0.001s")
    code, _, said = inside(capsys, "compare", flowers, *given, "-o", tmp_path / "r.html")
    assert code == 5
    assert "timeout" in said
    assert (tmp_path / "r.html").exists()


def test_fit_then_predict_raw_rows(capsys, flowers, tmp_path):
    model, found = tmp_path / "m.oc", tmp_path / "found.csv"
    code, _, said = inside(capsys, "fit", flowers, "-t", "species", "-o", model)
    assert code == 0
    assert "Chosen: gamma" in said
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
    assert "Error: 0.00 % (0 of 60 rows with a known class)" in said


def test_hostile_labels_come_out_harmless(capsys, tmp_path):
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
    assert "\n1,=cmd" not in out
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
    "ragged.csv": ((GOOD + "1,2\n").encode, (), "row 31 (line 32)"),
    "delimiter.csv": (lambda: GOOD.replace(",", "~").encode(), (), "delimiter"),
    "encoding.csv": (lambda: GOOD.replace("x", "\xe9").encode("latin-1"), (), "latin-1"),
    "target.csv": (GOOD.encode, ("-t", "clas"), "Did you mean 'class'"),
    "one.csv": (lambda: GOOD.translate(str.maketrans("xy", "zz")).encode(), (), "one class"),
    "many.csv": (many_classes, (), "classes"),
    "bomb.csv.gz": (bomb, (), "rows"),
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
        ("code", "ova"): "--classes",
        ("code", "ovaa", "-k", "4"): "Did you mean 'ova'",
        ("reproduce", "LZ06"): "Did you mean",
        ("predict", tmp_path / "none.oc", flowers): "does not exist",
    }
    for arguments, words in mistakes.items():
        code, _, said = inside(capsys, *arguments)
        assert code == 2, (arguments, said)
        assert words in said, (arguments, said)
        assert "Traceback" not in said


def test_an_unknown_data_set_is_a_fault_of_the_data(capsys, data_dir):
    code, _, said = inside(capsys, "compare", "vehicel", "--data-dir", data_dir)
    assert code == 3
    assert "vehicle" in said


def test_a_fault_of_the_program_has_no_traceback_but_with_debug(capsys, monkeypatch):
    from outcode import commands

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
    matrix.write_text("1,two\n")
    code, _, said = inside(capsys, "code", matrix)
    assert code == 3
    assert "mine.csv" in said


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
