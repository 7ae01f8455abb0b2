"""
A kernel width for each feature
===============================

A smooth version of the leave-one-out bound has a gradient, so it can be minimised over one gamma
for each feature. Noise features get a gamma of 0: they are not used.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

from outcode import OutputCodeClassifier
from outcode.selection import RelevanceSearch

X, y = load_wine(return_X_y=True)
noise = np.random.RandomState(0).randn(len(X), 8)
Z = scale(np.hstack([X, noise]))

search = RelevanceSearch(OutputCodeClassifier("ova", decoder="linear")).fit(Z, y)
first, best = 0, search.best_index_
print(f"leave-one-out bound, one gamma       {search.results_['bound'][first]:.3f}")
print(f"leave-one-out bound, one per feature {search.results_['bound'][best]:.3f}")
print(f"features used: {search.support_[:13].sum()} of wine, {search.support_[13:].sum()} of noise")

# %%
fig, ax = plt.subplots(figsize=(7, 3.5))
search.plot(ax)
ax.axvspan(12.5, 20.5, color="0.9", label="noise")
ax.legend()
fig.tight_layout()
