"""The files around the code agree with it and with each other."""

from __future__ import annotations

import re
import runpy
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import outcode

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
YAML = sorted(
    [*ROOT.glob(".github/**/*.yml"), ROOT / "CITATION.cff", ROOT / ".pre-commit-config.yaml"]
)


def test_the_version_is_written_once():
    assert "version" in PROJECT["dynamic"]
    assert version("outcode") == outcode.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == outcode.__version__
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[?{re.escape(outcode.__version__)}\b", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_is_valid(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_every_make_target_that_workflows_and_guides_name_exists():
    named = set()
    for path in [*YAML, ROOT / "CONTRIBUTING.md", ROOT / "README.md", *ROOT.glob(".ci/*")]:
        for line in re.findall(r"(?:run: |`|^|&& )make ([a-z -]+)", path.read_text(), flags=re.M):
            named |= set(line.split())
    defined = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert {"docs", "package", "test", "lint"} <= named
    assert named - defined == set()


def test_lower_bounds_of_every_run_time_dependency():
    bounds = runpy.run_path(str(ROOT / "tools" / "lower_bounds.py"))["lower_bounds"](PROJECT)
    assert all(re.fullmatch(r"[\w.-]+==[\d.]+", line) for line in bounds), bounds
    extras = PROJECT["optional-dependencies"]
    needed = {*PROJECT["dependencies"], *extras["app"], *extras["dask"]}
    assert len(bounds) == 1 + len({line.partition(">=")[0] for line in needed})


def test_the_python_versions_tested_start_at_the_oldest_supported():
    tests = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    matrix = tests["jobs"]["tests"]["strategy"]["matrix"]
    assert f">={matrix['python'][0]}" == PROJECT["requires-python"]
    assert {"ubuntu-latest", "macos-latest", "windows-latest"} == set(matrix["os"])
