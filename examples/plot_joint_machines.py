"""
Machines learned together
=========================

``machines.Joint`` learns the least-squares machines of all columns together with a matrix of
relations between them :doc:`[LZCX16] </papers/LZCX16>`. The stronger the coupling ``lambda2``,
the fewer directions the machines share.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from outcode import OutputCodeClassifier
from outcode.machines import Joint

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = X[:600] / 16, X[600:] / 16, y[:600], y[600:]

fig, axes = plt.subplots(1, 3, figsize=(10, 3.4))
for ax, lambda2 in zip(axes, (1e-6, 1e-3, 3e-2), strict=True):
    clf = OutputCodeClassifier("ova", Joint(1e-4, lambda2, kernel="linear"), "llw").fit(X, y)
    relation = clf.machine_.relation_
    ax.imshow(relation, cmap="RdBu_r", vmin=-abs(relation).max(), vmax=abs(relation).max())
    error = 100 * (1 - clf.score(X_test, y_test))
    ax.set(title=f"lambda2 = {lambda2:g}\ntest error {error:.1f} %", xlabel="column")
fig.tight_layout()
