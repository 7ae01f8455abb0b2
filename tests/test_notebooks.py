"""What a notebook shows: fitted objects as escaped HTML without scripts, and progress as a bar."""

from __future__ import annotations

import re
import sys
import types
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import load_iris

from outcode import OutputCodeClassifier, OutputCodeClassifierCV, codes, diagnose, load, save, study
from outcode.progress import Lines, progress
from outcode.selection import (
    ColumnSearch,
    GreedySearch,
    JointSearchCV,
    KernelSearchCV,
    LOOBoundSearch,
    RelevanceSearch,
)

X, y = load_iris(return_X_y=True)
X, y = X[::3], y[::3]
HOSTILE = np.array(["<script>alert(1)</script>", "\" onmouseover='x'", "</td></table>&amp;"])
SEARCHES = [
    LOOBoundSearch(OutputCodeClassifier(decoder="linear"), gammas=[0.1, 1.0]),
    LOOBoundSearch(OutputCodeClassifier(decoder="linear"), gammas=[0.1, 1.0], by="estimate"),
    ColumnSearch(OutputCodeClassifier(decoder="linear"), gammas=[0.1, 1.0]),
    KernelSearchCV(OutputCodeClassifier(), gammas=[0.1, 1.0], Cs=[1.0, 10.0], cv=3),
    GreedySearch(OutputCodeClassifier(machine="ls"), cv=3),
    JointSearchCV(OutputCodeClassifier(machine="jcl", decoder="llw"), [1e-3], [1e-3], cv=3),
    RelevanceSearch(OutputCodeClassifier(decoder="linear"), max_iter=2),
]


class Reader(HTMLParser):
    """The tags, attributes and text of a page; a tag closed out of order is an error."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.names, self.words = [], set(), set(), []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(shown):
    """Return the text of an object's HTML, once it is well formed and loads or runs nothing."""
    html = shown._repr_html_()
    page = Reader(html)
    assert page.tags <= {"div", "b", "i", "table", "tr", "td"}
    assert page.names <= {"style"}
    assert not re.search(r"url\(|https?:", html)
    return " | ".join(page.words)


def test_fitted_classifier_with_hostile_class_names():
    clf = OutputCodeClassifier("ovo").fit(X, HOSTILE[y])
    words = read(clf)
    for part in (*HOSTILE, "SVM()", "largest duality gap", "3 classes x 3 columns", "OutputCode"):
        assert part in words
    assert words.count("+") == words.count("−") == 3
    assert clf._repr_mimebundle_()["text/html"] == clf._repr_html_()


def test_unfitted_classifier_is_scikit_learns_diagram_and_text_stays_text():
    clf = OutputCodeClassifier()
    assert "sk-container" in clf._repr_html_()
    with config_context(display="text"):
        assert clf.fit(X, y)._repr_html_() is None
        assert set(clf._repr_mimebundle_()) == {"text/plain"}


def test_loaded_model(tmp_path):
    clf = OutputCodeClassifier("ova").fit(X, HOSTILE[y])
    save(clf, tmp_path / "model")
    assert HOSTILE[0] in read(load(tmp_path / "model"))


def test_many_classes_and_columns_are_counted_not_shown():
    rng = np.random.RandomState(0)
    clf = OutputCodeClassifier("ovo").fit(rng.randn(120, 2), np.repeat(np.arange(30), 4))
    words = read(clf)
    assert "… and 10 more classes" in words
    assert "… and 395 more columns" in words


@pytest.mark.parametrize("name", sorted(codes.CODES))
def test_codes(name):
    code = codes.CODES[name]()
    words = read(code)
    assert type(code).__name__ in words
    assert ("class 4" in words) != ("learned from the data" in words)


def test_diagnosis_names_the_classes():
    words = read(diagnose([[1, 1], [1, 1], [-1, -1]], HOSTILE))
    assert "OC001" in words
    assert HOSTILE[0] in words


@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: type(s).__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_searches_show_the_best_setting_first(search):
    assert "sk-container" in search._repr_html_()
    search.fit(X, HOSTILE[y])
    words = read(search)
    assert f"settings tried | {len(search.results_['seconds'])}" in words
    for name in search.best_params_:
        assert name in words


def test_tuned_classifier_and_its_hostile_code_name():
    tuned = OutputCodeClassifierCV(machines=("ls",), kernels=("rbf",), random_state=0)
    words = read(tuned.fit(X, HOSTILE[y]))
    assert "accuracy" in words
    assert "settings tried" in words


def test_study_store_and_outcome():
    data = study.from_arrays(HOSTILE[0], X, HOSTILE[y])
    plan = study.Study(data, "ova+hinge", folds=2, baselines=False)
    assert HOSTILE[0] in read(plan)
    with study.Store(":memory:") as store:
        assert "Results of a study" in read(store)
        outcome = study.run(plan, store, n_jobs=0)
        words = read(store)
    assert HOSTILE[0] in words
    assert "ova+hinge" in words
    assert "runs ok | 2" in read(outcome)


# --- progress ---


class Handle:
    """What `display` returns: takes note of what it is given."""

    def __init__(self, first):
        self.seen = [first]

    def update(self, html):
        self.seen.append(html)


@pytest.fixture
def notebook(monkeypatch):
    """Return what is displayed, in a process that looks like the kernel of a notebook."""
    shown = []
    package, displays = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    package.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    displays.HTML = str

    def display(html, display_id):
        shown.append(Handle(html))
        return shown[-1]

    displays.display = display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    return shown


def test_progress_is_a_bar_in_a_notebook(notebook, capsys):
    with progress("<b>columns", 50, 1) as bar:
        for _ in range(50):
            bar.advance()
    (handle,) = notebook
    assert len(handle.seen) < 10  # fifty pieces in no time are not fifty drawings
    assert 'value="0" max="50"' in handle.seen[0]
    assert 'value="50" max="50"' in handle.seen[-1]
    assert "&lt;b&gt;columns: 50/50" in handle.seen[-1]
    assert capsys.readouterr().err == ""


def test_progress_is_lines_in_a_plain_python_session(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with progress("columns", 5, 1) as shown:
        assert isinstance(shown, Lines)


def test_a_study_shows_its_progress(notebook):
    data = study.from_arrays("toy", X, y)
    plan = study.Study(data, "ova+hinge", folds=2, baselines=False)
    with study.Store(":memory:") as store:
        study.run(plan, store, n_jobs=0, verbose=1)
    assert "runs: 2/2" in notebook[0].seen[-1]
