"""A section's numbers to the blocks it is shown as: classes, probabilities, codes, provenance."""

from __future__ import annotations

from typing import Any

from outcode.app.report import drawings
from outcode.app.report.blocks import (
    Block,
    Command,
    Entry,
    Figure,
    Finding,
    Findings,
    Fold,
    Grid,
    Head,
    Panels,
    Point,
    Points,
    Table,
    Text,
)
from outcode.app.report.text import count, listing, number, percent, size
from outcode.app.report.views import by_dataset, side_by_side


def classes(data: dict[str, Any]) -> list[Block]:
    """Recalls and confusion matrices, by data set."""
    if data["note"]:
        return [Text((data["note"],))]
    shown = by_dataset([(d["dataset"], _classes(d)) for d in data["datasets"]])
    return shown + _left_out(data)


def _left_out(data: dict[str, Any]) -> list[Block]:
    more = data["datasets_left_out"]
    return [Text((f"{count(more, 'more data set')} not shown.",), "muted")] if more else []


def _classes(d: dict[str, Any]) -> list[Block]:
    matrices = [(m["method"], tuple(_matrix(m, d["dataset"]))) for m in d["matrices"]]
    recalls, n = _recalls(d), len(d["classes"])
    shown: Block = recalls if n <= 20 else Fold(f"Recall of {n} classes", (recalls,))
    return [Text(tuple(d["sentences"])), Panels(tuple(matrices)), shown]


def _matrix(m: dict[str, Any], dataset: str) -> list[Block]:
    """Return picture and pairs, side by side while the picture is small."""
    parts: list[Block] = [_confusion(m, dataset), *_pairs(m)]
    return [Grid(tuple(parts))] if len(m["classes"]) <= 12 else parts


def _recalls(d: dict[str, Any]) -> Table:
    first, *others = d["methods"]
    head = (
        Head("class", numeric=False),
        Head("test rows"),
        Head(f"recall, {first}", "share of the class's rows predicted right"),
        *(Head(f"recall, {name}") for name in others),
        Head(f"precision, {first}", "share right among rows predicted to be of the class"),
        Head("most often taken for", numeric=False),
    )
    more = d["classes_left_out"]
    rest = f"; {count(more, 'class', 'classes')} with higher recall not listed" if more else ""
    rows = tuple(tuple(_recall_row(c)) for c in d["classes"])
    return Table(f"Classes of {d['dataset']}, lowest recall first{rest}", head, rows, sortable=True)


def _recall_row(c: dict[str, Any]) -> list[Entry]:
    first, *others = c["recall"]
    taken = f"{c['taken_for']} ({c['taken']})" if c["taken_for"] is not None else "–"
    return [
        Entry(c["class"], title=_whole(c["full"], c["class"])),
        Entry(f"{c['rows']:,}", float(c["rows"])),
        Entry(percent(first, 1), first, bar=first),
        *(Entry(percent(r, 1), r) for r in others),
        Entry(percent(c["precision"], 1), c["precision"]),
        Entry(taken, title=""),
    ]


def _whole(full: str, shown: str) -> str:
    return full if full != shown else ""


def _confusion(m: dict[str, Any], dataset: str) -> Figure:
    title = f"Confusion matrix of {m['method']} on {dataset}, {len(m['classes'])} classes"
    more = m["classes_left_out"]
    rest = (
        f" The {len(m['classes'])} classes with most errors; {more} more not drawn." if more else ""
    )
    caption = (
        f"{m['method']}: test rows by true (row) and predicted (column) class, over all folds; \
shaded by share of the row, errors in the second colour.{rest}"
    )
    return Figure(drawings.confusion(m["counts"], m["classes"], title), caption)


def _pairs(m: dict[str, Any]) -> list[Block]:
    if not m["pairs"]:
        return []
    head = (
        Head("classes", numeric=False),
        Head("rows", "test rows of one taken for the other"),
        Head("→", "first taken for second"),
        Head("←", "second taken for first"),
        Head("share", "of the two classes' rows"),
    )
    rows = tuple(
        (
            Entry(f"{p['first']} / {p['second']}"),
            *(Entry(f"{p[k]:,}") for k in ("rows", "first_for_second", "second_for_first")),
            Entry(percent(p["share"], 1)),
        )
        for p in m["pairs"]
    )
    return [Table(f"Pairs that {m['method']} confuses most", head, rows)]


def probabilities(data: dict[str, Any]) -> list[Block]:
    """Reliability diagrams and what they mean, by data set."""
    if data["note"]:
        return [Text((data["note"],))]
    shown = by_dataset([(d["dataset"], _reliability(d)) for d in data["datasets"]])
    return shown + _left_out(data)


def _reliability(d: dict[str, Any]) -> list[Block]:
    tones = {"good": "good", "fair": "open", "poor": "bad"}
    verdicts = tuple(Point(m["method"], _told(m), tones[m["verdict"]]) for m in d["methods"])
    figures: list[Block] = [
        Figure(
            drawings.reliability(m["diagram"], f"Reliability diagram of {m['method']}"),
            f"{m['method']}: mean gap {percent(m['calibration_error'])}",
        )
        for m in d["methods"]
    ]
    notes = [
        "On the diagonal the stated probability is the share right; below it is too sure. All "
        "folds together; the leaderboard's mean over folds is larger: a fold has fewer rows."
    ]
    if d["without"]:
        notes.append(f"Without probabilities: {listing(d['without'], 8)}.")
    if d["methods_left_out"]:
        notes.append(f"{count(d['methods_left_out'], 'more method')} not drawn.")
    return [Points(verdicts), side_by_side(figures), Text((" ".join(notes),), "muted")]


def _told(m: dict[str, Any]) -> str:
    loss = f" Log loss {number(m['log_loss'])}." if m["log_loss"] is not None else ""
    text = m["sentence"].removeprefix(f"{m['method']}: ")
    return text[:1].upper() + text[1:] + loss


def code(data: dict[str, Any]) -> list[Block]:
    """Code matrices with their distances and columns, by data set and method."""
    if data["note"]:
        return [Text((data["note"],))]
    return by_dataset(
        [
            (d["dataset"], by_dataset([(m["method"], _code(m)) for m in d["methods"]]))
            for d in data["datasets"]
        ]
    )


def _code(m: dict[str, Any]) -> list[Block]:
    name = m["method"]
    size_of = f"{m['n_classes']} classes by {m['n_dichotomies']} columns"
    cut = len(m["code"]) < m["n_classes"] or len(m["code"][0]) < m["n_dichotomies"]
    part = f" First {len(m['code'])} classes and {len(m['code'][0])} columns." if cut else ""
    matrix = drawings.code(m["code"], m["classes"], f"Code matrix of {name}, {size_of}")
    rows = drawings.distances(
        m["distances"],
        m["classes"],
        f"Distances of the code's rows, at least {m['min_distance']:g}",
    )
    blocks: list[Block] = [
        Text(tuple(m["sentences"])),
        Grid(
            (
                Figure(
                    matrix,
                    f"{name}: a row per class, a column per machine; first colour +1, "
                    f"second −1, empty: class not used.{part}",
                ),
                Figure(rows, "Distance of each pair of rows: the darker, the farther apart."),
            )
        ),
        *_columns(m),
    ]
    if m["findings"]:
        items = tuple(Finding(f["code"], f["message"]) for f in m["findings"])
        blocks.append(Findings("What the code doctor noticed", items))
    return blocks


def _columns(m: dict[str, Any]) -> list[Block]:
    columns = m["columns"]
    if columns is None:
        return []
    more = f" First {len(columns['error'])} columns." if columns["left_out"] else ""
    title = f"Test error of each column of {m['method']}"
    svg = drawings.bars(columns["error"], title=title, axis="column of the code")
    head = (
        Head("column"),
        Head("problem", numeric=False),
        Head("test error"),
        Head("share of +1", "share of the column's rows on its +1 side"),
    )
    rows = tuple(
        (
            Entry(str(h["column"]), float(h["column"])),
            Entry(h["problem"]),
            Entry(percent(h["error"]), h["error"], bar=h["error"]),
            Entry(percent(h["positives"]), h["positives"]),
        )
        for h in columns["hardest"]
    )
    hard = [Table("The hardest columns", head, rows)] if rows else []
    figure = Figure(svg, f"How hard each column is: test error in the first fold.{more}")
    return [Grid((figure, *hard)) if hard else figure]


def bits(data: dict[str, Any]) -> list[Block]:
    """Histograms of wrong columns per row."""
    if data["note"]:
        return [Text((data["note"],))]
    figures: list[Block] = []
    for h in data["histograms"]:
        total = sum(h["counts"]) or 1
        title = f"Wrong columns per test row, {h['method']} on {h['dataset']}"
        svg = drawings.bars(
            [n / total for n in h["counts"][:60]],
            title=title,
            axis="wrong columns in a test row",
            marked=h["correction"],
        )
        figures.append(Figure(svg, f"{h['dataset']}: {h['sentence']}"))
    note = "A dashed line: so many wrong columns the code corrects for certain. A column that a \
class does not use cannot be wrong for its rows."
    return [side_by_side(figures, wide=True), Text((note,), "muted")]


def paths(data: dict[str, Any]) -> list[Block]:
    """The bound over gamma."""
    if data["note"]:
        return [Text((data["note"],))]
    figures: list[Block] = [
        Figure(
            drawings.bound_path(p, f"Leave-one-out bound over gamma, {p['method']}"),
            f"{p['dataset']}: {p['sentence']}",
        )
        for p in data["paths"]
    ]
    note = "A line per fold: the leave-one-out bound at each kernel width; its dot is the choice. \
The bound ranks widths, it does not estimate the error."
    return [side_by_side(figures, wide=True), Text((note,), "muted")]


def findings(data: dict[str, Any]) -> list[Block]:
    """Findings with codes, warnings, and cells without a result."""
    state = f"{data['finished']:,} of {count(data['cells'], 'cell')} finished."
    blocks: list[Block] = [Text((state,))]
    for title, part in (("About the data", "data"), ("About the codes", "code")):
        if data[part]:
            items = tuple(Finding(f["code"], f["message"], f["where"]) for f in data[part])
            blocks.append(Findings(title, items))
    if data["warnings"]:
        items = tuple(
            Finding(f"{w['times']}×", w["message"], w["method"]) for w in data["warnings"]
        )
        blocks.append(Findings("Warnings", items))
    if data["failures"]:
        blocks.append(_failures(data["failures"]))
    if data["left_out"]:
        blocks.append(
            Text((f"{data['left_out']:,} more are in the JSON file's records.",), "muted")
        )
    if len(blocks) == 1:
        blocks.append(Text(("Nothing was found, nothing failed.",)))
    return blocks


def _failures(failures: list[dict[str, Any]]) -> Table:
    head = (
        Head("method", numeric=False),
        Head("data set", numeric=False),
        Head("what", numeric=False),
        Head("cells"),
        Head("reason", numeric=False),
    )
    rows = tuple(
        (
            Entry(f["method"]),
            Entry(f["dataset"]),
            Entry(f["status"], tone="warn"),
            Entry(f"{f['cells']:,}", float(f["cells"])),
            Entry(f["reason"]),
        )
        for f in failures
    )
    return Table("Cells without a result", head, rows)


def data_sets(data: dict[str, Any]) -> list[Block]:
    """What each data set is."""
    shown = by_dataset([(d["dataset"], _data(d)) for d in data["datasets"]])
    return shown + _left_out(data)


def _data(d: dict[str, Any]) -> list[Block]:
    facts = [
        ("Source", d["source"]),
        ("Rows", _maybe(d["n_rows"])),
        ("Columns", f"{_maybe(d['n_columns'])}, {_maybe(d['n_features'])} after encoding"),
        ("Missing values", _maybe(d["missing"])),
        ("Classes", _maybe(d["n_classes"])),
        *([("What was inferred", " ".join(d["about"]))] if d["about"] else []),
    ]
    total = sum(c["rows"] for c in d["classes"]) or 1
    rows = tuple(
        (
            Entry(c["class"], title=_whole(c["full"], c["class"])),
            Entry(f"{c['rows']:,}", float(c["rows"]), bar=c["rows"] / total),
        )
        for c in d["classes"]
    )
    more = d["classes_left_out"]
    rest = (
        f", largest first; {count(more, 'smaller class', 'smaller classes')} not listed"
        if more
        else ""
    )
    head = (Head("class", numeric=False), Head("rows"))
    table = Table(f"Classes of {d['dataset']}{rest}", head, rows, sortable=True)
    blocks: list[Block] = [Points(tuple(Point(topic, text) for topic, text in facts))]
    return [*blocks, Fold("Rows of each class", (table,)) if len(rows) > 12 else table]


def _maybe(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else "unknown"


def repeat(data: dict[str, Any]) -> list[Block]:
    """The command, and everything the numbers depend on."""
    machine = dict(data["machine"])
    if machine.get("memory", "").isdigit():
        machine["memory"] = size(float(machine["memory"]))
    facts = [
        ("Seed", str(data["seed"])),
        ("Folds", f"{data['folds']}, repeats {data['repeats']}, the same for all methods"),
        ("Scaling", f"{data['scale']}, fitted within each fold"),
        ("Measure", data["measure"]),
        ("Run at", data["created"]),
        ("Machine", ", ".join(f"{k} {v}" for k, v in machine.items())),
        (
            "Versions",
            ", ".join(f"{v['package']} {'/'.join(v['versions'])}" for v in data["versions"]),
        ),
        *((f"Hash of {h['dataset']}", h["hash"]) for h in data["hashes"]),
    ]
    command: list[Block] = [Command(data["command"])] if data["command"] else []
    head = (
        Head("method", numeric=False),
        Head("what it is", numeric=False),
        Head("estimator", numeric=False),
    )
    rows = tuple(
        (
            Entry(m["method"], title=_whole(m["full"], m["method"])),
            Entry(m["title"]),
            Entry(m["estimator"]),
        )
        for m in data["methods"]
    )
    methods = Fold("The methods as estimators", (Table("Methods", head, rows),))
    return [*command, Points(tuple(Point(topic, text) for topic, text in facts)), methods]
