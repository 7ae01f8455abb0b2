"""Draw the README's picture: a code, the margins of its machines, the classes they decode to."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from outcode import OutputCodeClassifier
from outcode.machines import SVM

COLOURS = ["#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3"]


def data(n_classes=5, n_rows=60):
    rng = np.random.RandomState(3)
    angle = 2 * np.pi * np.arange(n_classes) / n_classes
    centres = 2.2 * np.column_stack([np.cos(angle), np.sin(angle)])
    y = np.repeat(np.arange(n_classes), n_rows)
    return centres[y] + rng.randn(len(y), 2) * 0.9, y


def main(path: Path) -> None:
    X, y = data()
    clf = OutputCodeClassifier("sparse", SVM(gamma=0.4, C=2), "hinge", random_state=0)
    clf.fit(X, y)
    side = np.linspace(-5, 5, 200)
    grid = np.array([[a, b] for b in side for a in side])
    margins, classes = clf.margins(grid), clf.predict(grid).reshape(200, 200)
    shown = range(6)
    fig = plt.figure(figsize=(10, 3.1))
    outer = fig.add_gridspec(1, 3, width_ratios=[1.0, 1.5, 1.2], wspace=0.18)
    ax = fig.add_subplot(outer[0])
    ax.imshow(clf.code_[:, :12], cmap="RdBu_r", vmin=-1.6, vmax=1.6, aspect="auto")
    ax.set(
        title="code: classes × columns",
        xlabel="column",
        ylabel="class",
        yticks=range(5),
        xticks=range(0, 12, 2),
    )
    inner = outer[1].subgridspec(2, 3, wspace=0.05, hspace=0.12)
    for s in shown:
        small = fig.add_subplot(inner[s // 3, s % 3])
        field = np.clip(margins[:, s].reshape(200, 200), -1.5, 1.5)
        small.contourf(side, side, field, 24, cmap="RdBu_r", vmin=-2.2, vmax=2.2)
        small.contour(side, side, field, [0], colors="black", linewidths=0.8)
        small.set(xticks=[], yticks=[])
        if s == 1:
            small.set_title("margins of six of its machines")
    ax = fig.add_subplot(outer[2])
    ax.imshow(
        classes,
        origin="lower",
        extent=(-5, 5, -5, 5),
        cmap=mpl.colors.ListedColormap(COLOURS),
        alpha=0.35,
    )
    ax.scatter(*X.T, c=[COLOURS[label] for label in y], s=5)
    ax.set(title="decoded classes", xticks=[], yticks=[])
    fig.savefig(path, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    mpl.use("Agg")
    main(Path(__file__).resolve().parents[1] / "docs" / "picture.png")
