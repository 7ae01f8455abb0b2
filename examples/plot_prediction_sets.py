"""
Prediction sets with a chosen coverage
======================================

``predict_set`` returns the classes a row may belong to. The sets contain the true class
with the chosen probability. Rows in the overlap of classes get larger sets.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier, conformal
from outcode.machines import SVM

X, y = make_blobs(2000, centers=4, cluster_std=3.0, random_state=6)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, train_size=400)
clf = OutputCodeClassifier("ovo", SVM(gamma=0.1), "likelihood").fit(X_train, y_train)

asked = [0.8, 0.85, 0.9, 0.95, 0.98]
found = [conformal.summary(clf.predict_set(X_test, share), y_test) for share in asked]
for share, row in zip(asked, found, strict=True):
    print(f"asked {share:.2f}   covered {row.coverage:.3f}   classes per set {row.size:.2f}")

# %%
# The number of classes in the sets of coverage 0.95, over the plane:

side = np.linspace(X.min(), X.max(), 150)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
size = clf.predict_set(grid, 0.95).sum(axis=1).reshape(150, 150)
fig, ax = plt.subplots(figsize=(5.5, 4.5))
drawn = ax.contourf(side, side, size, levels=[0.5, 1.5, 2.5, 3.5, 4.5], cmap="Blues")
ax.scatter(*X_test[::3].T, c=y_test[::3], s=6, cmap="Set1")
fig.colorbar(drawn, ticks=[1, 2, 3, 4], label="classes in the set")
ax.set(xticks=[], yticks=[])
fig.tight_layout()
