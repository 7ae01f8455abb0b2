"""
Weight machines by their reliability
====================================

In one-vs-rest with a kernel that is too simple, some machines are much better than others.
Reliability measures :doc:`[LZ05] </papers/LZ05>` weight each machine: by its training error
(``"srm"``), or by its errors on the training rows near the new row (``"drm"``). The weaker
the machines, the more the second one helps.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier
from outcode.machines import SVM

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, test_size=0.5)

fig, ax = plt.subplots(figsize=(7, 3.5))
values = [0.003, 0.01, 0.03, 0.1, 1]
for decoder in ("linear", "srm", "drm"):
    errors = []
    for C in values:
        clf = OutputCodeClassifier("ova", SVM(kernel="linear", C=C, bias="free"), decoder)
        errors.append(100 * (1 - clf.fit(X_train, y_train).score(X_test, y_test)))
    ax.plot(values, errors, "o-", label=decoder)
ax.set(xscale="log", xlabel="C of the linear machines", ylabel="test error in %")
ax.legend(title="decoder")
fig.tight_layout()
