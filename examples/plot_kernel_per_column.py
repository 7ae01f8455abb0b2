"""
A kernel for each column
========================

Each column of a code can have its own kernel, width and C. The leave-one-out bound is valid for it,
and ``ColumnSearch`` chooses the settings with as many trainings as a search for one width.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from outcode import OutputCodeClassifier, loo
from outcode.machines import SVM, PerColumn
from outcode.selection import ColumnSearch

X, y = load_iris(return_X_y=True)
X = X + 0.5 * np.random.RandomState(0).randn(*X.shape)

own = [{"kernel": "linear"}, {"gamma": 0.1}, {"gamma": 0.5, "C": 2.0}]
clf = OutputCodeClassifier("ova", PerColumn(SVM(), own), "linear").fit(X, y)
print(f"bound {loo.bound(clf).error:.3f}, leave-one-out error {loo.exact(clf, X, y).error:.3f}")

# %%
search = ColumnSearch(OutputCodeClassifier("ova", SVM(), "linear"), Cs=[0.5, 2.0]).fit(X, y)
print(f"one setting for all columns: bound {search.common_bound_:.3f}")
print(f"a setting for each column:   bound {search.best_bound_:.3f}")
for column, setting in enumerate(search.settings_):
    print(f"column {column}: gamma = {setting['gamma']:.3g}, C = {setting['C']:g}")
fig, ax = plt.subplots(figsize=(6, 3.8))
search.plot(ax)
fig.tight_layout()
