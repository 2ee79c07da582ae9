"""Tests of `bcrf_ner`: gold, preset entities, hard constraints and infeasible gold."""

import re
import time
from typing import ClassVar

import numpy as np
import pytest
from component_suite import ComponentSuite, NetworkSuite, fail_on
from hypothesis import given
from hypothesis import strategies as st
from spacy.attrs import ENT_IOB, ENT_TYPE
from spacy.cli._util import show_validation_error
from spacy.lang.xx import MultiLanguage
from spacy.tokens import Doc, Span
from spacy.training import Example
from thinc.api import SGD
from tiny_training import network, train

from bcrf.schemes import get_scheme
from spacy_bcrf.pipeline.sequence_labeler import Prediction

SCHEMES = ("BILUO", "BIO", "BIES")


class NerSuite(ComponentSuite):
    """Tests of `bcrf_ner` with any model."""

    factory = "bcrf_ner"
    labels = ("LOC", "PERSON")
    data: ClassVar = [
        ("Who is Shaka Khan ?", {"entities": [(7, 17, "PERSON")]}),
        ("I like London and Berlin .", {"entities": [(7, 13, "LOC"), (18, 24, "LOC")]}),
    ]
    partial: ClassVar = [
        (
            "Shaka Khan likes London",
            {"entities": ["B-PERSON", "L-PERSON", "-", "-"]},
        ),
        (
            # Half of the entity is within another token, so its tokens have no annotation.
            "She saw New Yorkers in Berlin",
            {
                "words": ["She", "saw", "New", "York", "ers", "in", "Berlin"],
                "entities": ["O", "O", "B-LOC", "L-LOC", "O", "O", "U-LOC"],
            },
        ),
    ]
    new_label = "FOOD"
    new_data: ClassVar = [("They eat green eggs", {"entities": [(9, 19, "FOOD")]})]
    other_code_settings: ClassVar = {"entity_ratio": {"ratio": 0.3, "margin": 0.1, "weight": 2.0}}
    other_settings: ClassVar = {"scheme": "BIO"}
    settings: ClassVar = {"scheme": "BILUO"}

    @staticmethod
    def annotation(doc):
        return [(token.ent_iob_, token.ent_type_) for token in doc]

    @staticmethod
    def check_partial(nlp):
        doc = nlp("Shaka Khan likes London")
        assert ("Shaka Khan", "PERSON") in [(ent.text, ent.label_) for ent in doc.ents]
        doc = nlp("She saw New Yorkers in Berlin")
        assert ("Berlin", "LOC") in [(ent.text, ent.label_) for ent in doc.ents]

    def gold(self, data, labels=("LOC", "PERSON")):
        """Return the allowed tags of each token in the gold of examples, and all tags."""
        nlp = MultiLanguage()
        pipe = self.add(nlp)
        for label in labels:
            pipe.add_label(label)
        examples = self.examples(nlp, data)
        nlp.initialize()
        gold, problems, *_ = pipe.read_gold(examples)
        assert not problems
        if gold.dtype != bool:
            gold = (gold[:, None] == np.arange(len(pipe.tags))) | (gold[:, None] < 0)
        return [{pipe.tags[i] for i in np.flatnonzero(row)} for row in gold], pipe.tags

    def test_gold_allows_all_tags_of_missing_and_misaligned_tokens(self):
        scheme = get_scheme(self.settings["scheme"])
        gold, tags = self.gold(self.data)
        spans = [(2, 4, "PERSON"), (7, 8, "LOC"), (9, 10, "LOC")]
        assert gold == [{tag} for tag in scheme.encode(spans, 11)]
        gold, _ = self.gold(self.partial[1:])
        (unit,) = scheme.encode([(0, 1, "LOC")], 1)
        assert gold == [{"O"}, {"O"}, set(tags), set(tags), {"O"}, {unit}]
        # A gold entity ends before missing annotation.
        gold, _ = self.gold(self.partial[:1])
        first, last = scheme.encode([(0, 2, "PERSON")], 2)
        after = set(tags) - ({"I-PERSON", "I-LOC"} if scheme.name == "BIO" else set())
        assert gold == [{first}, {last}, after, set(tags)]

    def test_tokens_without_entities_become_o(self):
        nlp, _ = self.trained(steps=1)
        pipe = nlp.get_pipe("bcrf_ner")
        doc = nlp.make_doc("nothing here")
        pipe.set_annotations([doc], [Prediction(np.zeros(2, dtype="int32"), {})])
        assert [token.ent_iob_ for token in doc] == ["O", "O"]
        assert doc.has_annotation("ENT_IOB", require_complete=True)

    def test_the_component_sets_only_entities(self):
        nlp, _ = self.trained()
        words = ["I", "like", "London", "and", "Berlin", "."]
        doc = Doc(nlp.vocab, words=words, tags=words, pos=["X"] * 6, lemmas=words)
        before = doc.to_json()
        after = nlp.get_pipe("bcrf_ner")(doc).to_json()
        assert len(after.pop("ents")) == 2
        before.pop("ents", None)
        assert after == before

    def test_a_preset_entity_with_an_unknown_label_stays(self):
        nlp, _ = self.trained()
        pipe = nlp.get_pipe("bcrf_ner")
        words = ["I", "like", "London", "and", "Berlin", "."]

        def annotate(start, end, **options):
            doc = Doc(nlp.vocab, words=words)
            doc.ents = [Span(doc, start, end, label="ANIMAL", kb_id="Q1")]
            doc = pipe(doc)
            assert [ent.kb_id_ for ent in doc.ents if ent.label_ == "ANIMAL"] == ["Q1"]
            return [(ent.text, ent.label_) for ent in doc.ents]

        assert annotate(3, 4) == [("London", "LOC"), ("and", "ANIMAL"), ("Berlin", "LOC")]
        assert annotate(1, 3) == [("like London", "ANIMAL"), ("Berlin", "LOC")]
        assert annotate(4, 6) == [("London", "LOC"), ("Berlin .", "ANIMAL")]
        assert annotate(0, 6) == [(" ".join(words), "ANIMAL")]
        # I after another entity, as annotation by token may have it.
        doc = Doc(nlp.vocab, words=words)
        doc[3].ent_type_ = "ANIMAL"
        values = np.array([(0, 0)] * 3 + [(1, doc[3].ent_type)] + [(0, 0)] * 2, dtype="uint64")
        doc.from_array(["ENT_IOB", "ENT_TYPE"], values)
        found = [(ent.text, ent.label_) for ent in pipe(doc).ents]
        assert found == [("London", "LOC"), ("and", "ANIMAL"), ("Berlin", "LOC")]
        # For the queries it is outside of all entities.
        (alternatives,) = pipe.nbest([doc], 1, ignore_annotation=False)
        assert [ent.text for ent in alternatives[0].annotation] == ["London", "Berlin"]
        pipe.add_label("ANIMAL")
        assert annotate(3, 4)[1] == ("and", "ANIMAL")

    def test_training_around_a_preset_entity_with_an_unknown_label(self):
        nlp, _ = self.trained(steps=1)
        pipe = nlp.get_pipe("bcrf_ner")
        example = self.examples(nlp, self.data)[1]
        example.predicted.ents = [Span(example.predicted, 3, 4, label="ANIMAL")]
        assert not pipe.read_gold([example]).problems
        example.predicted.ents = [Span(example.predicted, 2, 4, label="ANIMAL")]
        assert "contradicts the preset entity" in pipe.read_gold([example]).problems[0]

    def test_entities_of_an_entity_ruler_stay(self):
        nlp, _ = self.trained()
        ruler = nlp.add_pipe("entity_ruler", before="bcrf_ner")
        ruler.add_patterns([{"label": "PERSON", "pattern": "London and"}])
        doc = nlp("I like London and Berlin .")
        assert [(ent.text, ent.label_) for ent in doc.ents] == [
            ("London and", "PERSON"),
            ("Berlin", "LOC"),
        ]

    def test_gold_that_contradicts_preset_entities_gives_a_warning_and_no_loss(self):
        nlp, _ = self.trained(steps=1)
        pipe = nlp.get_pipe("bcrf_ner")
        example = self.examples(nlp, self.data)[1]
        example.predicted.ents = [Span(example.predicted, 2, 4, label="PERSON")]
        scores, _ = pipe.model.begin_update([example.predicted])
        with pytest.warns(UserWarning, match=r"1 of 1 documents.*'I like London.*preset entity"):
            loss, gradient = pipe.get_loss([example], scores)
        assert loss == 0
        assert not gradient.unary.any()
        # A preset entity of the gold annotation is valid.
        example.predicted.ents = example.reference.ents[:1]
        assert pipe.get_loss([example], scores)[0] > 0


class TestBiluo(NerSuite, NetworkSuite):
    @pytest.mark.slow
    def test_other_processes_report_a_failing_document_alone(self, monkeypatch, tmp_path):
        nlp, _ = self.trained(steps=1)
        pipe = nlp.get_pipe("bcrf_ner")
        fail_on("poison", pipe, monkeypatch)
        log = tmp_path / "log.txt"

        def report(name, proc, docs, error):
            with log.open("a") as file:
                file.write(f"{[doc.text for doc in docs]}: {error}\n")

        pipe.set_error_handler(report)
        texts = ["one", "two", "poison", "three", "four"]
        found = [doc.text for doc in nlp.pipe(texts, n_process=2, batch_size=3)]
        assert found == ["one", "two", "three", "four"]
        assert log.read_text() == "['poison']: no poison\n"

    @pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
    def test_scores_that_are_not_finite_are_reported(self):
        nlp, _ = self.trained(steps=1)
        examples = self.examples(nlp, self.data)
        nlp.initialize(lambda: examples)
        with pytest.raises(ValueError, match=r"\[bcrf_ner\] training diverged.*learn_rate.*clip"):
            for _ in range(3):
                nlp.update(examples, sgd=SGD(1e38))
        text = self.data[0][0]
        message = r"\[bcrf_ner\] the scores of .*{}.* are NaN or infinite.*weights.*vectors"
        with pytest.raises(ValueError, match=message.format(re.escape(repr(text)))):
            nlp(text)
        nlp, _ = self.trained(steps=1)
        nlp.get_pipe("bcrf_ner").head.get_param("transitions")[0, 0] = np.nan
        with pytest.raises(ValueError, match=message.format("all documents")):
            nlp(text)

    def test_many_labels_are_added_in_linear_time(self):
        nlp = self.blank()
        pipe = self.add(nlp)
        start = time.perf_counter()
        for i in range(1000):
            pipe.add_label(f"L{i}")
        assert time.perf_counter() - start < 1
        # A trained component grows once, at its next use.
        nlp, _ = self.trained(steps=1)
        pipe = nlp.get_pipe("bcrf_ner")
        before = pipe.head.get_param("W").copy()
        start = time.perf_counter()
        for i in range(300):
            pipe.add_label(f"L{i}")
        assert len(pipe.labels) == 302
        assert pipe.model.get_dim("nO") == len(pipe.tags) == 1 + 4 * 302
        assert time.perf_counter() - start < 2
        np.testing.assert_array_equal(pipe.head.get_param("W")[: len(before)], before)
        assert nlp(self.data[0][0]).has_annotation("ENT_IOB")

    def test_components_with_other_labels_keep_each_others_entities(self):
        nlp, _ = self.trained()
        other, _ = self.trained(data=[("They eat green eggs", {"entities": [(9, 19, "FOOD")]})])
        nlp.add_pipe("bcrf_ner", name="food", source=other)
        text = "I like London and Berlin ."
        alone = [(ent.text, ent.label_) for ent in nlp(text, disable=["food"]).ents]
        assert set(alone) <= {(ent.text, ent.label_) for ent in nlp(text).ents}
        assert alone


class TestBio(NerSuite, NetworkSuite):
    some_heads = ("BCRF",)
    heads = ("CRF", "MeanField", "SAPO")
    settings: ClassVar = {"scheme": "BIO"}
    other_settings: ClassVar = {"scheme": "BILUO"}


class TestBies(NerSuite, NetworkSuite):
    some_heads = ("CRF",)
    heads = ("BCRF/pairwise", "Unstructured", "MIRA")
    settings: ClassVar = {"scheme": "BIES"}


@pytest.mark.parametrize("factory", ["bcrf_ner", "bcrf_chunker"])
@pytest.mark.parametrize("scheme", ["IOB", ["BIO"], None])
def test_unknown_scheme_is_refused(factory, scheme):
    with pytest.raises(ValueError, match=r"^\[first\] scheme must be one of BIO, BILUO, BIES, got"):
        MultiLanguage().add_pipe(factory, name="first", config={"scheme": scheme})


def test_spacys_commands_show_a_wrong_setting_without_a_traceback(capsys):
    for setting in ({"scheme": "FOO"}, {"temperature": -1}):
        (name,) = setting
        with pytest.raises(SystemExit), show_validation_error():
            MultiLanguage().add_pipe("bcrf_ner", name="first", config=setting)
        assert f"[first] {name} must be" in capsys.readouterr().out


# Preset entities, sentence starts and whitespace, with random weights.

WORDS = ("Ann", "of", "Rome", "\n", " ")
PRESET_TYPES = ("A", "B")
UNKNOWN_TYPE = "C"


@st.composite
def documents(draw):
    """Words, ENT_IOB, ENT_TYPE (0, 1, 2, 3) and sentence starts of a random document."""
    length = draw(st.integers(1, 8))
    words = draw(st.lists(st.sampled_from(WORDS), min_size=length, max_size=length))
    iob = draw(st.lists(st.integers(0, 3), min_size=length, max_size=length))
    types = draw(st.lists(st.integers(0, 3), min_size=length, max_size=length))
    sent_starts = draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=length, max_size=length))
    for i in range(length):
        if iob[i] in (0, 2):
            types[i] = 0
        elif iob[i] == 1 and (i == 0 or types[i] != types[i - 1] or types[i] == 0):
            iob[i] = 3
    return words, iob, types, sent_starts


def make_doc(vocab, document):
    """Make a Doc of a draw from `documents`."""
    words, iob, types, sent_starts = document
    doc = Doc(vocab, words=words, spaces=[False] * len(words))
    hashes = [0, *(vocab.strings.add(label) for label in (*PRESET_TYPES, UNKNOWN_TYPE))]
    values = np.array([iob, [hashes[t] for t in types]], dtype="uint64").T
    doc.from_array([ENT_IOB, ENT_TYPE], np.ascontiguousarray(values))
    for token, sent_start in zip(doc, sent_starts, strict=True):
        if sent_start and token.i:
            token.is_sent_start = sent_start == 1
    return doc


@pytest.fixture(scope="module", params=SCHEMES)
def untrained(request):
    """An untrained component, for each scheme."""
    nlp = MultiLanguage()
    pipe = nlp.add_pipe("bcrf_ner", config={"scheme": request.param, "model": network()})
    for label in PRESET_TYPES:
        pipe.add_label(label)
    nlp.initialize()
    return pipe


def randomize(pipe, seed, decoder="viterbi"):
    """Draw large random weights, so that many tokens are in entities."""
    pipe.set_decoder(decoder)
    rng = np.random.default_rng(seed)
    for name in pipe.head.param_names:
        shape = pipe.head.get_param(name).shape
        pipe.head.set_param(name, rng.normal(size=shape, scale=3).astype("float32"))


@pytest.mark.parametrize("decoder", ["viterbi", "mbr"])
@given(batch=st.lists(documents(), min_size=1, max_size=3), seed=st.integers(0, 1000))
def test_predictions_obey_all_constraints(untrained, decoder, batch, seed):
    pipe = untrained
    randomize(pipe, seed, decoder)
    docs = [make_doc(pipe.vocab, document) for document in batch]
    presets = [doc.ents for doc in docs]
    preset_tokens = [{i for ent in doc.ents for i in range(ent.start, ent.end)} for doc in docs]
    ids = np.concatenate([prediction.tags for prediction in pipe.predict(docs)])
    lengths = [len(doc) for doc in docs]
    starts, ends, labels = pipe.codec.scheme.decode_ids(ids, lengths)  # ValueError if invalid
    for doc in pipe.pipe(docs):
        assert doc.has_annotation("ENT_IOB", require_complete=True)
    offsets = np.cumsum([0, *lengths])
    written = [
        (offset + ent.start, offset + ent.end, pipe.labels.index(ent.label_))
        for offset, doc in zip(offsets, docs, strict=False)
        for ent in doc.ents
        if ent.label_ != UNKNOWN_TYPE
    ]
    assert written == list(zip(starts, ends, labels, strict=True))
    for doc, old, kept, (_, iob, types, _) in zip(docs, presets, preset_tokens, batch, strict=True):
        spans = {(ent.start, ent.end, ent.label_) for ent in doc.ents}
        assert {(ent.start, ent.end, ent.label_) for ent in old} <= spans
        for token, was, entity_type in zip(doc, iob, types, strict=True):
            if was == 3 and entity_type == 0:
                assert (token.ent_iob, token.ent_type) == (3, 0)
        for ent in doc.ents:
            if ent.start in kept:
                continue
            assert not any(token.is_sent_start for token in ent[1:])
            assert not ent[0].is_space
            assert not ent[-1].is_space


@given(document=documents(), seed=st.integers(0, 1000))
def test_token_attributes_equal_those_of_set_ents(untrained, document, seed):
    """The component sets the same ENT_IOB and ENT_TYPE as `Doc.set_ents`."""
    pipe = untrained
    randomize(pipe, seed)
    doc = make_doc(pipe.vocab, document)
    blocked = [
        doc[i : i + 1] for i, token in enumerate(doc) if (token.ent_iob, token.ent_type) == (3, 0)
    ]
    other = Doc(pipe.vocab, words=[token.text for token in doc])
    pipe(doc)
    other.set_ents(
        [Span(other, ent.start, ent.end, label=ent.label) for ent in doc.ents],
        blocked=[other[span.start : span.end] for span in blocked],
    )
    attributes = [ENT_IOB, ENT_TYPE]
    np.testing.assert_array_equal(doc.to_array(attributes), other.to_array(attributes))


def test_a_preset_entity_may_start_with_i(untrained):
    pipe = untrained
    randomize(pipe, 0)
    a, b = (pipe.vocab.strings[label] for label in PRESET_TYPES)
    values = [[1, a], [2, 0], [1, b], [1, b], [1, a]]
    docs = [Doc(pipe.vocab, words=["x"] * 5) for _ in range(2)]
    for doc in docs:
        doc.from_array([ENT_IOB, ENT_TYPE], np.array(values, dtype="uint64"))
    for doc in pipe.pipe(docs):
        spans = {(ent.start, ent.end, ent.label_) for ent in doc.ents}
        assert {(0, 1, "A"), (2, 4, "B"), (4, 5, "A")} <= spans


# Infeasible gold.


def broken_examples(nlp):
    """Return ten examples. Three have infeasible gold: orphaned I (twice), two labels."""
    good = [Example.from_dict(nlp.make_doc("I saw Ann"), {"entities": [(6, 9, "A")]})] * 7
    person = nlp.vocab.strings.add("A")
    orphan = Doc(nlp.vocab, words=["First", "bad", "Ann"])
    values = np.array([[2, 0], [2, 0], [1, person]], dtype="uint64")
    orphan.from_array([ENT_IOB, ENT_TYPE], values)
    mixed = Doc(nlp.vocab, words=["Ann", "Lee"])
    mixed.from_array(
        [ENT_IOB, ENT_TYPE],
        np.array([[3, person], [1, nlp.vocab.strings.add("B")]], dtype="uint64"),
    )
    bad = [
        Example(Doc(nlp.vocab, words=[t.text for t in doc]), doc) for doc in (orphan, orphan, mixed)
    ]
    return [*good[:2], *bad, *good[2:]]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("head", ["CRF", "BCRF"])
def test_infeasible_gold_gives_one_warning_and_no_gradient(scheme, head):
    nlp = MultiLanguage()
    pipe = nlp.add_pipe("bcrf_ner", config={"scheme": scheme, "model": network(head)})
    examples = broken_examples(nlp)
    with pytest.warns(UserWarning) as caught:
        losses = train(nlp, examples, 3)
    (message,) = [str(warning.message) for warning in caught]
    assert "3 of 10 documents in the training data" in message
    assert "document 2, 'First bad Ann '" in message
    assert f"the scheme {scheme}" in message
    assert losses["bcrf_ner"] > 0
    scores, _ = pipe.model.begin_update([eg.predicted for eg in examples])
    _, gradient = pipe.get_loss(examples, scores)
    is_bad = np.repeat([2 <= i < 5 for i in range(10)], [len(eg) for eg in examples])
    assert not gradient.unary[is_bad].any()
    assert gradient.unary[~is_bad].any()


def test_each_training_warns_about_infeasible_gold():
    nlp = MultiLanguage()
    nlp.add_pipe("bcrf_ner", config={"model": network()})
    examples = broken_examples(nlp)
    for _ in range(2):
        with pytest.warns(UserWarning, match="3 of 10"):
            nlp.initialize(lambda: examples)


def test_gold_across_a_predicted_sentence_start_is_infeasible():
    nlp = MultiLanguage()
    pipe = nlp.add_pipe("bcrf_ner", config={"model": network()})
    example = Example.from_dict(nlp.make_doc("I saw Ann Lee"), {"entities": [(6, 13, "A")]})
    nlp.initialize(lambda: [example])
    example.predicted[3].is_sent_start = True
    scores, _ = pipe.model.begin_update([example.predicted])
    cause = r"document 0, 'I saw Ann Lee': A 'Ann Lee' \(tokens 2:4\) crosses a sentence start"
    with pytest.warns(UserWarning, match=cause):
        assert pipe.get_loss([example], scores)[0] == 0


def test_whitespace_at_the_edge_of_a_gold_entity_is_trimmed():
    nlp = MultiLanguage()
    pipe = nlp.add_pipe("bcrf_ner", config={"model": network()})
    words = [" ", "Ann", " ", "Lee", "\xa0", "saw", "\u3000", "Rome"]
    doc = Doc(nlp.vocab, words=words)
    doc.ents = [Span(doc, 0, 5, "A"), Span(doc, 6, 7, "B"), Span(doc, 7, 8, "B")]
    with pytest.warns(
        UserWarning, match=r"2 spans of the training data start or end on whitespace"
    ):
        nlp.initialize(lambda: [Example(Doc(nlp.vocab, words=words), doc)])
    gold = pipe.read_gold([Example(Doc(nlp.vocab, words=words), doc)])
    assert not gold.problems
    tags = ["O", "B-A", "I-A", "L-A", "O", "O", "O", "U-B"]
    assert [pipe.tags[tag] for tag in gold.tags] == tags
    other = [*words[:1], "An", "n", *words[2:]]
    gold = pipe.read_gold([Example(Doc(nlp.vocab, words=other), doc)])
    assert [pipe.tags[tag] for tag in gold.tags] == [*tags[:2], "I-A", *tags[2:]]


def test_the_cause_of_infeasible_gold_is_one_span():
    nlp = MultiLanguage()
    pipe = nlp.add_pipe("bcrf_ner", config={"model": network()})
    example = Example.from_dict(nlp.make_doc("I saw Ann Lee"), {"entities": [(6, 13, "A")]})
    nlp.initialize(lambda: [example])
    example.predicted.ents = [Span(example.predicted, 3, 4, "A")]
    problem = pipe.read_gold([example]).problems[0]
    assert problem == (
        "A 'Ann Lee' (tokens 2:4) contradicts the preset entity A 'Lee' (tokens 3:4)"
    )


def test_bio_entities_do_not_end_on_whitespace_except_preset_ones(untrained):
    pipe = untrained
    if pipe.codec.scheme.name != "BIO":
        pytest.skip("other schemes have a tag for the end")
    docs = [Doc(pipe.vocab, words=["Ann", "\n", "\n", "\n"]) for _ in range(2)]
    docs[1].ents = [Span(docs[1], 0, 2, label="A")]
    begin, inside = (pipe.tags.index(tag) for tag in ("B-A", "I-A"))
    scores = np.full((5, 5), -10.0, dtype="float32")
    randomize(pipe, 0)
    # Remove the influence of the words: the weights of the network differ between runs.
    for name in ("W", "b", "end"):
        pipe.head.set_param(name, np.zeros_like(pipe.head.get_param(name)))
    pipe.head.set_param("transitions", np.where(np.arange(5) == inside, 50.0, scores).astype("f"))
    pipe.head.set_param("start", np.where(np.arange(5) == begin, 50.0, -50.0).astype("f"))
    ids = [prediction.tags for prediction in pipe.predict(docs)]
    assert ids[0].tolist() == [begin, 0, 0, 0]
    assert ids[1].tolist() == [begin, inside, 0, 0]


def test_a_label_with_an_exclamation_mark_is_an_error():
    """spaCy's format of wrong entities before version 3 would make a label of it."""
    nlp = MultiLanguage()
    nlp.add_pipe("bcrf_ner").add_label("PER")
    nlp.initialize()
    example = Example.from_dict(nlp.make_doc("Ann left"), {"entities": [(0, 3, "!PER")]})
    message = r"entity label '!PER': .*doc\.spans\['incorrect_spans'\], with the label 'PER'"
    with pytest.raises(ValueError, match=message):
        nlp.update([example])
    with pytest.raises(ValueError, match=message):
        MultiLanguage().add_pipe("bcrf_ner").initialize(lambda: [example])
