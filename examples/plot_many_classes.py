"""
A hundred classes with few columns
==================================

One-vs-rest needs one column per class. A code with fewer columns predicts faster; how well
depends on how the codewords are assigned. ``Similar`` gives similar classes similar codewords, so
that the wrong class after an error in a column is often a similar one. With fewer columns the error
is higher.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier, codes
from outcode.machines import Nystrom

rng = np.random.RandomState(0)
groups = np.repeat(4 * rng.randn(10, 10), 10, axis=0)  # 100 classes in 10 groups
centers = groups + 1.6 * rng.randn(100, 10)
y = np.repeat(np.arange(100), 24)
X = centers[y] + rng.randn(len(y), 10)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)


def error(code):
    machine = Nystrom(n_landmarks=100, C=10, max_passes=20)
    clf = OutputCodeClassifier(code, machine, "hinge", random_state=0).fit(X_train, y_train)
    return 100 * (1 - clf.score(X_test, y_test))


columns = [15, 30, 45]
fig, ax = plt.subplots(figsize=(7, 3.5))
ax.plot(columns, [error(codes.Similar(n)) for n in columns], "o-", label="similar codewords")
ax.plot(columns, [error(codes.DenseRandom(n)) for n in columns], "s-", label="random codewords")
ax.axhline(error("ova"), color="gray", linestyle=":", label="one-vs-rest, 100 columns")
ax.set(xlabel="columns", ylabel="test error in %", xticks=columns, ylim=(0, None))
ax.legend()
fig.tight_layout()
