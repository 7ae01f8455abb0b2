"""
Difficult classes and difficult columns
=======================================

The confusion matrix of a classifier, and the error of each of its binary problems next to the
error of always predicting the larger side.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier
from outcode.displays import ColumnDisplay, ConfusionDisplay
from outcode.machines import SVM

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, train_size=300)
clf = OutputCodeClassifier("ova", SVM(gamma=0.5), "hinge").fit(X_train, y_train)

confusions = ConfusionDisplay.from_estimator(clf, X_test, y_test).plot()
print(confusions.pairs()[:3])

# %%
# Column s separates digit s from the others. The digits 8 and 1 are the difficult ones.

ColumnDisplay.from_estimator(clf, X_test, y_test).plot()
