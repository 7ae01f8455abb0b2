"""Folders, patterns and large files on the command line: blocks with columns of any kind."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("click")

from outcode import persistence
from outcode.app import cli
from outcode.app.commands import blocks as command
from outcode.app.commands import large
from outcode.app.study import Store
from outcode.datasets import DataError, TableEncoder, blocks, cuts, drawing
from outcode.scale.rest import Rest
from outcode.scale.tables import Stored, Tables

FIT = ("-t", "species", "--landmarks", "60", "-o", "m.oc")


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        with pytest.raises(SystemExit) as left:
            cli.main(list(arguments))
        streams = capsys.readouterr()
        return left.value.code, streams.out, streams.err

    return command


def frame(n=400, seed=0):
    """Numbers with gaps, a category, a date and a text, of three species."""
    rng = np.random.default_rng(seed)
    label = rng.integers(3, size=n)
    x = rng.normal(3 * label, 1)
    words = np.array(["alpha", "beta", "gamma", "delta", "epsilon"])
    return pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.05, np.nan, x),
            "colour": np.array(["red", "green", "blue"])[(label + rng.integers(2, size=n)) % 3],
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(300, size=n), "D"),
            "note": [" ".join(rng.choice(words, 3)) + f" {i}" for i in range(n)],
            "species": np.array(["ant", "bee", "cow"])[label],
        }
    )


@pytest.fixture
def folder(tmp_path):
    where = tmp_path / "rows"
    where.mkdir()
    for i in range(3):
        frame(seed=i).to_csv(where / f"part{i}.csv", index=False)
    return where


def test_a_folder_is_trained_on_and_predicted(run, folder, tmp_path):
    code, _, said = run("fit", "rows/", *FIT)
    assert code == 0
    assert "1,200 rows, 3 classes, 60 landmarks" in said
    assert "held out of training" in said
    assert not (tmp_path / "m.oc.work").exists()
    code, out, said = run("predict", "m.oc", "rows", "-t", "species", "--proba")
    assert (code, len(out.splitlines())) == (0, 1201)
    model, whole = persistence.load("m.oc"), pd.concat([frame(seed=i) for i in range(3)])
    predicted = [line.split(",")[1] for line in out.splitlines()[1:]]
    assert predicted == model.predict(whole.drop(columns="species")).tolist()
    wrong = np.mean(np.array(predicted) != whole["species"].to_numpy())
    assert wrong < 0.12
    assert "an error of" in said


def test_one_file_of_every_format_is_one_of_the_blocks(run, folder, tmp_path):
    data = frame(seed=1)
    (folder / "part1.csv").unlink()
    (folder / "part1.csv.gz").write_bytes(gzip.compress(data.to_csv(index=False).encode()))
    coded = frame(seed=3).astype({"colour": "category", "species": "category"})
    coded.to_parquet(folder / "part3.parquet", row_group_size=150)
    (folder / "_SUCCESS").write_text("")
    code, _, said = run("fit", "rows", *FIT)
    assert code == 0
    assert "6 blocks in 4 files" in said
    assert "1,600 rows" in said
    assert run("predict", "m.oc", "rows/*.parquet")[0] == 0


BAD = {
    "text where numbers were": (
        "x",
        7,
        "seven",
        r"part1\.csv, block 1, row 8, column 'x': 'seven'",
    ),
    "a label missing": ("species", 41, None, r"part1\.csv, block 1, row 42: the class is missing"),
    "no date": ("day", 3, "soon", r"part1\.csv, block 1, row 4, column 'day': 'soon'"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_is_named_and_the_run_goes_on(run, folder, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(blocks, "SAMPLE_BLOCKS", 1)  # the first file alone is looked at first
    whole = run("fit", "rows", *FIT)
    assert whole[0] == 0
    expected = (tmp_path / "m.oc").read_bytes()
    column, row, cell, message = BAD[kind]
    data = frame(seed=1).astype({column: object})
    data.loc[row, column] = cell
    good = (folder / "part1.csv").read_text()
    data.to_csv(folder / "part1.csv", index=False)
    code, _, said = run("fit", "rows", *FIT)
    assert code == 3
    assert re.search(message, said), said
    assert (tmp_path / "m.oc.work").is_dir()
    (folder / "part1.csv").write_text(good)
    read: list[str] = []
    found = blocks.TablePart.found
    monkeypatch.setattr(
        blocks.TablePart,
        "found",
        lambda part, n=(): (read.append(part.cut.path), found(part, n))[1],
    )
    assert run("fit", "rows", *FIT)[0] == 0
    assert (tmp_path / "m.oc").read_bytes() == expected
    # once for the sample of rows; of the blocks before the bad one nothing is read again
    assert [path for path in read if "part0" in path] == [read[0]]


def test_other_columns_and_unreadable_files_are_named(run, folder):
    frame(seed=1).rename(columns={"x": "z"}).to_csv(folder / "part1.csv", index=False)
    code, _, said = run("fit", "rows", *FIT)
    assert code == 3
    assert "part1.csv, block 1: column 'x' is missing; the first file has it" in said
    (folder / "part1.csv").unlink()
    (folder / "part1.parquet").write_bytes(b"no parquet")
    code, _, said = run("fit", "rows", *FIT)
    assert code == 3
    assert "part1.parquet, block 1" in said
    assert run("fit", "empty*", *FIT)[0] == 3


def test_what_blocks_do_not_do_is_said(run, folder):
    for arguments, message in (
        (("rows", "-t", "species", "-m", "tuned"), "leave the method out"),
        (("rows", *FIT, "-m", "tuned"), "does not train on landmarks"),
        (("rows", *FIT, "--bins", "3"), "--bins is for a single file"),
        (("rows", *FIT[2:], "-t", "x"), "looks like a quantity"),
        (("iris", "-t", "species", "--landmarks", "5"), "are for files and folders"),
    ):
        code, _, said = run("fit", *arguments)
        assert code in (2, 3)
        assert message in said


def test_a_large_file_is_read_in_blocks_and_gives_the_model_of_a_folder(
    run, folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(command, "LARGE", 10_000)
    monkeypatch.setattr(cuts, "PART_BYTES", 8_000)
    whole = pd.concat([frame(seed=i) for i in range(3)])
    whole.to_csv(tmp_path / "all.csv", index=False)
    code, _, said = run("fit", "all.csv", "-t", "species", "-o", "m.oc")
    assert code == 0
    assert "1,200 rows, 3 classes" in said
    assert "blocks in 1 file" in said


def test_cells_with_line_ends_stay_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(cuts, "PART_BYTES", 500)
    data = frame(60).assign(note='two\nlines, and a "quote"')
    data.to_csv(tmp_path / "d.csv", index=False)
    parts = blocks.parts(tmp_path / "d.csv")
    found = [part.table() for part in parts]
    assert len(parts) > 3
    assert sum(table.n_rows for table in found) == 60
    assert {cell for table in found for cell in table.columns[3]} == {'two\nlines, and a "quote"'}


def test_rows_are_encoded_once_and_kept(folder, tmp_path):
    parts = blocks.parts(folder)
    sample = blocks.sample(parts, "species", "rows", 0)
    encoder = TableEncoder().fit(sample.data.table)
    source = Tables(parts, sample.names, sample.target, encoder)
    kept = Stored(source, tmp_path / "kept")
    for plain, first, again in zip(source.loaders(), kept.loaders(), kept.loaders(), strict=True):
        one, two, three = plain(), first(), again()
        assert np.array_equal(one.X, two.X)
        assert np.array_equal(two.X, three.X)
        assert three.y.tolist() == one.y.tolist()
        assert (three.where, three.number, three.first) == (one.where, one.number, one.first)


def test_files_that_do_not_agree_on_a_type_become_text(tmp_path):
    frame(50).assign(x=1).to_parquet(tmp_path / "a.parquet")
    frame(50).assign(x="one").to_parquet(tmp_path / "b.parquet")
    sample = blocks.sample(blocks.parts(tmp_path), "species", "rows", 0)
    assert sample.data.table.kinds[0] == "nominal"
    with pytest.raises(DataError, match="no such file"):
        blocks.parts(tmp_path / "nothing")


def test_compare_takes_a_sample_for_exact_methods_and_all_rows_for_landmarks(
    run, folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(large, "SAMPLE_ROWS", 300)
    options = ("-t", "species", "-m", "ova+hinge+ls,landmarks", "-j", "0", "-o", "r.json")
    code, _, said = run("compare", "rows", *options, "--time", "600", "--drop", "note")
    assert code == 0
    assert (
        "300 of 1,200 rows are a sample for exact methods; the method landmarks uses all rows"
        in said
    )
    assert re.search(r"landmarks: [\d,]+ of them on 1,200 rows, about .* and .* a fit", said)
    assert "Train on all rows: outcode fit rows --landmarks=" in said
    page = (tmp_path / "r.json").read_text()
    assert "A sample of 300 of 1,200 rows" in page
    with Store("r.db") as store:
        records = {r["method"]: r for r in store.records()}
    assert records["landmarks"]["status"] == "ok"
    assert records["landmarks"]["metrics"]["n_train"] == 1140
    assert records["ova+hinge+ls"]["metrics"]["n_train"] <= 240


def test_a_stratified_sample_and_the_rest_are_all_rows_once(folder):
    frame(40, seed=9).assign(species="rare").head(3).to_csv(folder / "part9.csv", index=False)
    parts = blocks.parts(folder)
    seen = blocks.sample(parts, "species", "rows", 0)
    drawn = drawing.drawn(parts, seen, 120, 0)
    assert (drawn.n_rows, len(drawn.data.y)) == (1203, drawn.n_taken)
    assert 115 <= drawn.n_taken <= 125
    assert (drawn.data.y == "rare").sum() == 2
    encoder = TableEncoder().fit(drawn.data.table)
    rest = Rest(parts, seen.names, seen.target, drawn.taken, drawn.n_rows - drawn.n_taken)
    classes = np.unique(drawn.data.y)
    known = encoder.transform(drawn.data.table), np.searchsorted(classes, drawn.data.y)
    found = [load() for load in rest.beside(*known, encoder, classes).loaders()]
    assert [block.number for block in found] == list(range(len(found)))
    every = np.concatenate([classes[block.y] for block in found])
    whole = np.concatenate([blocks.labels(part.found(), "species", part) for part in parts])
    assert sorted(every) == sorted(whole)
