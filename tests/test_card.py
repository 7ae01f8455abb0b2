"""`outcode card`: a model described in Markdown."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from sklearn.datasets import load_iris

from outcode.app import cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("card")
    X, y = load_iris(return_X_y=True)
    colour = np.array(["red", "", "blue"])[np.arange(150) % 3]
    with open(folder / "iris.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["a|b", "<b>", "colour", "kind"])
        writer.writerows([x[2], x[3], c, f"kind {k}"] for x, c, k in zip(X, colour, y, strict=True))
    run("fit", folder / "iris.csv", "-t", "kind", "-m", "ovo+likelihood", "--folds", "0", "-o",
        folder / "m.oc", "-j", "1")  # fmt: skip
    run("fit", folder / "iris.csv", "-t", "kind", "-m", "ova+hinge", "--folds", "0", "-o",
        folder / "plain.oc", "-j", "1")  # fmt: skip
    return folder


def run(*words):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    return stop.value.code or 0


def test_a_card_says_what_the_model_is(folder, capsys):
    assert run("card", folder / "m.oc") == 0
    text = capsys.readouterr().out
    for part in (
        "# Model card: m.oc",
        "## Input",
        "## On held-out rows",
        "kind 0",
        "ovo",
        "Limits",
    ):
        assert part in text
    assert "<b>" not in text  # a name is no markup
    assert "of 150 rows" in text
    assert "sets with coverage 90" in text


def test_a_model_without_held_out_rows_says_so(folder, capsys):
    assert run("card", folder / "plain.oc", "-o", folder / "card.md") == 0
    text = (folder / "card.md").read_text(encoding="utf-8")
    assert "the model has no held" in text
    assert "## On held-out rows" not in text
    assert "Scores are not probabilities" in text


def test_a_study_is_part_of_the_card(folder, capsys):
    given = "compare", folder / "iris.csv", "-t", "kind", "-m", "ovo+likelihood", "--time", "0"
    assert run(*given, "--folds", "2", "-j", "0", "-o", folder / "r.html") == 0
    assert run("card", folder / "m.oc", "--store", folder / "r.db", "-o", folder / "c.md") == 0
    text = (folder / "c.md").read_text(encoding="utf-8")
    assert "## In the study" in text
    assert "likelihood" in text.partition("In the study")[2]


def test_wrong_arguments_get_clear_errors(folder, capsys):
    assert run("card", folder / "m.oc", "-o", folder / "card.txt") == 2
    assert "a card ends in .md" in capsys.readouterr().err
    assert run("card", folder / "iris.csv") == 3
    (folder / "none.db").write_bytes(b"")
    assert run("card", folder / "m.oc", "--store", folder / "none.db") == 3
