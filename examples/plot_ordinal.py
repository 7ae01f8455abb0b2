"""
Ordered classes
===============

Grades, ratings and severities have an order. The ``"ordinal"`` code asks in column s whether the
class is above s. With the cost ``"absolute"`` the prediction minimises the expected distance to
the true class.
"""

import matplotlib.pyplot as plt
import numpy as np

from outcode import OutputCodeClassifier
from outcode.machines import SVM

rng = np.random.RandomState(0)
quality = rng.uniform(0, 5, 900)
X = np.column_stack([np.sin(quality), quality]) + 0.9 * rng.randn(900, 2)
y = quality.astype(int)  # five grades
X_train, X_test, y_train, y_test = X[:120], X[120:], y[:120], y[120:]

models = {
    "one-vs-rest": OutputCodeClassifier("ova", SVM(C=5), "likelihood"),
    "ordinal": OutputCodeClassifier("ordinal", SVM(C=5), "likelihood"),
}
distances = {}
for name, clf in models.items():
    clf.fit(X_train, y_train)
    distances[name] = np.abs(clf.predict(X_test) - y_test)
    ordered = clf.with_cost("absolute").predict(X_test)
    distances[f"{name}, absolute cost"] = np.abs(ordered - y_test)

fig, ax = plt.subplots(figsize=(7, 3.2))
left = np.zeros(len(distances))
for d in range(5):
    shares = np.array([100 * np.mean(found == d) for found in distances.values()])
    ax.barh(
        list(distances),
        shares,
        left=left,
        color=plt.get_cmap("YlOrRd")((d + 1) / 5),
        label=f"off by {d}",
    )
    left += shares
for place, found in enumerate(distances.values()):
    ax.text(101, place, f"mean {found.mean():.3f}", va="center")
ax.set(xlabel="test rows in %", xlim=(0, 130), xticks=range(0, 101, 20))
ax.legend(ncols=5, loc="lower center", bbox_to_anchor=(0.4, 1.0), frameon=False)
fig.tight_layout()
