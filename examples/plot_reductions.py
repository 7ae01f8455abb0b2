"""
Six codes on one problem
========================

The decision regions of six codes with the same support vector machine. With a flexible kernel the
codes agree almost everywhere; they differ where there are few training rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from outcode import OutputCodeClassifier
from outcode.machines import SVM

X, y = make_blobs(250, centers=5, cluster_std=1.6, random_state=3)
side = np.linspace(X.min() - 2, X.max() + 2, 150)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])

fig, axes = plt.subplots(2, 3, figsize=(9, 6), sharex=True, sharey=True)
for ax, code in zip(axes.flat, ("ova", "ovo", "dense", "sparse", "bch", "decoc"), strict=True):
    clf = OutputCodeClassifier(code, SVM(gamma=0.1, C=10), random_state=0).fit(X, y)
    classes = clf.predict(grid).reshape(len(side), len(side))
    ax.contourf(side, side, classes, levels=np.arange(-0.5, 5), cmap="Set2", alpha=0.6)
    ax.scatter(*X.T, c=y, s=8, cmap="Set2", edgecolors="black", linewidths=0.3)
    ax.set(title=f"{code}: {clf.code_.shape[1]} columns", xticks=[], yticks=[])
fig.tight_layout()
