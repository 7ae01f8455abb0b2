"""
Machines that learn all classes at once
=======================================

Five classes lie on a line. One-vs-rest with linear machines cannot separate the classes in the
middle; machines that learn all classes at once (SPOC, Weston & Watkins) can.
"""

import matplotlib.pyplot as plt
import numpy as np

from outcode import OutputCodeClassifier
from outcode.machines import SVM, CrammerSinger, WestonWatkins

rng = np.random.RandomState(0)
y = np.repeat(np.arange(5), 40)
X = np.column_stack([3.0 * y, np.zeros(200)]) + 0.6 * rng.randn(200, 2)
X = np.column_stack([X - X.mean(axis=0), np.ones(200)])  # a constant feature: these have no bias
side = np.linspace(-8, 8, 150)
grid = np.column_stack([*(axis.ravel() for axis in np.meshgrid(side, side)), np.ones(150**2)])

machines = {
    "one-vs-rest": (SVM(kernel="linear", C=10), "linear"),
    "SPOC": (CrammerSinger(kernel="linear", beta=0.1), "linear"),
    "Weston & Watkins": (WestonWatkins(kernel="linear", C=10), "linear"),
}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.5), sharey=True)
for ax, (name, (machine, decoder)) in zip(axes, machines.items(), strict=True):
    clf = OutputCodeClassifier("ova", machine, decoder).fit(X, y)
    regions = clf.predict(grid).reshape(150, 150)
    ax.contourf(side, side, regions, levels=np.arange(-0.5, 5), cmap="Set2", alpha=0.6)
    ax.scatter(X[:, 0], X[:, 1], c=y, s=8, cmap="Set2", edgecolors="black", linewidths=0.3)
    ax.set(title=f"{name}: error {100 * (1 - clf.score(X, y)):.1f} %", xticks=[], yticks=[])
fig.tight_layout()
