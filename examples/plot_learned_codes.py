"""
Codes learned from the data
===========================

DECOC splits the classes by a tree of informative partitions: classes that are close to each other
are separated last. Its code has one column per inner node of the tree, one less than there are
classes.
"""

import matplotlib.pyplot as plt
import numpy as np

from outcode import OutputCodeClassifier
from outcode.displays import CodeDisplay
from outcode.machines import SVM

rng = np.random.RandomState(1)
centers = np.array([[0, 0], [1.5, 0.4], [8, 0], [9.2, 1], [4, 7], [5.4, 7.4]])
y = np.repeat(np.arange(6), 40)
X = centers[y] + 0.45 * rng.randn(len(y), 2)
clf = OutputCodeClassifier("decoc", SVM(C=10), random_state=0).fit(X, y)

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4))
left.scatter(*X.T, c=y, cmap="tab10", s=10)
for q, center in enumerate(centers):
    left.annotate(str(q), center, fontsize=16, weight="bold")
left.set(title="six classes in three pairs", xticks=[], yticks=[])
CodeDisplay.from_estimator(clf).plot(ax=right)
fig.tight_layout()

# %%
# The training accuracy with these five columns:

print(clf.code_.shape, clf.score(X, y))
