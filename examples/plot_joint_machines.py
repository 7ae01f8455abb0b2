"""
Machines learned jointly
========================

``machines.Joint`` learns the least-squares machines of all columns together with a matrix of
relations between them :doc:`[LZCX16] </papers/LZCX16>`. The stronger the coupling ``lambda2``,
the fewer directions the machines share. A column
of one-vs-one is related to the columns that have a class in common with it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from outcode import OutputCodeClassifier
from outcode.machines import Joint

X, y = load_digits(n_class=5, return_X_y=True)
X, X_test, y, y_test = X[:300] / 16, X[300:] / 16, y[:300], y[300:]

fig, axes = plt.subplots(1, 3, figsize=(10, 3.6))
for ax, lambda2 in zip(axes, (1e-6, 1e-2, 1.0), strict=True):
    clf = OutputCodeClassifier("ovo", Joint(1e-4, lambda2, kernel="linear"), "llw").fit(X, y)
    relation = clf.machine_.relation_
    largest = abs(relation).max()
    ax.imshow(relation, cmap="RdBu_r", vmin=-largest, vmax=largest)
    error = 100 * (1 - clf.score(X_test, y_test))
    ax.set(title=f"lambda2 = {lambda2:g}\ntest error {error:.1f} %", xlabel="column")
axes[0].set_ylabel("column")
fig.tight_layout()
