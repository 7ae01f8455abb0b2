"""
Large data: the number of landmarks
===================================

A landmark machine does not need the kernel matrix of all rows. With more landmarks the
error is lower and training takes longer. The squared hinge loss needs fewer landmarks than least
squares.
"""

import time

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier
from outcode.machines import Nystrom

X, y = make_classification(
    16_000, 16, n_informative=10, n_classes=6, n_clusters_per_class=3, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
for loss in ("least_squares", "squared_hinge"):
    landmarks, errors, seconds = [50, 100, 200, 400], [], []
    for m in landmarks:
        start = time.process_time()
        clf = OutputCodeClassifier("ova", Nystrom(m, C=10, loss=loss, random_state=0), "hinge")
        clf.fit(X_train, y_train)
        seconds.append(time.process_time() - start)
        errors.append(100 * (1 - clf.score(X_test, y_test)))
    left.plot(landmarks, errors, "o-", label=loss)
    right.plot(landmarks, seconds, "o-", label=loss)
left.set(
    xlabel="landmarks",
    ylabel="test error in %",
    xscale="log",
    xticks=landmarks,
    xticklabels=landmarks,
)
right.set(
    xlabel="landmarks",
    ylabel="CPU seconds of training",
    xscale="log",
    yscale="log",
    xticks=landmarks,
    xticklabels=landmarks,
)
for ax in (left, right):
    ax.minorticks_off()
left.legend()
fig.tight_layout()
