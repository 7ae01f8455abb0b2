"""
Choose the kernel width without cross-validation
================================================

The leave-one-out error of the whole multiclass rule can be bounded from a single training per
width :doc:`[PPF04] </papers/PPF04>`. The bound is far above the error, but its minimum is close
to the best width. The estimate is close to the leave-one-out error itself.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier, loo
from outcode.machines import SVM

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, train_size=500)
gammas = 0.05 * 2.0 ** np.arange(8)
rows = []
for gamma in gammas:
    clf = OutputCodeClassifier("ova", SVM(gamma=gamma, C=2), "hinge").fit(X_train, y_train)
    numbers = loo.bound(clf), loo.sharp_bound(clf, X_train), loo.estimate(clf, X_train)
    rows.append([100 * found.error for found in numbers] + [100 - 100 * clf.score(X_test, y_test)])

fig, ax = plt.subplots(figsize=(7, 4))
for values, name in zip(
    np.transpose(rows), ("bound", "sharp bound", "estimate", "test error"), strict=True
):
    ax.plot(gammas, values, marker="o", label=name)
    ax.plot(gammas[values.argmin()], values.min(), "ko", markersize=10, fillstyle="none")
ax.set(xscale="log", yscale="log", xlabel="gamma", ylabel="error in %")
ax.legend()
fig.tight_layout()
