"""
Probabilities and reliability diagrams
======================================

A reliability diagram compares stated probabilities with the share of rows that are right. Points
on the diagonal are calibrated, points below it overconfident. The product of many dependent
columns (a dense code) is overconfident; one temperature, fitted on held-out rows, corrects it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier
from outcode.decoders import Likelihood
from outcode.displays import ReliabilityDisplay
from outcode.machines import SVM

X, y = make_classification(
    2400, 12, n_informative=8, n_classes=5, n_clusters_per_class=1, class_sep=0.8, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, test_size=0.5)
choices = {
    "dense, no temperature": ("dense", Likelihood(temperature=False)),
    "dense, temperature": ("dense", Likelihood(temperature=True)),
    "one-vs-one, coupling": ("ovo", "coupling"),
}

fig, axes = plt.subplots(1, 3, figsize=(10, 3.6))
for ax, (title, (code, decoder)) in zip(axes, choices.items(), strict=True):
    clf = OutputCodeClassifier(code, SVM(C=1), decoder, random_state=0).fit(X_train, y_train)
    ReliabilityDisplay.from_estimator(clf, X_test, y_test, bins=10).plot(ax=ax)
    loss = log_loss(y_test, clf.predict_proba(X_test))
    ax.set_title("", loc="left")
    ax.set_title(f"{title}\nlog loss {loss:.2f}", fontsize=10)
fig.tight_layout()
