"""`partial_fit` on chunks of CoNLL-2000, with the features of sklearn-crfsuite's tutorial."""

from bcrf.sklearn import CRF
from benchmarks.crfsuite_interface import describe, find_f, read


def test_two_halves_are_as_good_as_the_whole(corpora):
    sentences = read(corpora / "conll2000/train.txt")[:5000]
    X = [[describe(sentence, i) for i in range(len(sentence))] for sentence in sentences]
    y = [[tag for *_, tag in sentence] for sentence in sentences]

    def find_f_of(*parts: slice) -> float:
        crf = CRF()
        for part in parts:
            crf.partial_fit(X[part], y[part])
        return find_f(y[4000:], crf.predict(X[4000:]).tolist())

    whole, first, both = (
        find_f_of(slice(4000)),
        find_f_of(slice(2000)),
        find_f_of(slice(2000), slice(2000, 4000)),
    )
    assert first < whole - 0.3 < both
