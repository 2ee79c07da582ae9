"""CRFsuite: the corpus reader of its text format, and documents for it."""

import pytest
import spacy
from spacy.tokens import Doc
from tiny_training import train

from bcrf.io.text import CorpusError, read_lines
from bcrf.sklearn import CRF
from spacy_bcrf.corpora.formats.crfsuite import (
    CRFsuiteCorpus,
    crfsuite_tokens,
    read_crfsuite,
    set_features,
)

CHUNKS = (
    "B-NP\tw[0]=He\tpos=PRP\n"
    "B-VP\tw[0]=reckons\tpos=VBZ\tpos=VBZ\n"
    "\n"
    "\n"
    "O\tw[0]=:1\tcolon\\:\tback\\\\slash:1.0\n"
)


def read(tmp_path, text):
    path = tmp_path / "chunks.crfsuite"
    path.write_text(text, encoding="utf8")
    return list(read_crfsuite(read_lines(path)))


def test_labels_words_and_features(tmp_path):
    (first, features), (second, more) = read(tmp_path, CHUNKS)
    assert first.words == ["He", "reckons"]
    assert first.tags == first.entities == ["B-NP", "B-VP"]
    assert features == [["w[0]=He", "pos=PRP"], ["w[0]=reckons", "pos=VBZ"]]
    assert second.words == ["_"]  # the value 1 of a feature w[0]= without a name
    assert more == [["w[0]=", "colon:", "back\\slash"]]


def test_labels_that_are_no_entity_tags(tmp_path):
    ((sentence, _),) = read(tmp_path, "NN\ta\nO\ta\n")
    assert sentence.tags == ["NN", "O"]
    assert sentence.entities == [None, None]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("\ta\tb", "no label"),
        ("O\ta\t\tb", "empty feature"),
        ("O\ta:0.5", "feature 'a:0.5' has the value 0.5; expected 1"),
        ("O\t12:30pm", "feature '12:30pm' has the value '30pm'; expected a number"),
        ("O\t:1", "empty feature"),
    ],
)
def test_malformed_lines(tmp_path, line, what):
    with pytest.raises(CorpusError, match=rf"chunks\.crfsuite:3: {what}"):
        read(tmp_path, f"O\ta\n\n{line}\nO\tb\n")


def test_a_corpus_without_sequences_or_path(tmp_path):
    nlp = spacy.blank("xx")
    (tmp_path / "empty").write_text("\n\n")
    with pytest.raises(CorpusError, match="empty: no sequences"):
        list(CRFsuiteCorpus(tmp_path / "empty")(nlp))
    with pytest.raises(ValueError, match="needs a path"):
        list(CRFsuiteCorpus(None)(nlp))


@pytest.mark.parametrize("factory", ["bcrf_tagger", "bcrf_ner", "bcrf_chunker"])
def test_training(tmp_path, factory):
    path = tmp_path / "train.crfsuite"
    path.write_text(f"{CHUNKS}\n" * 3)
    nlp = spacy.blank("xx")
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["_.crfsuite[0]"]}
    nlp.add_pipe(factory, config={"model": model})
    corpus = CRFsuiteCorpus(path)
    examples = list(corpus(nlp))
    train(nlp, examples, 10)
    assert len(examples) == 6
    assert len(list(CRFsuiteCorpus(path, limit=2)(nlp))) == 2
    scores = nlp.evaluate(examples)
    name = {"bcrf_tagger": "tag_acc", "bcrf_ner": "ents_f", "bcrf_chunker": "spans_chunks_f"}
    assert scores[name[factory]] == 1
    doc = nlp(set_features(nlp.make_doc("x y"), [["pos=PRP"], ["pos=VBZ"]]))
    found = {
        "bcrf_tagger": [token.tag_ for token in doc],
        "bcrf_ner": [f"B-{ent.label_}" for ent in doc.ents],
        "bcrf_chunker": [f"B-{span.label_}" for span in doc.spans.get("chunks", [])],
    }
    assert found[factory] == ["B-NP", "B-VP"]


def test_documents_become_features_for_sklearn():
    nlp = spacy.blank("en")
    docs = [Doc(nlp.vocab, words=["Ann", "left"]), Doc(nlp.vocab, words=["Rome", "fell"])]
    X, y = crfsuite_tokens(docs), [["PER", "O"], ["LOC", "O"]]
    crf = CRF().fit(X, y)
    assert crf.predict(X).tolist() == y
    assert any(name.endswith("=Ann") for name in crf.attributes_)
    given = [["a"], ["b", "c"]]
    set_features(docs[0], given)
    assert crfsuite_tokens(docs) == [given, X[1]]
