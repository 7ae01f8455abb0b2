"""
A precomputed kernel: classify words by their letters
=====================================================

Any similarity that is a kernel can be used. Here two words are similar if they share pieces of
two and three letters; the classes are the languages of the words.
"""

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from outcode import OutputCodeClassifier
from outcode.displays import ConfusionDisplay
from outcode.machines import SVM

WORDS = {
    "English": "the which with thought through should knowledge bright weather children daughter "
    "though enough bridge father mother brother window yellow following understanding whether",
    "German": "der welche mit gedacht durch sollte wissen hell wetter kinder tochter nacht "
    "vater mutter bruder fenster gelb schreiben verstehen zwischen schule straße schlüssel",
    "Italian": "il quale con pensato attraverso dovrebbe conoscenza bello tempo bambini notte "
    "abbastanza padre madre fratello finestra giallo scrivere capire scuola strada chiave ragazzo",
}
words = np.array([word for text in WORDS.values() for word in text.split()])
language = np.repeat(list(WORDS), [len(text.split()) for text in WORDS.values()])

counts = CountVectorizer(analyzer="char_wb", ngram_range=(2, 3)).fit_transform(words).astype(float)
lengths = np.sqrt(counts.multiply(counts).sum(axis=1)).A1
kernel = (counts @ counts.T).toarray() / np.outer(lengths, lengths)

train, test = train_test_split(
    np.arange(len(words)), random_state=1, stratify=language, test_size=0.4
)
clf = OutputCodeClassifier("ovo", SVM(kernel="precomputed", C=10), "coupling")
clf.fit(kernel[np.ix_(train, train)], language[train])  # training rows x training rows
proba = clf.predict_proba(kernel[np.ix_(test, train)])  # new rows x training rows
for word, row in list(zip(words[test], proba, strict=True))[:5]:
    print(f"{word:14}", dict(zip(clf.classes_.tolist(), row.round(2).tolist(), strict=True)))

# %%
ConfusionDisplay.from_estimator(clf, kernel[np.ix_(test, train)], language[test]).plot()
