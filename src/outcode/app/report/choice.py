"""Which method to take: among those level with the best, the least log loss, then the fastest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf

from outcode import results
from outcode.app.report.comparison import against_best
from outcode.app.report.evidence import Evidence
from outcode.app.report.probabilities import trusted
from outcode.words import number

#: Few folds prove little: a method that is as good as the best is also within this of it.
CLOSE_SHARE, CLOSE = 0.1, 0.01
#: Log losses that differ by less than this share, or this much, are equal.
SHARE, MUCH = 0.01, 0.001
#: So many times faster is worth a word.
FASTER = 1.5


@dataclass(frozen=True)
class Choice:
    """The method to take, its value of the measure, why, and all methods in the order of merit."""

    method: str
    value: str
    why: tuple[str, ...]
    order: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The advice in words."""
        return f"Take {self.method} ({self.value}): {', '.join(self.why)}."


@lru_cache(maxsize=2)
def choice(evidence: Evidence) -> Choice:
    """Return the method to take of those that finished.

    Methods not significantly different from the best are ranked by log loss, equal ones by time,
    those without probabilities last; the others follow as they are ranked.
    """
    found = against_best(evidence)
    names = [row["method"] for row in found["ranking"]]
    if not names:
        return Choice("", "", (), ())
    worse = {pair["method"] for pair in found.get("against_best", []) if pair["significant"]}
    means = {row["method"]: row["mean"] for row in found["ranking"]}
    close = max(CLOSE, CLOSE_SHARE * abs(means[names[0]]))
    level = [n for n in names if n not in worse and abs(means[n] - means[names[0]]) <= close]
    if "note" in found:
        level = names[:1]  # nothing was tested, so nothing is level
    rest = [name for name in names if name not in level]
    losses = {name: _value(evidence, name, "log_loss", inf) for name in level}
    least = min(losses.values())
    equal = least * (1 + SHARE) + MUCH

    def merit(name: str) -> tuple[float, float]:
        loss = losses[name] if losses[name] > equal else least
        return loss, _value(evidence, name, "fit_seconds", inf)

    order = sorted(level, key=merit)
    mean = next(row["mean"] for row in found["ranking"] if row["method"] == order[0])
    why = _why(evidence, order, names[0], least)
    return Choice(order[0], evidence.metric.written(mean), why, (*order, *rest))


def fit_seconds(evidence: Evidence, method: str) -> float | None:
    """Return the median time to fit a fold."""
    return results.standing(method, evidence.finished(method=method)).values["fit_seconds"]


def _value(evidence: Evidence, method: str, key: str, absent: float) -> float:
    value = results.standing(method, evidence.finished(method=method)).values[key]
    return absent if value is None else value


def _why(evidence: Evidence, order: list[str], lowest: str, least: float) -> tuple[str, ...]:
    """Return the reasons for the first of the methods level with the one ranked first."""
    taken, metric = order[0], evidence.metric
    which = "lowest" if metric.lower_is_better else "highest"
    equal = f"its {metric.label} is near {lowest}'s and not significantly different"
    why = [f"the {which} {metric.label}" if taken == lowest else equal]
    if len(order) > 1 and least < inf:
        loss = _value(evidence, taken, "log_loss", inf)
        why.append(f"{'the lowest' if loss == least else 'an equal'} log loss ({number(loss)})")
    why += _speed(evidence, taken, next((n for n in (lowest, *order) if n != taken), taken))
    for entry in trusted(evidence, evidence.datasets[0]):
        if entry["method"] == taken and entry["verdict"] == "good":
            why.append("calibrated probabilities")
    return tuple(why)


def _speed(evidence: Evidence, taken: str, other: str) -> list[str]:
    """Return how much faster one method is than another, if it is."""
    mine, theirs = (_value(evidence, name, "fit_seconds", inf) for name in (taken, other))
    return [f"{theirs / mine:.2g}x faster than {other}"] if 0 < FASTER * mine < theirs < inf else []
