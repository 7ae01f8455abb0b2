"""
A classifier that tunes itself
==============================

``OutputCodeClassifierCV`` chooses the kernel, its width, C, the code and the machine by held-out
predictions.
``results_`` holds everything it tried.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifierCV

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, train_size=800)
clf = OutputCodeClassifierCV(random_state=0).fit(X_train, y_train)
print(clf.best_params_)
print(f"held-out accuracy {clf.best_score_:.4f}, test accuracy {clf.score(X_test, y_test):.4f}")

# %%
# The best value for each kernel and width, over all values of C and both codes:

tried = pd.DataFrame(clf.results_).dropna(subset=["gamma"])
fig, ax = plt.subplots(figsize=(7, 3.5))
for kernel, rows in tried.groupby("kernel"):
    best = rows.groupby("gamma")["neg_log_loss"].max()
    ax.plot(best.index, -best, marker="o", label=kernel)
ax.set(xscale="log", xlabel="gamma", ylabel="held-out log loss")
ax.legend(title="kernel")
fig.tight_layout()
