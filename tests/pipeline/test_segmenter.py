"""Tests of `bcrf_segmenter`: words, scores, probabilities and training."""

import tracemalloc
from typing import ClassVar

import numpy as np
import pytest
import spacy
from component_suite import NetworkSuite
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from tiny_training import network, optimizer, train

from bcrf.chain import CRF, Potentials
from spacy_bcrf.annotation.entity_tags import BEGIN, INSIDE, MISSING, OUTSIDE
from spacy_bcrf.annotation.tokenizers import CharTokenizer
from spacy_bcrf.annotation.word_tags import read_words
from spacy_bcrf.pipeline.calibration import Calibration
from spacy_bcrf.pipeline.segmenter import score_words


def gold(words: str) -> dict:
    """Read words without spaces between them from "word/tag word/tag". A tag can be empty."""
    parts = [word.partition("/") for word in words.split()]
    words = [word for word, _, _ in parts]
    return {"words": words, "spaces": [False] * len(words), "tags": [tag for *_, tag in parts]}


def blank():
    """Return a pipeline whose tokens are characters."""
    tokenizer = {"@tokenizers": "spacy-bcrf.CharTokenizer.v1"}
    return spacy.blank("xx", config={"nlp": {"tokenizer": tokenizer}})


class TestSegmenter(NetworkSuite):
    heads = ("CRF", "BCRF", "MeanField", "Perceptron")
    factory = "bcrf_segmenter"
    default_architecture = "spacy-bcrf.SequenceLabeler.v1"
    labels = ("J", "N", "V")
    data: ClassVar = [
        ("我喜欢绿鸡蛋", gold("我/N 喜欢/V 绿/J 鸡蛋/N")),
        ("吃蓝色火腿", gold("吃/V 蓝色/J 火腿/N")),
    ]
    partial: ClassVar = [
        ("我喜欢绿鸡蛋", gold("我/ 喜欢/V 绿/J 鸡蛋/")),
        # A gold boundary is within a character.
        ("他喜欢e\u0301鸡蛋", gold("他/ 喜欢e/S \u0301/S 鸡蛋/")),
    ]
    new_label = "D"
    new_data: ClassVar = [("这个火腿", gold("这个/D 火腿/N"))]
    other_settings: ClassVar = {"attribute": "pos"}
    blank = staticmethod(blank)

    @staticmethod
    def annotation(doc):
        return [(token.text, token.tag_) for token in doc]

    @staticmethod
    def check_partial(nlp):
        assert nlp.get_pipe("bcrf_segmenter").labels == ("J", "S", "V")
        doc = nlp("我喜欢绿鸡蛋")
        assert [token.text for token in doc] == ["我", "喜欢", "绿", "鸡蛋"]
        assert [token.tag_ for token in doc[1:3]] == ["V", "J"]


@pytest.fixture(scope="module")
def nlp():
    """A trained pipeline."""
    suite = TestSegmenter()
    return suite.trained()[0]


# Characters from the training data and others, with whitespace.
TEXTS = st.lists(
    st.sampled_from(
        ["我", "喜", "欢", "鸡蛋", "aZ", "7", "。", "é", "👨‍👩‍👧", "🇩🇪", "𠮷", "e\u0301", "\x00"]
    )
    | st.sampled_from([" ", "  ", "\n", "\u3000"])
    | st.text(max_size=2)
).map("".join)


@given(text=TEXTS)
def test_the_text_is_unchanged_and_every_word_has_a_tag(nlp, text):
    doc = nlp(text)
    characters = nlp.make_doc(text)
    assert doc.text == text
    assert {token.idx for token in doc} <= {token.idx for token in characters}
    for token in doc:
        assert token.is_space or not any(part.isspace() for part in token.text.split(" "))
        assert (token.tag_ in ("J", "N", "V")) == (not token.is_space)


@pytest.mark.parametrize("text", ["   ", "\n", "🙂🙂👍🏽", "xyz 123", "ÄÖÜ", "𠀀𠀁𠀂", ""])
def test_texts_without_training_characters(nlp, text):
    assert nlp(text).text == text
    assert [doc.text for doc in nlp.pipe([text, "我喜欢绿鸡蛋", text])][::2] == [text, text]


CUT = ["我喜欢绿鸡蛋", "", " 我喜欢  绿鸡蛋\n", "吃\U000f0000蓝色火腿", "👍🏽他e\u0301", "吃 "]


@pytest.fixture(scope="module")
def chains(nlp):
    """The network, a chain over characters, and a chain that reads more than characters."""
    pipelines = [nlp]
    for templates in ["w[-1..1]", "w[0]|w[1]", "shape[0]"], ["w[-1..1]", "norm[0]"]:
        chain = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": templates}
        pipelines.append(blank())
        pipelines[-1].add_pipe("bcrf_segmenter", config={"model": chain})
        train(pipelines[-1], TestSegmenter.examples(pipelines[-1], TestSegmenter.data), 3)
    return pipelines


@pytest.mark.parametrize("k", [0, 1, 2])
@given(texts=st.lists(TEXTS | st.sampled_from(CUT), max_size=4))
def test_cut_finds_the_words_of_documents(chains, k, texts):
    segmenter = chains[k].get_pipe("bcrf_segmenter")
    for batch in CUT, texts:
        words = [[word.text for word in doc] for doc in chains[k].pipe(batch)]
        assert list(segmenter.cut(batch, batch_size=2)) == words == list(segmenter.cut(batch))


def test_cut_makes_no_documents_for_a_chain_over_characters(chains, monkeypatch):
    monkeypatch.setattr(CharTokenizer, "__call__", None)
    segmenters = [nlp.get_pipe("bcrf_segmenter") for nlp in chains]
    assert next(segmenters[1].cut(CUT)) == ["我", "喜欢", "绿", "鸡蛋"]
    for other in segmenters[0], segmenters[2]:
        with pytest.raises(TypeError, match="NoneType"):
            list(other.cut(CUT))


def test_cut_names_a_lone_surrogate(chains):
    with pytest.raises(ValueError, match="character 1 of the text is the lone surrogate"):
        list(chains[1].get_pipe("bcrf_segmenter").cut(["我", "喜\ud800"]))


def test_words_keep_spaces(nlp):
    doc = nlp(" 我喜欢  绿鸡蛋\n")
    assert [token.text_with_ws for token in doc] == [" ", "我", "喜欢 ", " ", "绿", "鸡蛋", "\n"]


def test_memory_is_linear(nlp):
    peaks = []
    for n in (400, 4_000, 8_000):
        text = "我喜欢绿鸡蛋" * n
        tracemalloc.start()
        doc = nlp(text)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert doc.text == text and len(doc) == 4 * n
    assert peaks[2] < 2.1 * peaks[1] < 2.1 * 10.5 * peaks[0]


def test_words_keep_all_other_annotation(nlp):
    doc = nlp.make_doc("我喜欢绿鸡蛋吃蓝色火腿")
    Doc.set_extension("source", default=None, force=True)
    Span.set_extension("note", default=None, force=True)
    doc._.source = "here"
    doc[1:3]._.note = "a word"
    doc.cats = {"FOOD": 1.0}
    doc._context = "context"
    for i, token in enumerate(doc):
        token.is_sent_start = i in (0, 6)
    doc.set_ents([Span(doc, 3, 6, label="DISH", kb_id="Q1"), Span(doc, 9, 10, label="MEAT")])
    doc.spans["food"] = [Span(doc, 4, 6, label="EGG", span_id="e"), Span(doc, 3, 6, label="EGGS")]
    doc.spans["empty"] = [Span(doc, 2, 2, label="HERE"), Span(doc, 11, 11)]
    doc.spans["none"] = []
    other = nlp.make_doc("吃蓝色火腿")
    for i, token in enumerate(other):
        token.is_sent_start = i in (0, 1)
    other.spans["food"] = [Span(other, 3, 4, label="HAM")]
    other._.source = "there"
    # The documents of a batch are merged together.
    batch = [nlp.make_doc(""), other, doc]
    _, others, words = nlp.get_pipe("bcrf_segmenter").pipe(batch)
    assert [sent.text for sent in others.sents] == ["吃", "蓝色火腿"]
    assert [(span.text, span.label_) for span in others.spans["food"]] == [("火腿", "HAM")]
    assert (others._.source, others.cats) == ("there", {})
    assert [token.text for token in words] == ["我", "喜欢", "绿", "鸡蛋", "吃", "蓝色", "火腿"]
    assert [sent.text for sent in words.sents] == ["我喜欢绿鸡蛋", "吃蓝色火腿"]
    found = [(ent.text, ent.label_, ent.kb_id_) for ent in words.ents]
    assert found == [("绿鸡蛋", "DISH", "Q1"), ("火腿", "MEAT", "")]
    found = [(span.text, span.label_, span.id_) for span in words.spans["food"]]
    assert found == [("鸡蛋", "EGG", "e"), ("绿鸡蛋", "EGGS", "")]
    assert [(span.start, span.end) for span in words.spans["empty"]] == [(1, 1), (7, 7)]
    assert list(words.spans["none"]) == []
    assert words._.source == "here"
    assert words[1:2]._.note == "a word"
    assert words.cats == {"FOOD": 1.0}
    assert words._context == "context"
    # The input document is unchanged.
    assert len(doc) == 11
    assert not doc.has_annotation("TAG")


def test_words_do_not_cross_sentence_starts(nlp):
    doc = nlp.make_doc("我喜欢绿鸡蛋")
    for i, token in enumerate(doc):
        token.is_sent_start = i in (0, 2)
    assert [token.text for token in nlp.get_pipe("bcrf_segmenter")(doc)][:3] == ["我", "喜", "欢"]


def test_pipe_keeps_the_context(nlp):
    pairs = [("我喜欢绿鸡蛋", 1), ("吃蓝色火腿", 2)]
    found = [(doc.text, len(doc), context) for doc, context in nlp.pipe(pairs, as_tuples=True)]
    assert found == [("我喜欢绿鸡蛋", 4, 1), ("吃蓝色火腿", 3, 2)]


def test_set_annotations_cannot_change_tokens_in_place(nlp):
    segmenter = nlp.get_pipe("bcrf_segmenter")
    docs = [nlp.make_doc("我喜欢绿鸡蛋")]
    with pytest.raises(TypeError, match="the tokens of a Doc cannot change in place"):
        segmenter.set_annotations(docs, segmenter.predict(docs))


def test_errors_go_to_the_error_handler(nlp, monkeypatch):
    segmenter = nlp.get_pipe("bcrf_segmenter")
    seen = []

    def fail(docs):
        raise ValueError("no")

    monkeypatch.setattr(segmenter, "predict", fail)
    with pytest.raises(ValueError, match="no"):
        nlp("我")
    with pytest.raises(ValueError, match="no"):
        list(nlp.pipe(["我"]))
    monkeypatch.setattr(segmenter, "get_error_handler", lambda: lambda *args: seen.append(args[2]))
    assert list(segmenter.pipe([nlp.make_doc("我"), nlp.make_doc("你")], batch_size=1)) == []
    assert [doc.text for (doc,) in seen] == ["我", "你"]


@pytest.mark.parametrize(("attribute", "label"), [("tag", "NOUN"), ("pos", "NOUN"), ("tag", "NN")])
def test_a_universal_part_of_speech_sets_tag_and_pos(attribute, label):
    nlp = blank()
    words = {**gold("鸡蛋/x"), f"{attribute}s".replace("poss", "pos"): [label]}
    if attribute == "pos":
        del words["tags"]
    nlp.add_pipe("bcrf_segmenter", config={"attribute": attribute, "model": network()})
    example = Example.from_dict(nlp.make_doc("鸡蛋"), words)
    train(nlp, [example], 5)
    (word,) = nlp("鸡蛋")
    assert word.tag_ == label
    assert word.pos_ == ("" if label == "NN" else label)
    assert nlp.evaluate([example])["tagged_token_f"] == 1.0


def test_attribute_pos_accepts_only_universal_parts_of_speech():
    segmenter = blank().add_pipe("bcrf_segmenter", config={"attribute": "pos"})
    with pytest.raises(ValueError, match="'NN' is not a universal part of speech"):
        segmenter.add_label("NN")
    with pytest.raises(ValueError, match="attribute must be tag or pos, got 'dep'"):
        blank().add_pipe("bcrf_segmenter", config={"attribute": "dep"})


def example(characters, words, spaces=True, **annotation):
    """Make an example of characters and gold words.

    spaces: whether a space follows each word, one value or a list.
    """
    vocab = Vocab()
    spaces = [spaces] * len(words) if isinstance(spaces, bool) else spaces
    reference = Doc(vocab, words=words, spaces=spaces, **annotation)
    return Example(Doc(vocab, words=characters, spaces=[False] * len(characters)), reference)


@pytest.mark.parametrize(
    ("characters", "words", "found"),
    [
        ("abcd", ["a", "bcd"], "B BII"),
        ("abcd", ["abcd"], "BIII"),
        # Whitespace is never in a word.
        (["a", " ", "b", "c", "\n"], ["a", "bc"], "B O BI O"),
        ("abc", ["a", " ", "bc"], "B BI"),
        # Boundaries within a character.
        (["a", "bc", "d", "e"], ["ab", "c", "de"], "- - B I"),
        (["ab", "cd"], ["a", "bc", "d"], "- -"),
        (["a", "bcd"], ["a", "b", "c", "d"], "B -"),
        # Whitespace within a word.
        (["a", "b", " ", "c", "d"], ["a", "b c", "d"], "B - O - B"),
        (["a", " ", "b"], [" ", "ab"], "- O -"),
        # Vietnamese words contain spaces.
        ("abc", ["a b", "c"], "BI B"),
    ],
)
def test_gold_words_become_spans_of_characters(characters, words, found):
    eg = example(list(characters), words, tags=["T"] * len(words))
    codes = {"B": BEGIN, "I": INSIDE, "O": OUTSIDE, "-": MISSING}
    values = read_words(eg, spacy.attrs.TAG)
    assert values[:, 0].tolist() == [codes[code] for code in found.replace(" ", "")]
    tagged = np.isin(values[:, 0], (BEGIN, INSIDE))
    assert (values[:, 1] == np.where(tagged, eg.reference.vocab.strings["T"], 0)).all()


def test_untagged_characters_are_no_gold_words():
    assert not read_words(example("ab", ["a", "b"]), spacy.attrs.TAG).any()
    assert read_words(example("abc", ["ab", "c"]), spacy.attrs.TAG).any()


def test_words_in_place_of_characters_give_a_warning_and_no_loss():
    """spaCy copies the words of a reference with unknown spaces to the predicted document."""
    nlp, _ = TestSegmenter().trained(steps=1)
    reference = Doc(nlp.vocab, words=["我", "喜欢"], tags=["N", "V"])
    assert reference.has_unknown_spaces
    copy = Doc(nlp.vocab, words=["我", "喜欢"], spaces=[True, True])
    segmenter = nlp.get_pipe("bcrf_segmenter")
    examples = [Example(copy, reference)]
    scores = segmenter.model.predict([copy])
    with pytest.warns(UserWarning, match=r"1 of 1 .* has unknown spaces.* `lang`"):
        assert segmenter.get_loss(examples, scores)[0] == 0
    assert segmenter.score(examples)["token_f"] is None
    # With the text as characters, the words are valid gold.
    examples = [Example(nlp.make_doc("我喜欢"), reference)]
    scores = segmenter.model.predict([examples[0].predicted])
    assert segmenter.get_loss(examples, scores)[0] != 0


@pytest.mark.parametrize("head", ["CRF", "BCRF", "SAPO"])
def test_the_component_learns_boundaries_without_tags(head):
    suite = TestSegmenter()
    untagged = [("绿鸡蛋火腿", gold("绿/ 鸡蛋/ 火腿/")), ("蓝色鸡蛋", gold("蓝色/ 鸡蛋/"))]
    nlp, losses = suite.trained(head, [("吃", gold("吃/V")), ("我", gold("我/N")), *untagged])
    assert losses["bcrf_segmenter"] < 1
    for text, words in untagged:
        assert [token.text for token in nlp(text)] == words["words"]


def test_scores_compare_words_by_characters():
    nlp = blank()

    def doc(words):
        words = gold(words)
        return Doc(nlp.vocab, **words)

    pairs = [
        # 我 is correct, 喜欢 has a wrong tag, 绿 has no gold tag, 鸡蛋 is split in two.
        ("我/N 喜欢/V 绿/ 鸡蛋/N", "我/N 喜欢/N 绿/J 鸡/N 蛋/N"),
        ("吃/V 火腿/N", "吃火/V 腿/N"),
    ]
    examples = [Example(doc(found), doc(true)) for true, found in pairs]
    unknown = Doc(nlp.vocab, words=["我", "你"], tags=["N", "N"])
    scores = score_words([*examples, Example(unknown.copy(), unknown)])
    precision, recall = 3 / 7, 3 / 6
    assert scores["token_p"] == pytest.approx(precision)
    assert scores["token_r"] == pytest.approx(recall)
    assert scores["token_f"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert scores["tagged_token_p"] == pytest.approx(1 / 6)
    assert scores["tagged_token_r"] == pytest.approx(1 / 5)
    assert set(score_words([Example(unknown.copy(), unknown)]).values()) == {None}


def test_probabilities_of_words_equal_pinned_log_partitions(nlp):
    segmenter = nlp.get_pipe("bcrf_segmenter")
    characters = nlp.make_doc("吃蓝色 鸡蛋x")
    potentials = segmenter.posterior(segmenter.find_potentials([characters]))
    segmenter.annotate = ("confidence", "probability", "entropy")
    try:
        words = segmenter(nlp.make_doc("吃蓝色 鸡蛋x"))
    finally:
        segmenter.annotate = ()
    log_z = CRF().log_partition(potentials)[0]
    at = {token.idx: token.i for token in characters}
    for word in words:
        start = at[word.idx]
        n = sum(word.idx <= idx < word.idx + len(word) for idx in at)
        tags = ["S"] if n == 1 else ["B", *"I" * (n - 2), "E"]
        unary = potentials.unary.copy()
        for i, tag in enumerate(tags, start):
            kept = segmenter.tags.index(f"{tag}-{word.tag_}")
            score = unary[i, kept]
            unary[i] = -np.inf
            unary[i, kept] = score
        pinned = Potentials(unary, potentials.transitions, potentials.lengths)
        expected = np.exp(CRF().log_partition(pinned)[0] - log_z)
        assert word._.tag_confidence == pytest.approx(expected, rel=1e-4)
    assert 0 < words._.sequence_probability <= 1
    (best, *_), *_ = segmenter.nbest([characters], n=3)
    assert [span.text for span in best.annotation] == [word.text for word in words]
    assert best.probability == pytest.approx(words._.sequence_probability, rel=1e-4)
    (candidates,) = segmenter.entity_candidates([characters])
    assert {span.text for span, _ in candidates} >= {word.text for word in words}
    assert segmenter.uncertainty([characters]) > 0


def test_calibration_leaves_out_words_without_a_tag(nlp):
    examples = TestSegmenter.examples(nlp, [*TestSegmenter.data, TestSegmenter.partial[0]])
    calibration = Calibration(nlp.get_pipe("bcrf_segmenter"), examples)
    assert calibration.correct.tolist() == [True] * 9


def test_later_components_receive_words():
    nlp = blank()
    TestSegmenter().add(nlp)
    nlp.add_pipe("bcrf_ner", config={"model": network()})
    examples = TestSegmenter.examples(nlp, TestSegmenter.data)
    for eg, start in zip(examples, (3, 2), strict=True):
        eg.reference.set_ents([eg.reference[start : start + 1]], default="outside")
        eg.reference.ents = [Span(eg.reference, start, start + 1, label="FOOD")]
    nlp.initialize(lambda: examples, sgd=optimizer())
    for _ in range(30):
        nlp.update(examples, annotates=["bcrf_segmenter"])
    scores = nlp.evaluate(examples)
    assert scores["tagged_token_f"] == scores["ents_f"] == 1.0
    doc = nlp("我喜欢绿鸡蛋")
    assert [(ent.text, ent.end - ent.start) for ent in doc.ents] == [("鸡蛋", 1)]


def test_an_untagged_word_allows_all_labels_within_its_boundaries(nlp):
    segmenter = nlp.get_pipe("bcrf_segmenter")
    examples = TestSegmenter.examples(nlp, TestSegmenter.partial[:1])
    allowed = segmenter.read_gold(examples).tags
    found = ["".join(sorted({segmenter.tags[i] for i in np.flatnonzero(row)})) for row in allowed]
    assert found == ["S-JS-NS-V", "B-V", "E-V", "S-J", "B-JB-NB-V", "E-JE-NE-V"]
