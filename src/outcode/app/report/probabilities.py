"""What the probabilities are worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode import results, statistics
from outcode.app.report import drawings
from outcode.app.report.blocks import (
    Block,
    Figure,
    Point,
    Points,
    Text,
    by_dataset,
    more_datasets,
    side_by_side,
)
from outcode.app.report.classes import MOST_DATASETS, best_on
from outcode.app.report.evidence import Data, Evidence, whole
from outcode.metrics import Reliability
from outcode.results import plain
from outcode.words import count, listing, number, percent

#: Gaps up to this are too small to matter, whatever the number of rows.
SMALL = 0.005
#: Beyond this a gap that is real makes probabilities useless as they are; and where chance alone
#: may show a gap of this size, the rows are too few to judge.
LARGE = 0.05
#: Log losses up to this multiple of the best method's are near it.
NEAR = 1.5
#: Log losses that differ by no more than this do not differ.
TINY = 0.001
#: Diagrams for each data set when there is one, a few, many.
MOST_DIAGRAMS = 6

VERDICTS = {
    "good": "probabilities worth trusting",
    "fair": "probabilities to use with care",
    "poor": "probabilities not to be trusted as they are",
}
TONES = {"good": "good", "fair": "open", "poor": "bad"}


def pooled(evidence: Evidence, dataset: str, method: str) -> Reliability | None:
    """Return the reliability diagram over all folds; None without probabilities."""
    diagrams = [d for d in evidence.details(dataset, method, "reliability") if sum(d["count"])]
    return results.reliability(diagrams) if diagrams else None


def judge(diagram: Reliability, repeats: int = 1) -> dict[str, Any]:
    """Return the verdict on probabilities, with its numbers and a sentence.

    Good: what perfect probabilities would show on so many rows, and these are enough to show a gap
    of :data:`LARGE`. Poor: a real gap beyond :data:`LARGE`, or less than half of the actual errors
    announced. Fair is what lies between.
    """
    parts = diagram.count, diagram.confidence, diagram.accuracy
    found = statistics.calibration(*parts, repeats=repeats)
    real = found.significant and found.gap > SMALL
    too_sure = found.biased and found.lean > 0 and 1 - found.stated < (1 - found.right) / 2
    if not real:
        verdict = "good" if found.allowed <= LARGE else "fair"
        told = (
            "the gap is not larger than expected by chance"
            if verdict == "good"
            else "too few rows to judge"
        )
    else:
        verdict = "poor" if found.gap > LARGE or too_sure else "fair"
        lean = "overconfident" if found.lean > 0 else "underconfident"
        told = lean if found.biased else "overconfident for some rows, underconfident for others"
    return {
        "calibration_error": found.gap,
        "chance": found.chance,
        "allowed": found.allowed,
        "stated": found.stated,
        "right": found.right,
        "verdict": verdict,
        "why": told,
        "sentence": f"{VERDICTS[verdict]}: {told}. The mean stated probability is "
        f"{percent(found.stated)}, the accuracy {percent(found.right)}; the mean gap is "
        f"{percent(found.gap)}, and {percent(found.chance)} for perfect probabilities on as many "
        f"rows.",
    }


def numbers(evidence: Evidence) -> dict[str, Any]:
    """Return for each data set the methods' reliability, the best by log loss first."""
    shown = [_dataset(evidence, data) for data in evidence.datasets[:MOST_DATASETS]]
    known = [entry for entry in shown if entry["methods"]]
    return {
        "datasets": known,
        "datasets_left_out": max(0, len(evidence.datasets) - MOST_DATASETS),
        "note": None if known else "No method gave probabilities.",
    }


def trusted(evidence: Evidence, data: Data) -> list[dict[str, Any]]:
    """Return the judged methods of a data set, the least log loss first."""
    diagrams = {m: pooled(evidence, data.name, m) for m in best_on(evidence, data.name)}
    losses = evidence.table("log_loss", data.name)
    judged: list[dict[str, Any]] = [
        {
            "method": method,
            "log_loss": results.summarised("log_loss", losses[:, evidence.names.index(method)]),
            "diagram": _diagram(diagram),
            **judge(diagram, whole(evidence.meta.get("repeats")) or 1),
        }
        for method, diagram in diagrams.items()
        if diagram is not None
    ]
    judged.sort(key=lambda m: (m["log_loss"] is None, m["log_loss"]))
    for entry in judged:
        _compare_loss(entry, judged[0], _guessing(data))
    return judged


def _compare_loss(entry: dict[str, Any], best: dict[str, Any], guess: float | None) -> None:
    """Lower the verdict where the log loss is far from the best, or no better than guessing."""
    loss, least = entry["log_loss"], best["log_loss"]
    if loss is None:
        return
    if guess is not None and loss > guess:
        entry["verdict"] = "poor"
        text = f"worse than that of the class frequencies alone, {number(guess)}"
    elif loss > NEAR * least + TINY:
        entry["verdict"] = "poor" if entry["verdict"] == "poor" else "fair"
        times = f"{loss / least:.1f} times" if least > TINY else "far above"
        text = f"{times} that of {best['method']}, {number(least)}"
    else:
        return
    told = entry["sentence"].partition(":")[2]
    entry["sentence"] = (
        f"{VERDICTS[entry['verdict']]}:{told} Its log loss, {number(loss)}, is {text}."
    )


def _guessing(data: Data) -> float | None:
    """Return the log loss of predicting the class frequencies for every row."""
    shares = np.array([n for n in data.counts if n > 0], dtype=np.float64)
    if not len(shares):
        return None
    shares /= shares.sum()
    return float(-(shares * np.log(shares)).sum())


def _diagram(diagram: Reliability) -> dict[str, Any]:
    return {
        "count": [int(n) for n in diagram.count],
        "confidence": [plain(v) for v in diagram.confidence],
        "accuracy": [plain(v) for v in diagram.accuracy],
    }


def _dataset(evidence: Evidence, data: Data) -> dict[str, Any]:
    judged = trusted(evidence, data)
    most = MOST_DIAGRAMS if len(evidence.datasets) == 1 else 2
    without = [m for m in best_on(evidence, data.name) if m not in {j["method"] for j in judged}]
    return {
        "dataset": data.name,
        "guessing": _guessing(data),
        "methods": judged[:most],
        "methods_left_out": max(0, len(judged) - most),
        "without": without,
    }


# --- shown ---


def blocks(data: dict[str, Any]) -> list[Block]:
    """Reliability diagrams and what they mean, by data set."""
    if data["note"]:
        return [Text((data["note"],))]
    shown = by_dataset([(d["dataset"], _reliability(d)) for d in data["datasets"]])
    return shown + more_datasets(data["datasets_left_out"])


def _reliability(d: dict[str, Any]) -> list[Block]:
    verdicts = tuple(Point(m["method"], _told(m), TONES[m["verdict"]]) for m in d["methods"])
    figures: list[Block] = [
        Figure(
            drawings.reliability(m["diagram"], f"Reliability diagram of {m['method']}"),
            f"{m['method']}: mean gap {percent(m['calibration_error'])}",
        )
        for m in d["methods"]
    ]
    notes = [
        "On the diagonal, the stated probability equals the share of correct predictions; below it "
        "the model is overconfident. The diagram has the rows of all folds together; the mean over "
        "folds in the leaderboard is larger, because a fold has fewer rows."
    ]
    if d["without"]:
        notes.append(f"Without probabilities: {listing(d['without'], 8)}.")
    if d["methods_left_out"]:
        notes.append(f"{count(d['methods_left_out'], 'more method')} not drawn.")
    return [Points(verdicts), side_by_side(figures), Text((" ".join(notes),), "muted")]


def _told(m: dict[str, Any]) -> str:
    loss = f" Log loss {number(m['log_loss'])}." if m["log_loss"] is not None else ""
    return m["sentence"][:1].upper() + m["sentence"][1:] + loss
