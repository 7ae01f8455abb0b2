"""The README's commands, as printed."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
FLOWERS = ("setosa", "versicolor", "virginica")


def blocks():
    """The lines of each shell block of the README, without their comments."""
    text = (ROOT / "README.md").read_text()
    found = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    return [[line.split("  #")[0].strip() for line in block.splitlines()] for block in found]


def write(path, rows, head):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


def test_comparing_fitting_and_predicting_my_file(tmp_path):
    rng = np.random.RandomState(0)
    rows = [[i % 3 + rng.randn() / 4, rng.randn(), FLOWERS[i % 3]] for i in range(60)]
    write(tmp_path / "my.csv", rows, ["length", "width", "species"])
    write(tmp_path / "new.csv", [row[:2] for row in rows[:9]], ["length", "width"])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in next(block for block in blocks() if block[0].startswith("outcode compare")):
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "virginica" in page
    with open(tmp_path / "predictions.csv") as file:
        found = [row["prediction"] for row in csv.DictReader(file)]
    assert found == [row[2] for row in rows[:9]]


@pytest.mark.slow
def test_a_fresh_clone_and_the_demo(tmp_path):
    clone = tmp_path / "outcode"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    (demo,) = (line for block in blocks() for line in block if line == "make demo")
    done = subprocess.run(
        demo.split(), cwd=clone, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Report: report.html" in done.stderr
    opened = shutil.which("chromium")
    if opened is None:
        pytest.skip("no chromium to open the report with")
    shown = subprocess.run(
        [opened, "--headless", "--no-sandbox", "--dump-dom", str(clone / "report.html")],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "Leaderboard" in shown.stdout
    assert "digits" in shown.stdout
