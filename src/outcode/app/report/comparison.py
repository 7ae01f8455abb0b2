"""Which method is best and whether that is real: one answer from folds, another from data sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from outcode import statistics
from outcode._checks import Array
from outcode.app.report.evidence import Evidence, detail, interval, plain
from outcode.app.report.text import count

#: Differences up to this are practically none, in the measure's units.
ROPE = 0.01
#: Data sets below which the Bayesian test gives no verdict: its prior weighs too much.
FEW = 5
#: A practical verdict needs this probability.
SURE = 0.95
#: So many methods, best first, stand in the table of all pairs.
MOST_PAIRED = 16


def compare(evidence: Evidence) -> dict[str, Any]:
    """Return what :func:`against_best` does, and the critical difference of the average ranks."""
    table, names, _ = _ranked(evidence)
    answer = against_best(evidence)
    if "note" in answer:
        return answer
    if len(table) < 2:
        return answer
    ranks = statistics.nemenyi(table, names)
    return answer | {
        "critical_difference": float(ranks.critical_difference),
        "groups": [list(group) for group in ranks.groups],
        "rank_sentence": ranks.sentence
        if answer["unit"] == "data sets"
        else _fold_ranks(len(names), len(table)),
    }


def against_best(evidence: Evidence) -> dict[str, Any]:
    """Return the methods from best to worst, and whether the best differs from the others.

    One data set is judged by its folds: Nadeau and Bengio's corrected t with Holm, and the
    posterior of the same difference. Several are judged by their mean over folds, a row each:
    Friedman, Wilcoxon with Holm, and the Bayesian signed-rank test. A single test set is judged by
    its rows: McNemar with Holm. Methods that miss too many rows are left out.
    """
    table, names, answer = _ranked(evidence)
    if not names:
        return answer | {"note": "No method finished."}
    wrong = wrong_rows(evidence, names) if len(table) == 1 and len(names) > 1 else None
    if wrong is not None:
        return answer | _on_rows(wrong, names)
    if len(names) < 2 or len(table) < 2:
        return answer | {"note": _too_little(len(names), len(table), answer["unit"])}
    if answer["unit"] == "folds":
        return answer | _on_folds(table, names, answer["test_train_ratio"])
    return answer | _on_datasets(table, names)


def ranking(evidence: Evidence) -> list[dict[str, Any]]:
    """Return the comparable methods from best to worst, with their means and average ranks."""
    ranked: list[dict[str, Any]] = _ranked(evidence)[2]["ranking"]
    return ranked


def _ranked(evidence: Evidence) -> tuple[Array, list[str], dict[str, Any]]:
    values, unit, ratio = _units(evidence)
    table, names, left_out = complete(values, evidence.names)
    order = _order(table, unit) if names else []
    table, names = table[:, order], [names[i] for i in order]
    return (
        table,
        names,
        {
            "measure": evidence.measure,
            "unit": unit,
            "n_units": len(table),
            "scope": count(len(table), unit.removesuffix("s")),
            "units_left_out": len(values) - len(table),
            "methods_left_out": left_out,
            "test_train_ratio": ratio,
            "ranking": _ranking(evidence, table, names, ratio) if names else [],
        },
    )


def complete(values: Array, names: Sequence[str]) -> tuple[Array, list[str], list[str]]:
    """Return the rows that all kept methods finished, these methods' names, and the others'.

    The method that misses most rows is left out until at least half of the rows (and two of them)
    are complete.
    """
    kept = list(range(len(names)))
    while kept:
        whole = ~np.isnan(values[:, kept]).any(axis=1)
        if whole.any() and 2 * whole.sum() >= len(values) and whole.sum() >= min(2, len(values)):
            break
        missing = np.isnan(values[:, kept]).sum(axis=0)
        kept.pop(len(kept) - 1 - int(missing[::-1].argmax()))
    others = [name for i, name in enumerate(names) if i not in kept]
    if not kept:
        return np.empty((0, 0)), [], others
    return values[whole][:, kept], [names[i] for i in kept], others


def posterior(advantage: float, half_width: float, df: int) -> tuple[float, float, float]:
    """Return the probabilities that the first is practically better, equal, and worse.

    The mean difference given the folds has a Student distribution around ``advantage`` with the
    corrected standard error; ``half_width`` is that of its 95 % interval ([BCDZ17], the Bayesian
    correlated t test).
    """
    if half_width == 0:
        return float(advantage > ROPE), float(abs(advantage) <= ROPE), float(advantage < -ROPE)
    mean = stats.t(df, advantage, half_width / float(stats.t.isf(0.025, df)))
    first, second = float(mean.sf(ROPE)), float(mean.cdf(-ROPE))
    return first, 1 - first - second, second


def _units(evidence: Evidence) -> tuple[Array, str, float]:
    tables = [evidence.table(evidence.measure, data.name) for data in evidence.datasets]
    if len(tables) == 1:
        return tables[0], "folds", evidence.ratio(evidence.datasets[0].name)
    means = np.array([_means(table) for table in tables])
    return means.reshape(len(tables), len(evidence.names)), "data sets", 0.0


def _means(table: Array) -> Array:
    """Return each method's mean over the folds it shares with the others; NaN if it has none."""
    if not len(table):
        return np.full(table.shape[1], math.nan)
    started = ~np.isnan(table).all(axis=0)
    whole = ~np.isnan(table[:, started]).any(axis=1)
    means = np.full(table.shape[1], math.nan)
    if started.any() and whole.any():
        means[started] = table[whole][:, started].mean(axis=0)
    elif started.any():
        means[started] = np.nanmean(table[:, started], axis=0)
    return means


def _order(table: Array, unit: str) -> list[int]:
    """Return the columns from best to worst: by mean over folds, by average rank over data sets."""
    means = table.mean(axis=0)
    first = means if unit == "folds" else stats.rankdata(table, axis=1).mean(axis=0)
    return [int(i) for i in np.lexsort((np.arange(len(means)), means, first.round(9)))]


def _ranking(
    evidence: Evidence, table: Array, names: Sequence[str], ratio: float
) -> list[dict[str, Any]]:
    ranks = stats.rankdata(table.round(12), axis=1).mean(axis=0)
    return [
        {
            "method": name,
            "baseline": name in evidence.baselines,
            "mean": float(column.mean()),
            "interval": interval(column, ratio),
            "rank": float(rank),
        }
        for name, column, rank in zip(names, table.T, ranks, strict=True)
    ]


def _too_little(n_methods: int, n_units: int, unit: str) -> str:
    if n_methods < 2:
        return "Only one method can be ranked: there is nothing to compare it with."
    return f"With {count(n_units, unit.removesuffix('s'))} no test can tell methods apart."


def _on_folds(table: Array, names: Sequence[str], ratio: float) -> dict[str, Any]:
    against = statistics.corrected_t(table, names, test_train_ratio=ratio, control=names[0])
    every = statistics.corrected_t(table, names, test_train_ratio=ratio)
    return {
        "test": "Nadeau and Bengio's corrected t test over the folds, with Holm's correction",
        "sentence": against.sentence,
        "pairs_sentence": every.sentence,
        "against_best": [
            {
                **_pair(pair),
                "interval": [float(end) for end in pair.interval],
                **_practical(pair),
            }
            for pair in against.pairs
        ],
        "pairs": _matrix(every.pairs, names),
    }


def wrong_rows(evidence: Evidence, names: Sequence[str]) -> Array | None:
    """Return which test rows each method gets wrong, (n_rows, n_methods), for a single test set.

    None when the measure is not the error, or a method did not keep its predictions.
    """
    cells = [cell for name in names for cell in evidence.finished(method=name)]
    kept = [(detail(cell, "labels"), detail(cell, "predicted")) for cell in cells]
    lengths = {len(part) if part else 0 for pair in kept for part in pair}
    if evidence.measure != "error" or len(cells) != len(names) or len(lengths) != 1 or 0 in lengths:
        return None
    return np.array([np.array(labels) != np.array(predicted) for labels, predicted in kept]).T


def _on_rows(wrong: Array, names: Sequence[str]) -> dict[str, Any]:
    against = statistics.mcnemar(wrong, names, control=names[0])
    every = statistics.mcnemar(wrong, names)
    few = "one training set says nothing about another"
    return {
        "test": "McNemar's test over the rows of the one test set, with Holm's correction",
        "scope": count(len(wrong), "test row"),
        "sentence": against.sentence,
        "pairs_sentence": every.sentence,
        "against_best": [
            {
                **_pair(pair),
                "interval": _paired_interval(pair, len(wrong)),
                "practical": None,
                "practical_sentence": few,
            }
            for pair in against.pairs
        ],
        "pairs": _matrix(every.pairs, names),
    }


def _paired_interval(pair: statistics.McNemarPair, n: int) -> list[float]:
    """Return the normal interval of the difference of two error rates on the same n rows."""
    apart = pair.only_first + pair.only_second
    width = 1.96 * math.sqrt(max(0.0, apart / n - pair.advantage**2) / n)
    return [pair.advantage - width, pair.advantage + width]


def _fold_ranks(n_methods: int, n_folds: int) -> str:
    return (
        f"Average ranks of {n_methods} methods over {count(n_folds, 'fold')}. Folds share training "
        "rows, so this bar is shorter than it should be: trust the corrected t test below."
    )


def _practical(pair: statistics.CorrectedTPair) -> dict[str, Any]:
    half = (pair.interval[1] - pair.interval[0]) / 2
    return _practical_words(posterior(pair.advantage, half, pair.df), pair.first, pair.second)


def _practical_words(shares: tuple[float, float, float], first: str, second: str) -> dict[str, Any]:
    apart = 1 - shares[1]
    better = next((n for n, p in zip((first, second), shares[::2], strict=True) if p >= SURE), None)
    if better is not None:
        tell = f"{better} is better by more than {ROPE:g} with probability {_chance(max(shares))}"
    elif shares[1] >= SURE:
        tell = f"they are equal within {ROPE:g} with probability {_chance(shares[1])}"
    else:
        tell = f"the probability that they differ by more than {ROPE:g} is {_chance(apart)}"
    return {"practical": list(shares), "practical_sentence": tell}


def _chance(p: float) -> str:
    return "above 0.99" if p > 0.99 else "below 0.01" if p < 0.01 else f"{p:.2f}"


def _on_datasets(table: Array, names: Sequence[str]) -> dict[str, Any]:
    against = statistics.wilcoxon(table, names, control=names[0])
    every = statistics.wilcoxon(table, names)
    bayes = statistics.bayesian_signed_rank(
        table, names, control=names[0], rope=ROPE, random_state=0
    )
    return {
        "test": "Wilcoxon's signed-rank test over the data sets, with Holm's correction",
        "sentence": f"{statistics.friedman(table, names).sentence} {against.sentence}",
        "pairs_sentence": every.sentence,
        "against_best": [
            {**_pair(pair), "interval": None, **_practical_over(sure, len(table))}
            for pair, sure in zip(against.pairs, bayes.pairs, strict=True)
        ],
        "pairs": _matrix(every.pairs, names),
    }


def _practical_over(sure: statistics.BayesianPair, n_datasets: int) -> dict[str, Any]:
    """Return the Bayesian signed-rank test's verdict, none with a handful of data sets."""
    if n_datasets < FEW:
        return {"practical": None, "practical_sentence": f"fewer than {FEW} data sets tell little"}
    shares = (sure.p_first, sure.p_rope, sure.p_second)
    return _practical_words(shares, sure.first, sure.second)


def _pair(pair: statistics.Pair) -> dict[str, Any]:
    return {
        "method": pair.second,
        "advantage": float(pair.advantage),
        "p_value": plain(pair.p_value),
        "p_holm": plain(pair.p_holm),
        "significant": bool(pair.significant),
        "sentence": pair.sentence,
    }


def _matrix(pairs: Sequence[statistics.Pair], names: Sequence[str]) -> dict[str, Any]:
    """Return by how much each row's method is better than each column's, and which are sure."""
    shown = list(names[:MOST_PAIRED])
    place = {name: i for i, name in enumerate(shown)}
    difference = np.zeros((len(shown), len(shown)))
    sure = np.zeros(difference.shape, dtype=bool)
    for pair in pairs:
        if pair.first in place and pair.second in place:
            i, j = place[pair.first], place[pair.second]
            difference[i, j], difference[j, i] = pair.advantage, -pair.advantage
            sure[i, j] = sure[j, i] = pair.significant
    return {"methods": shown, "advantage": difference.tolist(), "significant": sure.tolist()}
