"""Use an installed outcode as a newcomer would: import, fit, command line."""

from __future__ import annotations

import csv
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from sklearn.datasets import load_iris, load_wine

import outcode
from outcode import OutputCodeClassifier, load, save


def main(source: Path) -> None:
    """Try the installed package; `source` is the clone, which must not be imported."""
    assert source / "src" not in Path(outcode.__file__).parents, "the clone was imported"
    assert version("outcode") == outcode.__version__, (version("outcode"), outcode.__version__)
    assert (Path(outcode.__file__).parent / "py.typed").exists()
    _library()
    _command_line()
    print(f"outcode {outcode.__version__} from {Path(outcode.__file__).parent} works")


def _library() -> None:
    X, y = load_iris(return_X_y=True)
    clf = OutputCodeClassifier("ovo", decoder="likelihood", random_state=0).fit(X[::2], y[::2])
    assert clf.score(X[1::2], y[1::2]) > 0.9
    save(clf, "iris.oc")
    assert (load("iris.oc").predict_proba(X) == clf.predict_proba(X)).all()


def _command_line() -> None:
    data = load_wine()
    with open("wine.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*data.feature_names, "cultivar"])
        writer.writerows(
            [*row, f"c{label}"] for row, label in zip(data.data, data.target, strict=True)
        )
    _outcode("--help")
    _outcode(
        "compare", "wine.csv", "-t", "cultivar", "-m", "ova+hinge,ovo+likelihood", "--time", "0"
    )
    assert "Leaderboard" in Path("report.html").read_text(encoding="utf-8")
    _outcode("predict", "iris.oc", "--help")


def _outcode(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "outcode", *arguments], check=True, capture_output=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
