"""Tests of `bcrf_tagger`: gold, preset tags, scores and label smoothing."""

import warnings
from typing import ClassVar

import numpy as np
import pytest
from component_suite import ComponentSuite, NetworkSuite
from spacy.lang.xx import MultiLanguage
from spacy.tokens import Doc
from spacy.training import Example
from tiny_training import network, train


class TaggerSuite(ComponentSuite):
    """Tests of `bcrf_tagger` with any model."""

    factory = "bcrf_tagger"
    labels = ("J", "N", "V")
    data: ClassVar = [
        ("I like green eggs", {"tags": ["N", "V", "J", "N"]}),
        ("Eat blue ham", {"tags": ["V", "J", "N"]}),
    ]
    partial: ClassVar = [
        ("I like green eggs", {"tags": ["", "V", "J", ""]}),
        (
            "He hates green eggs",
            {"words": ["He", "hate", "s", "green", "eggs"], "tags": ["", "V", "S", "J", ""]},
        ),
    ]
    new_label = "D"
    new_data: ClassVar = [("The ham", {"tags": ["D", "N"]})]
    other_code_settings: ClassVar = {"label_smoothing": 0.1, "overwrite": True}
    other_settings: ClassVar = {"attribute": "pos"}

    @staticmethod
    def annotation(doc):
        return [token.tag_ for token in doc]

    @staticmethod
    def check_partial(nlp):
        assert nlp.get_pipe("bcrf_tagger").labels == ("J", "S", "V")
        doc = nlp("I like green eggs")
        assert [doc[1].tag_, doc[2].tag_] == ["V", "J"]

    def test_a_misaligned_token_is_unannotated(self):
        nlp, _ = self.trained(steps=1)
        pipe = nlp.get_pipe("bcrf_tagger")
        pipe.add_label("S")
        # Tokens are aligned even if their number is equal.
        reference = Doc(nlp.vocab, words=["a", "bc", "d"], tags=["J", "V", "N"])
        shifted = Example(Doc(nlp.vocab, words=["ab", "c", "d"]), reference)
        gold, problems, *_ = pipe.read_gold([*self.examples(nlp, self.partial), shifted])
        tags = ["" if i < 0 else pipe.tags[i] for i in gold]
        assert tags == ["", "V", "J", "", "", "", "J", "", "", "V", "N"]
        assert not problems

    @pytest.mark.parametrize("overwrite", [True, False])
    def test_overwrite_replaces_preset_tags(self, overwrite):
        nlp, _ = self.trained(overwrite=overwrite)
        doc = Doc(nlp.vocab, words=["Eat", "blue", "ham"], tags=["X", "", ""])
        doc = nlp.get_pipe("bcrf_tagger")(doc)
        assert self.annotation(doc) == ["V" if overwrite else "X", "J", "N"]

    def test_the_component_sets_only_its_attribute(self):
        nlp, _ = self.trained()
        words = ["Eat", "blue", "ham"]
        doc = Doc(
            nlp.vocab,
            words=words,
            pos=["VERB", "ADJ", "NOUN"],
            lemmas=words,
            morphs=["Mood=Imp", "", "Number=Sing"],
            sent_starts=[True, False, True],
            ents=["O", "O", "B-FOOD"],
        )
        before = doc.to_json()
        after = nlp.get_pipe("bcrf_tagger")(doc).to_json()
        assert [token.pop("tag") for token in after["tokens"]] == ["V", "J", "N"]
        for token in before["tokens"]:
            token.pop("tag", None)
        assert after == before


class TestTagger(TaggerSuite, NetworkSuite):
    pass


class TestPosTagger(NetworkSuite):
    some_heads = ("CRF",)
    heads = ("BCRF", "Perceptron")
    factory = "bcrf_tagger"
    settings: ClassVar = {"attribute": "pos"}
    labels = ("ADJ", "NOUN", "VERB")
    data: ClassVar = [
        ("I like green eggs", {"pos": ["NOUN", "VERB", "ADJ", "NOUN"]}),
        ("Eat blue ham", {"pos": ["VERB", "ADJ", "NOUN"]}),
    ]
    partial: ClassVar = [
        ("I like green eggs", {"pos": ["", "VERB", "ADJ", ""]}),
        (
            "He hates green eggs",
            {"words": ["He", "hate", "s", "green", "eggs"], "pos": ["", "VERB", "X", "ADJ", ""]},
        ),
    ]
    new_label = "DET"
    new_data: ClassVar = [("The ham", {"pos": ["DET", "NOUN"]})]
    other_settings: ClassVar = {"attribute": "tag"}

    @staticmethod
    def annotation(doc):
        return [token.pos_ for token in doc]

    @staticmethod
    def check_partial(nlp):
        doc = nlp("I like green eggs")
        assert [doc[1].pos_, doc[2].pos_] == ["VERB", "ADJ"]

    def test_attribute_pos_accepts_only_universal_parts_of_speech(self):
        pipe = self.add(MultiLanguage())
        with pytest.raises(ValueError, match=r"'NN' is not a universal part of speech.*ADJ, ADP"):
            pipe.add_label("NN")


def test_unknown_attribute_is_refused():
    with pytest.raises(ValueError, match="lemma"):
        MultiLanguage().add_pipe("bcrf_tagger", config={"attribute": "lemma"})


def test_the_attribute_decides_the_score():
    nlp = MultiLanguage()
    doc = Doc(nlp.vocab, words=["a"], tags=["T"], pos=["NOUN"])
    for attribute in ("tag", "pos"):
        pipe = nlp.create_pipe("bcrf_tagger", config={"attribute": attribute})
        assert pipe.score([Example(doc, doc)]) == {f"{attribute}_acc": 1.0}


def test_label_smoothing_moves_the_gradient_towards_all_tags():
    nlp = MultiLanguage()
    tagger = nlp.add_pipe("bcrf_tagger", config={"model": network()})
    doc = Doc(nlp.vocab, words=["a", "b", "c"], tags=["X", "", "Y"])
    example = Example(doc.copy(), doc)
    nlp.initialize(lambda: [example])
    scores = tagger.model.predict([example.predicted])
    scores.unary[...] = [[1, 2], [3, 4], [5, 7]]
    plain_loss, plain = tagger.get_loss([example], scores)
    tagger.label_smoothing = 0.2
    loss, smooth = tagger.get_loss([example], scores)
    moved = smooth.unary - plain.unary
    np.testing.assert_allclose(moved, [[0.1, -0.1], [0, 0], [-0.1, 0.1]], atol=1e-6)
    np.testing.assert_array_equal(smooth.transitions, plain.transitions)
    assert loss - plain_loss == pytest.approx(0.2 * ((1 - 1.5) + (7 - 6)), abs=1e-5)


def test_label_smoothing_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"label_smoothing must be a number in \[0, 1\), got 1"):
        MultiLanguage().add_pipe("bcrf_tagger", config={"label_smoothing": 1.0})
    config = {"label_smoothing": 0.1, "model": network()}
    pipe = MultiLanguage().add_pipe("bcrf_tagger", config=config)
    with pytest.raises(ValueError, match=r"\[bcrf_tagger\] label_smoothing must be a number in "):
        pipe.label_smoothing = -0.1
    assert pipe.label_smoothing == 0.1


def test_label_smoothing_lowers_the_confidence_of_a_chain():
    def confidence(label_smoothing):
        nlp = MultiLanguage()
        model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[0]"]}
        model["objective"] = "crf"
        config = {"label_smoothing": label_smoothing, "model": model, "annotate": ["confidence"]}
        nlp.add_pipe("bcrf_tagger", config=config)
        tags = {"tags": ["N", "V"]}
        train(nlp, [Example.from_dict(nlp.make_doc("a b"), tags) for _ in range(40)], 20)
        return nlp("a b")[0]._.tag_confidence

    assert 0.6 < confidence(0.3) < 0.9 < confidence(0.0)


@pytest.mark.parametrize(
    "model",
    [
        *(network(head) for head in ("SAPO", "Perceptron", "MIRA")),
        {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[0]"]},
    ],
)
def test_label_smoothing_without_probabilities_gives_a_warning(model):
    config = {"label_smoothing": 0.1, "model": model}
    with pytest.warns(UserWarning, match=r"label_smoothing = 0\.1 has no effect: .* no probab"):
        pipe = MultiLanguage().add_pipe("bcrf_tagger", config=config)
    assert not pipe._loss_terms()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe.overwrite = True
    with pytest.warns(UserWarning, match=r"label_smoothing = 0\.2 has no effect"):
        pipe.label_smoothing = 0.2


def test_a_tag_with_an_exclamation_mark_is_wrong():
    """As for spaCy's tagger with neg_prefix = "!"."""
    nlp = MultiLanguage()
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["w[0]"]}
    pipe = nlp.add_pipe("bcrf_tagger", config={"model": {**model, "objective": "crf"}})
    tags = [("a", "N"), ("b", "V"), ("c", "A"), ("d", "!N"), ("d", "!V"), ("!", "!")]
    words = [word for word, _ in tags]
    example = Example.from_dict(nlp.make_doc(" ".join(words)), {"tags": [tag for _, tag in tags]})
    train(nlp, [example] * 10, 30)
    assert pipe.labels == ("!", "A", "N", "V")
    assert [token.tag_ for token in nlp("a b c d !")] in (["N", "V", "A", tag, "!"] for tag in "A!")
    (marginals,) = pipe.token_marginals([nlp.make_doc("d")])
    assert marginals[0, [2, 3]].max() < 0.15
    with pytest.warns(UserWarning, match="unknown labels X"):
        nlp.update([Example.from_dict(nlp.make_doc("a"), {"tags": ["!X"]})])


def pipeline_of(*pipes, **config):
    nlp = MultiLanguage()
    for pipe in pipes:
        nlp.add_pipe(pipe)
    nlp.add_pipe("bcrf_tagger", "ours", config={"attribute": "pos", **config})
    return nlp


def tag_all(nlp):
    """Let the tokenizer set the tags of all tokens, as that of Japanese does."""
    make = nlp.tokenizer

    def tokenize(text):
        doc = make(text)
        for token in doc:
            token.tag_, token.pos_ = "X", "X"
        return doc

    nlp.tokenizer = tokenize


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("pipes", [(), ("morphologizer",), ("bcrf_tagger",), ("attribute_ruler",)])
def test_output_that_cannot_appear_is_an_error(pipes, overwrite):
    nlp = pipeline_of(*pipes, overwrite=overwrite)
    if "bcrf_tagger" in pipes:
        nlp.remove_pipe("bcrf_tagger")
        nlp.add_pipe("bcrf_tagger", before="ours", config={"attribute": "pos"})
    if not pipes:
        tag_all(nlp)
    gold = Doc(nlp.vocab, words=["a", "b"], pos=["NOUN", "VERB"], morphs=["A=B", ""])
    examples = [Example(nlp.make_doc("a b"), gold)]
    if overwrite or pipes == ("attribute_ruler",):
        nlp.initialize(lambda: examples)
        return
    who = f"the earlier component '{pipes[0]}'" if pipes else "the tokenizer"
    with pytest.raises(ValueError, match=rf"\[ours\] {who} sets token\.pos of all tokens"):
        nlp.initialize(lambda: examples)


def test_the_other_attribute_of_a_tagger_is_no_obstacle():
    nlp = pipeline_of("bcrf_tagger")
    gold = Doc(nlp.vocab, words=["a", "b"], pos=["NOUN", "VERB"], tags=["N", "V"])
    nlp.initialize(lambda: [Example(nlp.make_doc("a b"), gold)])
