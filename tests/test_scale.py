"""Blocks, files and Dask: the same bits as arrays, clear errors, and work that is kept."""

import os

import numpy as np
import pytest

from outcode.codes import assignment, code_matrix
from outcode.datasets import cuts
from outcode.machines.nystrom import Nystrom, Task
from outcode.scale import checkpoints, engine, files, sources, survey

CODE = 2 * np.eye(5, dtype=np.int8) - 1
NAMES = np.array(["ant", "bee", "cow", "dog", "elk"])


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    labels = rng.randint(5, size=3000)
    X = rng.randn(3000, 6)
    X[:, 0] += labels
    return X, labels


def fit(source, run=None, loss="least_squares", **params):
    """Train on blocks as the classifier does: a first pass, then the machine."""
    run = run or engine.Threads(1)
    seen = survey.survey(run, source)
    encoded = survey.EncodedSource(source, seen.classes)
    scale = 1.0 / (seen.means.shape[1] * seen.variance)
    task = Task(run, encoded, CODE, seen.labels, seen.lengths, scale)
    return Nystrom(60, loss=loss, **params).fit_task(task)


def blocks(X, y, rows=250):
    return [(X[i : i + rows], y[i : i + rows]) for i in range(0, len(X), rows)]


# --- sums ---


@pytest.mark.parametrize("n", [1, 7, 8, 9, 63, 64, 65, 130])
def test_the_tree_adds_the_same_way_for_groups_of_eight(n):
    values = np.random.RandomState(0).randn(n, 3) * 10.0 ** np.arange(-8, 9, 8)
    one, grouped = engine.Tree(), engine.Tree()
    for value in values:
        one.push((value.copy(),))
    for i in range(0, n, engine.FAN):
        part = values[i].copy()
        for value in values[i + 1 : i + engine.FAN]:
            part += value
        grouped.push((part,), 1)
    assert np.array_equal(one.total()[0], grouped.total()[0])
    np.testing.assert_allclose(one.total()[0], values.sum(axis=0), rtol=1e-9, atol=1e-6)


def test_no_blocks_are_an_error():
    with pytest.raises(ValueError, match="no blocks"):
        engine.Tree().total()


@pytest.mark.parametrize("loss", ["least_squares", "squared_hinge", "logistic"])
def test_blocks_and_threads_give_the_same_bits(data, loss):
    X, labels = data
    y = NAMES[labels]
    whole = fit(sources.Arrays(X, y, block_rows=250), loss=loss)
    for n_jobs in (2, 5):
        source = sources.Blocks(blocks(X, y))
        assert np.array_equal(fit(source, engine.Threads(n_jobs), loss).coef_, whole.coef_)
    source = sources.Blocks(lambda: iter(blocks(X, y)))
    assert np.array_equal(fit(source, engine.Threads(2), loss).coef_, whole.coef_)


def test_labels_unseen_at_first_empty_blocks_and_blocks_of_one_class(data):
    X, labels = data
    order = np.argsort(labels, kind="stable")
    X, y = X[order], NAMES[labels[order]]
    parts = blocks(X, y, 400)
    parts.insert(3, (np.empty((0, 6)), np.empty(0, dtype=y.dtype)))
    machine = fit(sources.Blocks(parts), engine.Threads(2))
    assert np.mean(machine.margins(X).argmax(axis=1) == np.sort(labels)) > 0.3
    seen = survey.survey(engine.Threads(2), sources.Blocks(parts))
    assert seen.classes.tolist() == NAMES.tolist()
    assert np.array_equal(seen.labels, np.sort(labels))
    assert seen.variance == pytest.approx(X.var(), rel=1e-12)
    np.testing.assert_allclose(seen.means[2], X[y == "cow"].mean(axis=0))


def test_a_generator_is_refused(data):
    X, labels = data
    with pytest.raises(ValueError, match="only once"):
        sources.Blocks(part for part in blocks(X, labels))


def test_rows_held_out_of_blocks_are_those_of_a_refit(data):
    X, labels = data
    rows = np.sort(np.random.RandomState(0).permutation(3000)[:300])
    keep = np.setdiff1d(np.arange(3000), rows)
    for loss in ("least_squares", "squared_hinge"):
        source = sources.Arrays(X, labels, labels, block_rows=250)
        lengths = np.full(12, 250)
        task = Task(engine.Threads(2), source, CODE, labels, lengths, 0.1)
        machine = Nystrom(60, loss=loss, certified=True, tol=1e-14, max_passes=300).fit_task(task)
        found = machine.held_out_sample(task, rows)
        part = sources.Arrays(X[keep], labels[keep], labels[keep])
        rest = Task(engine.Threads(1), part, CODE, labels[keep], np.array([2700]), 0.1)
        coef = machine._trained(rest, machine._collect(rest)).coef
        np.testing.assert_allclose(found, machine.features_.margins(X[rows], coef), atol=1e-5)


def test_rows_are_added_and_forgotten(data):
    X, labels = data
    machine = Nystrom(60, loss="least_squares").fit(X[:2000], CODE[labels[:2000]])
    before = machine.margins(X)
    machine.update_rows(X[2000:], CODE[labels[2000:]], add=True)
    whole = machine._arrays(X, CODE[labels], None, 1)
    coef = machine._trained(whole, machine._collect(whole)).coef
    np.testing.assert_allclose(machine.margins(X), machine.features_.margins(X, coef), atol=1e-8)
    assert np.abs(machine.margins(X) - before).max() > 1e-3
    machine.update_rows(X[2000:], CODE[labels[2000:]], add=False)
    np.testing.assert_allclose(machine.margins(X), before, atol=1e-8)
    with pytest.raises(ValueError, match="forgotten"):
        machine.update_rows(np.vstack([X, X]), CODE[np.tile(labels, 2)], add=False)
    with pytest.raises(ValueError, match="not in the training set"):
        machine.update_rows(X[:1], -np.ones((1, 5), dtype=np.int8), add=True)
    with pytest.raises(AttributeError, match="needs all rows at once"):
        Nystrom(60).fit(X, CODE[labels]).update_rows(X, CODE[labels], add=True)


# --- files ---


def write_csv(path, X, y, header=("a", "b", "c", "d", "e", "f", "species")):
    lines = [",".join(header)]
    lines += [",".join([*(repr(float(v)) for v in row), str(t)]) for row, t in zip(X, y)]  # noqa: B905
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(data, tmp_path, monkeypatch):
    monkeypatch.setattr(cuts, "PART_BYTES", 20_000)
    X, labels = data
    for i in range(3):
        cut = slice(1000 * i, 1000 * (i + 1))
        write_csv(tmp_path / f"part{i}.csv", X[cut], NAMES[labels[cut]])
    return tmp_path


def test_csv_parts_hold_all_rows_in_order(data, folder):
    X, labels = data
    source = files.files(folder, "species")
    parts = [load() for load in source.loaders()]
    assert len(parts) > 6
    assert np.array_equal(np.vstack([part.X for part in parts]), X)
    assert np.concatenate([part.y for part in parts]).tolist() == NAMES[labels].tolist()
    starts = [part.first for part in parts if part.where.endswith("part1.csv")]
    assert starts == np.cumsum([0, *[len(p) for p in parts if "part1" in p.where][:-1]]).tolist()
    again = files.files(str(folder / "part*.csv"), "species")
    assert [load.place for load in again.loaders()] == [load.place for load in source.loaders()]


def test_csv_without_pyarrow_reads_the_same(folder, monkeypatch):
    fast = [load() for load in files.files(folder, "species").loaders()]
    monkeypatch.setattr(files, "_fast_csv", lambda *_: None)
    plain = [load() for load in files.files(folder, "species").loaders()]
    for a, b in zip(fast, plain, strict=True):
        assert np.array_equal(a.X, b.X)
        assert a.y.tolist() == b.y.tolist()


def test_files_give_the_bits_of_blocks(data, folder):
    parts = [load() for load in files.files(folder, "species").loaders()]
    given = fit(sources.Blocks([(part.X, part.y) for part in parts]))
    assert np.array_equal(fit(files.files(folder, "species"), engine.Threads(3)).coef_, given.coef_)


def test_parquet_row_groups_are_blocks(data, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import parquet

    X, labels = data
    columns = {f"x{j}": X[:, j] for j in range(6)} | {"species": NAMES[labels]}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=250)
    source = files.files(tmp_path / "rows.parquet", "species")
    assert len(list(source.loaders())) == 12
    given = fit(sources.Blocks(blocks(X, NAMES[labels])))
    assert np.array_equal(fit(source, engine.Threads(2)).coef_, given.coef_)


BAD = {
    "text": ("1.0,2.0,x,4.0,5.0,6.0,ant", r"bad\.csv, block \d+, row 1: column 'c' holds 'x'"),
    "missing": ("1.0,,3.0,4.0,5.0,6.0,ant", r"bad\.csv, block \d+, row 1: .*(missing|no number)"),
    "label": ("1.0,2.0,3.0,4.0,5.0,6.0,", r"bad\.csv, block \d+, row 1: the label is missing"),
    "short": ("1.0,2.0,ant", r"bad\.csv, block \d+.*row 1 has 3 cells"),
}


@pytest.mark.parametrize("kind", BAD)
def test_errors_name_file_block_and_row(data, folder, kind):
    X, labels = data
    line, message = BAD[kind]
    write_csv(folder / "part9bad.csv", X[:1], NAMES[labels[:1]])
    with open(folder / "part9bad.csv", "a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(sources.BlockError, match=message.replace("bad", "part9bad")):
        fit(files.files(folder, "species"), engine.Threads(2))


def test_other_columns_unreadable_files_and_no_files_are_errors(data, folder, tmp_path):
    X, labels = data
    with pytest.raises(sources.BlockError, match=r"part0\.csv: there is no column 'kind'"):
        files.files(folder, "kind")
    with pytest.raises(sources.BlockError, match="no such file"):
        files.files(folder / "other.csv", "species")
    with pytest.raises(sources.BlockError, match="no CSV or Parquet"):
        files.files(str(folder / "*.arff"), "species")
    names = ("a", "b", "c", "d", "e", "other", "species")
    write_csv(folder / "part8.csv", X[:5], NAMES[labels[:5]], names)
    with pytest.raises(sources.BlockError, match=r"part8\.csv.*'f' is missing"):
        fit(files.files(folder, "species"))
    for content in (b"\x00\x93 no text \xff", b"a,b,c\n"):
        (folder / "part8.csv").write_bytes(content)
        with pytest.raises(sources.BlockError, match=r"part8\.csv.*(cannot be read|is missing)"):
            fit(files.files(folder, "species"))
    write_csv(folder / "part8.csv", X[:0], labels[:0])  # a header alone is all right
    assert len(fit(files.files(folder, "species")).support_) == 60
    (folder / "part8.csv").unlink()
    (folder / "part8.parquet").write_bytes(b"no parquet")
    with pytest.raises(sources.BlockError, match=r"part8\.parquet, block \d+: cannot be read"):
        fit(files.files(folder, "species"))


def test_work_before_an_error_is_kept(folder, tmp_path, monkeypatch):
    whole = fit(files.files(folder, "species"), loss="squared_hinge")
    good = (folder / "part2.csv").read_text()
    (folder / "part2.csv").write_text(good.replace("\n", "\nx", 1))
    kept = checkpoints.Folder(tmp_path / "kept")
    with pytest.raises(sources.BlockError, match=r"part2\.csv"):
        fit(files.files(folder, "species"), engine.Threads(2, kept), loss="squared_hinge")
    (folder / "part2.csv").write_text(good)
    read: list[str] = []
    load = files.Part.__call__
    monkeypatch.setattr(
        files.Part, "__call__", lambda part: (read.append(part.cut.path), load(part))[1]
    )
    again = fit(files.files(folder, "species"), engine.Threads(2, kept), loss="squared_hinge")
    assert np.array_equal(again.coef_, whole.coef_)
    # the first pass read only the file that was mended; later passes read everything
    assert {os.path.basename(path) for path in read[:3]} == {"part2.csv"}
    read.clear()
    third = fit(files.files(folder, "species"), engine.Threads(2, kept), loss="squared_hinge")
    assert np.array_equal(third.coef_, whole.coef_)
    assert len(read) <= len(list(files.files(folder, "species").loaders()))  # landmarks alone


def test_a_changed_file_is_read_again(folder, tmp_path):
    kept = checkpoints.Folder(tmp_path / "kept")
    first = fit(files.files(folder, "species"), engine.Threads(1, kept))
    text = (folder / "part0.csv").read_text().splitlines()
    (folder / "part0.csv").write_text("\n".join(text[:500]) + "\n")
    second = fit(files.files(folder, "species"), engine.Threads(1, kept))
    assert second.statistics_.rows.sum() < first.statistics_.rows.sum()


# --- many classes ---


def test_assignment_is_a_permutation_that_brings_similar_classes_together():
    rng = np.random.RandomState(0)
    means = np.repeat(rng.randn(20, 5) * 5, 10, axis=0) + rng.randn(200, 5)
    code = np.where(rng.randn(200, 40) > 0, 1, -1).astype(np.int8)
    assigned = assignment.assign(code, means)
    assert sorted(map(tuple, assigned.tolist())) == sorted(map(tuple, code.tolist()))
    assert assignment.cost(assigned, means) < assignment.cost(code, means) - 0.1
    assert sorted(assignment.preorder(means).tolist()) == list(range(200))
    assert sorted(assignment.preorder(np.zeros((5, 2))).tolist()) == list(range(5))


def test_a_thousand_classes_with_a_tenth_of_the_columns():
    rng = np.random.RandomState(0)
    means = np.repeat(rng.randn(50, 20) * 2.0, 20, axis=0) + rng.randn(1000, 20)
    labels = np.repeat(np.arange(1000), 12)
    X = means[labels] + 0.25 * rng.randn(len(labels), 20)
    truth = np.repeat(np.arange(1000), 2)
    test = means[truth] + 0.25 * rng.randn(len(truth), 20)
    plain = code_matrix("dense", 1000, random_state=0)
    assert plain.shape[1] == 100
    errors = []
    for code in (plain, assignment.assign(plain, means)):
        machine = Nystrom(500, gamma=0.02, C=100.0).fit(X, code[labels])
        found = np.argmax(machine.margins(test) @ code.T.astype(float), axis=1)
        errors.append(np.mean(found != truth))
    assert errors[1] < errors[0]
    assert errors[1] < 0.05
