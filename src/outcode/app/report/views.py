"""A section's numbers to the blocks it is shown as: the answer, the leaderboard, the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outcode.app.report import drawings
from outcode.app.report.answer import possible, words
from outcode.app.report.blocks import (
    Block,
    Entry,
    Figure,
    Fold,
    Grid,
    Head,
    Panels,
    Point,
    Points,
    Table,
    Text,
)
from outcode.app.report.board import METRICS, Metric
from outcode.app.report.text import count, listing, number, percent, points, seconds, size

WRITERS: dict[str, Callable[[float | None], str]] = {
    "percent": lambda value: percent(value, 2),
    "number": lambda value: "–" if value is None else f"{value:.3f}",
    "seconds": seconds,
    "count": number,
    "bytes": size,
}


def answer(data: dict[str, Any]) -> list[Block]:
    """The headline, and its points."""
    items = tuple(Point(p["topic"], p["text"], p["tone"]) for p in data["points"])
    return [Text((data["headline"],), "lead"), Points(items)]


def leaderboard(data: dict[str, Any]) -> list[Block]:
    """One sortable table, or a panel for each."""
    tables = [(t["dataset"] or "all data sets", tuple(_board(t, data))) for t in data["tables"]]
    notes = []
    if any(row["unfinished"] for table in data["tables"] for row in table["rows"]):
        notes.append(
            "A method with unfinished cells has means over the folds it finished; ranking and "
            "tests use only folds that all compared methods finished."
        )
    if data["datasets_left_out"]:
        notes.append(
            f"{count(data['datasets_left_out'], 'more data set')} in the first table only."
        )
    shown: list[Block] = list(tables[0][1]) if len(tables) == 1 else [Panels(tuple(tables))]
    return [*shown, Text((" ".join([BOARD_NOTE, *notes]),), "muted")]


BOARD_NOTE = (
    "Means over the folds; in small print their 95% intervals, corrected for the overlap of "
    "training rows. The best of each column is marked. A dash: the method has no such number."
)


def _board(table: dict[str, Any], data: dict[str, Any]) -> list[Block]:
    keys = {m.key for m in METRICS if any(r[m.key]["mean"] is not None for r in table["rows"])}
    shown = [m for m in METRICS if m.key in keys]
    ranked = any(row["rank"] is not None for row in table["rows"])
    head = [Head("method", numeric=False), *([Head("average rank")] if ranked else [])]
    head += [Head(m.label, m.meaning) for m in shown]
    rows = tuple(tuple(_board_row(row, table, shown, ranked)) for row in table["rows"])
    caption = f"Methods on {table['dataset'] or 'all data sets'}, best first"
    drawn = [r for r in table["rows"] if r.get(data["measure"], {}).get("mean") is not None][:25]
    blocks: list[Block] = [Table(caption, tuple(head), rows, sortable=True)]
    if table["dataset"] is not None and len(drawn) > 1:
        blocks.insert(0, _intervals(drawn, data["measure"], table["dataset"]))
    return blocks


def _intervals(rows: list[dict[str, Any]], measure: str, dataset: str) -> Figure:
    plain = [_drawn(row, measure) for row in rows]
    name = next((m.label for m in METRICS if m.key == measure), measure)
    told = ", ".join(f"{r['method']} {words(measure, r['mean'])}" for r in plain)
    svg = drawings.intervals(plain, lambda v: words(measure, v), f"{name} of each method: {told}")
    return Figure(svg, f"{name.capitalize()} on {dataset} with 95% intervals; baselines hollow.")


def _drawn(row: dict[str, Any], measure: str) -> dict[str, Any]:
    mean, ends = row[measure]["mean"], row[measure]["interval"]
    shown = {"mean": mean, "interval": possible(measure, ends) if ends else None}
    return {"method": row["method"], "baseline": row["baseline"], **shown}


def _board_row(
    row: dict[str, Any], table: dict[str, Any], shown: list[Metric], ranked: bool
) -> list[Entry]:
    role = ["baseline"] if row["baseline"] else []
    note = " · ".join([*role, *_unfinished(row)])
    about = [text for text in (row["full"], row["title"]) if text and text != row["method"]]
    title = " · ".join([*about, *row["reasons"]])
    entries = [Entry(row["method"], note=note, title=title)]
    if ranked:
        rank = row["rank"]
        entries.append(Entry("–" if rank is None else f"{rank:.2f}", rank))
    entries += [_metric(row[m.key], m, table["best"][m.key]) for m in shown]
    return entries


def _metric(found: dict[str, Any], metric: Metric, best: float | None) -> Entry:
    write = WRITERS[metric.kind]
    mean, ends = found["mean"], found["interval"]
    note = _span(metric, ends) if ends else ""
    tone = "best" if mean is not None and mean == best else "" if mean is not None else "muted"
    return Entry(write(mean), mean, note=note, tone=tone)


def _span(metric: Metric, ends: list[float]) -> str:
    low, high = (max(0.0, end) for end in ends)
    if metric.kind == "percent":
        return f"{100 * low:.1f} – {100 * min(1.0, high):.1f}%"
    return f"{low:.3f} – {high:.3f}"


def _unfinished(row: dict[str, Any]) -> list[str]:
    """Return how many cells have no result and why, in words; nothing when all have one."""
    if not row["unfinished"]:
        return []
    states = ", ".join(f"{n} {status}" for status, n in row["unfinished"].items())
    return [f"{row['finished']} of {count(row['cells'], 'cell')}: {states}"]


def comparison(data: dict[str, Any]) -> list[Block]:
    """The critical difference, the best against each other method, and all pairs."""
    if "note" in data:
        return [Text((data["note"],))]
    blocks: list[Block] = [Text((data["sentence"],)), *_ranks(data), _against(data)]
    if data["methods_left_out"]:
        left = listing(data["methods_left_out"], 8)
        blocks.append(Text((f"Not compared, too few finished cells: {left}.",), "muted"))
    return [*blocks, Fold("All pairs", (Text((data["pairs_sentence"],)), _pairs(data)))]


def _ranks(data: dict[str, Any]) -> list[Block]:
    """The critical-difference diagram, when there is more than one fold or data set."""
    if "critical_difference" not in data:
        return []
    svg = drawings.critical_difference(
        data["ranking"][:24], _known_groups(data), data["critical_difference"]
    )
    joined = "A bar joins methods whose ranks are not told apart."
    return [Figure(svg, f"{data['rank_sentence']} {joined}")]


def _known_groups(data: dict[str, Any]) -> list[list[str]]:
    """Return the groups among the methods drawn."""
    drawn = {row["method"] for row in data["ranking"][:24]}
    groups = [[name for name in group if name in drawn] for group in data["groups"]]
    return [group for group in groups if len(group) > 1]


def _against(data: dict[str, Any]) -> Table:
    best, share = data["ranking"][0]["method"], data["measure"] in SHARES
    head = (
        Head("method", numeric=False),
        Head("worse by", f"difference from {best}" + (", percentage points" if share else "")),
        Head("p (Holm)", "p value corrected for all rows of this table"),
        Head("better / same / worse", "probabilities that the best is practically so"),
        Head("verdict", numeric=False),
    )
    rows = tuple(tuple(_against_row(pair, share)) for pair in data["against_best"])
    return Table(f"{best} against every other method: {data['test']}", head, rows, sortable=True)


SHARES = {m.key for m in METRICS if m.kind == "percent"}


def _against_row(pair: dict[str, Any], share: bool) -> list[Entry]:
    write, ends = (points if share else number), pair["interval"]
    p, sure = pair["p_holm"], pair["practical"]
    verdict = "clearly worse" if pair["significant"] else "cannot tell"
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
    pairs, share = data["pairs"], data["measure"] in SHARES
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
    caption = f"By how much the row's method is better than the column's, in {unit}; strong: \
told apart after Holm's correction over all pairs"
    return Table(caption, head, rows)


def by_dataset(entries: list[tuple[str, list[Block]]]) -> list[Block]:
    """Return the blocks of one data set, or a panel for each of several."""
    if len(entries) == 1:
        return entries[0][1]
    return [Panels(tuple((name, tuple(blocks)) for name, blocks in entries))]


def side_by_side(figures: list[Block], wide: bool = False) -> Block:
    """Return one block as it is, several in a grid."""
    return figures[0] if len(figures) == 1 else Grid(tuple(figures), wide)
