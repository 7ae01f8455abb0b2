"""
Compare decoders on the same machines
=====================================

The machines are trained once; ``with_decoder`` changes how their margins are decoded. One-vs-rest
is sensitive to the decoder: majority voting (Hamming) cannot break ties between columns.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier
from outcode.machines import SVM

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, test_size=0.5)
decoders = ("hamming", "linear", "hinge", "exponential", "llw", "likelihood")

fig, ax = plt.subplots(figsize=(7, 3.5))
for place, code in enumerate(("ova", "ovo", "bch")):
    clf = OutputCodeClassifier(code, SVM(gamma=0.2, C=1), random_state=0).fit(X_train, y_train)
    errors = [100 * (1 - clf.with_decoder(d, X_train).score(X_test, y_test)) for d in decoders]
    ax.bar(np.arange(len(decoders)) + 0.27 * (place - 1), errors, width=0.25, label=code)
ax.set(ylabel="test error in %", xticks=range(len(decoders)), xticklabels=decoders)
ax.legend(title="code")
fig.tight_layout()
