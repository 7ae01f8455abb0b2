"""The tables of contents of the papers: every name exists, every equation has its place."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import outcode
from outcode.app import papers

ROOT = Path(__file__).resolve().parents[1]
#: The number of the last equation of each paper.
EQUATIONS = {"PPF04": 11, "LZ05": 15, "CS02": 58, "LZCX16": 16, "EPY08": 10}
#: The number of the last footnote, of the papers that have some.
FOOTNOTES = {"PPF04": 6, "EPY08": 8}
#: What else is numbered.
NUMBERED = {
    "PPF04": [
        "Theorem 4.1",
        "Corollary 4.1",
        "Lemma 1.1",
        "Table I",
        "Fig. 1",
        "Fig. 2-3",
        "Fig. 4",
    ],
    "LZ05": ["Table I", "Fig. 1", "Fig. 2"],
    "CS02": [
        *("Theorem 1", "Theorem 2", "Theorem 3", "Theorem 4", "Lemma 1", "Corollary 1"),
        *("Corollaries 2 and 3", "Table 1", "Fig. 1-3", "Fig. 4", "Fig. 5"),
        *("Appendix A", "Appendix B"),
    ],
    "LZCX16": ["Table 1", "Table 2", "Table 3", "Fig. 1", "Fig. 2", "Fig. 3"],
    "EPY08": [
        *("Example 2.1", "Remark 3.1", "Lemma 4.1", "Lemma 4.2", "Algorithm 1", "Algorithm 2"),
        *("Table 1", "Table 2", "Appendix A", "Appendix B", "footnote 1", "Footnote 5"),
    ],
}


def rows(key):
    """Return the rows of a table of contents: in the paper, here, shown by."""
    page = (ROOT / "docs" / "papers" / f"{key}.md").read_text()
    section = page.split("## Where each result is implemented")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def found(path):
    """Return the object of a dotted name below outcode; AttributeError or ImportError if none."""
    parts, thing = path.split("."), outcode
    for i, part in enumerate(parts):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            thing = importlib.import_module("outcode." + ".".join(parts[: i + 1]))
    return thing


def check(name):
    """Raise an error if a name in a table stands for nothing."""
    if name.startswith("outcode reproduce "):
        assert name.split()[-1] in papers.PAPERS
        return
    if "/" in name:
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test}(" in (ROOT / path).read_text(), name
        return
    node = ast.parse(name, mode="eval").body
    given = node.keywords if isinstance(node, ast.Call) else []
    thing = found(ast.unparse(node.func) if isinstance(node, ast.Call) else name)
    if given:
        known = set(inspect.signature(thing).parameters)
        assert {keyword.arg for keyword in given} <= known, name


@pytest.mark.parametrize("key", EQUATIONS)
def test_every_name_in_the_tables_exists(key):
    table = rows(key)
    assert len(table) > 15
    for row in table:
        assert len(row) == 3, row
        for name in names(row[1]) + names(row[2]):
            check(name)
        if row[1].startswith("not "):
            assert len(row[1].split(":")[1]) > 20, f"{row[0]}: say why it is not here"
        elif not row[1].startswith("`docs/"):
            assert names(row[1]), f"{row[0]}: say where it is"
            assert any(name.startswith("tests/") for name in names(row[2])), row[0]


@pytest.mark.parametrize(("key", "last"), EQUATIONS.items())
def test_every_equation_has_its_row(key, last):
    text = " ".join(row[0] for row in rows(key))
    placed = set()
    for first, second in re.findall(r"Eq\. (\d+)(?:-(\d+))?", text):
        placed |= set(range(int(first), int(second or first) + 1))
    assert placed >= set(range(1, last + 1)), sorted(set(range(1, last + 1)) - placed)
    for what in NUMBERED[key]:
        assert what in text, what


@pytest.mark.parametrize(("key", "last"), FOOTNOTES.items())
def test_every_footnote_has_its_row(key, last):
    placed = set()
    for row in rows(key):
        for first, second in re.findall(r"[Ff]ootnotes? (\d+)(?:-(\d+))?", row[0]):
            placed |= set(range(int(first), int(second or first) + 1))
    assert placed == set(range(1, last + 1))


def test_names_that_stand_for_nothing_are_seen():
    for wrong in ("machines.Nothing", "tests/test_papers.py::test_nothing", "docs/nothing.md"):
        with pytest.raises((AssertionError, AttributeError, ImportError)):
            check(wrong)
    with pytest.raises(AssertionError, match="nothing"):
        check("machines.SVM(nothing=1)")
    with pytest.raises(AssertionError):
        check("outcode reproduce ABC")
