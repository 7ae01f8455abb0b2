"""The page's drawings, from plain numbers to SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from outcode.app.report.svg import cells, group, label, line, picture, polyline, tag, width_of
from outcode.words import percent

Matrix = Sequence[Sequence[float]]


def intervals(rows: Sequence[dict[str, Any]], write: Callable[[float], str], title: str) -> str:
    """Draw each method's mean as a dot on its interval, best on top."""
    left, width, step = width_of(row["method"] for row in rows) + 16, 420.0, 24
    ends = [end for row in rows for end in (row["interval"] or [row["mean"]])]
    ends += [row["mean"] for row in rows]
    low, high = max(0.0, min(ends)), max(ends)
    ticks = nice_ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])

    def place(value: float) -> float:
        return left + width * (min(max(value, low), high) - low) / ((high - low) or 1)

    bottom = step * len(rows) + 6
    body = "".join(
        line(place(t), 2, place(t), bottom, "rule")
        + label(place(t), bottom + 14, write(t), cls="tick mid")
        for t in ticks
    )
    for i, row in enumerate(rows):
        y = step * i + step / 2 + 2
        look = "base" if row["baseline"] else "first" if i == 0 else "other"
        body += label(left - 10, y + 4, row["method"], cls=f"end {'strong' if i == 0 else ''}")
        if row["interval"]:
            a, b = (place(end) for end in row["interval"])
            body += line(a, y, b, y, f"whisker {look}")
        body += tag("circle", cls=f"dot {look}", cx=place(row["mean"]), cy=y, r=4.5)
    return picture(left + width + 30, bottom + 22, body, title)


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers that cover an interval.

    >>> nice_ticks(0.013, 0.094)
    [0.0, 0.02, 0.04, 0.06, 0.08, 0.1]
    """
    span = (high - low) or abs(high) or 1.0
    raw = span / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, max(last, first + 1) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Return round numbers between exp(low) and exp(high): powers of ten, or 1, 2, 5 times them.

    >>> decades(math.log(0.03), math.log(20))
    [0.1, 1.0, 10.0]
    """
    powers = range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)) + 1)
    for steps in ((1,), (1, 2, 5)):
        found = [float(f"{m}e{p}") for p in powers for m in steps]
        found = [g for g in found if low - 1e-9 <= math.log(g) <= high + 1e-9]
        if len(found) >= 3:
            break
    return found


def critical_difference(
    ranking: Sequence[dict[str, Any]], groups: Sequence[Sequence[str]], difference: float
) -> str:
    """Draw the methods on the axis of average ranks, bars joining groups of equals."""
    ranks = {row["method"]: row["rank"] for row in ranking}
    names = sorted(ranks, key=lambda name: ranks[name])
    k, half = len(names), (len(names) + 1) // 2
    side, width = width_of(names) + 60, 400.0
    axis = 58.0

    def place(rank: float) -> float:
        return side + width * (rank - 1) / max(1, k - 1)

    body = line(place(1), axis, place(k), axis, "axis")
    step = 1 if k <= 12 else 2
    for r in range(1, k + 1, step):
        body += line(place(r), axis - 5, place(r), axis, "axis")
        body += label(place(r), axis - 9, str(r), cls="tick mid")
    length = min(width, place(1 + difference) - place(1))
    body += line(place(1), 20, place(1) + length, 20, "bar")
    body += label(place(1) + length + 8, 24, f"critical difference {difference:.2f}", most=40)
    for i, members in enumerate(groups):
        a, b = ranks[members[0]], ranks[members[-1]]
        y = axis + 10 + 7 * i
        body += line(place(a) - 4, y, place(b) + 4, y, "bar")
    top = axis + 24 + 7 * len(groups)
    for i, name in enumerate(names):
        x, left = place(ranks[name]), i < half
        y = top + 22 * (i if left else k - 1 - i)
        end = side - 12 if left else side + width + 12
        body += polyline([(x, axis), (x, y), (end, y)], "leader")
        where = end - 40 if left else end + 40
        body += label(where, y + 4, name, cls="end" if left else "start")
        beside = end - 5 if left else end + 5
        body += label(beside, y + 4, f"{ranks[name]:.2f}", cls=f"tick {'end' if left else 'start'}")
    described = ", ".join(f"{name} {ranks[name]:.2f}" for name in names)
    return picture(
        2 * side + width, top + 22 * half, body, f"Average ranks, best first: {described}"
    )


def confusion(counts: Sequence[Sequence[int]], classes: Sequence[str], title: str) -> str:
    """Draw counts of true (rows) by predicted (columns) classes, shaded by share of the row."""
    k = len(classes)
    side = 34.0 if k <= 10 else 26.0 if k <= 18 else 21.0
    levels: dict[str, list[tuple[int, int]]] = {}
    numbers = ""
    for i, row in enumerate(counts):
        total = sum(row) or 1
        for j, n in enumerate(row):
            if n:
                look = f"{'hit' if i == j else 'miss'} q{_level(n / total)}"
                levels.setdefault(look, []).append((i, j))
                ink = "on" if _level(n / total) >= 4 else ""
                numbers += label(
                    side * (j + 0.5), side * (i + 0.5) + 4, f"{n}", cls=f"count mid {ink}"
                )
    squares = "".join(cells(places, side, look) for look, places in sorted(levels.items()))
    return _framed(squares + numbers, classes, side, title)


def _level(share: float) -> int:
    """Return 1 to 6, finer where shares are small."""
    return 1 + sum(share > edge for edge in (0.02, 0.06, 0.15, 0.35, 0.7))


def _framed(body: str, classes: Sequence[str], side: float, title: str) -> str:
    """Return a square matrix with its classes at the left and on top."""
    k = len(classes)
    left = width_of(classes, 16) + 34
    top = 0.75 * width_of(classes, 16) + 34
    frame = tag("rect", cls="frame", x=0, y=0, width=side * k, height=side * k)
    names = "".join(
        label(-8, side * (i + 0.5) + 4, name, most=16, cls="end")
        + tag(
            "g",
            label(0, 0, name, most=16, cls="start"),
            transform=f"translate({side * (i + 0.5) + 2:.1f} -8) rotate(-50)",
        )
        for i, name in enumerate(classes)
    )
    right = 0.65 * width_of(classes[-1:], 16) + 12
    return picture(
        left + side * k + right,
        top + side * k + 8,
        group(frame + body + names, left, top),
        title,
    )


def distances(matrix: Matrix, classes: Sequence[str], title: str) -> str:
    """Draw the distances of the code's rows, the closest marked."""
    k = len(classes)
    side = 26.0 if k <= 12 else 18.0 if k <= 24 else 12.0
    pairs = [(i, j) for i in range(k) for j in range(k) if i != j]
    low, high = (f((matrix[i][j] for i, j in pairs), default=0) for f in (min, max))
    levels: dict[int, list[tuple[int, int]]] = {}
    for i, j in pairs:
        share = (matrix[i][j] - low) / (high - low) if high > low else 0.5
        levels.setdefault(1 + round(5 * share), []).append((i, j))
    body = "".join(cells(places, side, f"hit q{q}") for q, places in sorted(levels.items()))
    if k <= 12:
        body += "".join(
            label(
                side * (j + 0.5),
                side * (i + 0.5) + 4,
                f"{matrix[i][j]:g}",
                cls="count mid" + (" on" if (i, j) in _dark(levels) else ""),
            )
            for i, j in pairs
        )
    return _framed(body, classes, side, title)


def _dark(levels: dict[int, list[tuple[int, int]]]) -> set[tuple[int, int]]:
    return {place for level, places in levels.items() if level >= 4 for place in places}


def code(matrix: Sequence[Sequence[int]], classes: Sequence[str], title: str) -> str:
    """Draw a code: a row per class, a column per machine, one colour per sign."""
    n = len(matrix[0])
    side = max(8.0, min(24.0, 560 / n, 560 / len(matrix)))
    left = width_of(classes, 16) + 14
    body = ""
    for sign, look in ((1, "plus"), (-1, "minus")):
        places = [(i, j) for i, row in enumerate(matrix) for j, v in enumerate(row) if v == sign]
        body += cells(places, side, f"{look} gap")
    body += tag("rect", cls="frame", x=0, y=0, width=side * n, height=side * len(matrix))
    body += "".join(
        label(-8, side * (i + 0.5) + 4, name, most=16, cls="end" if side >= 12 else "end tiny")
        for i, name in enumerate(classes)
    )
    every = 1 if side * 1 >= 18 else 5
    body += "".join(label(side * (j + 0.5), -5, str(j), cls="tick mid") for j in range(0, n, every))
    return picture(left + side * n + 8, 22 + side * len(matrix) + 6, group(body, left, 20), title)


def bars(
    values: Sequence[float | None], *, title: str, axis: str, marked: int | None = None
) -> str:
    """Draw one bar per value, counted from 0; ``marked`` draws a line after that bar."""
    width, height, left = 400.0, 130.0, 44
    shown = [v if v is not None else 0.0 for v in values]
    ticks = [t for t in nice_ticks(0.0, max([*shown, 1e-9]), 4) if t >= 0]
    step = width / max(1, len(shown))
    thick = max(1.0, min(30.0, step - 2))

    def height_of(value: float) -> float:
        return height * value / ticks[-1]

    body = "".join(
        line(0, height - height_of(t), width, height - height_of(t), "rule")
        + label(
            -6, height - height_of(t) + 4, percent(t, 0 if ticks[-1] >= 0.04 else 1), cls="tick end"
        )
        for t in ticks
    )
    body += "".join(
        tag(
            "rect",
            tag("title", f"{i}: {percent(v)}"),
            cls="column",
            x=step * i + (step - thick) / 2,
            y=height - height_of(v),
            width=thick,
            height=height_of(v),
        )
        for i, v in enumerate(shown)
    )
    every = max(1, math.ceil(22 / step))
    body += "".join(
        label(step * (i + 0.5), height + 15, str(i), cls="tick mid")
        for i in range(0, len(shown), every)
    )
    if marked and marked + 1 < len(shown):
        body += line(step * (marked + 1), 0, step * (marked + 1), height, "mark")
    body += label(width / 2, height + 32, axis, most=80, cls="tick mid")
    return picture(left + width + 10, height + 52, group(body, left, 12), title)


def reliability(diagram: dict[str, Any], title: str) -> str:
    """Draw the share right against the stated probability; dots grow with the rows in a bin."""
    side, left = 220.0, 42
    used = [
        (c, a, n)
        for n, c, a in zip(
            diagram["count"], diagram["confidence"], diagram["accuracy"], strict=True
        )
        if n and c is not None and a is not None
    ]
    total = sum(n for _, _, n in used) or 1
    body = "".join(
        line(0, side * (1 - t), side, side * (1 - t), "rule")
        + line(side * t, 0, side * t, side, "rule")
        + label(-6, side * (1 - t) + 4, f"{t:g}", cls="tick end")
        + label(side * t, side + 15, f"{t:g}", cls="tick mid")
        for t in (0, 0.25, 0.5, 0.75, 1)
    )
    body += line(0, side, side, 0, "ideal")
    body += "".join(
        line(side * c, side * (1 - c), side * c, side * (1 - a), "whisker gapline")
        for c, a, _ in used
    )
    body += polyline([(side * c, side * (1 - a)) for c, a, _ in used], "curve first")
    body += "".join(
        tag(
            "circle",
            tag("title", f"stated {c:.2f}, right {a:.2f}, {n} rows"),
            cls="dot first",
            cx=side * c,
            cy=side * (1 - a),
            r=2.5 + 7 * math.sqrt(n / total),
        )
        for c, a, n in used
    )
    body += label(side / 2, side + 32, "stated probability", cls="tick mid")
    body += tag(
        "g",
        label(0, 0, "accuracy", cls="tick mid"),
        transform=f"translate(-32 {side / 2:.0f}) rotate(-90)",
    )
    return picture(left + side + 14, side + 54, group(body, left, 14), title)


def bound_path(path: dict[str, Any], title: str) -> str:
    """Draw the bound over gamma, a thin line per fold, and the error reached at the choice."""
    width, height, left = 380.0, 190.0, 50
    folds = path["folds"]
    logs = [math.log(g) for fold in folds for g in fold["gamma"]]
    low, span = min(logs), (max(logs) - min(logs)) or 1.0
    errors = [e for fold in folds for e in fold["error"] if e is not None]
    values = [b for fold in folds for b in fold["bound"]] + errors
    values += [path["error"]] if path["error"] is not None else []
    ticks = nice_ticks(min(0.0, *values), min(max(values), 4 * sorted(values)[len(values) // 2]), 4)

    def x(gamma: float) -> float:
        return width * (math.log(gamma) - low) / span

    def y(value: float) -> float:
        return height * (1 - min(value, ticks[-1]) / ticks[-1])

    body = "".join(
        line(0, y(t), width, y(t), "rule") + label(-6, y(t) + 4, f"{t:g}", cls="tick end")
        for t in ticks
    )
    for gamma in decades(low, low + span):
        body += line(x(gamma), height, x(gamma), height + 4, "axis")
        body += label(x(gamma), height + 16, f"{gamma:g}", cls="tick mid")
    for fold in folds:
        points = [(x(g), y(b)) for g, b in zip(fold["gamma"], fold["bound"], strict=True)]
        body += polyline(points, "curve faint")
        body += polyline(
            [
                (x(g), y(e))
                for g, e in zip(fold["gamma"], fold["error"], strict=True)
                if e is not None
            ],
            "curve error",
        )
        chosen = fold["gamma"].index(fold["chosen"])
        body += tag("circle", cls="dot first", cx=points[chosen][0], cy=points[chosen][1], r=3.5)
    if path["error"] is not None:
        body += line(0, y(path["error"]), width, y(path["error"]), "mark")
        body += label(width, y(path["error"]) - 5, "test error reached", cls="tick end")
    body += label(width / 2, height + 32, "gamma (log scale)", cls="tick mid")
    return picture(left + width + 12, height + 54, group(body, left, 14), title)


#: How the curves of several methods are told apart.
CURVES = ("curve first", "curve error", "curve faint")


def risk_coverage(methods: Sequence[dict[str, Any]], title: str) -> str:
    """Draw the error among answered rows against their share, a line for each method."""
    width, height, left = 380.0, 190.0, 50
    values = [e for m in methods for e in m["risk"]]
    ticks = nice_ticks(0.0, max(*values, 0.01), 4)

    def point(i: int, error: float, n: int) -> tuple[float, float]:
        return width * (i + 1) / n, height * (1 - error / ticks[-1])

    body = "".join(
        line(0, height * (1 - t / ticks[-1]), width, height * (1 - t / ticks[-1]), "rule")
        + label(-6, height * (1 - t / ticks[-1]) + 4, f"{100 * t:.3g}%", cls="tick end")
        for t in ticks
    )
    for share in (0, 0.25, 0.5, 0.75, 1):
        body += label(width * share, height + 16, f"{100 * share:g}%", cls="tick mid")
    for k, (m, cls) in enumerate(zip(methods, CURVES, strict=False)):
        n = len(m["risk"])
        body += polyline([point(i, e, n) for i, e in enumerate(m["risk"])], cls)
        body += line(8, 12 + 16 * k, 28, 12 + 16 * k, cls)
        body += label(34, 16 + 16 * k, m["method"], cls="tick", most=30)
    body += label(width / 2, height + 32, "share of rows answered", cls="tick mid")
    return picture(left + width + 16, height + 54, group(body, left, 14), title)
