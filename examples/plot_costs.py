"""
Decisions that minimise cost
============================

Not every mistake is equally bad. With a cost matrix the class with the smallest expected cost is
predicted instead of the most probable one. Nothing is trained again.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from outcode import OutputCodeClassifier, decisions
from outcode.machines import SVM

X, y = make_blobs(600, centers=[[0, 0], [3, 0], [1.5, 2.6]], cluster_std=1.1, random_state=0)
names = np.array(["benign", "unclear", "malignant"])[y]
clf = OutputCodeClassifier("ovo", SVM(gamma=0.2), "likelihood").fit(X[::2], names[::2])

# Rows and columns in the order of clf.classes_: benign, malignant, unclear.
cost = [[0, 1, 1], [20, 0, 5], [2, 1, 0]]  # cost[true, predicted]
cautious = clf.with_cost(cost)
for title, model in (("most probable class", clf), ("smallest expected cost", cautious)):
    predicted = model.predict(X[1::2])
    mean = decisions.mean_cost(names[1::2], predicted, cost, clf.classes_)
    print(f"{title:24} error {np.mean(predicted != names[1::2]):.3f}   mean cost {mean:.3f}")

# %%
side = np.linspace(-3, 6, 150)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
colors = plt.get_cmap("Set2").colors[:3]
fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for ax, (title, model) in zip(
    axes, (("most probable", clf), ("smallest cost", cautious)), strict=True
):
    places = np.searchsorted(clf.classes_, model.predict(grid)).reshape(150, 150)
    ax.contourf(side, side, places, levels=np.arange(-0.5, 3), colors=colors, alpha=0.6)
    for q, name in enumerate(clf.classes_):
        ax.scatter(*X[names == name].T, s=16, color=colors[q], edgecolors="k", lw=0.3, label=name)
    ax.set(title=title, xticks=[], yticks=[], xlim=(-3, 6), ylim=(-3, 6))
axes[0].legend(loc="lower left")
fig.tight_layout()
