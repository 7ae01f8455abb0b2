"""docs/adding.md is true: each example, placed at the end of the one file it names, works.

The source is copied, every example is placed in its file, and other processes use the copy: the
tests over all elements, a model file, a study and its report.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = re.compile(
    r"^## An? (?P<kind>[\w ]+)\n\nIn (?:a new file, )?`src/(?P<file>[^`]+)`:\n\n"
    r"```python\n(?P<source>.*?)```",
    flags=re.DOTALL | re.MULTILINE,
)
KINDS = {
    *("decoder", "code", "kernel", "loss", "machine", "reader", "metric"),
    "statistical test",
}

USE = """
import json, sys
import numpy as np
from pathlib import Path
from sklearn.datasets import load_iris
from outcode import OutputCodeClassifier, load, metrics, save, statistics
from outcode.app import report, study
from outcode.datasets import read
from outcode.decoders import LossBased
from outcode.machines import SVM

folder, found = Path(sys.argv[1]), {}
X, y = load_iris(return_X_y=True)
CASES = {
    "decoder": ("ovo", "svm", "cosine"),
    "code": ("all-and-half", "svm", "likelihood"),
    "kernel": ("ova", SVM("rational"), "likelihood"),
    "loss": ("ovo", "svm", LossBased("smooth_hinge")),
    "machine": ("ova", "centroids", "likelihood"),
}
for kind, parts in CASES.items():
    clf = OutputCodeClassifier(*parts, random_state=0).fit(X, y)
    save(clf, folder / "model.oc")
    again = load(folder / "model.oc")
    same = np.array_equal(again.decision_function(X), clf.decision_function(X))
    finite = np.isfinite(clf.decision_function(X)).all()
    found[kind] = bool(same and finite and clf.score(X, y) > 0.8)

lines = [" ".join(f"x{j}={v:g}" for j, v in enumerate(r)) + f" class=k{c}" for r, c in zip(X, y)]
(folder / "iris.pairs").write_text("\\n".join(lines))
data = read(folder / "iris.pairs", target="class")
found["reader"] = len(data.y) == 150 and set(data.y) == {"k0", "k1", "k2"}

half = np.where(np.arange(150) % 2, "train", "test")
methods = ["all-and-half+cosine", "ova+hinge+centroids", "svc"]
plan = study.Study(
    [study.from_arrays("iris", X, y.astype(str), half)],
    study.methods(methods, "quick"), splits="own",
)
with study.Store(folder / "study.db") as store:
    study.run(plan, store, n_jobs=1)
    page = report.render(report.summarise(store.meta(), store.records()))
found["study"] = all(name in page for name in methods)
found["metric"] = "worst class" in page and "worst_class" in metrics.MEASURES
found["statistical test"] = "sign test" in page
print(json.dumps(found))
"""


def examples():
    page = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
    return {found["kind"]: found for found in EXAMPLE.finditer(page)}


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The folder of a copy of the source with every example in the file it names."""
    source = tmp_path_factory.mktemp("adding") / "src"
    shutil.copytree(ROOT / "src" / "outcode", source / "outcode")
    for found in examples().values():
        file = source / found["file"]
        before = file.read_text(encoding="utf-8") + "\n\n" if file.exists() else ""
        file.write_text(before + found["source"], encoding="utf-8")
    return source


def python(copied, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(copied)}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_kind_has_an_example_in_one_file():
    assert set(examples()) == KINDS
    assert len({found["file"] for found in examples().values()}) == len(KINDS)


def test_the_examples_work_in_models_studies_and_reports(copied, tmp_path):
    found = json.loads(python(copied, "-c", USE, str(tmp_path)).splitlines()[-1])
    assert found == dict.fromkeys(found, True)
    assert set(found) >= KINDS


def test_the_tests_over_all_elements_take_the_new_ones(copied):
    files = ["tests/test_codes.py", "tests/test_decoders.py", "tests/test_kernels.py"]
    chosen = "(cosine or half or rational) and not double_loops"
    said = python(copied, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", chosen)
    passed = int(re.search(r"(\d+) passed", said)[1])
    assert passed >= 10
