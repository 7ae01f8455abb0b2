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
DOCUMENTS = [
    "README.md",
    *(
        f"docs/{name}.md"
        for name in (
            "codes",
            "columns",
            "decisions-beyond-labels",
            "displays",
            "joint",
            "models",
            "sbc",
            "study",
            "tuned",
            "weston-watkins",
        )
    ),
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


def test_links_in_the_readme_exist():
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / "README.md").read_text())
    assert targets
    assert [t for t in targets if not (ROOT / t).exists()] == []
