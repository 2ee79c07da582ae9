"""Confidences and posterior queries against enumeration of all labelings."""

import pickle
from collections import defaultdict

import numpy as np
import pytest
import spacy
from oracles import enumeration, explicit_bregman
from spacy.lang.xx import MultiLanguage
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.util import fix_random_seed
from tiny_training import network

from bcrf.chain import CRF, Potentials
from bcrf.schemes import get_scheme
from spacy_bcrf.pipeline.queries import Alternative, Candidate
from spacy_bcrf.pipeline.settings import TEMPERATURES

LABELS = ("A", "B")
TEXTS = ["one two three", "", "four", "five one six two", "three three"]
ALL = ["confidence", "tag_confidence", "entropy", "probability"]


# The oracle projects without over-relaxation.
N_ITER = 7
BCRF = {"@layers": "spacy-bcrf.BCRF.v1", "n_iter": N_ITER, "relaxation": 1.0}
HEADS = {
    "CRF": {"@layers": "spacy-bcrf.CRF.v1"},
    "BCRF": BCRF,
    "BCRF/pairwise": {**BCRF, "transitions": "pairwise"},
}


def build(factory, head="BCRF", **settings):
    """Return a pipeline with random weights, so that no prediction is certain."""
    fix_random_seed(0)
    nlp = MultiLanguage()
    model = network() | {"head": HEADS.get(head, {"@layers": f"spacy-bcrf.{head}.v1"})}
    pipe = nlp.add_pipe(factory, config={"model": model, **settings})
    for label in LABELS:
        pipe.add_label(label)
    nlp.initialize()
    rng = np.random.default_rng(1)
    for node in pipe.head.walk():
        for name in node.param_names:
            shape = node.get_param(name).shape
            node.set_param(name, rng.normal(size=shape, scale=0.3).astype("float32"))
    return nlp


def labelings(pipe, doc, temperature=1.0):
    """Return all allowed labelings of a document and their probabilities, the best first.

    The third result is the index of the prediction, the labeling of highest score.
    """
    potentials = pipe.model.predict([doc])
    scaled = (a.astype("float64") / temperature for a in (potentials.unary, potentials.transitions))
    batch = Potentials(*scaled, potentials.lengths)
    ((_, u, w),) = enumeration.sequences(batch)
    paths, scores = enumeration.labelings(u, w)
    if pipe.head.name == "crf" or len(u) == 1:
        p = enumeration.probabilities(u, w)
    else:
        q = explicit_bregman.project_arcs(enumeration.reachable(u, w), w, N_ITER)
        p = explicit_bregman.chain_probabilities(q)
    order = np.argsort(-p, kind="stable")
    order = order[scores[order] > -np.inf]
    return paths[order], p[order], scores[order].argmax()


def span_probabilities(pipe, doc, temperature=1.0):
    """Return the probability of each span, summed over all labelings."""
    scheme, totals = get_scheme(pipe.cfg["scheme"]), defaultdict(float)
    for path, p in zip(*labelings(pipe, doc, temperature)[:2], strict=True):
        for start, end, label in scheme.spans([pipe.tags[tag] for tag in path]):
            totals[start, end, label] += p
    return totals


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("scheme", ["BIO", "BILUO", "BIES"])
@pytest.mark.parametrize("head", HEADS)
def test_annotations_of_entities_equal_enumeration(head, scheme, temperature):
    nlp = build("bcrf_ner", head, scheme=scheme, annotate=ALL, temperature=temperature)
    pipe = nlp.get_pipe("bcrf_ner")
    docs = list(nlp.pipe(TEXTS))
    assert sum(len(doc.ents) for doc in docs) >= 3
    for doc in docs:
        if not len(doc):
            assert doc._.sequence_entropy == 0 and doc._.sequence_probability == 1
            continue
        expected = span_probabilities(pipe, nlp.make_doc(doc.text), temperature)
        for ent in doc.ents:
            key = ent.start, ent.end, ent.label_
            assert ent._.confidence == pytest.approx(expected[key], abs=1e-5)
        check_annotations(doc, *labelings(pipe, nlp.make_doc(doc.text), temperature))


def check_annotations(doc, paths, p, best):
    """Assert that probability, entropy and confidences of a document equal enumeration."""
    assert doc._.sequence_probability == pytest.approx(p[best], rel=1e-4)
    entropy = -(p * np.log(p)).sum()
    assert doc._.sequence_entropy == pytest.approx(entropy, abs=1e-4)
    assert doc._.entropy_per_token == pytest.approx(entropy / len(doc), abs=1e-4)
    for i, token in enumerate(doc):
        marginal = p[paths[:, i] == paths[best, i]].sum()
        assert token._.tag_confidence == pytest.approx(marginal, abs=1e-5)


def test_annotations_of_tags_equal_enumeration():
    nlp = build("bcrf_tagger", annotate=["confidence", "entropy", "probability"])
    pipe = nlp.get_pipe("bcrf_tagger")
    for doc in nlp.pipe(filter(None, TEXTS)):
        paths, p, best = labelings(pipe, nlp.make_doc(doc.text))
        assert [token.tag_ for token in doc] == [pipe.tags[tag] for tag in paths[best]]
        check_annotations(doc, paths, p, best)


def confidences_of(doc):
    """Return all annotations of a document's predictions."""
    return (
        [ent._.confidence for ent in doc.ents],
        [token._.tag_confidence for token in doc],
        doc._.sequence_entropy,
        doc._.entropy_per_token,
        doc._.sequence_probability,
    )


def test_without_annotate_no_attribute_is_set():
    nlp = build("bcrf_ner")
    for doc in nlp.pipe(TEXTS):
        assert not doc.user_data
        assert set(confidences_of(doc)[2:]) == {None}


def test_serialized_documents_keep_their_confidences():
    nlp = build("bcrf_ner", annotate=ALL)
    docs = list(nlp.pipe(TEXTS))
    expected = [confidences_of(doc) for doc in docs]
    assert any(confidences for confidences, *_ in expected)
    from_bytes = [Doc(nlp.vocab).from_bytes(doc.to_bytes()) for doc in docs]
    assert [confidences_of(doc) for doc in from_bytes] == expected
    bin = DocBin(docs=docs, store_user_data=True).to_bytes()
    assert [confidences_of(doc) for doc in DocBin().from_bytes(bin).get_docs(nlp.vocab)] == expected
    assert [confidences_of(pickle.loads(pickle.dumps(doc))) for doc in docs] == expected
    assert [confidences_of(doc.copy()) for doc in docs] == expected


@pytest.mark.slow
def test_processes_and_loaded_pipelines_give_the_same_confidences(tmp_path):
    nlp = build("bcrf_ner", annotate=ALL, temperature=1.5)
    expected = [confidences_of(doc) for doc in nlp.pipe(TEXTS)]
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert loaded.get_pipe("bcrf_ner").temperature == 1.5
    # Batches of other sizes may take other paths, which round differently.
    for docs in nlp.pipe(TEXTS, n_process=2, batch_size=2), loaded.pipe(TEXTS):
        for doc, values in zip(docs, expected, strict=True):
            for found, value in zip(confidences_of(doc), values, strict=True):
                np.testing.assert_allclose(found, value, rtol=1e-5)


@pytest.mark.parametrize("head", ["SAPO", "Perceptron", "MIRA"])
def test_a_head_without_probabilities_has_those_of_a_crf(head):
    nlp = build("bcrf_ner", head)
    pipe = nlp.get_pipe("bcrf_ner")
    potentials = pipe.find_potentials([nlp.make_doc(TEXTS[0])])
    expected = enumeration.marginals(potentials)[0]
    found = CRF().marginals(pipe.posterior(potentials)).unary
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("factory", ["bcrf_ner", "bcrf_tagger"])
def test_the_temperature_changes_no_prediction(factory):
    cold, hot = (build(factory, "CRF", temperature=t) for t in (0.3, 5.0))
    for text in TEXTS:
        one, two = cold(text), hot(text)
        assert [(t.ent_iob_, t.ent_type_, t.tag_) for t in one] == [
            (t.ent_iob_, t.ent_type_, t.tag_) for t in two
        ]


def test_the_later_of_two_components_sets_the_confidence():
    """For the later one, the entities of the first are preset."""
    nlp = build("bcrf_ner", annotate=["confidence"])
    nlp.add_pipe("bcrf_ner", "later", source=build("bcrf_ner", annotate=["confidence"]))
    alone = [ent._.confidence for ent in nlp(TEXTS[0], disable=["later"]).ents]
    assert alone and max(alone) < 0.99
    assert [ent._.confidence for ent in nlp(TEXTS[0]).ents] == pytest.approx([1] * len(alone))


def test_a_preset_entity_has_confidence_one():
    nlp = build("bcrf_ner", annotate=["confidence"])
    doc = nlp.make_doc("one two three")
    doc.ents = [Span(doc, 1, 2, label="B")]
    (preset,) = [ent for ent in nlp(doc).ents if ent.text == "two"]
    assert preset._.confidence == pytest.approx(1)


@pytest.mark.parametrize("n", [1, 3, 10_000])
@pytest.mark.parametrize("head, temperature", [("CRF", 1.0), ("BCRF", 0.5)])
def test_nbest_entities_equal_enumeration(n, head, temperature):
    nlp = build("bcrf_ner", head, temperature=temperature)
    pipe = nlp.get_pipe("bcrf_ner")
    # Queries ignore the entities that the documents already have.
    docs = list(nlp.pipe(TEXTS))
    for doc, alternatives in zip(docs, pipe.nbest(docs, n=n), strict=True):
        p = labelings(pipe, doc, temperature)[1] if len(doc) else np.ones(1)
        assert len(alternatives) == min(n, len(p))
        found = [alternative.probability for alternative in alternatives]
        np.testing.assert_allclose(found, p[:n], rtol=1e-3, atol=1e-7)
        predicted = [(ent.start, ent.end, ent.label_) for ent in doc.ents]
        spans = [[(s.start, s.end, s.label_) for s in a.annotation] for a in alternatives]
        # Viterbi decodes the scores, and the most probable labeling of a BCRF can differ.
        assert spans[0] == predicted or head == "BCRF"
        assert len({tuple(s) for s in spans}) == len(spans)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        pipe.nbest(docs, n=0)


def test_nbest_tags_and_marginals_equal_enumeration():
    nlp = build("bcrf_tagger")
    pipe = nlp.get_pipe("bcrf_tagger")
    docs = list(nlp.pipe(TEXTS))
    marginals = pipe.token_marginals(docs)
    for doc, (best, second), table in zip(docs, pipe.nbest(docs, 2), marginals, strict=False):
        if not len(doc):
            continue
        paths, p, _ = labelings(pipe, doc)
        assert best.annotation == [pipe.tags[tag] for tag in paths[0]]
        assert second.annotation == [pipe.tags[tag] for tag in paths[1]]
        assert table.shape == (len(doc), len(pipe.tags))
        for i in range(len(doc)):
            expected = np.bincount(paths[:, i], weights=p, minlength=len(pipe.tags))
            np.testing.assert_allclose(table[i], expected, atol=1e-5)
        break
    assert pipe.nbest([]) == pipe.token_marginals([]) == []


@pytest.mark.parametrize("scheme", ["BIO", "BILUO"])
def test_entity_candidates_equal_enumeration(scheme):
    nlp = build("bcrf_ner", scheme=scheme)
    pipe = nlp.get_pipe("bcrf_ner")
    docs = list(nlp.pipe(TEXTS))
    for doc, candidates in zip(docs, pipe.entity_candidates(docs, threshold=0.05), strict=True):
        expected = span_probabilities(pipe, doc) if len(doc) else {}
        found = {(c.span.start, c.span.end, c.span.label_): c.probability for c in candidates}
        assert len(found) == len(candidates)
        assert set(found) == {key for key, p in expected.items() if p >= 0.05}
        for key, p in found.items():
            assert p == pytest.approx(expected[key], abs=1e-5)
        assert all(c.span.doc is doc for c in candidates)
    with pytest.raises(ValueError, match=r"threshold must be in \(0, 1\], got 2"):
        pipe.entity_candidates(docs, threshold=2)


def test_annotations_describe_preset_tags():
    nlp = build("bcrf_tagger", annotate=["tag_confidence", "probability"])
    pipe = nlp.get_pipe("bcrf_tagger")
    known, unknown = (nlp.make_doc("one two three") for _ in range(2))
    (predicted,) = (token.tag_ for token in nlp("one two three")[1:2])
    known[1].tag_ = kept = "B" if predicted == "A" else "A"
    unknown[1].tag_ = "C"
    for doc in pipe.pipe([known, unknown]):
        paths, p, _ = labelings(pipe, doc)
        marginals = [p[paths[:, i] == pipe.tags.index(doc[i].tag_)].sum() for i in (0, 2)]
        assert [doc[i]._.tag_confidence for i in (0, 2)] == pytest.approx(marginals, abs=1e-5)
    assert (known[1].tag_, unknown[1].tag_) == (kept, "C")
    marginal = p[paths[:, 1] == pipe.tags.index(kept)].sum()
    assert known[1]._.tag_confidence == pytest.approx(marginal, abs=1e-5)
    ids = [pipe.tags.index(token.tag_) for token in known]
    labeling = p[(paths == ids).all(axis=1)].sum()
    assert known._.sequence_probability == pytest.approx(labeling, rel=1e-4)
    assert unknown[1]._.tag_confidence is unknown._.sequence_probability is None
    overwriting = build("bcrf_tagger", annotate=["tag_confidence"], overwrite=True)
    doc = overwriting.make_doc("one two three")
    doc[1].tag_ = kept
    assert overwriting(doc)[1].tag_ == predicted
    assert doc[1]._.tag_confidence == pytest.approx(1 - marginal, abs=1e-5)


@pytest.mark.parametrize("scheme", ["BIO", "BILUO"])
def test_spans_with_whitespace_at_an_edge_have_probability_zero(scheme):
    """Probabilities are normalized over the labelings that a Doc can have, each counted once."""
    # Only a CRF gives the conditional probabilities of its potentials under more constraints.
    nlp = build("bcrf_ner", "CRF", scheme=scheme, annotate=ALL)
    pipe = nlp.get_pipe("bcrf_ner")
    words = ["one", "\n", "two", "\n", "\n"]
    doc, other = (Doc(nlp.vocab, words=words[:n]) for n in (5, 3))
    expected: dict = {}
    for path, p in zip(*labelings(pipe, doc)[:2], strict=True):
        spans = frozenset(pipe.codec.scheme.spans([pipe.tags[tag] for tag in path]))
        if not any(doc[i].is_space for start, end, _ in spans for i in (start, end - 1)):
            expected[spans] = p
    total = sum(expected.values())
    expected = {spans: p / total for spans, p in expected.items()}
    docs = [other, doc, other]
    found = {
        frozenset((s.start, s.end, s.label_) for s in alternative.annotation): (
            alternative.probability
        )
        for alternative in pipe.nbest(docs, n=1000)[1]
    }
    assert len(pipe.nbest(docs, n=1000)[1]) == len(found) == len(expected)
    for spans, p in expected.items():
        assert found[spans] == pytest.approx(p, rel=1e-3, abs=1e-7)
    totals = defaultdict(float)
    for spans, p in expected.items():
        for span in spans:
            totals[span] += p
    candidates = pipe.entity_candidates(docs, threshold=1e-3)[1]
    by_span = {(c.span.start, c.span.end, c.span.label_): c.probability for c in candidates}
    assert by_span == pytest.approx({k: p for k, p in totals.items() if p >= 1e-3}, abs=1e-5)
    best = max(expected, key=expected.__getitem__)
    _, doc, _ = pipe.pipe(docs)
    assert {(ent.start, ent.end, ent.label_) for ent in doc.ents} == best and best
    for ent in doc.ents:
        assert ent._.confidence == pytest.approx(totals[ent.start, ent.end, ent.label_], abs=1e-5)
    assert doc._.sequence_probability == pytest.approx(expected[best], rel=1e-4)
    entropy = -sum(p * np.log(p) for p in expected.values())
    assert doc._.sequence_entropy == pytest.approx(entropy, abs=1e-4)


def test_queries_ignore_or_keep_preset_entities():
    nlp = build("bcrf_ner", annotate=["confidence", "entropy"])
    pipe = nlp.get_pipe("bcrf_ner")
    doc = nlp.make_doc("one two three")
    doc.ents = [Span(doc, 1, 2, label="B")]
    (blank,) = pipe.nbest([nlp.make_doc(doc.text)], n=3)
    (ignoring,) = pipe.nbest([doc], n=3)
    assert [a.probability for a in ignoring] == [a.probability for a in blank]
    query = {"docs": [doc], "ignore_annotation": False}
    (alternatives,) = pipe.nbest(**query, n=1000)
    assert all(
        (1, 2, "B") in {(s.start, s.end, s.label_) for s in a.annotation} for a in alternatives
    )
    assert sum(a.probability for a in alternatives) == pytest.approx(1, abs=1e-4)
    (candidates,) = pipe.entity_candidates(**query, threshold=0.99)
    assert (1, 2, "B") in {(c.span.start, c.span.end, c.span.label_) for c in candidates}
    assert pipe.token_marginals(**query)[0][1].max() == pytest.approx(1)
    uncertainty = pipe.uncertainty(**query)[0]
    _, _, correct, _ = pipe.compare_with_gold([Example(doc, doc)], ignore_annotation=False)
    assert correct.any()
    nlp(doc)
    assert uncertainty == pytest.approx(doc._.entropy_per_token, abs=1e-5)
    assert {(ent.start, ent.end) for ent in doc.ents} >= {(1, 2)}


@pytest.mark.parametrize("factory", ["bcrf_ner", "bcrf_tagger"])
def test_an_invalid_option_of_the_config_or_the_component_is_refused(factory):
    nlp = MultiLanguage()
    pipe = nlp.add_pipe(factory)
    bounds, names = r"a number between 1e-06 and 1e\+06, got", "a list of confidence"
    invalid = [("temperature", value, bounds) for value in (0.0, -1.0, 1e300, 1e-300, 1e-40)]
    invalid += [("annotate", ["cofidence"], names)]
    for option, value, expected in invalid:
        with pytest.raises(ValueError, match=rf"\[other\] {option} must be {expected}"):
            nlp.add_pipe(factory, "other", config={option: value})
    # A config cannot have these values.
    invalid += [("temperature", float(value), bounds) for value in ("nan", "inf")]
    invalid += [("temperature", value, bounds) for value in ("2", None, True)]
    for option, value, expected in [*invalid, ("annotate", "entropy", names)]:
        with pytest.raises(ValueError, match=rf"\[{factory}\] {option} must be {expected}"):
            setattr(pipe, option, value)
    assert (pipe.annotate, pipe.temperature) == ((), 1)
    pipe.annotate, pipe.temperature = ["entropy"], 2
    assert (pipe.annotate, pipe.temperature) == (("entropy",), 2)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_extreme_temperatures_give_finite_entropies(temperature):
    nlp = build("bcrf_ner", annotate=ALL, temperature=temperature)
    for doc in nlp.pipe(TEXTS):
        assert np.isfinite(doc._.sequence_entropy)


def test_answers_show_labels_and_probabilities():
    """In a notebook, labelings that differ in their labels only look different."""
    doc = Doc(MultiLanguage().vocab, words=["Ann", "saw", "Rome"])
    spans = [Span(doc, 0, 1, "PER"), Span(doc, 2, 3, "LOC")]
    assert repr(Alternative(spans, 0.25)) == "Alternative(0.250: PER 'Ann', LOC 'Rome')"
    assert repr(Alternative(["N", "V", "N"], 0.5)) == "Alternative(0.500: N, V, N)"
    assert repr(Alternative([], 1.0)) == "Alternative(1.000: no spans)"
    assert repr(Candidate(spans[1], 0.125)) == "Candidate(0.125: LOC 'Rome')"


def test_notebooks_show_answers_as_tables():
    pipe = build("bcrf_ner").get_pipe("bcrf_ner")
    doc = Doc(pipe.vocab, words=["<b>", "saw", "Rome"])
    (alternatives,), (candidates,) = pipe.nbest([doc], 2), pipe.entity_candidates([doc], 0.001)
    html = alternatives._repr_html_()
    assert html.count("<tr>") == 1 + 2 and f"{alternatives[0].probability:.3f}" in html
    html = candidates._repr_html_()
    assert html.count("<tr>") == 1 + len(candidates) > 1
    assert "&lt;b&gt;" in html and "<b>" not in html
    html = pipe.find_potentials([doc])._repr_html_()
    assert "1 sequence, 3 tokens" in html and html.count("<tr>") == 1 + 3
