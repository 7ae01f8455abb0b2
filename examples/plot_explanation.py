"""
Explain a prediction
====================

``explain`` says what each column of the code adds to the lead of the predicted class over the
second, how reliable each column is, and the smallest set of columns whose change of sign would
change the decision.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier
from outcode.machines import SVM

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, train_size=600)
clf = OutputCodeClassifier("bch", SVM(gamma=0.5, C=10), "likelihood", random_state=0)
clf.fit(X_train, y_train)
row = clf.predict_proba(X_test).max(axis=1).argmin()  # the least certain row
why = clf.explain(X_test[row])
print(why)

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), width_ratios=[1, 2])
left.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
left.set(title=f"true class {y_test[row]}", xticks=[], yticks=[])
why.plot(ax=right)
fig.tight_layout()
