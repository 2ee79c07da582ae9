"""The decoder for F against enumeration of all sets of spans."""

from itertools import combinations

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from test_confidence import HEADS, TEXTS, build, span_probabilities


def best_sum(p, threshold, depth=1):
    """Return the largest sum of p - threshold of spans of which a token has at most `depth`."""
    likely = [(span, x - threshold[span[2]]) for span, x in p.items() if x > threshold[span[2]]]
    best = 0.0
    for n in range(1, len(likely) + 1):
        for chosen in combinations(likely, n):
            tokens = [token for (start, end, _), _ in chosen for token in range(start, end)]
            if max(map(tokens.count, tokens)) <= depth:
                best = max(best, sum(gain for _, gain in chosen))
    return best


@pytest.mark.parametrize("threshold", [0.12, 0.3, {"A": 0.25, "B": 0.1}])
@pytest.mark.parametrize("scheme", ["BIO", "BILUO"])
@pytest.mark.parametrize("head", HEADS)
def test_spans_have_the_largest_sum_of_all_sets(head, scheme, threshold):
    options = {"threshold": threshold, "temperature": 1.5, "annotate": ["confidence"]}
    nlp = build("bcrf_ner", head, scheme=scheme, **options)
    pipe = nlp.get_pipe("bcrf_ner")
    pipe.set_decoder("f")
    by_label = threshold if isinstance(threshold, dict) else {"A": threshold, "B": threshold}
    found = 0
    for doc in nlp.pipe(TEXTS):
        if not len(doc):
            continue
        p = span_probabilities(pipe, doc, 1.5)
        gains = [p[e.start, e.end, e.label_] - by_label[e.label_] for e in doc.ents]
        assert sum(gains) == pytest.approx(best_sum(p, by_label), abs=1e-5)
        for ent in doc.ents:
            expected = p[ent.start, ent.end, ent.label_]
            assert ent._.confidence == pytest.approx(expected, abs=1e-5)
        found += len(doc.ents)
    assert found >= 3


@pytest.mark.parametrize("layers", [1, 2])
def test_overlapping_spans_fit_into_the_layers_of_their_label(layers):
    nlp = build("bcrf_spans", "CRF", layers=layers, threshold=0.1)
    pipe = nlp.get_pipe("bcrf_spans")
    pipe.set_decoder("f")
    thresholds = {"A": 0.1, "B": 0.1}
    for text in TEXTS:
        doc = nlp(text)
        if not len(doc):
            continue
        p = {
            (c.span.start, c.span.end, c.span.label_): c.probability
            for c in pipe.entity_candidates([doc], 0.01)[0]
        }
        for label in ("A", "B"):
            spans = [s for s in doc.spans["sc"] if s.label_ == label]
            of_label = {span: x for span, x in p.items() if span[2] == label}
            gains = [p[s.start, s.end, label] - 0.1 for s in spans]
            assert sum(gains) == pytest.approx(best_sum(of_label, thresholds, layers), abs=1e-5)


def test_a_higher_threshold_chooses_fewer_spans():
    nlp = build("bcrf_ner", "CRF")
    pipe = nlp.get_pipe("bcrf_ner")
    pipe.set_decoder("f")
    counts = []
    for threshold in (0.05, 0.2, 0.4, 0.9):
        pipe.threshold = threshold
        counts.append(sum(len(doc.ents) for doc in nlp.pipe(TEXTS)))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 0


def test_presets_stay_and_exclude_others():
    nlp = build("bcrf_ner", "CRF", threshold={"A": 1.0, "B": 0.01})
    pipe = nlp.get_pipe("bcrf_ner")
    pipe.set_decoder("f")
    doc = nlp.make_doc("one two three")
    doc.ents = [Span(doc, 1, 2, label="A")]
    found = [(ent.start, ent.end, ent.label_) for ent in pipe(doc).ents]
    assert found == [(0, 1, "B"), (1, 2, "A"), (2, 3, "B")]


def test_spans_do_not_cross_sentences():
    nlp = build("bcrf_ner", "CRF", threshold=0.02)
    nlp.get_pipe("bcrf_ner").set_decoder("f")
    doc = Doc(nlp.vocab, words=["one", "two", "three"], sent_starts=[True, True, True])
    ents = nlp.get_pipe("bcrf_ner")(doc).ents
    assert len(ents) == 3
    assert all(len(ent) == 1 for ent in ents)


def test_a_promise_of_precision_drops_chosen_spans():
    nlp = build("bcrf_ner", "CRF", threshold=0.1, annotate=["confidence"])
    pipe = nlp.get_pipe("bcrf_ner")
    pipe.set_decoder("f")
    before = [ent for doc in nlp.pipe(TEXTS) for ent in doc.ents]
    least = float(np.median([ent._.confidence for ent in before]))
    pipe.control = {"promise": "precision", "labels": ["A", "B"], "thresholds": [least, least]}
    after = [ent for doc in nlp.pipe(TEXTS) for ent in doc.ents]
    assert 0 < len(after) < len(before)
    assert all(ent._.confidence >= least for ent in after)


def test_a_tagger_has_no_spans():
    with pytest.raises(ValueError, match=r"predicts token\.tag"):
        build("bcrf_tagger").get_pipe("bcrf_tagger").set_decoder("f")


def test_the_decoder_is_saved(tmp_path):
    nlp = build("bcrf_ner", "CRF", threshold=0.1)
    nlp.get_pipe("bcrf_ner").set_decoder("f")
    nlp.to_disk(tmp_path)

    other = spacy.load(tmp_path)
    assert other.get_pipe("bcrf_ner").decoder == "f"
    for one, two in zip(nlp.pipe(TEXTS), other.pipe(TEXTS), strict=True):
        assert [str(ent) for ent in one.ents] == [str(ent) for ent in two.ents]
