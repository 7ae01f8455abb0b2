"""
All classes in one binary problem
=================================

``SingleBinaryClassifier`` learns one support vector machine on copies of every row, one copy per
class :doc:`[EPY08] </papers/EPY08>`, and a kernel between the classes. The picture shows the
learned class kernel.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from outcode import SingleBinaryClassifier

X, y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
clf = SingleBinaryClassifier("kernel", C=10, class_gamma=1.0, random_state=0).fit(X_train, y_train)
print("test accuracy", clf.score(X_test, y_test))
print("weights of the basis kernels", clf.kernel_weights_.round(2))

fig, ax = plt.subplots(figsize=(4.5, 3.8))
drawn = ax.imshow(clf.class_kernel_, cmap="viridis")
fig.colorbar(drawn, label="class kernel")
ax.set(xlabel="class", ylabel="class", xticks=range(3), yticks=range(3))
fig.tight_layout()
