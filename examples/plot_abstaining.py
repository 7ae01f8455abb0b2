"""
Abstain from uncertain predictions
==================================

The risk-coverage curve shows the error among the answered rows when the least certain rows are
not answered. ``decisions.abstaining`` finds the threshold for the error that you
choose.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier, decisions
from outcode.displays import RiskCoverageDisplay
from outcode.machines import SVM

X, y = make_classification(
    3000, 12, n_informative=8, n_classes=5, n_clusters_per_class=1, class_sep=0.9, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, train_size=1000)
clf = OutputCodeClassifier("ovo", SVM(), "likelihood").fit(X_train, y_train)

careful = decisions.abstaining(clf, error=0.05)
labels, answered = careful.decide(X_test)
print(f"error on all rows       {(clf.predict(X_test) != y_test).mean():.3f}")
print(f"answered rows           {answered.mean():.3f}")
print(f"error on answered rows  {(labels != y_test)[answered].mean():.3f}")

# %%
fig, ax = plt.subplots(figsize=(6, 3.8))
RiskCoverageDisplay.from_estimator(clf, X_test, y_test, by="probability").plot(ax=ax)
ax.plot(answered.mean(), (labels != y_test)[answered].mean(), "ko", label="chosen error: 5 %")
ax.legend()
fig.tight_layout()
