"""Partial annotation: its lattice, its contradictions, and training on it."""

import itertools
import re
import warnings

import numpy as np
import pytest
from component_suite import ALL_HEADS
from hypothesis import given
from hypothesis import strategies as st
from spacy.lang.xx import MultiLanguage
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.util import fix_random_seed
from spacy.vocab import Vocab
from tiny_training import network, optimizer, update

from bcrf.chain.expected_entity_ratio import ExpectedEntityRatio
from spacy_bcrf.annotation.entity_tags import EntityTags
from spacy_bcrf.annotation.partial import (
    PartialAnnotation,
    find_contradictions,
    read_allowed_tags,
    read_partial_annotation,
)
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.layers.linear_chain import sparse_chain

LABELS = ("ORG", "PER")
WORDS = ["Ann", "Lee", "met", "Bob"]
SPARSE = {
    "@architectures": "spacy-bcrf.LinearChain.v1",
    "templates": ["w[-1..1]"],
    "objective": "crf",
    "feature_dropout": 0.0,
}
MISSING, OUT = "", "O"


def recognizer(scheme="BILUO", head="CRF", **options):
    """Return a pipeline with an initialized recognizer of LABELS, and the recognizer."""
    fix_random_seed(0)
    nlp = MultiLanguage()
    config = {"scheme": scheme, "model": network(head), **options}
    pipe = nlp.add_pipe("bcrf_ner", config=config)
    for label in LABELS:
        pipe.add_label(label)
    nlp.initialize(sgd=optimizer())
    return nlp, pipe


def make(nlp, ents, *, annotated=None, allowed=None, ambiguous=(), incorrect=(), words=WORDS):
    """Make an example with partial annotation. ents: one tag per token."""
    doc = Doc(nlp.vocab, words=words, ents=ents)
    doc._.annotated_labels = annotated
    for i, names in (allowed or {}).items():
        doc[i]._.allowed_labels = names
    for key, spans in (("ambiguous_spans", ambiguous), ("incorrect_spans", incorrect)):
        if spans:
            doc.spans[key] = [Span(doc, *span) for span in spans]
    return Example(Doc(nlp.vocab, words=words), doc)


def entity_sets(pipe, example):
    """Return the sets of entities that the gold allows. A set consists of spans."""
    gold = pipe.read_gold([example])
    assert not gold.problems
    n_tags, n_tokens = len(pipe.tags), len(example.predicted)
    tags = gold.tags
    if tags.dtype != bool:
        tags = (tags[:, None] == np.arange(n_tags)) | (tags[:, None] < 0)
    found = set()
    for ids in itertools.product(*(np.flatnonzero(row).tolist() for row in tags)):
        names = [pipe.tags[i] for i in ids]
        if pipe.codec.scheme.repair(names)[1]:
            continue
        rejected = any(r.allowed[np.arange(n_tokens), list(ids)].all() for r in gold.rejections)
        if not rejected:
            found.add(frozenset(pipe.codec.scheme.spans(names)))
    return found


def all_sets(n_tokens):
    """Return every set of entities in a sentence of n_tokens."""
    spans = [
        (i, j, label)
        for i in range(n_tokens)
        for j in range(i + 1, n_tokens + 1)
        for label in LABELS
    ]
    sets = {frozenset()}
    for span in spans:
        sets |= {
            chosen | {span}
            for chosen in sets
            if all(span[1] <= s or e <= span[0] for s, e, _ in chosen)
        }
    return sets


def covers(chosen, token):
    """Return the span of a set that covers a token, or None."""
    return next((span for span in chosen if span[0] <= token < span[1]), None)


# Partial annotation by name, and the predicate of the allowed sets of entities.
CASES = {
    "all missing": ({"ents": [MISSING] * 4}, lambda c: True),
    "all annotated": (
        {"ents": ["B-PER", "I-PER", OUT, "B-PER"]},
        lambda c: c == {(0, 2, "PER"), (3, 4, "PER")},
    ),
    "only PER annotated": (
        {"ents": ["B-PER", "I-PER", OUT, OUT], "annotated": ["PER"]},
        lambda c: (0, 2, "PER") in c and {s[2] for s in c if s[0] >= 2} <= {"ORG"},
    ),
    "only PER annotated, without any PER": (
        {"ents": [OUT] * 4, "annotated": ["PER"]},
        lambda c: {s[2] for s in c} <= {"ORG"},
    ),
    "allowed labels of a token": (
        {"ents": [MISSING] * 4, "allowed": {1: ["O", "ORG"]}},
        lambda c: covers(c, 1) is None or covers(c, 1)[2] == "ORG",
    ),
    "allowed labels of a token, the other tokens O": (
        {"ents": [OUT] * 4, "allowed": {3: ["ORG", "PER"]}},
        lambda c: len(c) == 1 and {(3, 4)} == {s[:2] for s in c},
    ),
    "ambiguous span of any label": (
        {"ents": [OUT] * 4, "ambiguous": [(0, 2)]},
        lambda c: {s[:2] for s in c} == {(0, 2)},
    ),
    "ambiguous span of any label, the other tokens missing": (
        {"ents": [MISSING] * 4, "ambiguous": [(1, 3)]},
        lambda c: (1, 3) in {s[:2] for s in c},
    ),
    "ambiguous span of two labels": (
        {"ents": [OUT] * 4, "ambiguous": [(3, 4, "ORG"), (3, 4, "PER")]},
        lambda c: {s[:2] for s in c} == {(3, 4)},
    ),
    "incorrect span of one token": (
        {"ents": [MISSING] * 4, "incorrect": [(3, 4, "PER")]},
        lambda c: (3, 4, "PER") not in c,
    ),
    "two incorrect spans": (
        {"ents": [MISSING] * 4, "incorrect": [(0, 2, "PER"), (1, 4, "ORG")]},
        lambda c: not c & {(0, 2, "PER"), (1, 4, "ORG")},
    ),
    "incorrect span of any label": (
        {"ents": [MISSING] * 4, "incorrect": [(0, 2)]},
        lambda c: (0, 2) not in {s[:2] for s in c},
    ),
    "ambiguous span with an incorrect label": (
        {"ents": [OUT] * 4, "ambiguous": [(0, 2)], "incorrect": [(0, 2, "ORG")]},
        lambda c: c == {(0, 2, "PER")},
    ),
    "ambiguous span with allowed labels of a token": (
        {"ents": [OUT] * 4, "ambiguous": [(0, 2)], "allowed": {1: ["O", "PER"]}},
        lambda c: c == {(0, 2, "PER")},
    ),
    "only ORG annotated, an allowed label PER, an incorrect span": (
        {
            "ents": [OUT] * 4,
            "annotated": ["ORG"],
            "allowed": {0: ["PER"]},
            "incorrect": [(0, 1, "PER")],
        },
        lambda c: (
            covers(c, 0) is not None and {s[2] for s in c} <= {"PER"} and (0, 1, "PER") not in c
        ),
    ),
}


@pytest.mark.parametrize("scheme", ["BILUO", "BIO", "BIES"])
@pytest.mark.parametrize("case", CASES)
def test_gold_allows_exactly_the_sets_that_the_annotation_allows(scheme, case):
    fields, is_allowed = CASES[case]
    nlp, pipe = recognizer(scheme)
    example = make(nlp, **fields)
    assert entity_sets(pipe, example) == {c for c in all_sets(4) if is_allowed(c)}
    # Gold is the same after serialization and in a batch with other documents.
    docs = DocBin(docs=[example.reference], store_user_data=True).to_bytes()
    (reference,) = DocBin().from_bytes(docs).get_docs(nlp.vocab)
    again = Example(example.predicted, reference)
    assert entity_sets(pipe, again) == entity_sets(pipe, example)
    reference = Doc(nlp.vocab).from_bytes(example.reference.to_bytes())
    whole = make(nlp, ["O", "B-PER", "O", "O"])
    batch = [whole, Example(example.predicted, reference), whole]
    alone = pipe.read_gold([example]).tags
    tags = pipe.read_gold(batch).tags
    if tags.dtype == bool:
        np.testing.assert_array_equal(tags[4:8], alone if alone.dtype == bool else tags[4:8])


@pytest.mark.parametrize("case", CASES)
def test_a_prediction_is_wrong_if_no_allowed_set_has_it(case):
    fields, is_allowed = CASES[case]
    nlp, pipe = recognizer()
    example, sets = make(nlp, **fields), [c for c in all_sets(4) if is_allowed(c)]
    partial = pipe.codec.partial.read([example])[0].get(0, PartialAnnotation())
    unannotated = pipe.codec.unannotated(example.reference)
    gold = {(ent.start, ent.end, ent.label_) for ent in example.reference.ents}
    for span in frozenset().union(*all_sets(4)) - gold:
        is_wrong = pipe.codec.partial.excludes(
            partial, *span, not unannotated[slice(*span[:2])].any()
        )
        possible = any(span in c for c in sets)
        assert is_wrong != possible or ("annotated" in fields and not possible), span


def test_spans_that_may_overlap_leave_an_ambiguous_span_open():
    partial = PartialAnnotation(ambiguous={(0, 2): frozenset(["PER"])})
    assert partial.excludes(0, 2, "ORG", False) and partial.excludes(0, 1, "PER", False)
    assert not partial.excludes(0, 2, "ORG", False, True)
    assert PartialAnnotation(allowed={0: frozenset(["PER"])}).excludes(0, 2, "ORG", False, True)


CONTRADICTIONS = {
    "entity and incorrect span": (
        {"ents": ["B-PER", "I-PER", OUT, OUT], "incorrect": [(0, 2, "PER")]},
        r"'Ann Lee' \(tokens 0:2\) is both PER and not PER",
    ),
    "ambiguous spans overlap": (
        {"ents": [OUT] * 4, "ambiguous": [(0, 2), (1, 3)]},
        r"the ambiguous spans 'Ann Lee' \(tokens 0:2\) and 'Lee met' \(tokens 1:3\) overlap",
    ),
    "an entity overlaps an ambiguous span": (
        {"ents": ["B-PER", "I-PER", OUT, OUT], "ambiguous": [(1, 3)]},
        r"'Lee met' \(tokens 1:3\) overlaps 'Ann Lee' \(tokens 0:2\), which is PER",
    ),
    "entity of another label than the ambiguous span": (
        {"ents": ["B-PER", "I-PER", OUT, OUT], "ambiguous": [(0, 2, "ORG")]},
        r"'Ann Lee' \(tokens 0:2\) is PER, but may only be ORG",
    ),
    "all labels of an ambiguous span are incorrect": (
        {"ents": [OUT] * 4, "ambiguous": [(0, 2, "ORG")], "incorrect": [(0, 2, "ORG")]},
        r"'Ann Lee' \(tokens 0:2\) is an ambiguous span, but all of its labels are incorrect",
    ),
    "no labeling is left": (
        {"ents": [OUT] * 4, "allowed": {1: ["PER"]}, "incorrect": [(1, 2, "PER")]},
        "forbid it",
    ),
    "entity and allowed labels without its label": (
        {"ents": ["B-PER", "I-PER", OUT, OUT], "allowed": {1: ["O", "ORG"]}},
        r"'Lee' \(tokens 1:2\) is PER, but may only be O or ORG",
    ),
    "ambiguous span with a token that allows only O": (
        {"ents": [OUT] * 4, "ambiguous": [(0, 2)], "allowed": {1: ["O"]}},
        r"'Ann Lee' \(tokens 0:2\) is an ambiguous span, but its tokens allow none of its labels",
    ),
    "ambiguous span with tokens of different labels": (
        {"ents": [OUT] * 4, "ambiguous": [(0, 2)], "allowed": {0: ["ORG"], 1: ["PER"]}},
        "its tokens allow none of its labels",
    ),
    "unknown annotated label": ({"ents": [OUT] * 4, "annotated": ["DATE"]}, "unknown labels DATE"),
    "unknown allowed label": ({"ents": [OUT] * 4, "allowed": {0: ["X"]}}, "unknown labels X"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradictions_give_a_warning_and_no_gradient(case):
    fields, message = CONTRADICTIONS[case]
    nlp, pipe = recognizer()
    good, bad = make(nlp, ["B-PER", "I-PER", OUT, OUT]), make(nlp, **fields)
    scores, _ = pipe.model.begin_update([good.predicted, bad.predicted])
    with pytest.warns(UserWarning, match=f"1 of 2 documents.*document 1, .*{message}"):
        loss, gradient = pipe.get_loss([good, bad], scores)
    assert loss > 0 and not gradient.unary[4:].any()


SOME_SPANS = [(i, j) for i in range(7) for j in range(i + 1, 8)]


@given(st.sets(st.sampled_from(SOME_SPANS)), st.lists(st.integers(0, 7), unique=True).map(sorted))
def test_every_overlap_is_found(spans, edges):
    entities = dict.fromkeys(zip(edges[::2], edges[1::2], strict=False), "PER")
    doc = Doc(Vocab(), words=list("abcdefg"))
    annotation = PartialAnnotation(ambiguous=dict.fromkeys(spans, frozenset([""])))
    pairs = [*itertools.combinations(sorted(spans), 2), *itertools.product(spans, entities)]
    crossing = [(a, b) for a, b in pairs if a != b and a[0] < b[1] and b[0] < a[1]]
    assert len([*find_contradictions(doc, annotation, entities)]) == len(crossing)


def test_partially_annotated_documents_are_encoded_in_one_batch(monkeypatch):
    nlp, pipe = recognizer()
    fields = {"ents": ["B-PER", "I-PER", OUT, OUT], "annotated": ["PER"]}
    examples = [make(nlp, **fields), make(nlp, **fields, ambiguous=[(2, 4)], incorrect=[(0, 1)])]
    encoded = []
    encode = EntityTags.encode

    def count(self, iob, types, first):
        encoded.append(len(iob))
        return encode(self, iob, types, first)

    monkeypatch.setattr(EntityTags, "encode", count)
    assert not pipe.read_gold(examples).problems
    assert encoded == [8]


def test_misaligned_partial_annotation():
    """A span counts if it starts and ends at token boundaries. Otherwise its tokens are missing."""
    nlp, pipe = recognizer()
    reference = make(nlp, [OUT] * 4, ambiguous=[(0, 2)], allowed={3: ["PER"]}).reference
    merged = Doc(nlp.vocab, words=["Ann Lee", "met", "Bob"])
    expected = {frozenset({(0, 1, label), (2, 3, "PER")}) for label in LABELS}
    assert entity_sets(pipe, Example(merged, reference)) == expected
    straddling = Doc(nlp.vocab, words=["Ann", "Lee met", "B", "ob"], spaces=[1, 1, 0, 0])
    found = entity_sets(pipe, Example(straddling, reference))
    assert found == {c for c in all_sets(4) if not any(s[1] > 2 for s in c)}


@pytest.mark.parametrize("name", ["allowed_labels", "allowed_tags"])
def test_annotation_of_tokens_missing_in_the_predicted_document_is_left_out(name):
    nlp, _ = recognizer()
    reference = Doc(nlp.vocab, words=["Ann", " ", "left"], spaces=[True, False, False])
    for token in reference[1:]:
        token._.set(name, ["O"])
    predicted = Doc(nlp.vocab, words=["Ann", "left"], spaces=[True, False])
    example = Example(predicted, reference)
    if name == "allowed_tags":
        assert read_allowed_tags([example]) == ({0: {1: {"O"}}}, {})
    else:
        found, problems = read_partial_annotation([example])
        assert (found[0].allowed, problems) == ({1: {"O"}}, {})


@pytest.mark.parametrize(
    "model", [network(head) for head in ALL_HEADS if head != "MeanField"] + [SPARSE]
)
def test_every_objective_learns_from_partial_annotation(model):
    nlp, pipe = recognizer(model=model)
    examples = [
        make(nlp, ["B-PER", "I-PER", OUT, OUT], annotated=["PER"]),
        make(nlp, [OUT] * 4, annotated=["ORG"], words=["Ann", "saw", "Acme", "Corp"], ambiguous=[]),
        make(nlp, [MISSING] * 4, ambiguous=[(2, 4, "ORG")], words=["Eve", "at", "Big", "Co"]),
        make(nlp, [MISSING] * 4, incorrect=[(0, 2, "ORG")], words=["Ann", "Lee", "saw", "it"]),
    ]
    first = update(nlp, examples, 1)["bcrf_ner"]
    loss = update(nlp, examples)["bcrf_ner"]
    assert loss < 0.3 * first + 1e-3
    ents = [(ent.start, ent.end, ent.label_) for ent in pipe(examples[0].predicted.copy()).ents]
    assert (0, 2, "PER") in ents


@pytest.mark.parametrize("settings", [{"l1": 0.1}, {"order": 2}])
def test_a_chain_that_needs_online_steps_names_what_it_cannot_learn(settings):
    model = {**SPARSE, **settings}
    nlp, pipe = recognizer(model=model)
    example = make(nlp, [MISSING] * 4, incorrect=[(0, 2, "ORG")])
    with pytest.warns(UserWarning, match="incorrect span of several tokens, and .* online steps"):
        pipe.update([example])
    problem = r"\[bcrf_ner\] .* entity_ratio .* learns from gradients, but .* needs online steps"
    with pytest.raises(ValueError, match=problem):
        recognizer(model=model, entity_ratio={"ratio": 0.3})


@pytest.mark.parametrize("options", [{}, {"entity_ratio": {"ratio": 0.3, "margin": 0.1}}])
def test_a_chain_learns_large_batches_with_incorrect_spans(options):
    nlp, pipe = recognizer(model=SPARSE, **options)
    names = {"Ann": "PER", "Acme": "ORG", "Eve": "PER", "Corp": "ORG"}
    examples = []
    for i in range(120):
        words = [["Ann", "Acme", "Eve", "Corp"][i % 4], "saw", f"w{i % 7}", "it"]
        entity = [f"B-{names[words[0]]}", OUT, OUT, OUT]
        incorrect = [(1, 3, "ORG")] if i % 20 == 0 else []
        examples.append(make(nlp, entity, incorrect=incorrect, words=words))
    losses = [pipe.update(examples)["bcrf_ner"] for _ in range(3)]
    assert losses[2] < losses[1] < losses[0] < 3 * len(examples)
    docs = pipe.pipe([example.predicted.copy() for example in examples])
    assert all([ent.label_ for ent in doc.ents] == [names[doc[0].text]] for doc in docs)


def test_a_fit_in_passes_leaves_out_incorrect_spans():
    nlp = MultiLanguage()
    pipe = nlp.add_pipe("bcrf_ner", config={"model": SPARSE})
    pipe.add_label("ORG")
    examples = [make(nlp, [OUT] * 4, incorrect=[(0, 2, "ORG")]) for _ in range(3)]
    with pytest.warns(UserWarning, match="left out 3 of 3 documents, .* The first is document 0"):
        fit_sparse_chain(nlp, examples, 2)
    assert not sparse_chain(pipe.model).learner.weights.any()


def test_mean_field_refuses_partial_annotation():
    nlp, pipe = recognizer(head="MeanField")
    example = make(nlp, ["B-PER", "I-PER", OUT, OUT], annotated=["PER"])
    scores, _ = pipe.model.begin_update([example.predicted])
    with pytest.raises(ValueError, match=r"'Ann Lee met Bob.*' is partially annotated"):
        pipe.get_loss([example], scores)


def test_initialize_finds_the_labels_of_partial_annotation():
    nlp = MultiLanguage()
    pipe = nlp.add_pipe("bcrf_ner", config={"model": network()})
    fields = {
        "annotated": ["A"],
        "allowed": {0: ["O", "B"]},
        "ambiguous": [(1, 2, "C")],
        "incorrect": [(2, 3, "D")],
    }
    with pytest.warns(UserWarning, match="annotated_labels has A"):
        nlp.initialize(lambda: [make(nlp, [OUT] * 4, **fields)])
    assert pipe.labels == ("A", "B", "C", "D")


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"annotated": "PER"}, r"doc\._\.annotated_labels must be a list, got 'PER' in 'Ann Lee"),
        ({"allowed": {1: "ORG"}}, r"token\._\.allowed_labels must be a list, got 'ORG' in 'Ann"),
    ],
)
def test_a_string_in_place_of_a_list_of_labels_is_refused(fields, message):
    nlp, pipe = recognizer()
    example = make(nlp, [OUT] * 4, **fields)
    with pytest.raises(ValueError, match=message):
        pipe.initialize(lambda: [example])
    scores, _ = pipe.model.begin_update([example.predicted])
    with pytest.warns(UserWarning, match=message):
        pipe.get_loss([example], scores)


def test_annotated_labels_without_any_span_give_a_warning():
    nlp = MultiLanguage()
    nlp.add_pipe("bcrf_ner", config={"model": network()})
    good = make(nlp, ["B-PER", OUT, OUT, OUT], annotated=["PER", "ORG"], incorrect=[(1, 2, "ORG")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.initialize(lambda: [good])
    typo = make(nlp, ["B-PER", OUT, OUT, OUT], annotated=["PERSN", "PER"])
    with pytest.warns(UserWarning, match="annotated_labels has PERSN, but no span"):
        nlp.initialize(lambda: [good, typo])
    # Annotated labels are labels of entities. A chunker ignores them.
    nlp = MultiLanguage()
    nlp.add_pipe("bcrf_chunker", config={"model": network()})
    typo.reference.spans["chunks"] = [Span(typo.reference, 0, 1, "NP")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.initialize(lambda: [typo])


def test_the_config_sets_the_keys_of_span_groups():
    nlp, pipe = recognizer(incorrect_spans_key=None, ambiguous_spans_key="unsure")
    example = make(nlp, [OUT] * 4, ambiguous=[(0, 2)], incorrect=[(0, 2)])
    gold = pipe.read_gold([example])
    assert gold.tags.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("model", [network("CRF"), network("CRF/pairwise"), SPARSE])
def test_expected_entity_ratio_keeps_entities_rare(model):
    """Only entities are annotated, so without the ratio the component predicts too many."""

    def share(**options):
        """Return the share of tokens in predicted entities."""
        nlp, pipe = recognizer(model=model, **options)
        texts = [["Ann", "sat", "there"], ["then", "Bob", "left"], ["we", "saw", "Eve"]]
        tags = {"Ann", "Bob", "Eve"}
        examples = [
            make(nlp, ["B-PER" if w in tags else MISSING for w in words], words=words)
            for words in texts
        ]
        update(nlp, examples, 25)
        docs = [pipe(Doc(nlp.vocab, words=words)) for words in texts]
        assert all(token.ent_type_ for doc in docs for token in doc if token.text in tags)
        return sum(token.ent_iob_ != "O" for doc in docs for token in doc) / 9

    assert share() > 0.4
    assert share(entity_ratio={"ratio": 0.33, "margin": 0.05, "weight": 10.0}) == pytest.approx(
        1 / 3
    )


def test_the_entity_ratio_leaves_other_loss_terms():
    def other(potentials, gold, gradient):
        return 0.0

    _, pipe = recognizer()
    assert pipe.loss_terms == []
    pipe.loss_terms.append(other)
    for ratio in (0.3, 0.4, None, None):
        pipe.entity_ratio = None if ratio is None else ExpectedEntityRatio(ratio)
        assert pipe.loss_terms == [other]


@pytest.mark.parametrize(
    "block, problem",
    [
        ({"ratio": 2.0}, "entity_ratio.ratio must be between 0 and 1, got 2.0"),
        *(
            (block, f"entity_ratio must have the numbers ratio, margin, weight, got {block}")
            for block in ({"ratoi": 0.1}, {"ratio": "0.1"}, {"margin": 0.1}, 0.1, [0.1])
        ),
    ],
)
def test_a_config_with_an_invalid_entity_ratio_is_refused(block, problem):
    with pytest.raises(ValueError, match=re.escape(f"[bcrf_ner] {problem}")):
        recognizer(entity_ratio=block)


def test_the_tagger_learns_from_allowed_tags():
    nlp = MultiLanguage()
    config = {"label_smoothing": 0.1, "model": network()}
    pipe = nlp.add_pipe("bcrf_tagger", config=config)
    for label in "NVX":
        pipe.add_label(label)
    nlp.initialize(sgd=optimizer())
    doc = Doc(nlp.vocab, words=["a", "b", "c"], tags=["N", "", ""])
    doc[1]._.allowed_tags = ["V", "X"]
    example = Example(Doc(nlp.vocab, words=["a", "b", "c"]), doc)
    gold = pipe.read_gold([example])
    assert gold.tags.tolist() == [[1, 0, 0], [0, 1, 1], [1, 1, 1]]
    update(nlp, [example])
    tagged = pipe(Doc(nlp.vocab, words=["a", "b", "c"]))
    assert tagged[0].tag_ == "N" and tagged[1].tag_ in "VX"
    doc[0]._.allowed_tags = ["V"]
    scores, _ = pipe.model.begin_update([example.predicted])
    with pytest.warns(UserWarning, match=r"'a' \(token 0\) is N, but may only be V"):
        pipe.get_loss([example], scores)
