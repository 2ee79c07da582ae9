"""Soft gold from the weighted votes of a source."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from spacy_bcrf.corpora.formats.votes import DocVotes, Vote, VotedDoc
from spacy_bcrf.pipeline.codecs.entities import EntityCodec
from spacy_bcrf.weak.vote_marginals import vote_marginals

VOCAB = spacy.blank("xx").vocab


@pytest.fixture(params=["BIO", "BILUO"])
def codec(request):
    codec = EntityCodec(request.param)
    codec.set_labels(["X", "Y"], VOCAB.strings)
    return codec


def annotate(n, **by_source):
    doc = Doc(VOCAB, words=["w"] * n)
    found = {name: DocVotes([Vote(*vote) for vote in votes]) for name, votes in by_source.items()}
    return VotedDoc("file:1", doc, found)


def encode(codec, n, *spans):
    """Return the tags of a labeling."""
    doc = Doc(VOCAB, words=["w"] * n)
    doc.set_ents([spacy.tokens.Span(doc, *span) for span in spans])
    iob, types = doc.to_array(["ENT_IOB", "ENT_TYPE"]).T
    return codec.entities.encode(iob, types, np.arange(n) == 0)[0]


def test_marginals_of_votes_are_those_of_their_labelings(codec):
    one = annotate(5, a=[(0, 2, "X", 0.5), (1, 2, "Y", 0.3), (3, 5, "Y", 0.6)])
    found = vote_marginals(one, one.by_source["a"].votes, codec)
    first = [(0.5, [(0, 2, "X")]), (0.3, [(1, 2, "Y")]), (0.2, [])]
    second = [(0.6, [(3, 5, "Y")]), (0.4, [])]
    n_tags = len(codec.tags)
    unary, edges = np.zeros((5, n_tags)), np.zeros((5, n_tags, n_tags))
    for p, spans in first:
        for q, others in second:
            tags = encode(codec, 5, *spans, *others)
            unary[np.arange(5), tags] += p * q
            edges[np.arange(4), tags[:-1], tags[1:]] += p * q
    np.testing.assert_allclose(found.unary, unary, atol=1e-6)
    np.testing.assert_allclose(found.edges, edges, atol=1e-6)


def test_votes_with_too_much_weight(codec):
    one = annotate(3, a=[(0, 2, "X", 0.7), (1, 3, "Y", 0.7)])
    with pytest.raises(ValueError, match=r"file:1: .* sum to 1.4: 'w w' X 0.7, 'w w' Y 0.7"):
        vote_marginals(one, one.by_source["a"].votes, codec)
