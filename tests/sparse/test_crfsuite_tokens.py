"""`bcrf.sklearn.CRF` learns from documents."""

import spacy
from spacy.tokens import Doc

from bcrf.sklearn import CRF
from spacy_bcrf.corpora.formats.crfsuite import set_features
from spacy_bcrf.sparse.crfsuite_tokens import crfsuite_tokens


def test_features_of_documents():
    nlp = spacy.blank("en")
    docs = [Doc(nlp.vocab, words=["Ann", "left"]), Doc(nlp.vocab, words=["Rome", "fell"])]
    X, y = crfsuite_tokens(docs), [["PER", "O"], ["LOC", "O"]]
    crf = CRF().fit(X, y)
    assert crf.predict(X).tolist() == y
    assert any(name.endswith("=Ann") for name in crf.attributes_)
    given = [["a"], ["b", "c"]]
    set_features(docs[0], given)
    assert crfsuite_tokens(docs) == [given, X[1]]
