"""The answer first: what is best, by how much, how sure, what to trust, what fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from outcode import statistics
from outcode.app.report.blocks import Block, Point, Points, Text
from outcode.app.report.choice import Choice, choice, fit_seconds
from outcode.app.report.classes import best_on, confusion, worst_classes
from outcode.app.report.comparison import against_best
from outcode.app.report.evidence import LEAK, Evidence, listed
from outcode.app.report.probabilities import TONES, VERDICTS, trusted
from outcode.app.report.provenance import state
from outcode.app.report.text import clean, failure
from outcode.metrics import METRICS, Metric
from outcode.results import metric_of
from outcode.words import count, duration, listing, number, percent, points

Told = dict[str, str]


def numbers(evidence: Evidence) -> dict[str, Any]:
    """Return the headline and the points under it, each a topic, a sentence and a tone."""
    found = against_best(evidence)
    if not found["ranking"]:
        return {
            "headline": "No method finished, so there is nothing to rank.",
            "best": None,
            "points": [_point("Runs", state(evidence), "bad")],
        }
    taken = choice(evidence)
    named = not evidence.open and not _guessing(evidence, found)
    leaking = any(data.leaks for data in evidence.datasets)
    topics = [topic for topic in TOPICS if (named and not leaking) or topic not in WINNERS]
    honest = [numbers(variant) for variant in evidence.variants] if leaking else []
    said = [*_leakage(evidence), _headline(evidence, found, None if leaking else taken)]
    said += [part["headline"] for part in honest if part["headline"]]
    best = taken.method if named and not leaking else None
    points = [point for topic in topics for point in _told(topic, evidence, found)]
    own = [point for point in points if point["topic"] not in OF_STUDY]
    ground = [point for point in points if point["topic"] in OF_STUDY]
    own += [p for part in honest for p in part["points"] if p["topic"] not in OF_STUDY]
    return {
        "headline": " ".join(said),
        "best": next((part["best"] for part in honest), best),
        "points": own + ground,
    }


def _told(topic: str, evidence: Evidence, found: dict[str, Any]) -> list[Told]:
    """Return the points of a topic; details that cannot be read cost this topic only."""
    try:
        return list(TOPICS[topic](evidence, found))
    except Exception as reason:  # one topic must not take the answer with it
        return [_point(topic, f"This could not be judged: {failure(reason)}", "bad")]


def _point(topic: str, text: str, tone: str = "plain") -> Told:
    return {"topic": topic, "text": text, "tone": tone}


def _range(metric: Metric, ends: list[float] | None) -> str:
    if ends is None:
        return ""
    low, high = (metric.written(metric.possible(end)) for end in ends)
    return f" (95% interval {low} to {high})"


def _leakage(evidence: Evidence) -> Iterator[str]:
    """Yield what must be known before any number: columns that alone determine the class."""
    for data in evidence.datasets:
        if data.leaks:
            where = f" of {data.name}" if len(evidence.datasets) > 1 else ""
            yield (
                f"Possible leakage: {listing(data.leaks)}{where} alone "
                f"{'determines' if len(data.leaks) == 1 else 'determine'} the class."
            )


def _guessing(evidence: Evidence, found: dict[str, Any]) -> bool:
    """Return whether the best method is no better than always predicting the largest class."""
    if len(evidence.datasets) > 1 or evidence.measure != "error":
        return False
    guess = evidence.datasets[0].guess
    cells = evidence.finished(method=found["ranking"][0]["method"])
    tested = [(metric_of(cell, "n_test"), metric_of(cell, "error")) for cell in cells]
    known = [(n, error) for n, error in tested if n * error >= 0]
    if guess is None or not known:
        return False
    wrong, rows = sum(n * error for n, error in known), sum(n for n, _ in known)
    return not statistics.beats_rate(round(wrong), round(rows), guess)


def _headline(evidence: Evidence, found: dict[str, Any], taken: Choice | None) -> str:
    """Return what is lowest, whether that is real, and which method to take."""
    first = found["ranking"][0]
    pairs = found.get("against_best", [])
    if evidence.open:
        return _so_far(evidence, found)
    if _guessing(evidence, found):
        data, error = evidence.datasets[0], percent(first["mean"])
        return (
            f"No method is significantly better than guessing on {data.name}: always predicting "
            f"the largest class has an error of {percent(data.guess)}, {first['method']} of "
            f"{error}."
        )
    level = sum(not pair["significant"] for pair in pairs)
    told = _first(evidence, found)
    tied = _tied(found)
    others = "" if len(tied) > 1 else _others(level, len(pairs))
    return f"{told}{others}.{f' {taken.sentence}' if taken and pairs else ''}"


def _tied(found: dict[str, Any]) -> list[str]:
    """Return the methods that share the best mean."""
    best = found["ranking"][0]["mean"]
    return [row["method"] for row in found["ranking"] if abs(row["mean"] - best) < 1e-12]


def _first(evidence: Evidence, found: dict[str, Any]) -> str:
    """Return which method is first, or which share that place."""
    first, metric, tied = found["ranking"][0], evidence.metric, _tied(found)
    value = metric.written(first["mean"])
    if found["unit"] == "data sets":
        return (
            f"{first['method']} ranks best over {count(len(evidence.datasets), 'data set')}: "
            f"average rank {first['rank']:.3g}, mean {metric.label} {value}"
        )
    which = f"{'lowest' if metric.lower_is_better else 'highest'} {metric.label}"
    where = evidence.datasets[0].name
    if len(found["ranking"]) == 1:
        return f"{first['method']} alone was evaluated on {where}: {metric.label} {value}" + _range(
            metric, first["interval"]
        )
    if len(tied) > 1:
        return f"No single winner on {where}: {listing(tied)} share the {which}, {value}"
    return f"{first['method']} has the {which} on {where}: {value}" + _range(
        metric, first["interval"]
    )


def _so_far(evidence: Evidence, found: dict[str, Any]) -> str:
    """Return the state of a study that is not finished: no winner."""
    first, metric = found["ranking"][0], evidence.metric
    compared = f"{len(found['ranking'])} of {count(len(evidence.methods), 'method')}"
    which = "lowest" if metric.lower_is_better else "highest"
    return (
        f"Not finished, so no winner is named: {evidence.recorded:,} of "
        f"{evidence.recorded + evidence.open:,} runs are done. Among the {compared} that can be "
        f"compared so far, {first['method']} has the {which} {metric.label}, "
        f"{metric.written(first['mean'])}."
    )


def _others(level: int, n: int) -> str:
    """Return how the other methods stand to the best, in words."""
    if not n:
        return ""
    if not level:
        return ", and every other method is clearly worse"
    if level == n > 1:
        return f", but none of the {n} other methods differs significantly from it"
    told = count(level, "other method is", "other methods are")
    return f", but {told} not significantly different"


def _difference(found: dict[str, Any], pair: dict[str, Any]) -> str:
    """Return the size of a difference from the best, with its interval when it has one."""
    metric = METRICS[found["measure"]]
    share = metric.kind == "percent"
    write = points if share else number
    unit = " points" if share else ""
    mean = next(r["mean"] for r in found["ranking"] if r["method"] == pair["method"])
    ends = pair["interval"]
    span = f", 95% interval {write(ends[0])} to {write(ends[1])}" if ends else ""
    size = f"{write(abs(pair['advantage']))}{unit} {'more' if pair['advantage'] >= 0 else 'less'}"
    return f"{metric.written(mean)} ({size}{span})"


def _verdict(found: dict[str, Any], pair: dict[str, Any]) -> str:
    p = pair["p_holm"]
    size = "p < 0.001" if p is not None and p < 0.001 else f"p = {p:.2g}" if p is not None else ""
    told = (
        f"The difference is real ({size})"
        if pair["significant"]
        else f"With {found['scope']} the difference could be chance ({size})"
    )
    return f"{told}; {pair['practical_sentence']}."


def _judged(found: dict[str, Any], pair: dict[str, Any], role: str) -> Told:
    text = f"{pair['method']} has {_difference(found, pair)}. {_verdict(found, pair)}"
    return _point(role, text, "good" if pair["significant"] else "open")


def _runner_up(evidence: Evidence, found: dict[str, Any]) -> Iterator[Told]:
    pairs = found.get("against_best", [])
    if not pairs:
        yield _point("Comparison", found.get("note", "There is nothing to compare."), "open")
    elif pairs[0]["method"] not in evidence.baselines:
        yield _judged(found, pairs[0], "Runner-up")


def _baselines(evidence: Evidence, found: dict[str, Any]) -> Iterator[Told]:
    best = found["ranking"][0]["method"]
    if best in evidence.baselines:
        text = f"{best} is itself a baseline: no reduction tried here was better on average."
        yield _point("Baseline", text, "open")
    for pair in found.get("against_best", []):
        if pair["method"] in evidence.baselines:
            role = "Baseline, runner-up" if pair is found["against_best"][0] else "Baseline"
            yield _judged(found, pair, role)


def _time(evidence: Evidence, found: dict[str, Any]) -> Iterator[Told]:
    taken = choice(evidence).method
    own = fit_seconds(evidence, taken)
    if own is None:
        return
    others = [
        f"{name} in {duration(other)}"
        for name in evidence.baselines
        if name != taken and (other := fit_seconds(evidence, name)) is not None
    ]
    against = f"; {listing(others)}" if others else ""
    yield _point("Time", f"{taken} fits one fold in {duration(own)} (median){against}.")


def _probabilities(evidence: Evidence, found: dict[str, Any]) -> Iterator[Told]:
    judged = trusted(evidence, evidence.datasets[0])
    best = choice(evidence).method
    where = f" on {evidence.datasets[0].name}" if len(evidence.datasets) > 1 else ""
    if not judged:
        yield _point("Probabilities", f"No method gave probabilities{where}.", "open")
        return
    own = next((entry for entry in judged if entry["method"] == best), None)
    told = f"{best}: {own['sentence']}" if own else f"{best} gives no probabilities."
    advice = _instead(found, judged, own["verdict"] if own else "")
    yield _point("Probabilities", told + advice, TONES[own["verdict"]] if own else "open")
    told, first = _worth(judged), judged[0]
    if first["log_loss"] is not None:
        told += f"; the lowest log loss is {first['method']}'s, {number(first['log_loss'])}"
    yield _point("Other probabilities", f"Among all methods{where}: {told}.")


def _worth(judged: list[dict[str, Any]]) -> str:
    """Return whose probabilities to trust and whose to use with care, in words."""
    good, fair = (
        [entry["method"] for entry in judged if entry["verdict"] == verdict]
        for verdict in ("good", "fair")
    )
    told = [f"trust those of {listing(good)}"] if good else []
    told += [f"use those of {listing(fair)} with care"] if fair else []
    return ", ".join(told) or "none can be trusted as they are"


def _instead(found: dict[str, Any], judged: list[dict[str, Any]], own: str) -> str:
    """Return which method level with the best has better probabilities than its, in words."""
    level = [pair["method"] for pair in found.get("against_best", []) if not pair["significant"]]
    better = {"good": (), "fair": ("good",)}.get(own, ("good", "fair"))
    for verdict in better:
        for entry in judged:
            if entry["verdict"] == verdict and entry["method"] in level:
                worth = VERDICTS[verdict]
                return f" {entry['method']}, which is not significantly different, has {worth}."
    return ""


def _classes(evidence: Evidence, found: dict[str, Any]) -> Iterator[Told]:
    best = choice(evidence).method
    for data in evidence.datasets[:3]:
        method = best if best in best_on(evidence, data.name) else None
        matrix = confusion(evidence, data, method) if method else None
        if method and matrix is not None:
            topic = "Classes" if len(evidence.datasets) == 1 else f"Classes of {data.name}"
            yield _point(topic, worst_classes(data, method, matrix))


def _ground(evidence: Evidence, found: dict[str, Any]) -> Iterator[Told]:
    guess = evidence.datasets[0].guess
    if len(evidence.datasets) == 1 and guess is not None and found["measure"] == "error":
        yield _point(
            "Guessing", f"Always predicting the largest class has an error of {percent(guess)}."
        )
    left = found["methods_left_out"]
    out = (
        f" {listing(left)} {'is' if len(left) == 1 else 'are'} not compared: too few finished."
        if left
        else ""
    )
    folds = found["units_left_out"]
    if folds:
        rows = count(found["n_units"], found["unit"].removesuffix("s"))
        out += f" The ranking rests on the {rows} that all compared methods finished."
    whole = len(evidence.finished()) == len(evidence.cells)
    if told := [clean(text) for text in listed(evidence.meta.get("left_out"))]:
        command = clean(evidence.meta.get("in_full") or "", 2000)
        yield _point(
            "Left out", f"To answer in time: {'; '.join(told)}. In full: {command}", "open"
        )
    yield _point("Runs", state(evidence) + out, "plain" if whole and not evidence.open else "open")


def _without(evidence: Evidence, found: dict[str, Any]) -> Iterator[Told]:
    """Yield what the methods come to without the columns that alone determine the class."""
    for data in evidence.datasets:
        if data.leaks:
            text = (
                f"{listing(data.leaks)} alone determines the class of every row (finding {LEAK}). "
            )
            text += "If its value is not known before the class, these results are not valid."
            yield _point("Leakage", text, "bad")
    for variant in evidence.variants:
        ranking = against_best(variant)["ranking"]
        columns = listing([clean(c, 60) for c in listed(variant.datasets[0].about["without"])])
        if not ranking:
            yield _point(f"Without {columns}", "No method has finished without it.", "open")
            continue
        taken, metric = choice(variant), variant.metric
        first, least = ranking[0]["method"], metric.written(ranking[0]["mean"])
        worth = f"{taken.method} has {taken.value}"
        worth += f", {first} the best {metric.label}, {least}" if taken.value != least else ""
        yield _point(
            f"Without {columns}",
            f"{worth}. Trust these numbers if the column is not known beforehand.",
            "open",
        )


#: Topics of the whole study, said once.
OF_STUDY = "Guessing", "Left out", "Runs"
#: Topics that make no sense without a winner.
WINNERS = "Runner-up", "Baselines", "Time", "Probabilities", "Classes"
TOPICS: dict[str, Callable[[Evidence, dict[str, Any]], Iterator[Told]]] = {
    "Leakage": _without,
    "Runner-up": _runner_up,
    "Baselines": _baselines,
    "Time": _time,
    "Probabilities": _probabilities,
    "Classes": _classes,
    "Ground": _ground,
}


# --- shown ---


def blocks(data: dict[str, Any]) -> list[Block]:
    """The headline, and its points."""
    items = tuple(Point(p["topic"], p["text"], p["tone"]) for p in data["points"])
    return [Text((data["headline"],), "lead"), Points(items)]
