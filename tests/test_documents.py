"""The README's and the documents' Python runs, the example runs, and docstrings' examples hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import outcode

ROOT = Path(__file__).resolve().parents[1]
#: Pages whose Python is no program: fragments of source files, which tests/test_adding.py runs, or
#: lines that need the reader's own data.
FRAGMENTS = {"adding", "data", "report", "scale", "selection"}
DOCUMENTS = [
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if path.stem not in FRAGMENTS and "```python\n" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_python_blocks_run(name, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)
    assert blocks
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), space)
    if name == "README.md":
        assert "probabilities" in capsys.readouterr().out


def test_quickstart_runs(capsys):
    runpy.run_path(str(ROOT / "examples" / "quickstart.py"), run_name="__main__")
    assert "largest relative duality gap" in capsys.readouterr().out


def modules():
    return [m.name for m in pkgutil.walk_packages(outcode.__path__, "outcode.")]


@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name):
    if name.rpartition(".")[2].startswith("__main__"):
        pytest.skip("a command")
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
