"""Given spans are believed as far as a trained pipeline's posterior and gold say."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Span

from spacy_bcrf.corpora.formats.votes import DocVotes, Vote, VotedDoc
from spacy_bcrf.promises.verify import verify

WORDS = [f"{a}o{b}" for a in "bdfgklm" for b in "nprstv"]


@pytest.fixture(scope="module")
def trained():
    """Return a pipeline that learned that most words in -n, -p, -r are names, and 600 more."""
    rng = np.random.default_rng(0)
    nlp = spacy.blank("en")
    docs = []
    for i in range(750):
        words = rng.choice(WORDS, 6).tolist()
        doc = nlp(" ".join([*words, f"{i}"]))
        noisy = [(w[-1] in "npr") != (rng.random() < 0.15) for w in words]
        doc.set_ents([Span(doc, k, k + 1, "X") for k in range(6) if noisy[k]])
        docs.append(doc)
    pipe = nlp.add_pipe("bcrf_ner")
    examples = [spacy.training.Example(nlp.make_doc(doc.text), doc) for doc in docs[:150]]
    nlp.initialize(lambda: examples)
    for _ in range(3):
        nlp.update(examples)
    assert pipe.labels == ("X",)
    return nlp, docs[150:]


def corrupt(docs, rng, share):
    """Return votes: gold spans, a share of which is replaced by words that are no entity."""
    found = []
    for i, doc in enumerate(docs):
        gold = {ent.start for ent in doc.ents}
        free = [k for k in range(6) if k not in gold]
        starts = [free.pop() if free and rng.random() < share else start for start in sorted(gold)]
        votes = [Vote(start, start + 1, "X", 1.0) for start in sorted(set(starts))]
        found.append(VotedDoc(f"f:{i}", doc, {"": DocVotes(votes)}))
    return found


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_probabilities_are_right_and_promises_are_kept(trained, share):
    nlp, docs = trained
    rng = np.random.default_rng(1)
    voted, gold = corrupt(docs, rng, share), {doc.text: doc for doc in docs}
    found = verify(nlp, voted, gold=docs[:300], precision=0.7)
    places = {one.place: one.doc for one in voted}
    right = np.array(
        [any(e.start_char == x.start for e in gold[places[x.place].text].ents) for x in found.spans]
    )
    p = np.array([one.probability for one in found.spans])
    assert abs(p.mean() - right.mean()) < 0.04
    kept = np.array([one.kept for one in found.spans])
    assert right[kept].mean() > 0.66
    assert len({x.place for x in found.spans}) <= 300 and found.n_gold > 500


def test_copies_are_no_further_evidence(trained):
    """Once, five copies of each record were five gold documents: the threshold fell."""
    nlp, docs = trained
    voted = corrupt(docs, np.random.default_rng(1), 0.3)
    once, often = (verify(nlp, x, gold=docs[:90], precision=0.6) for x in (voted, 5 * voted))
    assert often.promise == once.promise and often.promise.n_docs <= 90
    assert often.n_gold == once.n_gold and often.spans == 5 * once.spans


def test_spans_of_a_group_are_judged_by_the_group():
    """Once, by the entities of gold documents, which have none: all given spans were wrong."""
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("bcrf_spans", config={"spans_key": "sc"})
    docs = [nlp.make_doc(f"{WORDS[i % 42]} Ann {i}") for i in range(90)]
    for doc in docs:
        doc.spans["sc"] = [Span(doc, 1, 2, "X")]
    examples = [spacy.training.Example(nlp.make_doc(doc.text), doc) for doc in docs[:30]]
    nlp.initialize(lambda: examples)
    nlp.update(examples)
    ann = {"": DocVotes([Vote(1, 2, "X", 1.0)])}
    voted = [VotedDoc(f"f:{i}", doc, ann) for i, doc in enumerate(docs)]
    found = verify(nlp, voted, gold=docs[30:80], precision=0.5)
    assert found.promise.measured == 1 and found.n_gold == 50
    assert pipe.labels == ("X",) and min(one.probability for one in found.spans) > 0.9
    for doc in docs[30:]:
        del doc.spans["sc"]
    with pytest.raises(ValueError, match="none of the 0 gold documents that are annotated"):
        verify(nlp, voted, gold=docs[30:])


def test_errors_of_verify(trained):
    nlp, docs = trained
    other = VotedDoc("f:1", docs[0], {"": DocVotes([Vote(0, 1, "Y", 1.0)])})
    with pytest.raises(ValueError, match="f:1: bcrf_ner has no label 'Y'; expected one of X"):
        verify(nlp, [other])
    with pytest.raises(ValueError, match="a promise of precision needs gold documents"):
        verify(nlp, [other], precision=0.9)
