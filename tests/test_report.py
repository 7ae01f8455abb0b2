"""The report: numbers against pandas, sections one by one, text against hostile names."""

from __future__ import annotations

import copy
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fake_records import METHODS, study
from outcode import dichotomies, metrics, report, results, statistics
from outcode.app.report import page, probabilities, text
from outcode.words import percent

SECTIONS = list(report.SECTIONS)


@pytest.fixture(scope="module")
def one():
    return study(6, n_test=120)


@pytest.fixture(scope="module")
def summary(one):
    return report.summarise(*one)


def frame(records, finished=True):
    rows = [
        {"dataset": r["dataset"], "method": r["method"], "fold": r["fold"], **r["metrics"]}
        for r in records
        if r["status"] == "ok" or not finished
    ]
    return pd.DataFrame(rows)


def section(summary, name):
    assert summary["sections"][name]["failure"] is None
    return summary["sections"][name]["data"]


# --- the numbers -------------------------------------------------------------------------------


def test_leaderboard_equals_pandas(one, summary):
    table = frame(one[1])
    (board,) = section(summary, "leaderboard")["tables"]
    means = table.groupby("method")[list(table.columns[3:])].mean()
    deviation = table.groupby("method")["error"].std()
    folds = table.groupby("method")["error"].count()
    assert {row["method"] for row in board["rows"]} == set(METHODS)
    for row in board["rows"]:
        name = row["method"]
        for key in ("error", "balanced_error", "support_vectors", "peak_memory"):
            assert row[key]["mean"] == pytest.approx(means.loc[name, key], rel=1e-12)
        seconds = table.groupby("method")["fit_seconds"].median()[name]
        assert row["fit_seconds"]["mean"] == pytest.approx(seconds, rel=1e-12)
        loss = means.loc[name, "log_loss"]
        assert row["log_loss"]["mean"] == (None if math.isnan(loss) else pytest.approx(loss))
        half = stats.t.ppf(0.975, folds[name] - 1) * deviation[name]
        half *= math.sqrt(1 / folds[name] + 1 / 4)
        low, high = row["error"]["interval"]
        assert (high - low) / 2 == pytest.approx(half)
        assert (high + low) / 2 == pytest.approx(means.loc[name, "error"])
    assert board["best"]["error"] == pytest.approx(means["error"].min())


def test_failed_cells_are_counted_with_their_reason(summary):
    (board,) = section(summary, "leaderboard")["tables"]
    rows = {row["method"]: row for row in board["rows"]}
    assert rows["dense+llw"]["finished"] == 4
    assert rows["dense+llw"]["unfinished"] == {"timeout": 1}
    assert "raise --cell-timeout" in rows["dense+llw"]["reasons"][0]
    found = section(summary, "findings")
    assert (found["cells"], found["finished"]) == (30, 28)
    assert {f["status"] for f in found["failures"]} == {"timeout", "skipped"}
    assert {f["code"] for f in found["data"]} == {"OD001", "OD003"}
    assert {f["code"] for f in found["code"]} <= {f"OC00{i}" for i in range(1, 8)}
    assert found["warnings"][0]["times"] == 4  # the cell that ran out of time kept none


def test_the_best_is_judged_by_the_corrected_t_test_on_common_folds(one, summary):
    wide = frame(one[1]).pivot_table(index="fold", columns="method", values="error").dropna()
    found = section(summary, "comparison")
    names = [row["method"] for row in found["ranking"]]
    assert names == list(wide.mean().sort_values(kind="stable").index)
    assert (found["n_units"], found["units_left_out"]) == (len(wide), 1)
    test = statistics.corrected_t(wide[names], names, test_train_ratio=1 / 4)  # all pairs
    for ours, theirs in zip(found["against_best"], test.pairs[: len(names) - 1], strict=True):
        assert ours["p_value"] == theirs.p_value
        assert ours["interval"] == list(theirs.interval)
        assert ours["advantage"] == pytest.approx(
            wide[ours["method"]].mean() - wide[names[0]].mean()
        )
    p = statistics.against_best([pair["p_value"] for pair in found["against_best"]], len(wide) - 1)
    assert [pair["p_holm"] for pair in found["against_best"]] == p.tolist()
    headline = section(summary, "answer")["headline"]
    assert headline.startswith(f"{names[0]} has the lowest error on vowel: ")
    assert percent(wide[names[0]].mean()) in headline


def test_several_data_sets_are_ranked_by_their_means():
    meta, records = study(4, datasets=("a", "b", "c", "d", "e", "f"), broken=False)
    found = section(report.summarise(meta, records), "comparison")
    wide = frame(records).pivot_table(index="dataset", columns="method", values="error")
    ranks = wide.rank(axis=1).mean().sort_values()
    assert found["unit"] == "data sets"
    assert [row["rank"] for row in found["ranking"]] == pytest.approx(list(ranks))
    names = [row["method"] for row in found["ranking"]]
    against = statistics.wilcoxon(wide[names], names).pairs[: len(names) - 1]
    corrected = statistics.against_best([p.p_value for p in against])
    assert [p["p_holm"] for p in found["against_best"]] == corrected.tolist()
    assert "average rank" in section(report.summarise(meta, records), "answer")["headline"]


def level_study(losses, seconds):
    """A study whose methods err equally but for the last, with these log losses and times."""
    meta, records = study(4, folds=10, n_test=200, broken=False, methods=METHODS[: len(losses)])
    for record in records:
        place = METHODS.index(record["method"])
        clear = 0.3 if place == len(losses) - 1 else 0.0
        wobble = 0.001 * ((7 * record["fold"] + 3 * place) % 5)
        record["metrics"] |= {"error": 0.1 + clear + wobble, "log_loss": losses[place]}
        record["metrics"]["fit_seconds"] = seconds[place]
    return meta, records


def test_methods_level_in_error_are_ranked_by_log_loss_then_time():
    made = level_study([0.5, 0.2, 0.2005, 0.1], [1.0, 6.0, 0.5, 0.1])
    summary = report.summarise(*made)
    (board,) = section(summary, "leaderboard")["tables"]
    order = [row["method"] for row in board["rows"]]
    assert order == [METHODS[2], METHODS[1], METHODS[0], METHODS[3]]
    answer = section(summary, "answer")
    assert answer["best"] == METHODS[2]
    assert f"Take {METHODS[2]} (10.2%): " in answer["headline"]
    assert "log loss" in answer["headline"]
    assert "x faster than" in answer["headline"]


def test_a_much_worse_mean_is_not_taken_for_its_log_loss():
    meta, records = study(4, folds=2, n_test=50, broken=False, methods=METHODS[:2])
    for record in records:
        place, fold = METHODS.index(record["method"]), record["fold"]
        record["metrics"] |= {"error": 0.4 + 0.1 * place + 0.1 * fold * (1 - place)}
        record["metrics"] |= {"log_loss": 0.5 - 0.3 * place}
    answer = section(report.summarise(meta, records), "answer")
    assert "none of the" in answer["headline"] or "not significantly" in answer["headline"]
    assert answer["best"] == METHODS[0]


def test_without_probabilities_the_fastest_of_equals_is_taken():
    summary = report.summarise(*level_study([None, None, None, None], [1.0, 6.0, 0.5, 0.1]))
    assert section(summary, "answer")["best"] == METHODS[2]


def test_probabilities_that_announce_few_of_the_errors_are_too_sure():
    count, stated, right = np.array([1797]), np.array([0.999]), np.array([0.982])
    found = probabilities.judge(metrics.Reliability(count, stated, right))
    assert found["verdict"] == "poor"
    assert "overconfident" in found["sentence"]


def test_a_large_gap_on_few_rows_is_not_worth_trusting():
    count, stated, right = np.array([40]), np.array([0.8]), np.array([0.703])
    found = probabilities.judge(metrics.Reliability(count, stated, right))
    assert found["verdict"] == "fair"
    assert "too few rows" in found["sentence"]


def test_perfect_probabilities_are_rarely_called_poor_or_fair():
    rng = np.random.default_rng(5)
    verdicts = []
    for _ in range(200):
        stated = rng.beta(8, 1, size=1500)
        stated = np.maximum(stated, 1 - stated)
        right = rng.random(1500) < stated
        proba = np.c_[stated, 1 - stated]
        verdicts.append(probabilities.judge(metrics.reliability(np.where(right, 0, 1), proba)))
    assert np.mean([found["verdict"] != "good" for found in verdicts]) <= 0.03


def test_a_log_loss_far_from_the_best_is_to_be_used_with_care():
    meta, records = study(4, folds=5, n_test=300, broken=False, methods=METHODS[:2])
    for record in records:
        record["metrics"]["log_loss"] = 0.2 if record["method"] == METHODS[0] else 0.6
    (data,) = section(report.summarise(meta, records), "probabilities")["datasets"]
    worse = next(m for m in data["methods"] if m["method"] == METHODS[1])
    assert worse["verdict"] != "good"
    assert "3.0 times that of" in worse["sentence"]


def test_a_handful_of_data_sets_gets_no_bayesian_verdict():
    found = section(report.summarise(*study(4, datasets=("a", "b"))), "comparison")
    assert {pair["practical"] for pair in found["against_best"]} == {None}


def test_confusions_and_recalls_equal_pandas(one, summary):
    (data,) = section(summary, "classes")["datasets"]
    best = data["methods"][0]
    rows = [r for r in one[1] if r["method"] == best and r["status"] == "ok"]
    true = np.concatenate([r["details"]["labels"] for r in rows])
    predicted = np.concatenate([r["details"]["predicted"] for r in rows])
    table = pd.crosstab(true, predicted)
    assert data["matrices"][0]["counts"] == table.to_numpy().tolist()
    recall = (true == predicted).astype(float)
    wanted = pd.Series(recall).groupby(true).mean().sort_values(kind="stable")
    assert [c["recall"][0] for c in data["classes"]] == pytest.approx(list(wanted))
    both = (table + table.T).to_numpy()
    worst = max(both[i, j] for i in range(6) for j in range(6) if i != j)
    assert data["matrices"][0]["pairs"][0]["rows"] == worst
    assert {"svc", "ovr-svc"} <= set(data["methods"])


def test_reliability_is_pooled_over_folds():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=400)
    proba = rng.dirichlet(np.ones(3), size=400)
    whole = metrics.reliability(labels, proba)
    parts = [metrics.reliability(labels[i::4], proba[i::4]) for i in range(4)]
    diagrams = [
        {
            "count": p.count.tolist(),
            "confidence": [None if np.isnan(v) else v for v in p.confidence],
            "accuracy": [None if np.isnan(v) else v for v in p.accuracy],
        }
        for p in parts
    ]
    pooled = results.reliability(diagrams)
    np.testing.assert_array_equal(pooled.count, whole.count)
    np.testing.assert_allclose(pooled.accuracy, whole.accuracy)
    assert pooled.calibration_error == pytest.approx(whole.calibration_error)


def test_chance_gap_is_what_perfect_probabilities_show():
    rng = np.random.default_rng(1)
    confidence = rng.uniform(0.5, 1, size=3000)
    gaps, expected = [], []
    for _ in range(60):
        right = rng.random(3000) < confidence
        proba = np.c_[confidence, 1 - confidence]
        diagram = metrics.reliability(np.where(right, 0, 1), proba)
        gaps.append(diagram.calibration_error)
        parts = diagram.count, diagram.confidence, diagram.accuracy
        expected.append(statistics.calibration(*parts).chance)
    assert np.mean(gaps) == pytest.approx(np.mean(expected), rel=0.1)


def test_poor_probabilities_are_called_poor():
    n, stated = 2000, 0.95
    proba = np.full((n, 2), [stated, 1 - stated])
    labels = (np.arange(n) % 2).astype(int)
    verdict = probabilities.judge(metrics.reliability(labels, proba))
    assert verdict["verdict"] == "poor"
    assert "overconfident" in verdict["sentence"]


def flips_survived(code):
    """The largest t such that Hamming decoding survives every t flips and any unused answers."""
    k, n = code.shape
    answers = np.array(np.meshgrid(*[[-1, 1]] * n)).reshape(n, -1).T
    survived = n
    for r in range(k):
        own = code[r] != 0
        flips = (answers[:, own] != code[r, own]).sum(axis=1)
        score = answers @ code.T
        lost = (np.delete(score, r, axis=1) >= score[:, [r]]).any(axis=1)
        survived = min(survived, flips[lost].min() - 1 if lost.any() else n)
    return max(0, survived)


@pytest.mark.parametrize("seed", range(12))
def test_correction_against_all_answers(seed):
    rng = np.random.default_rng(seed)
    code = rng.choice([-1, 1] if seed % 2 else [-1, 0, 1], size=(4, 9))
    assert dichotomies.correction(code) == flips_survived(code)


def test_methods_with_too_few_cells_are_left_out():
    table = np.array([[0.1, 0.2, np.nan], [0.1, 0.3, np.nan], [0.2, 0.2, 0.1], [0.1, 0.1, np.nan]])
    kept, names, others = statistics.complete(table, ["a", "b", "c"])
    np.testing.assert_array_equal(kept, table[:, :2])
    assert (names, others) == (["a", "b"], ["c"])


# --- what must not be said --------------------------------------------------------------------


def test_an_interrupted_study_names_no_winner():
    meta, records = study(4, folds=5, broken=False)
    meta["cells"] = len(records)
    part = [r for r in records if r["method"] in METHODS[:2]]
    summary = report.summarise(meta, part)
    answer = section(summary, "answer")
    assert answer["best"] is None
    assert "no winner is named: 10 of 30 runs are done" in answer["headline"]
    assert "2 of 6 methods" in answer["headline"]
    shown = report.render(summary)
    assert "clearly worse" not in shown
    assert "Take " not in answer["headline"]
    assert "10 of 30 runs finished, 20 not started" in shown
    (board,) = section(summary, "leaderboard")["tables"]
    assert board["rows"][0]["method"] in METHODS[:2]  # methods that did not run come last
    assert section(report.summarise(meta, records), "answer")["best"] is not None


def test_methods_with_the_same_error_have_no_single_winner():
    meta, records = study(4, folds=5, broken=False, methods=METHODS[:3])
    for record in records:
        record["metrics"] |= {"error": 0.01 * (1 + record["fold"]), "log_loss": None}
    headline = section(report.summarise(meta, records), "answer")["headline"]
    assert headline.startswith("No single winner on vowel: ")
    assert "share the lowest error, 3.00%" in headline


def test_one_method_is_no_winner():
    meta, records = study(4, folds=5, broken=False, methods=METHODS[:1])
    headline = section(report.summarise(meta, records), "answer")["headline"]
    assert headline.startswith(f"{METHODS[0]} alone was evaluated on vowel: error ")
    assert "lowest" not in headline


def test_results_no_better_than_guessing_have_no_winner():
    meta, records = study(4, folds=5, broken=False, methods=METHODS[:3])
    rng = np.random.default_rng(0)
    for record in records:
        record["metrics"]["error"] = 0.75 + 0.02 * rng.standard_normal()
    answer = section(report.summarise(meta, records), "answer")
    assert answer["best"] is None
    assert answer["headline"].startswith("No method is significantly better than guessing on vowel")
    assert "Take " not in answer["headline"]


def alone(meta, records, name):
    """The part of a study on one data set."""
    data = [{k: v for k, v in d.items() if k != "without"} for d in meta["datasets"]]
    mine = [r for r in records if r["dataset"] == name]
    return {**meta, "datasets": [d for d in data if d["name"] == name]}, mine


def test_leakage_is_said_first_and_the_run_without_it_beside():
    meta, records = study(4, folds=3, datasets=("d", "d without alive"), broken=False)
    first, second = meta["datasets"]
    leak = {"code": "OD004", "message": "A column that alone tells", "columns": ["alive"]}
    first["findings"].append(leak)
    second["without"] = ["alive"]
    summary = report.summarise(meta, records)
    answer = section(summary, "answer")
    assert answer["headline"].startswith("Possible leakage: alive alone determines the class.")
    assert "ranks best over" not in answer["headline"]  # the second run is no second data set
    topics = {point["topic"]: point["text"] for point in answer["points"]}
    assert "alone determines the class" in topics["Leakage"]
    first_run = [p["text"] for p in answer["points"]][: list(topics).index("Without alive") + 1]
    assert "worth trusting" not in " ".join(first_run)
    assert (
        answer["best"]
        == section(report.summarise(*alone(meta, records, "d without alive")), "answer")["best"]
    )
    assert "Trust these numbers" in topics["Without alive"]
    assert [point["topic"] for point in answer["points"]].count("Runs") == 1
    assert list(topics)[-1] == "Runs"
    tables = section(summary, "leaderboard")["tables"]
    assert [table["dataset"] for table in tables] == ["d", "d without alive"]


# --- the whole ---------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["html", "md", "json"])
def test_the_same_records_give_the_same_page(one, summary, format):
    again = report.summarise(copy.deepcopy(one[0]), copy.deepcopy(one[1]))
    assert report.render(again, format) == report.render(summary, format)


def test_the_order_of_records_does_not_matter(one, summary):
    meta, records = one
    assert report.summarise(meta, records[::-1]) == summary


def test_json_holds_no_nan(one):
    meta, records = copy.deepcopy(one)
    records[0]["metrics"]["error"] = float("nan")
    records[1]["metrics"]["fit_seconds"] = float("inf")
    summary = report.summarise(meta, records)
    assert all(s["failure"] is None for s in summary["sections"].values())
    assert json.loads(report.render(summary, "json")) == summary
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_that_cannot_be_summarised_says_why(monkeypatch, one, name):
    def broken(evidence):
        raise ZeroDivisionError("the <b>reason</b>")

    monkeypatch.setitem(report.SECTIONS, name, replace(report.SECTIONS[name], numbers=broken))
    summary = report.summarise(*one)
    assert summary["sections"][name]["failure"] == "ZeroDivisionError: the <b>reason</b>"
    assert sum(s["failure"] is not None for s in summary["sections"].values()) == 1
    shown = report.render(summary)
    assert "ZeroDivisionError: the &lt;b&gt;reason&lt;/b&gt;" in shown
    assert shown.count('class="section"') == len(SECTIONS)
    assert report.render(summary, "md")
    assert report.leaderboard_csv(summary).startswith("dataset,method")


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_that_cannot_be_shown_says_why(monkeypatch, summary, name):
    def broken(data):
        raise KeyError("lost")

    monkeypatch.setitem(report.SECTIONS, name, replace(report.SECTIONS[name], blocks=broken))
    shown = report.render(summary)
    assert shown.count("This section could not be made") == 1
    assert "KeyError" in shown
    assert shown.count('class="section"') == len(SECTIONS)


@pytest.mark.parametrize("status", ["failed", "skipped", "crashed", "memory"])
def test_nothing_finished(status):
    meta, records = study(3)
    for record in records:
        record.update(status=status, reason="it was not to be", metrics={}, details={})
    summary = report.summarise(meta, records)
    assert [s["failure"] for s in summary["sections"].values()] == [None] * len(SECTIONS)
    shown = report.render(summary)
    assert "No method finished" in shown
    assert "it was not to be" in shown
    assert "could not be made" not in shown


@pytest.mark.parametrize(
    "change",
    [
        {"methods": ("svc",), "broken": False},
        {"folds": 1, "broken": False},
        {"n_classes": 2},
        {"datasets": ("a", "b")},
        {"folds": 2, "broken": False},
    ],
)
def test_small_studies(change):
    summary = report.summarise(*study(**{"n_classes": 4, **change}))
    assert [s["failure"] for s in summary["sections"].values()] == [None] * len(SECTIONS)
    assert "could not be made" not in report.render(summary)


def test_no_records_at_all():
    summary = report.summarise({}, [])
    shown = report.render(summary)
    assert "No method finished" in shown


def test_details_and_optional_parts_may_be_absent(one):
    meta, records = copy.deepcopy(one)
    for record in records:
        record.pop("details")
        record.pop("versions")
    meta = {"datasets": [{"name": "vowel"}], "methods": []}
    summary = report.summarise(meta, records)
    assert [s["failure"] for s in summary["sections"].values()] == [None] * len(SECTIONS)
    assert "could not be made" not in report.render(summary)


def test_a_cell_recorded_twice_counts_once(one, summary):
    meta, records = one
    failed = {**records[0], "status": "failed", "reason": "an earlier try", "metrics": {}}
    assert report.summarise(meta, [failed, *records]) == summary
    assert report.summarise(meta, [*records, failed]) == summary


# --- the page ----------------------------------------------------------------------------------


class Page(HTMLParser):
    """Collects elements with their attributes, and checks that they are closed in order."""

    VOID = frozenset({"meta", "link", "br", "rect", "line", "circle", "path", "polyline"})

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing(summary):
    text = report.render(summary)
    shown = Page(text)
    links = [a for tag, a in shown.elements if "href" in a or "src" in a]
    assert all(a.get("href", "").startswith(("#", "data:")) and "src" not in a for a in links)
    assert not re.search(r"https?://", text)
    assert not any("style" in a for _, a in shown.elements)
    assert not any(name.startswith("on") for _, a in shown.elements for name in a)
    policy = next(a["content"] for tag, a in shown.elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert [tag for tag, _ in shown.elements].count("h1") == 1
    tables = [tag for tag, _ in shown.elements if tag == "table"]
    assert len(tables) == [tag for tag, _ in shown.elements].count("caption")
    pictures = [a for tag, a in shown.elements if tag == "svg" and "aria-hidden" not in a]
    assert len(pictures) > 10
    assert all(a["role"] == "img" and a["aria-label"] for a in pictures)
    ids = [a["id"] for _, a in shown.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert set(SECTIONS) <= set(ids)


MANY = ("ovo+likelihood", "ova+linear", "dense+llw", *(f"spoc{i}" for i in range(15)))
SIZES = {
    "26 classes, 20 methods, 10 folds": {
        "n_classes": 26,
        "methods": (*MANY, "svc", "ovr-svc"),
        "folds": 10,
        "n_test": 300,
    },
    "200 classes": {"n_classes": 200, "n_test": 400},
    "12 data sets": {
        "n_classes": 10,
        "datasets": tuple(f"data {i}" for i in range(12)),
        "folds": 2,
    },
}


@pytest.mark.parametrize("case", SIZES)
def test_the_page_stays_below_a_megabyte(case):
    summary = report.summarise(*study(**SIZES[case]))
    assert [s["failure"] for s in summary["sections"].values()] == [None] * len(SECTIONS)
    shown = report.render(summary)
    assert "Left out" not in shown
    assert len(shown.encode()) < 1_000_000


def test_a_section_too_large_is_left_out_and_says_so(monkeypatch, summary):
    monkeypatch.setattr(page, "SECTIONS_LIMIT", 30_000)
    shown = report.render(summary)
    assert "Left out: it would take" in shown
    assert shown.count('class="section"') == len(SECTIONS)


def test_the_island_is_the_summary(summary):
    shown = report.render(summary)
    island = re.search(r'<script type="application/json" id="summary">(.*?)</script>', shown).group(
        1
    )
    assert json.loads(island) == summary


# --- hostile names -----------------------------------------------------------------------------

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    '"><img src=x onerror=alert(1)>',
    "a|b`c*d_e[f](javascript:alert(1))",
    "\u202eevil\u202c",
    "null\x00 and \x1b[31m",
    "line\u2028separator\u2029",
    "x" * 10_000,
    '=HYPERLINK("http://example.com")',
    "{{7*7}}{% raw %}",
    "שלום",
    "",
    "\ud800 lone",
]
COMMAND = "outcode compare '</pre><script>alert(6)</script>.csv'"


@pytest.fixture(scope="module")
def hostile():
    meta, records = study(len(HOSTILE), classes=HOSTILE, datasets=("<b>data</b>",), n_test=200)
    names = {m: f"{m}{h}" for m, h in zip(METHODS, HOSTILE, strict=False)}
    for record in records:
        record["method"] = names[record["method"]]
        record["reason"] = record["reason"] and "<img src=x onerror=alert(2)>\u202e | reason"
        if record["details"]:
            record["details"]["warnings"] = ["<script>alert(3)</script>"]
    for method in meta["methods"]:
        method["name"] = names[method["name"]]
        method["title"] = "<svg onload=alert(4)>"
    meta["title"] = "</title><script>alert(5)</script>"
    meta["command"] = COMMAND
    meta["datasets"][0]["findings"][0]["message"] = "column '<iframe src=//x>'"
    return report.summarise(meta, records)


def test_hostile_names_stay_text(hostile):
    assert [s["failure"] for s in hostile["sections"].values()] == [None] * len(SECTIONS)
    text = report.render(hostile)
    shown = Page(text)
    tags = [tag for tag, _ in shown.elements]
    assert tags.count("script") == 2  # the island and ours
    assert not {"img", "iframe", "b", "object"} & set(tags)
    assert not any(name.startswith("on") for _, a in shown.elements for name in a)
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "\u2028" not in text
    assert "x" * 400 not in text
    assert "{{7*7}}" in text
    assert len(text.encode()) < 1_000_000
    text.encode("utf-8")


def test_hostile_names_in_markdown(hostile):
    shown = report.render(hostile, "md")
    assert [line for line in shown.splitlines() if "<" in line] == [f"    {COMMAND}"]  # as code
    assert "](" not in shown
    for line in shown.splitlines():
        if line.startswith("| "):
            cells = re.split(r"(?<!\\)\|", line)
            assert len(cells) >= 3
    tables = re.findall(r"(?:^\|.*\n)+", shown, flags=re.MULTILINE)
    assert tables
    for table in tables:
        assert len({len(re.split(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1"])
def test_csv_cells_are_no_formulas(start):
    meta, records = study(3, methods=("svc", "ovr-svc", "spoc"))
    for entry in [*records, *meta["methods"]]:
        key = "method" if "method" in entry else "name"
        entry[key] = start if entry[key] == "svc" else entry[key]
    shown = report.leaderboard_csv(report.summarise(meta, records))
    table = pd.read_csv(pd.io.common.StringIO(shown))
    assert len(table) == 3
    assert not any(str(m).lstrip()[:1] in "=+-@＝" for m in table["method"])
    assert text.csv_cell(start)[:2] in ("'=", "'+", "'-", "'@", "'\t", "'\r", "' ", "'＝", "\"'")


def test_csv_holds_the_leaderboard(one, summary):
    table = pd.read_csv(pd.io.common.StringIO(report.leaderboard_csv(summary)))
    means = frame(one[1]).groupby("method")["error"].mean()
    assert table.set_index("method")["error"].to_dict() == pytest.approx(means.to_dict())


def test_labels_are_short_unique_and_one_line():
    names = ["a\nb", "x" * 50 + "1", "x" * 50 + "2", "", "a b", "\u202e"]
    found = text.labels(names)
    assert len(set(found)) == len(names)
    assert all(len(name) <= text.SHORT + 4 and "\n" not in name for name in found)


def test_right_to_left_names_are_isolated():
    assert text.labels(["שלום"]) == ["\u2068שלום\u2069"]


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["html", "md", "json", "csv"])
def test_write_by_suffix(tmp_path, summary, suffix):
    path = report.write(summary, tmp_path / f"report.{suffix}")
    written = path.read_bytes().decode()
    wanted = report.leaderboard_csv(summary) if suffix == "csv" else report.render(summary, suffix)
    assert written.replace("\r\n", "\n") == wanted.replace("\r\n", "\n")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_unknown_formats_are_named(tmp_path, summary):
    with pytest.raises(ValueError, match="Did you mean 'html'"):
        report.render(summary, "htlm")
    with pytest.raises(ValueError, match="Unknown suffix of a report 'pdf'"):
        report.write(summary, tmp_path / "report.pdf")
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        report.write(summary, tmp_path / "absent" / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_meta_must_be_a_dict():
    with pytest.raises(ValueError, match="meta must be the dict of a study"):
        report.summarise([], [])


def test_interval_needs_two_different_folds():
    assert statistics.mean_interval(np.array([0.1]), 0.25) is None
    assert statistics.mean_interval(np.array([0.1, 0.1]), 0.25) is None


def test_a_single_test_set_is_judged_by_its_rows():
    meta, records = study(4, folds=1, n_test=500, broken=False)
    found = section(report.summarise(meta, records), "comparison")
    names = [row["method"] for row in found["ranking"]]
    wrong = {
        r["method"]: np.not_equal(r["details"]["labels"], r["details"]["predicted"])
        for r in records
    }
    test = statistics.mcnemar(np.array([wrong[n] for n in names]).T, names)
    against = test.pairs[: len(names) - 1]
    corrected = statistics.against_best([p.p_value for p in against])
    assert [p["p_holm"] for p in found["against_best"]] == corrected.tolist()
    for pair in found["against_best"]:
        gap = wrong[pair["method"]].astype(float) - wrong[names[0]]
        half = 1.96 * gap.std() / math.sqrt(500)
        assert pair["interval"] == pytest.approx([gap.mean() - half, gap.mean() + half])
    assert "critical_difference" not in found
    assert "500 test rows" in report.render(report.summarise(meta, records), "md")


def test_unreadable_details_cost_their_sections_only(one):
    meta, records = copy.deepcopy(one)
    for record in records:
        record["details"] |= {"labels": [99], "predicted": [99], "code": [[7]], "columns": 3}
    summary = report.summarise(meta, records)
    failed = {name for name, part in summary["sections"].items() if part["failure"]}
    assert failed == {"classes", "code", "bits"}
    points = section(summary, "answer")["points"]
    assert [p["topic"] for p in points if "could not be judged" in p["text"]] == ["Classes"]
    assert "has the lowest error" in section(summary, "answer")["headline"]


GARBAGE = [None, "x", "", -1, 0, 1e308, float("nan"), [], {}, [[]], True, "<b>", 10**30, b"x"]


def leaves(value, path=()):
    """All places in nested dicts and lists, shallow ones as often as deep ones."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3])
    for key, part in inner:
        yield (*path, key)
        if isinstance(part, dict | list):
            yield from leaves(part, (*path, key))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # garbage overflows, and may
@pytest.mark.parametrize("seed", range(20))
def test_garbage_in_records_never_takes_the_page(seed):
    rng = np.random.default_rng(seed)
    meta, records = study(3, methods=("ovo+likelihood", "svc", "ovr-svc"), folds=3, n_test=20)
    whole = {"meta": meta, "records": records}
    places = list(leaves(whole["meta"], ("meta",)))
    places += [p for i, r in enumerate(records) for p in leaves(r, ("records", i))]
    for _ in range(12):
        *path, last = places[rng.integers(len(places))]
        target = whole
        try:
            for key in path:
                target = target[key]
            target[last] = GARBAGE[rng.integers(len(GARBAGE))]
        except (TypeError, KeyError, IndexError):
            pass  # an earlier change took this place away
    summary = report.summarise(meta, records)
    json.dumps(summary, allow_nan=False)
    for form in ("html", "md", "json"):
        assert report.render(summary, form)
    assert report.leaderboard_csv(summary)


def test_sets_abstaining_and_costs_are_shown_beside_the_error(one, tmp_path):
    meta, records = copy.deepcopy(one)
    for record in records:
        if record["status"] == "ok":
            sets = {"coverage": 0.9, "size": 1.5, "single": 0.6, "asked": 0.9, "rows": 60}
            record["details"] |= {"sets": sets, "risk": {"rows": 60, "error": [0.01] * 19 + [0.1]}}
    summary = report.summarise({**meta, "cost": "absolute"}, records)
    (found,) = section(summary, "decisions")["datasets"]
    first = found["methods"][0]
    assert first["sets"] == pytest.approx({"coverage": 0.9, "size": 1.5, "single": 0.6})
    assert first["risk"] == pytest.approx([0.01] * 19 + [0.1])
    assert first["cost"] >= first["error"] > 0
    for name in ("page.html", "page.md"):
        report.write(summary, tmp_path / name)
        page = (tmp_path / name).read_text(encoding="utf-8")
        assert "Prediction sets, abstaining and costs" in page
        assert "mean cost of an answer by distance" in page
    plain = section(report.summarise(meta, records), "decisions")["datasets"][0]
    assert plain["costs"] is None
