"""
Codes designed together with their machines
===========================================

Training alternates between a machine and the best column for it, or between all machines and a code
of real numbers. The decoder ``"continuous"`` uses the code with the smallest loss for the margins.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier, codes
from outcode.displays import CodeDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, train_size=600)

fitted = {}
for name, code, decoder in (
    ("one-vs-all", "ova", "hinge"),
    ("designed columns", "designed", "continuous"),
    ("interleaved", codes.Designed("continuous"), "continuous"),
    ("designed tree", "designed-tree", "hinge"),
):
    clf = OutputCodeClassifier(code, decoder=decoder, random_state=0).fit(X_train, y_train)
    fitted[name] = clf
    error = 1 - clf.score(X_test, y_test)
    print(f"{name:17} {clf.code_.shape[1]:2} columns, test error {error:.3f}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 4))
for ax, name in zip(axes, ("designed columns", "designed tree"), strict=True):
    CodeDisplay.from_estimator(fitted[name]).plot(ax=ax)
    ax.set_title(name)
fig.tight_layout()
