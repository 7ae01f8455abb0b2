"""Which method is best and whether that is real: one answer from folds, another from data sets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from outcode import statistics
from outcode._checks import Array
from outcode.app.report import drawings
from outcode.app.report.blocks import Block, Entry, Figure, Fold, Head, Table, Text
from outcode.app.report.evidence import Evidence
from outcode.metrics import METRICS
from outcode.results import dataset_means, detail, plain
from outcode.statistics import Comparison
from outcode.words import count, listing, number, points

Data = dict[str, Any]

#: So many methods, best first, stand in the table of all pairs.
MOST_PAIRED = 16


def numbers(evidence: Evidence) -> dict[str, Any]:
    """Return what :func:`against_best` does, and the critical difference of the average ranks."""
    table, names, _ = _ranked(evidence)
    answer = against_best(evidence)
    if "note" in answer or len(table) < 2:
        return answer
    ranks = statistics.nemenyi(table, names, lower_is_better=evidence.metric.lower_is_better)
    folds = f"Average ranks of {len(names)} methods over {count(len(table), 'fold')}. Folds share \
training rows, so this bar is shorter than it should be: trust the corrected t test below."
    return answer | {
        "critical_difference": float(ranks.critical_difference),
        "groups": [list(group) for group in ranks.groups],
        "rank_sentence": ranks.sentence if answer["unit"] == "data sets" else folds,
    }


@lru_cache(maxsize=2)
def against_best(evidence: Evidence) -> dict[str, Any]:
    """Return the methods from best to worst, and whether the best differs from the others.

    One data set is judged by its folds, several by their means over folds, a row each, and a
    single test set by its rows: by the tests that ``statistics.TESTS`` has for each. Methods that
    miss too many rows are left out.
    """
    table, names, answer = _ranked(evidence)
    if not names:
        return answer | {"note": "No method finished."}
    setting = {
        "control": names[0],
        "test_train_ratio": answer["test_train_ratio"],
        "lower_is_better": evidence.metric.lower_is_better,
    }
    wrong = wrong_rows(evidence, names) if len(table) == 1 and len(names) > 1 else None
    if wrong is not None:
        scope = {"scope": count(len(wrong), "test row")}
        return answer | scope | _tested(wrong, names, "test rows", setting)
    if len(names) < 2 or len(table) < 2:
        return answer | {"note": _too_little(len(names), len(table), answer["unit"])}
    return answer | _tested(table, names, answer["unit"], setting)


def ranking(evidence: Evidence) -> list[dict[str, Any]]:
    """Return the comparable methods from best to worst, with their means and average ranks."""
    ranked: list[dict[str, Any]] = _ranked(evidence)[2]["ranking"]
    return ranked


@lru_cache(maxsize=2)
def _ranked(evidence: Evidence) -> tuple[Array, list[str], dict[str, Any]]:
    values, unit, ratio = _units(evidence)
    table, names, left_out = statistics.complete(values, evidence.names)
    losses = table if evidence.metric.lower_is_better else -table
    ranks = statistics.mean_ranks(losses) if names else np.empty(0)
    means = losses.mean(axis=0) if names else np.empty(0)
    first = means if unit == "folds" else ranks  # by mean over folds, by rank over data sets
    order = np.lexsort((np.arange(len(means)), means, first.round(9)))
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
            "ranking": [
                {
                    "method": name,
                    "baseline": name in evidence.baselines,
                    "mean": float(column.mean()),
                    "interval": _ends(statistics.mean_interval(column, ratio)),
                    "rank": float(rank),
                }
                for name, column, rank in zip(names, table.T, ranks[order], strict=True)
            ],
        },
    )


def _ends(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else [float(end) for end in interval]


def _units(evidence: Evidence) -> tuple[Array, str, float]:
    tables = [evidence.table(evidence.measure, data.name) for data in evidence.datasets]
    if len(tables) == 1:
        return tables[0], "folds", evidence.ratio(evidence.datasets[0].name)
    means = np.array([dataset_means(table) for table in tables])
    return means.reshape(len(tables), len(evidence.names)), "data sets", 0.0


def _too_little(n_methods: int, n_units: int, unit: str) -> str:
    if n_methods < 2:
        return "Only one method can be ranked: there is nothing to compare it with."
    return f"With {count(n_units, unit.removesuffix('s'))} no difference can be tested."


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


def _tested(table: Array, names: Sequence[str], unit: str, setting: Data) -> dict[str, Any]:
    """Run the tests of a unit; the first with p values decides, the others are told."""
    tests = [test for test in statistics.TESTS if test.unit == unit]
    decides = next(test for test in tests if test.role == "pairs")
    practical = next((test for test in tests if test.role == "practical"), None)
    others = [test for test in tests if test not in (decides, practical)]
    every = decides.run(table, names, **setting | {"control": None})
    with_first = [pair for pair in every.pairs if pair.first == names[0]]
    scope = f"these {len(table) - len(every.left_out)} {unit}"
    against, verdict = statistics.with_best(with_first, every.alpha, scope)
    told = [other.run(table, names, **setting).sentence for other in others]
    return {
        "test": decides.label.removesuffix(", with Holm's correction"),
        "sentence": " ".join([*told, verdict]),
        "pairs_sentence": every.sentence,
        "against_best": [
            {**_pair(pair), **sure}
            for pair, sure in zip(
                against, _practical(practical, table, names, setting), strict=True
            )
        ],
        "pairs": _matrix(every.pairs, names),
    }


def _practical(
    test: Comparison | None, table: Array, names: Sequence[str], setting: Data
) -> list[dict[str, Any]]:
    """Return for each other method how probable a practical difference is, and in words."""
    if test is None:
        told = "one training set says nothing about another"
    elif len(table) < test.least:
        told = f"fewer than {test.least} {test.unit} tell little"
    else:
        pairs = test.run(table, names, **setting).pairs
        return [
            {"practical": [p.p_first, p.p_rope, p.p_second], "practical_sentence": p.brief}
            for p in pairs
        ]
    return [{"practical": None, "practical_sentence": told}] * (len(names) - 1)


def _pair(pair: statistics.Pair) -> dict[str, Any]:
    return {
        "method": pair.second,
        "advantage": float(pair.advantage),
        "p_value": plain(pair.p_value),
        "p_holm": plain(pair.p_holm),
        "significant": bool(pair.significant),
        "sentence": pair.sentence,
        "interval": _ends(pair.interval),
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


# --- shown ---


def blocks(data: dict[str, Any]) -> list[Block]:
    """The critical difference, the best against each other method, and all pairs."""
    if "note" in data:
        return [Text((data["note"],))]
    blocks: list[Block] = [Text((data["sentence"],)), *_ranks(data), _against(data)]
    if data["methods_left_out"]:
        left = listing(data["methods_left_out"], 8)
        blocks.append(Text((f"Not compared, too few finished runs: {left}.",), "muted"))
    return [*blocks, Fold("All pairs", (Text((data["pairs_sentence"],)), _pairs(data)))]


def _ranks(data: dict[str, Any]) -> list[Block]:
    """The critical-difference diagram, when there is more than one fold or data set."""
    if "critical_difference" not in data:
        return []
    svg = drawings.critical_difference(
        data["ranking"][:24], _known_groups(data), data["critical_difference"]
    )
    joined = "A bar joins methods whose ranks are not significantly different."
    return [Figure(svg, f"{data['rank_sentence']} {joined}")]


def _known_groups(data: dict[str, Any]) -> list[list[str]]:
    """Return the groups among the methods drawn."""
    drawn = {row["method"] for row in data["ranking"][:24]}
    groups = [[name for name in group if name in drawn] for group in data["groups"]]
    return [group for group in groups if len(group) > 1]


def _against(data: dict[str, Any]) -> Table:
    best, share = data["ranking"][0]["method"], _is_share(data)
    head = (
        Head("method", numeric=False),
        Head("worse by", f"difference from {best}" + (", percentage points" if share else "")),
        Head("p", "p value corrected for the choice of the best from the same results"),
        Head("better / same / worse", "probabilities that the best is practically so"),
        Head("verdict", numeric=False),
    )
    rows = tuple(tuple(_against_row(pair, share)) for pair in data["against_best"])
    return Table(f"{best} against every other method: {data['test']}", head, rows, sortable=True)


def _is_share(data: dict[str, Any]) -> bool:
    return METRICS[data["measure"]].kind == "percent"


def _against_row(pair: dict[str, Any], share: bool) -> list[Entry]:
    write, ends = (points if share else number), pair["interval"]
    p, sure = pair["p_holm"], pair["practical"]
    verdict = "clearly worse" if pair["significant"] else "not significant"
    return [
        Entry(pair["method"]),
        Entry(
            write(pair["advantage"]),
            pair["advantage"],
            note=f"{write(ends[0])} to {write(ends[1])}" if ends else "",
        ),
        Entry("<0.001" if p < 0.001 else f"{p:.3f}", p),
        Entry(" / ".join(f"{x:.2f}" for x in sure) if sure else "–", sure[0] if sure else None),
        Entry(verdict, title=pair["sentence"], tone="sure" if pair["significant"] else "muted"),
    ]


def _pairs(data: dict[str, Any]) -> Table:
    pairs, share = data["pairs"], _is_share(data)
    write = points if share else number
    head = (Head("row better by", numeric=False), *(Head(name) for name in pairs["methods"]))
    rows = tuple(
        (
            Entry(name),
            *(
                Entry("·" if i == j else write(value), value, tone="sure" if sure else "muted")
                for j, (value, sure) in enumerate(zip(values, certain, strict=True))
            ),
        )
        for i, (name, values, certain) in enumerate(
            zip(pairs["methods"], pairs["advantage"], pairs["significant"], strict=True)
        )
    )
    unit = "percentage points" if share else "units of the measure"
    caption = f"By how much the row's method is better than the column's, in {unit}; bold: \
significant after Holm's correction over all pairs"
    return Table(caption, head, rows)
