"""What every display shares: axes, text as it stands, records, and the parts of an estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from outcode import results
from outcode._checks import Array, class_indices, lookup
from outcode.capabilities import HasCode, HasSteps, can

BLUE, ORANGE, GREY, DARK = "#2b6cb0", "#dd6b20", "#cbd5e0", "#2d3748"
#: Characters of a label that are shown.
LABEL = 24
#: Ticks that can be told apart along one side.
TICKS = 26

Records = Sequence[Mapping[str, Any]]


class Display:
    """A picture and its numbers: ``frame()`` is the table, ``plot()`` draws it.

    A subclass defines ``frame`` and ``_draw``, and the ``size`` of its figure in inches.

    Examples
    --------
    >>> class Counts(Display):
    ...     def frame(self):
    ...         return pandas().DataFrame({"rows": [3, 4]})
    >>> Counts().frame()["rows"].tolist()
    [3, 4]
    """

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw into the axes, or a new figure; keeps them as ``ax_`` and ``figure_``."""
        if ax is None:
            ax = pyplot().subplots(figsize=self.size(), layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax)
        return self

    def frame(self) -> Any:
        """Return the numbers as a pandas table."""
        raise NotImplementedError(f"{type(self).__name__} must define frame()")

    def size(self) -> tuple[float, float]:
        """Return width and height of a new figure."""
        return 6.0, 4.0

    def _draw(self, ax: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _draw()")


# --- optional packages ---


def pandas() -> Any:
    """Return pandas, or say how to get it."""
    try:
        import pandas
    except ImportError:
        raise ImportError('A table needs pandas: pip install "outcode[app]".') from None
    return pandas


def pyplot() -> Any:
    """Return matplotlib's pyplot, or say how to get it."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError('A picture needs matplotlib: pip install "outcode[app]".') from None
    return pyplot


# --- text: a class may be called "$x$", and must be shown so ---

#: For every text that holds a name.
PLAIN: dict[str, Any] = {"parse_math": False}


def short(label: object) -> str:
    """Return a label on one line, its end cut off if it is long."""
    text = " ".join(str(label).split())
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= LABEL else text[: LABEL - 1] + "…"


def mark_x(ax: Any, labels: Sequence[object], *, rotate: bool = False) -> None:
    """Write a label under each column, or under some if there are too many."""
    places = range(0, len(labels), 1 + (len(labels) - 1) // TICKS)
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if rotate else {}
    ax.set_xticks(places, [short(labels[i]) for i in places], **turned, **PLAIN)


def mark_y(ax: Any, labels: Sequence[object]) -> None:
    """Write a label beside each row, or beside some if there are too many."""
    places = range(0, len(labels), 1 + (len(labels) - 1) // TICKS)
    ax.set_yticks(places, [short(labels[i]) for i in places], **PLAIN)


def mark(ax: Any, x: str, y: str, title: str = "") -> None:
    """Name the axes and the picture."""
    ax.set_xlabel(x, **PLAIN)
    ax.set_ylabel(y, **PLAIN)
    if title:
        ax.set_title(title, loc="left", fontsize="medium", **PLAIN)


def legend(ax: Any, **where: Any) -> None:
    """Explain colours and lines, names as they stand."""
    for text in ax.legend(frameon=False, fontsize="small", **where).get_texts():
        text.set_parse_math(False)


def open_sides(ax: Any) -> None:
    """Leave out the frame's upper and right side."""
    ax.spines[["top", "right"]].set_visible(False)


# --- estimators ---


def unwrapped(estimator: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the classifier inside of searches and pipelines, and the rows as it takes them."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    if can(estimator, HasSteps):
        X = X if X is None else estimator[:-1].transform(X)
        return unwrapped(estimator[-1], X)
    return estimator, X


def with_code(estimator: Any, X: Any = None) -> tuple[Any, Any]:
    """Return a fitted classifier that has a code, and its rows."""
    clf, X = unwrapped(estimator, X)
    if not can(clf, HasCode):
        raise ValueError(
            f"{type(clf).__name__} has no code_: give a fitted OutputCodeClassifier, or a search "
            f"or pipeline that holds one."
        )
    return clf, X


def class_names(estimator: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in unwrapped(estimator)[0].classes_)


def wrong_columns(estimator: Any, X: Any, y: Any) -> tuple[Array, Array]:
    """Return the targets of the rows, and which columns are wrong on them."""
    clf, rows = with_code(estimator, X)
    targets = clf.code_[class_indices(y, clf.classes_)]
    return targets, results.wrong_columns(clf.margins(rows), targets)


# --- records ---


def chosen(
    records: Records, detail: str, method: str | None = None, dataset: str | None = None
) -> list[Any]:
    """Return one detail of the finished records of one method on one data set."""
    found = [record for record in records if record["status"] == "ok"]
    found = _only(found, "method", method)
    found = _only(found, "dataset", dataset)
    details = [record["details"][detail] for record in found if record["details"].get(detail)]
    if not details:
        raise ValueError(
            f"None of the {len(found)} finished records of {found[0]['method']!r} on "
            f"{found[0]['dataset']!r} holds {detail!r}."
        )
    return details


def _only(records: list[Mapping[str, Any]], key: str, value: str | None) -> list[Mapping[str, Any]]:
    names = {str(record[key]): None for record in records}
    if not names:
        raise ValueError("There is no finished record (status 'ok') among these.")
    if value is None and len(names) > 1:
        raise ValueError(f"There are {len(names)} {key}s: give {key}= one of {', '.join(names)}.")
    wanted = next(iter(names)) if value is None else value
    lookup(names, wanted, key)
    return [record for record in records if record[key] == wanted]


def numbered(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Return the names given, or the numbers of the classes."""
    if names is None:
        return tuple(str(i) for i in range(count))
    if len(names) < count:
        raise ValueError(f"There are {count} classes, but {len(names)} class_names.")
    return tuple(str(name) for name in names)
