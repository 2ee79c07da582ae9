"""Spans that may overlap: `bcrf_spans`."""

import itertools
import math
import warnings
from typing import ClassVar

import numpy as np
import pytest
import spacy
from component_suite import NetworkSuite
from spacy.tokens import Doc, Span
from spacy.training import Example
from test_linear_chain import LinearChainSuite
from tiny_training import train

KEY = "sc"


def group(*spans):
    return {"spans": {KEY: list(spans)}}


class OverlappingSuite:
    factory = "bcrf_spans"
    labels = ("LOC", "ORG")
    data: ClassVar = [
        ("The University of Oslo grows", group((4, 22, "ORG"), (18, 22, "LOC"))),
        ("She left Bergen today", group((9, 15, "LOC"))),
    ]
    partial: ClassVar = [
        ("She left Oslo", {**group((9, 13, "LOC")), "only": ["LOC"]}),
        ("She left UNESCO", {**group((9, 15, "ORG")), "only": ["ORG"]}),
        ("New Yorkers sleep", {"words": ["New", "York", "ers", "sleep"]}),
    ]
    new_label = "PER"
    new_data: ClassVar = [("Ada sings", group((0, 3, "PER")))]
    other_settings: ClassVar = {"spans_key": "others"}

    @staticmethod
    def examples(nlp, data):
        found = []
        for text, gold in data:
            known = {key: value for key, value in gold.items() if key != "only"}
            found.append(Example.from_dict(nlp.make_doc(text), known))
            found[-1].reference._.annotated_labels = gold.get("only")
        return found

    @staticmethod
    def annotation(doc):
        return [(span.start, span.end, span.label_) for span in doc.spans.get(KEY, [])]

    @staticmethod
    def check_partial(nlp):
        # The chain of ORG has seen no document without ORG.
        assert (2, 3, "LOC") in OverlappingSuite.annotation(nlp("She left Oslo"))


class TestOverlappingNetwork(OverlappingSuite, NetworkSuite):
    steps = 30

    def test_mean_field_leaves_out_misaligned_documents(self):
        """Spans that end at tokens of both texts are complete annotation."""
        nlp = self.blank()
        self.add(nlp, "MeanField")
        (example, *others) = self.examples(nlp, self.data)
        for words, n_warnings in ((["The University", "of", "Oslo", "grows"], 1), (None, 0)):
            words = words or ["The", "University of", "Oslo", "grows"]
            bad = Example(Doc(nlp.vocab, words=words), example.reference)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                nlp.initialize(lambda bad=bad: [bad, *others])
            found = [str(w.message) for w in caught if "cannot be learned" in str(w.message)]
            assert len(found) == n_warnings
            assert all("1 spans start or end within a token" in message for message in found)


class TestOverlappingLinear(OverlappingSuite, LinearChainSuite):
    pass


# Answers, against the enumeration of all labelings of each chain.


def make(labels=("A", "B"), **settings):
    """Return a pipeline whose component has weights, all of them 0."""
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_spans", config=settings)
    doc = nlp.make_doc("x")
    doc.spans[KEY] = []
    pipe.initialize(lambda: [Example(nlp.make_doc("x"), doc)] * 1, labels=list(labels))
    return nlp, pipe


def is_valid(tags, slots):
    """Whether BILUO tags are valid: 0 for O, else 1 + 4 slot + prefix, one of BILU."""
    inside = None
    for tag in tags:
        slot, prefix = divmod(tag - 1, 4) if tag else (None, None)
        if tag and slot not in slots:
            return False
        if inside is None:
            if prefix in (1, 2):
                return False
        elif prefix not in (1, 2) or slot != inside:
            return False
        inside = slot if prefix in (0, 1) else None
    return inside is None


def spans_of(tags):
    """Return the spans of valid BILUO tags: start, end, slot."""
    found, start = [], 0
    for i, tag in enumerate(tags):
        slot, prefix = divmod(tag - 1, 4) if tag else (None, None)
        start = i if prefix in (0, 3) else start
        if prefix in (2, 3):
            found.append((start, i + 1, slot))
    return found


def enumerate_chain(unary, transitions, slots):
    """Return the valid labelings of one chain with their probabilities."""
    n, n_tags = unary.shape
    tags = [y for y in itertools.product(range(n_tags), repeat=n) if is_valid(y, slots)]
    scores = [
        sum(unary[i, t] for i, t in enumerate(y))
        + sum(transitions[a, b] for a, b in itertools.pairwise(y))
        for y in tags
    ]
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    return {y: weight / sum(weights) for y, weight in zip(tags, weights, strict=True)}


def enumerate_document(chains, labels_of):
    """Return {(tags of all chains, set of labeled spans): probability}."""
    found = {}
    for labeling in itertools.product(*chains):
        spans = {
            (start, end, labels_of[c][slot])
            for c, tags in enumerate(labeling)
            for start, end, slot in spans_of(tags)
        }
        p = math.prod(chain[tags] for chain, tags in zip(chains, labeling, strict=True))
        found[labeling, frozenset(spans)] = p
    return found


CASES = {
    "one layer": ({}, [["A"], ["B"]]),
    "two layers": ({"layers": 2}, [["A"], ["A"], ["B"], ["B"]]),
    "exclusive": ({"exclusive": [["B", "A"]]}, [["B", "A"]]),
}


@pytest.mark.parametrize("case", CASES)
def test_answers_equal_an_enumeration(case, monkeypatch):
    settings, labels_of = CASES[case]
    nlp, pipe = make(**settings)
    assert pipe.codec.n_chains == len(labels_of)
    rng = np.random.default_rng(0)
    docs = [
        nlp.make_doc("a b"),
        nlp.make_doc(""),
        nlp.make_doc("c d e" if case != "two layers" else "c"),
    ]
    found = pipe.find_potentials(docs)
    transitions = rng.normal(size=found.transitions.shape)
    potentials = found.with_scores(
        found.unary + rng.normal(size=found.unary.shape).astype("float32"),
        found.transitions + transitions.astype("float32"),
    )
    monkeypatch.setattr(pipe, "find_potentials", lambda docs, ignore=False: potentials)
    posterior = pipe.posterior(potentials)
    starts, ends, labels, p = pipe.codec.candidates(posterior, 1e-6, pipe.model.ops)
    by_span = dict(zip(zip(starts, ends, labels, strict=True), p, strict=True))
    lengths = np.array([len(doc) for doc in docs])
    best = set(zip(*pipe.codec.predictions(pipe.decode(potentials), lengths), strict=True))
    lists, entropies = pipe.nbest(docs, 4), pipe.uncertainty(docs, per="document")
    margins, confidences = (
        pipe.uncertainty(docs, by, per="document") for by in ("margin", "confidence")
    )
    per_token = pipe.uncertainty(docs, "confidence")
    first_row = first_token = n_seen = 0
    n_chains = len(labels_of)
    for i, doc in enumerate(docs):
        n = len(doc)
        rows = potentials.unary[first_row : first_row + n * n_chains].reshape(
            n_chains, n, potentials.unary.shape[1]
        )
        slots = [range(len(of_chain)) for of_chain in labels_of]
        chains = [
            enumerate_chain(rows[c].astype("float64"), transitions, slots[c])
            for c in range(n_chains)
        ]
        joint = enumerate_document(chains, labels_of)
        expected = {}
        for (_, spans), probability in joint.items():
            for start, end, label in spans:
                key = start + first_token, end + first_token, pipe.labels.index(label)
                expected[key] = expected.get(key, 0) + probability
        for key, probability in expected.items():
            assert by_span[key] == pytest.approx(probability, abs=2e-6)
        n_seen += len(expected)
        ranked = sorted(joint.items(), key=lambda pair: -pair[1])
        (_, top), _ = ranked[0]
        assert {k for k in best if first_token <= k[0] < first_token + n} == {
            (s + first_token, e + first_token, pipe.labels.index(x)) for s, e, x in top
        }
        by_spans = {}
        for (_, spans), p_labeling in joint.items():
            by_spans[spans] = by_spans.get(spans, 0) + p_labeling
        ranked_sets = sorted(by_spans.items(), key=lambda pair: -pair[1])
        assert [x.probability for x in lists[i]] == pytest.approx(
            [p for _, p in ranked_sets[:4]], rel=1e-4
        )
        for alternative, (spans, _) in zip(lists[i], ranked_sets, strict=False):
            shown = {(s.start, s.end, s.label_) for s in alternative.annotation}
            assert shown == set(spans)
        nats = -sum(p * math.log(p) for p in joint.values() if p > 0)
        assert entropies[i] == pytest.approx(nats, abs=1e-4)
        # Labelings with the same spans are no alternatives of each other.
        first, second, *_ = [*(p for _, p in ranked_sets), 0]
        assert margins[i] == pytest.approx(1 - (first - second), abs=1e-4)
        assert confidences[i] == pytest.approx(1 - first, abs=1e-4)
        assert per_token[i] == pytest.approx(1 - first ** (1 / max(1, n)), abs=1e-4)
        first_row, first_token = first_row + n * n_chains, first_token + n
    assert n_seen == len(by_span)


@pytest.mark.parametrize(
    "options", [{"spans_key": "a$"}, {"exclusive": [["A", "US$"]]}, {"incorrect_spans_key": "$"}]
)
def test_a_dollar_that_configs_would_double_is_refused(options):
    with pytest.raises(ValueError, match="cannot have a \\$, because spaCy's configs double it"):
        spacy.blank("xx").add_pipe("bcrf_spans", config=options)


def test_spans_of_different_labels_are_no_alternatives(monkeypatch):
    nlp, pipe = make(labels=["A", "B"])
    doc = nlp.make_doc("a b")
    found = pipe.find_potentials([doc])
    unary = np.full_like(found.unary, -20.0)
    first, _, last, single = (int(tag[0]) for tag in pipe.codec.spans.tags)
    # A is 0:2, and B within it is 0:1, both almost surely.
    for row, tag in enumerate([first, last, single, 0]):
        unary[row, tag] = 0
    changed = found.with_scores(unary, found.transitions)
    monkeypatch.setattr(pipe, "find_potentials", lambda *_: changed)
    assert pipe.uncertainty([doc], per="document")[0] < 1e-5
    for by in ("entropy", "confidence", "margin"):
        assert pipe.uncertainty([doc], by, per="entity")[0] < 1e-5


def test_a_gold_span_that_a_group_has_twice_counts_once():
    nlp, pipe = make(labels=["A"])
    doc = gold_doc(nlp, WORDS, (0, 2, "A"), (0, 2, "A"), (3, 4, "A"))
    assert [(s.start, s.end) for s in pipe.codec.find_spans(doc)] == [(0, 2), (3, 4)]
    flat = nlp.add_pipe("bcrf_chunker", config={"spans_key": KEY})
    flat.add_label("A")
    gold = flat.read_gold([Example(nlp.make_doc(" ".join(WORDS)), doc)])
    assert not gold.problems and (gold.tags > 0).sum() == 3


def test_the_score_of_a_span_in_two_layers_is_the_probability_of_either():
    nlp, pipe = make(labels=["A"], layers=2)
    doc = nlp("one two")
    one = Doc(nlp.vocab, words=["one"])
    p = {}
    for pipeline in (pipe, make(labels=["A"])[1]):
        (found,) = pipeline.entity_candidates([one], threshold=0.01)
        p[pipeline] = [candidate.probability for candidate in found]
    (both,), (alone,) = p.values()
    assert alone == pytest.approx(0.5) and both == pytest.approx(0.75)
    assert KEY in doc.spans


# Gold


def gold_doc(nlp, words, *spans):
    doc = Doc(nlp.vocab, words=words)
    doc.spans[KEY] = [Span(doc, *span) for span in spans]
    return doc


def example_of(nlp, words, *spans, **options):
    return Example(Doc(nlp.vocab, words=words, **options), gold_doc(nlp, words, *spans))


WORDS = ["a", "b", "c", "d"]


def read_back(pipe, example):
    values, problems = pipe.codec.align_gold([example])
    assert not problems
    tags, _ = pipe.codec.encode(values, np.array([len(example.predicted)]))
    found = pipe.codec.predictions(tags, np.array([len(example.predicted)]))
    return {(s, e, pipe.labels[label]) for s, e, label in zip(*found, strict=True)}


def test_gold_is_read_and_written_in_any_number_of_layers():
    spans = {(0, 4, "A"), (0, 2, "A"), (1, 2, "A"), (2, 4, "B"), (0, 4, "B")}
    for layers, lost in ((1, 3), (2, 1), (3, 0), (None, 0)):
        nlp = spacy.blank("xx")
        pipe = nlp.add_pipe("bcrf_spans", config={"layers": layers})
        example = example_of(nlp, WORDS, *spans)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            nlp.initialize(lambda example=example: [example])
        assert len(pipe.codec.find_lost(example)) == lost
        assert len(spans - read_back(pipe, example)) == lost
        messages = [str(w.message) for w in caught]
        assert [f"{lost} of 5 spans are in no layer" in m for m in messages] == [True] * bool(lost)
    assert pipe.cfg["layers_by_label"] == {"A": 3, "B": 2}
    loaded = spacy.blank("xx", config=nlp.config).from_bytes(nlp.to_bytes())
    assert loaded.get_pipe("bcrf_spans").codec.n_chains == 5


def test_crossing_spans_take_a_layer_each():
    nlp, pipe = make(labels=["A"], layers=2)
    spans = {(0, 3, "A"), (1, 4, "A")}
    assert read_back(pipe, example_of(nlp, WORDS, *spans)) == spans


def test_spans_that_no_layer_holds_are_named_and_the_others_learned():
    nlp, pipe = make()
    starts = [True, False, True, False]
    example = example_of(nlp, WORDS, (0, 3, "A"), (2, 4, "B"), (0, 2, "A"), sent_starts=starts)
    assert pipe.codec.find_lost(example) == ["A 'a b c' (tokens 0:3) crosses a sentence start"]
    assert read_back(pipe, example) == {(2, 4, "B"), (0, 2, "A")}
    example = example_of(nlp, ["a", " ", "b"], (0, 2, "A"), (1, 2, "A"))
    assert pipe.codec.find_lost(example) == ["A ' ' (tokens 1:2) is whitespace"]
    assert read_back(pipe, example) == {(0, 1, "A")}


def test_a_label_has_at_most_four_chosen_layers():
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_spans")
    example = example_of(nlp, list("abcdefgh"), *((i, 8, "A") for i in range(8)))
    with pytest.warns(UserWarning, match="4 of 8 spans are in no layer"):
        nlp.initialize(lambda: [example])
    assert pipe.codec.n_chains == 4


@pytest.mark.parametrize("end", [1, 4])
def test_a_span_of_an_unknown_label_leaves_the_others_annotated(end):
    nlp, pipe = make()
    values, _ = pipe.codec.align_gold([example_of(nlp, WORDS, (0, 4, "A"), (0, end, "X"))])
    lengths = np.array([4])
    tags, unknown = pipe.codec.encode(values, lengths)
    assert unknown.tolist() == [i < end for i in range(4)]
    (starts, ends, labels), correct, known = pipe.codec.compare_with_gold(tags, values, lengths)
    assert (starts.tolist(), ends.tolist(), labels.tolist()) == ([0], [4], [0])
    assert (correct.tolist(), known.tolist()) == ([True], [True])


def test_labels_of_an_exclusive_group_share_a_chain():
    nlp, pipe = make(labels=["A", "B", "X"], exclusive=[["A", "B"]])
    assert pipe.codec.n_chains == 2
    assert read_back(pipe, example_of(nlp, WORDS, (0, 2, "A"), (2, 3, "B"), (0, 4, "X"))) == {
        (0, 2, "A"),
        (2, 3, "B"),
        (0, 4, "X"),
    }
    assert len(pipe.codec.find_lost(example_of(nlp, WORDS, (0, 2, "A"), (1, 3, "B")))) == 1
    with pytest.raises(ValueError, match=r"exclusive has the label C, D, but the labels are A, B;"):
        make(labels=["A", "B"], exclusive=[["A", "D"], ["B", "C"]])
    for wrong in ("A", ["A", "B"], [["A"]], [["A", "B"], ["B", "C"]], [[1, 2]]):
        with pytest.raises(ValueError, match=r"\[bcrf_spans\] exclusive"):
            spacy.blank("xx").add_pipe("bcrf_spans", config={"exclusive": wrong})
    for layers in (0, -1, "two", 1.5, True):
        with pytest.raises(ValueError, match=r"\[bcrf_spans\] layers must be"):
            spacy.blank("xx").add_pipe("bcrf_spans", config={"layers": layers})


def test_partial_annotation_restricts_only_its_own_chains():
    nlp, pipe = make(incorrect_spans_key="no", ambiguous_spans_key="maybe")
    example = example_of(nlp, WORDS, (0, 2, "A"))
    reference = example.reference
    assert (pipe.read_gold([example]).tags >= 0).all()
    reference._.annotated_labels = ["A"]
    allowed = pipe.read_gold([example]).tags.reshape(2, 4, 5)
    assert (allowed[0].sum(axis=1) == 1).all() and allowed[1].all()
    reference.spans["no"] = [Span(reference, 3, 4, "B"), Span(reference, 0, 3, "B")]
    gold = pipe.read_gold([example])
    assert gold.tags.reshape(2, 4, 5)[1, 3].tolist() == [True, True, True, True, False]
    assert [rejection.sequence for rejection in gold.rejections] == [1]
    reference.spans["maybe"] = [Span(reference, 2, 4, "B")]
    allowed = pipe.read_gold([example]).tags.reshape(2, 4, 5)
    assert (
        allowed[1, 2:].argmax(axis=1).tolist() == [1, 3] and (allowed[1, 2:].sum(axis=1) == 1).all()
    )
    # One of two labels: both chains are open there.
    reference.spans["maybe"] = [Span(reference, 2, 4, label) for label in "AB"]
    reference._.annotated_labels = None
    allowed = pipe.read_gold([example]).tags.reshape(2, 4, 5)
    assert allowed[:, 2:].all() or not pipe.read_gold([example]).problems
    assert allowed[:, :2].sum() == 4
    reference.spans["no"] = [Span(reference, 0, 1, "Z")]
    assert "unknown labels Z" in pipe.read_gold([example]).problems[0]


# Inputs at the limits


def test_two_hundred_labels():
    labels = [f"L{i}" for i in range(200)]
    nlp = spacy.blank("xx")
    model = {
        "@architectures": "spacy-bcrf.LinearChain.v1",
        "templates": ["w[-2..0]", "w[0]|w[1]|w[2]"],
        "objective": "perceptron",
        "averaged": False,
    }
    pipe = nlp.add_pipe("bcrf_spans", config={"model": model})
    examples = [
        example_of(nlp, [f"w{i}", "and", "x"], (0, 1, label), (0, 3, label))
        for i, label in enumerate(labels)
    ]
    train(nlp, examples, 5)
    assert pipe.codec.n_chains == 400
    doc = nlp(Doc(nlp.vocab, words=["w7", "and", "x"]))
    assert {(s.start, s.end, s.label_) for s in doc.spans[KEY]} >= {(0, 1, "L7"), (0, 3, "L7")}


def test_a_long_document():
    nlp, _ = train_small()
    doc = nlp(Doc(nlp.vocab, words=["in", "Oslo"] * 50_000))
    assert len(doc) == 100_000 and len(doc.spans[KEY]) >= 50_000
    assert len(doc.spans[KEY].attrs["scores"]) == len(doc.spans[KEY])


def train_small(**settings):
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_spans", config=settings)
    examples = [
        example_of(nlp, ["in", "Oslo"], (1, 2, "LOC")),
        example_of(nlp, ["University", "of", "Oslo"], (0, 3, "ORG"), (2, 3, "LOC")),
        example_of(nlp, ["nothing", "here"]),
    ] * 4
    train(nlp, examples, 10)
    return nlp, pipe


def test_scores_follow_the_contract_of_spancat():
    nlp, pipe = train_small(annotate=["entropy", "probability", "confidence"])
    doc = nlp("University of Oslo")
    group = doc.spans[KEY]
    assert [(span.text, span.label_) for span in group] == [
        ("University of Oslo", "ORG"),
        ("Oslo", "LOC"),
    ]
    scores = group.attrs["scores"]
    assert (
        scores.dtype == "float32"
        and len(scores) == 2
        and (scores > 0.5).all()
        and (scores <= 1).all()
    )
    (found,) = pipe.entity_candidates([nlp.make_doc("University of Oslo")], 0.5)
    assert [candidate.probability for candidate in found] == pytest.approx(
        scores.tolist(), abs=1e-6
    )
    assert 0 < doc._.sequence_probability <= scores.min() + 1e-6
    assert doc._.sequence_entropy >= 0
    docs = list(nlp.pipe(["", "University of Oslo", ""]))
    assert [len(doc.spans[KEY].attrs["scores"]) for doc in docs] == [0, 2, 0]
    pipe.threshold = 1.0
    assert len(nlp("University of Oslo").spans[KEY]) == 0


def test_a_label_without_spans_is_never_predicted():
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_spans")
    examples = [example_of(nlp, ["in", "Oslo"], (1, 2, "LOC"))] * 4
    pipe.initialize(lambda: examples, nlp=nlp, labels=["LOC", "NONE"])
    for _ in range(5):
        nlp.update(examples)
    doc = nlp("in Oslo")
    assert [span.label_ for span in doc.spans[KEY]] == ["LOC"]


def test_a_key_that_another_component_writes_is_named():
    for other, settings in (
        ("spancat", {}),
        ("bcrf_chunker", {"spans_key": KEY}),
        ("bcrf_spans", {}),
    ):
        nlp = spacy.blank("xx")
        nlp.add_pipe("bcrf_spans", "spans")
        nlp.add_pipe(other, "other", config=settings)
        examples = [example_of(nlp, ["in", "Oslo"], (1, 2, "LOC"))] * 2
        message = r"\[spans\] other writes doc.spans\['sc'\] too, .* Set another spans_key"
        with pytest.raises(ValueError, match=message):
            nlp.initialize(lambda examples=examples: examples)


def test_flat_components_name_the_one_that_learns_overlapping_spans():
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_chunker", config={"spans_key": KEY})
    examples = [example_of(nlp, WORDS, (0, 2, "A"), (1, 3, "B"))] * 2
    with pytest.warns(UserWarning, match="overlaps another span; only bcrf_spans learns both"):
        nlp.initialize(lambda: examples)


def test_exclusive_labels_train_and_spans_cross_no_sentence_start():
    nlp, pipe = train_small(exclusive=[["LOC", "ORG"]], layers=2)
    assert pipe.codec.n_chains == 2
    doc = nlp("University of Oslo")
    assert {(span.text, span.label_) for span in doc.spans[KEY]} == {
        ("University of Oslo", "ORG"),
        ("Oslo", "LOC"),
    }
    doc = nlp(Doc(nlp.vocab, words=["University", "of", "Oslo"], sent_starts=[True, False, True]))
    assert all(span.end < 3 or span.start == 2 for span in doc.spans[KEY])


def test_a_preset_span_with_whitespace_at_an_edge_stays_as_it_is():
    nlp, pipe = make(labels=["A"])
    doc = Doc(nlp.vocab, words=["a", " ", "b"])
    doc.spans[KEY] = [Span(doc, 0, 2, label="A")]
    # The chain is open at the preset span: nothing pins a trimmed one.
    kept, ignored = (pipe.find_potentials([doc], ignore) for ignore in (False, True))
    np.testing.assert_array_equal(kept.unary, ignored.unary)
    assert (0, 2) in [(span.start, span.end) for span in pipe(doc).spans[KEY]]


def test_preset_spans_stay_and_condition_the_others():
    nlp, pipe = train_small()
    words = ["University", "of", "Oslo"]

    def preset(*spans):
        doc = Doc(nlp.vocab, words=words)
        doc.spans[KEY] = [Span(doc, *span) for span in spans]
        return doc

    doc = nlp(preset((0, 1, "LOC"), (1, 2, "OTHER"), (1, 3, "ORG")))
    found = [(span.start, span.end, span.label_) for span in doc.spans[KEY]]
    # ORG has one layer, so the whole is no ORG.
    assert found == [(0, 1, "LOC"), (1, 3, "ORG"), (2, 3, "LOC"), (1, 2, "OTHER")]
    assert doc.spans[KEY].attrs["scores"][[0, 1, 3]] == pytest.approx(1)
    # Predictions have scores, so a second prediction replaces them. Queries can ignore presets.
    twice = nlp(nlp(preset()))
    assert [span.label_ for span in twice.spans[KEY]] == ["ORG", "LOC"]
    ignoring, conditioned = (
        {(c.span.start, c.span.end, c.span.label_): c.probability for c in found}
        for ignore in (True, False)
        for found in pipe.entity_candidates([preset((1, 3, "ORG"))], 1e-9, ignore_annotation=ignore)
    )
    assert conditioned[1, 3, "ORG"] == pytest.approx(1) and (0, 3, "ORG") not in conditioned
    assert ignoring[0, 3, "ORG"] > 0.5
    assert conditioned[2, 3, "LOC"] == pytest.approx(ignoring[2, 3, "LOC"])


def test_the_probability_of_any_span():
    nlp, pipe = train_small()
    doc = nlp("University of Oslo")
    spans = [Span(doc, *span) for span in ((0, 3, "ORG"), (2, 3, "LOC"), (0, 1, "LOC"))]
    org, loc, wrong = pipe.span_probabilities(spans)
    assert [org, loc] == pytest.approx(doc.spans[KEY].attrs["scores"].tolist(), abs=1e-6)
    assert wrong < 0.1
    assert pipe.span_probabilities([]) == []
    with pytest.raises(ValueError, match=r"\[bcrf_spans\] has no label X"):
        pipe.span_probabilities([Span(doc, 0, 1, "X")])
    with pytest.raises(ValueError, match="expected spans of one document"):
        pipe.span_probabilities([spans[0], nlp("Oslo")[:1]])
