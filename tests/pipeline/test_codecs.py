"""Every kind of annotation behind one interface."""

import re
from pathlib import Path

import numpy as np
import pytest
import spacy

import spacy_bcrf
from spacy_bcrf.annotation.arrays import UNKNOWN
from spacy_bcrf.pipeline.codecs import Codec

PACKAGE = Path(spacy_bcrf.__file__).parent
FACTORIES = ("bcrf_ner", "bcrf_spans", "bcrf_tagger", "bcrf_chunker", "bcrf_segmenter")


def test_nobody_asks_for_the_kind_of_a_codec() -> None:
    forbidden = re.compile(r"isinstance\([^)]*[cC]odec|confidence_units")
    paths = (path for path in PACKAGE.rglob("*.py") if path.parent.name != "codecs")
    assert [str(path) for path in paths if forbidden.search(path.read_text("utf8"))] == []


@pytest.mark.parametrize("factory", FACTORIES)
def test_candidates_and_predictions_are_spans_with_probabilities(factory: str) -> None:
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe(factory)
    for label in ("A", "B"):
        pipe.add_label(label)
    pipe.initialize(
        lambda: [spacy.training.Example(nlp.make_doc("x"), nlp.make_doc("x"))], labels=["A", "B"]
    )
    docs = [nlp.make_doc("a b c"), nlp.make_doc("d")]
    potentials = pipe.find_potentials(docs)
    posterior = pipe.posterior(potentials)
    codec, ops = pipe.codec, pipe.model.ops
    starts, ends, labels, p = codec.candidates(posterior, 1e-6, ops)
    assert (starts < ends).all() and (labels < 2).all() and (p <= 1).all()
    assert np.allclose(codec.confidences(posterior, (starts, ends, labels), ops), p, atol=1e-6)
    likely = codec.candidates(posterior, 0.3, ops)
    assert len(likely[0]) == (p >= 0.3).sum()
    lengths = np.array([len(doc) for doc in docs], "int32")
    found = codec.predictions(pipe.decode(potentials), lengths)
    given = set(zip(*(part.tolist() for part in (starts, ends, labels)), strict=True))
    assert set(zip(*(part.tolist() for part in found), strict=True)) <= given
    if codec.spans is None:
        assert np.array_equal(ends, starts + 1)


@pytest.mark.parametrize("factory", sorted({*FACTORIES} - {"bcrf_spans"}))
def test_an_unknown_tag_writes_no_annotation(factory: str) -> None:
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe(factory)
    for label in ("A", "B"):
        pipe.add_label(label)
    docs = [nlp.make_doc("a b c"), nlp.make_doc("d")]
    unknown = [np.full(len(doc), UNKNOWN, "int32") for doc in docs]
    for doc in pipe.codec.write(docs, unknown, [None] * len(docs)):
        assert not doc.ents and not any(doc.spans.values())
        assert not any(token.tag or token.ent_iob for token in doc)


def test_a_codec_must_have_the_whole_interface() -> None:
    class Empty(Codec):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Empty({})
