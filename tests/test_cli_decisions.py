"""`outcode predict` with sets of classes and reasons."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from sklearn.datasets import load_wine

from outcode import load
from outcode.app import cli


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wine")
    X, y = load_wine(return_X_y=True)
    names = np.array(["red one", "white", "rosé"])
    with open(folder / "wine.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{j}" for j in range(4)), "kind"])
        writer.writerows(
            [*map(repr, x[:4].tolist()), names[label]] for x, label in zip(X, y, strict=True)
        )
    for method, name in (("ovo+likelihood", "proba.oc"), ("ova+hinge", "plain.oc")):
        model = ["-m", method, "-o", str(folder / name), "--folds", "0", "-j", "1"]
        with pytest.raises(SystemExit) as stop:
            cli.main(["fit", str(folder / "wine.csv"), "-t", "kind", *model])
        assert stop.value.code in (0, None)
    return folder


def inside(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    out, said = capsys.readouterr()
    return stop.value.code, out, said


def test_sets_and_reasons_are_columns_of_the_predictions(capsys, files):
    given = "predict", files / "proba.oc", files / "wine.csv", "-t", "kind"
    code, out, said = inside(capsys, *given, "--set", "0.95", "--explain", "--proba")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0])[:4] == ["row", "prediction", "set", "why"]
    assert "hold the true class" in said
    for row in rows:
        assert row["prediction"] in row["set"].split(" | ")
        assert row["why"].startswith(f"Predicted {row['prediction']}: score")
    sizes = [len(row["set"].split(" | ")) for row in rows]
    clf = load(files / "proba.oc")
    assert len(rows) == 178
    assert 1.0 <= np.mean(sizes) < 2.0
    assert set(" | ".join(row["set"] for row in rows).split(" | ")) == set(clf.classes_)


def test_a_larger_share_gives_larger_sets(capsys, files):
    sizes = []
    for share in ("0.5", "0.99"):
        given = "predict", files / "proba.oc", files / "wine.csv", "--set", share
        rows = list(csv.DictReader(io.StringIO(inside(capsys, *given)[1])))
        sizes.append(sum(len(row["set"].split(" | ")) for row in rows))
    assert sizes[0] < sizes[1]


def test_bad_shares_and_models_without_held_out_rows(capsys, files):
    code, _, said = inside(
        capsys, "predict", files / "plain.oc", files / "wine.csv", "--set", "0.9"
    )
    assert code == 2
    assert "ovo+likelihood" in said
    assert inside(capsys, "predict", files / "plain.oc", files / "wine.csv", "--explain")[0] == 0
    for share in ("0", "1", "90", "x"):
        code, _, said = inside(
            capsys, "predict", files / "proba.oc", files / "wine.csv", "--set", share
        )
        assert code == 2
        assert "--set" in said
