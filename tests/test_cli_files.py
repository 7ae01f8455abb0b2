"""Files and their options on the command line: exit codes, what is said of new rows."""

from __future__ import annotations

import io
import os

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("click")

from outcode.app import cli


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def command(*arguments, given=None):
        if given is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as left:
            cli.main(list(arguments))
        streams = capsys.readouterr()
        return left.value.code, streams.out, streams.err

    return command


def rows(n=90):
    rng = np.random.default_rng(0)
    label = np.arange(n) % 3
    return pd.DataFrame(
        {
            "gross": (rng.normal(3 * label, 1)).round(2),
            "stadt": rng.choice(["Köln", "Zürich"], n),
            "tag": pd.date_range("2020-01-01", periods=n).strftime("%d.%m.%Y"),
            "kind": np.array(["a b", "c", "d"])[label],
        }
    )


def german(frame):
    return frame.to_csv(index=False, sep=";", decimal=",").encode("latin-1")


FIT = ("-m", "ova+hinge+ls", "-o", "m.oc")


def test_fit_and_predict_on_files_as_they_are(run, tmp_path):
    (tmp_path / "d.csv").write_bytes(german(rows()))
    code, _, said = run("fit", "d.csv", "-t", "kind", *FIT)
    assert code == 0
    for part in (
        "not UTF-8: read as cp1252", "separated by semicolon", "',' before the decimals: gross",
        "1 date (tag)",
    ):  # fmt: skip
        assert part in said
    new = (
        rows().drop(columns="kind").assign(stadt="Bonn", more=1)[["more", "tag", "gross", "stadt"]]
    )
    new.to_json(tmp_path / "new.json", orient="records")
    code, out, said = run("predict", "m.oc", "new.json")
    assert (code, len(out.splitlines())) == (0, 91)
    assert "Columns that the model does not use: more." in said
    assert "Values of stadt not seen in training: Bonn." in said
    code, again, said = run("predict", "m.oc", "-", "-t", "kind", given=german(rows()))
    assert code == 0
    assert len(again.splitlines()) == 91
    assert "of 90 rows with a known class" in said
    new.drop(columns=["gross", "tag"]).to_csv(tmp_path / "short.csv", index=False)
    code, _, said = run("predict", "m.oc", "short.csv")
    assert code == 3
    assert "short.csv: 2 columns: 'gross', 'tag' are missing." in said


def test_options_reach_the_reader(run, tmp_path):
    (tmp_path / "d.csv").write_bytes(german(rows()))
    code, _, said = run(
        "fit", "d.csv", "-t", "gross", "--bins", "3", "--sample", "60", "--drop", "tag",
        "--types", "kind=text", "--decimal", ",", "--encoding", "latin-1", *FIT,
    )  # fmt: skip
    assert code == 0
    for part in ("cut into 3 classes", "A sample of 60 of 90 rows", "1 text (kind)"):
        assert part in said
    assert "tag" not in said
    code, _, said = run("fit", "d.csv", "--types", "kind", *FIT)
    assert (code, "write it like zip=category" in said) == (2, True)
    code, _, said = run("fit", "d.csv", "--types", "stadt=categry", *FIT)
    assert (code, "Did you mean 'category'?" in said) == (3, True)


@pytest.mark.parametrize("what", ["folder.csv", "pipe.csv", "/dev/zero", "none.csv", "cut.csv.gz"])
def test_bad_input_ends_with_3_and_leaves_nothing(run, tmp_path, what):
    if what == "folder.csv":
        (tmp_path / what).mkdir()
    elif what == "pipe.csv":
        os.mkfifo(tmp_path / what)
    elif what == "cut.csv.gz":
        (tmp_path / what).write_bytes(b"\x1f\x8b\x08\x00cut")
    before = sorted(os.listdir(tmp_path))
    # a folder is trained on landmarks, with no exact method
    given = FIT[2:] if what == "folder.csv" else FIT
    for command in (("fit", what, *given), ("compare", what, "-o", "r.html")):
        code, out, said = run(*command)
        assert (code, out) == (3, "")
        assert said.startswith("Error: ")
    assert sorted(os.listdir(tmp_path)) == before


def test_few_rows_are_compared_in_fewer_folds_or_refused_clearly(run, tmp_path):
    (tmp_path / "few.csv").write_text("x,y,class\n1,2,a\n3,4,b\n5,6,a\n")
    code, _, said = run("compare", "few.csv", "-o", "r.html")
    assert (code, "few: only 2 rows are in classes of two rows or more." in said) == (3, True)
    code, _, said = run("fit", "few.csv", *FIT)
    assert code == 0
    assert "Cross-validated error" in said
    (tmp_path / "four.csv").write_text("x,y,class\n1,2,a\n3,4,b\n5,6,a\n7,9,b\n")
    code, _, said = run("compare", "four.csv", "-o", "r.html", "--dry-run")
    assert (code, "four: 4 folds, one for each row" in said) == (0, True)
