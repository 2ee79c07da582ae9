"""Streams of components, against the annotation of the whole text."""

import random
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_bcrf.pipeline.stream import TOLERANCE, Final, Stream

NAMES = ["Ann", "Lee", "Bob", "Paris", "Bank", "of", "York", "Acme", "and", "Co"]
WORDS = [*"abcde.,\n", *NAMES, "met", "in", "the", "left"]
LINEAR = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": "ner", "objective": "crf"}
FOR_F = {**LINEAR, "decoder": "f"}
LABELS = ("PER", "LOC")
RECALL = {"promise": "recall", "labels": LABELS, "thresholds": (0.2, 0.3)}
MINIMUM = (0.3, 0.4)
PRECISION = {"promise": "precision", "labels": LABELS, "thresholds": MINIMUM, "temperature": 1.5}
MORE_PRECISE = {**PRECISION, "temperature": 1.0}
OVERLAPS = ["Bank of York", "of York", "York and Co", "Lee Lee", "a a", "a b a a", "b", "in the a"]
PHRASES = {
    **LINEAR,
    "templates": ["w[-1..1]", "gazetteer.x[-1..1]", "exact.x[0]|gazetteer.y[1]", "partial.y[0]"],
    "gazetteers": {"x": OVERLAPS, "y": ["ann", "Bob and\tco", "a a a", "e . d c b", "LEE met"]},
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "ner": ("bcrf_ner", {}),
    "ner BIO": ("bcrf_ner", {"scheme": "BIO"}),
    "ner threshold": ("bcrf_ner", {"threshold": 0.5}),
    "ner precision": ("bcrf_ner", {"control": PRECISION, "temperature": 1.5}),
    "ner recall": ("bcrf_ner", {"control": RECALL}),
    "ner f": ("bcrf_ner", {"model": FOR_F, "threshold": 0.25}),
    "ner BIO f": ("bcrf_ner", {"model": FOR_F, "threshold": 0.1, "scheme": "BIO"}),
    "ner f by label": ("bcrf_ner", {"model": FOR_F, "threshold": {"PER": 0.15, "LOC": 0.3}}),
    "ner f precision": ("bcrf_ner", {"model": FOR_F, "threshold": 0.15, "control": MORE_PRECISE}),
    "ner f recall": ("bcrf_ner", {"model": FOR_F, "threshold": 0.3, "control": RECALL}),
    "ner phrases": ("bcrf_ner", {"model": PHRASES}),
    "ner phrases recall": ("bcrf_ner", {"model": PHRASES, "control": RECALL}),
    "tagger phrases": ("bcrf_tagger", {"model": {**PHRASES, "decoder": "viterbi"}}),
    "spans f": ("bcrf_spans", {"model": FOR_F, "threshold": 0.15}),
    "spans f layers": ("bcrf_spans", {"model": FOR_F, "threshold": 0.1, "layers": 2}),
    "chunker": ("bcrf_chunker", {"model": LINEAR}),
    "tagger": ("bcrf_tagger", {}),
    "tagger threshold": ("bcrf_tagger", {"threshold": 0.4}),
    "spans": ("bcrf_spans", {"threshold": 0.4}),
    "spans recall": ("bcrf_spans", {"layers": 2, "control": RECALL}),
    "segmenter": ("bcrf_segmenter", {"model": {**LINEAR, "templates": "segmentation"}}),
}


def draw(rng: random.Random, n: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(n))


def annotate(doc: Doc, factory: str, rng: random.Random) -> Doc:
    """Annotate at random, so that posteriors are neither 0 nor 1."""
    bounds = [(i, min(i + rng.randint(1, 3), len(doc))) for i in range(0, len(doc), 3)]
    spans = [
        Span(doc, i, k, label=rng.choice(LABELS))
        for i, k in bounds
        if rng.random() < 0.6 and not (doc[i].is_space or doc[k - 1].is_space)
    ]
    if factory == "bcrf_ner":
        doc.ents = spans
    elif factory == "bcrf_chunker":
        doc.spans["chunks"] = spans
    elif factory == "bcrf_spans":
        doc.spans["sc"] = spans + [Span(doc, s.start, s.start + 1, label="PER") for s in spans]
    else:
        for token in doc:
            token.tag_ = rng.choice("AB")
    return doc


@cache
def pipeline(kind: str) -> Language:
    factory, config = KINDS[kind]
    rng = random.Random(0)
    characters = {"@tokenizers": "spacy-bcrf.CharTokenizer.v1"}
    is_segmenter = factory == "bcrf_segmenter"
    nlp = spacy.blank("xx", config={"nlp": {"tokenizer": characters}} if is_segmenter else {})
    nlp.add_pipe(factory, name="x", config=config)
    words = Tokenizer(nlp.vocab)  # splits at blanks
    texts = [draw(rng, rng.randint(3, 25)) for _ in range(40)]
    gold = [annotate(words(text), factory, rng) for text in texts]
    examples = [Example(nlp.make_doc(text), doc) for text, doc in zip(texts, gold, strict=True)]
    nlp.initialize(lambda: examples)
    for _ in range(2):
        nlp.update(examples)
    return nlp


def run(nlp: Language, text: str, seed: int, **options: Any) -> tuple[Stream, Final]:
    """Feed a text in random pieces, and join what is final."""
    rng, at = random.Random(seed), 0
    stream = nlp.get_pipe("x").stream(nlp.tokenizer, **options)
    found = []
    while at < len(text):
        size = rng.randint(1, 40)
        found.append(stream.feed(text[at : at + size]))
        at += size
    found.append(stream.close())
    return stream, Final(*([*chain.from_iterable(parts)] for parts in zip(*found, strict=True)))


@pytest.mark.filterwarnings("ignore:.*in no layer")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(0, 60))
def test_equals_the_whole(kind: str, seed: int, n: int) -> None:
    nlp, text = pipeline(kind), draw(random.Random(seed), n)
    pipe, doc = nlp.get_pipe("x"), nlp.make_doc(text)
    is_span = pipe.codec.spans is not None
    _, found = run(nlp, text, seed, probabilities=is_span)
    assert found.text == text
    (prediction,) = pipe.predict([doc])
    spans = [(s.start, s.end, pipe.labels.index(s.label)) for s in sorted(found.spans)]
    if pipe.codec.layered:
        assert prediction.spans
        expected, p = prediction.spans
    else:
        tags, lengths = prediction.tags, np.array([len(doc)])
        empty = "O" if is_span else ""
        assert found.tags == [pipe.tags[tag] if tag >= 0 else empty for tag in tags.tolist()]
        parts = pipe.codec.predictions(tags, lengths)
        expected = list(zip(*(part.tolist() for part in parts), strict=True)) if is_span else []
        p = pipe.confidences(pipe.posterior(pipe.find_potentials([doc])), parts)
    assert sorted(spans) == sorted(expected)
    if is_span:
        by_span = dict(zip(expected, p.tolist(), strict=True))
        for span, key in zip(sorted(found.spans), spans, strict=True):
            assert span.probability == pytest.approx(by_span[key], abs=1.1 * TOLERANCE)
            assert text[span.start_char : span.end_char] == doc[span.start : span.end].text
    wanted = sorted((s, e, pipe.labels[k], p) for s, e, k, p in prediction.candidates or [])
    candidates = sorted((s.start, s.end, s.label, s.probability) for s in found.candidates)
    assert [one[:3] for one in candidates] == [one[:3] for one in wanted]
    expected_p = pytest.approx([p for *_, p in wanted], abs=1.1 * TOLERANCE)
    assert [p for *_, p in candidates] == expected_p


@pytest.mark.parametrize("kind", ["ner", "ner BIO f"])
@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_max_lag(kind: str, seed: int, max_lag: int) -> None:
    """Nothing waits longer, the tags are valid, and `forced` counts all that may differ."""
    nlp, text = pipeline(kind), draw(random.Random(seed), 60)
    pipe, stream = nlp.get_pipe("x"), nlp.get_pipe("x").stream(max_lag=max_lag)
    doc, tags, spans = nlp.make_doc(text), [], []
    for i in range(len(doc)):
        final = stream.feed(doc[i : i + 1])
        assert len(stream._words) <= max_lag + 2  # the templates read two words ahead
        tags, spans = tags + final.tags, spans + final.spans
    final = stream.close()
    tags, spans = tags + final.tags, spans + final.spans
    ids = np.array([pipe.tags.index(tag) for tag in tags])
    starts, ends, _ = pipe.codec.predictions(ids, [len(doc)])  # ValueError for invalid tags
    assert [span[:2] for span in spans] == list(zip(starts.tolist(), ends.tolist(), strict=True))
    if not stream.forced:
        assert tags == [pipe.tags[tag] for tag in pipe.predict([doc])[0].tags.tolist()]


@pytest.mark.parametrize("kind", ["ner", "ner BIO", "ner recall", "spans"])
@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 2))
def test_max_lag_with_sentences_and_blank_lines(kind: str, seed: int, max_lag: int) -> None:
    """No forced tag is one from which no labeling goes on: an entity before a blank line and a
    sentence start.
    """
    rng, nlp = random.Random(seed), pipeline(kind)
    n = rng.randint(1, 12)
    words = [rng.choice([*NAMES, "\n", "\n\n"]) for _ in range(n)]
    starts = [not i or rng.random() < 0.3 for i in range(n)]
    doc = Doc(nlp.vocab, words=words, sent_starts=starts)
    stream, found = nlp.get_pipe("x").stream(max_lag=max_lag), []
    for i in range(n):
        found += stream.feed(doc[i : i + 1]).words
        # Candidates, and spans with a threshold, hold more words than their tags.
        assert stream._chain.final >= stream._chain.length - max_lag
    assert found + stream.close().words == [token.text_with_ws for token in doc]


def test_max_lag_at_a_blank_line() -> None:
    words = ["Acme", "\n\n", "Co", "left", "York", "Ann"]
    nlp = pipeline("ner")
    doc = Doc(nlp.vocab, words=words, sent_starts=[True, False, True, False, False, False])
    stream = nlp.get_pipe("x").stream(max_lag=1)
    found = [stream.feed(doc[i : i + 1]) for i in range(len(doc))] + [stream.close()]
    assert "".join(final.text for final in found) == doc.text_with_ws


def test_max_lag_keeps_the_promise() -> None:
    """An uncertain span is a candidate of recall, and no prediction of precision."""
    text = draw(random.Random(3), 200)
    for kind in ("ner recall", "ner precision"):
        nlp = pipeline(kind)
        doc, pipe = nlp.make_doc(text), nlp.get_pipe("x")
        stream, found = pipe.stream(max_lag=1), []
        for i in range(len(doc)):
            found.append(stream.feed(doc[i : i + 1]))
        found.append(stream.close())
        assert stream.forced
        (prediction,) = pipe.predict([doc])
        if kind == "ner recall":
            wanted = {(s, e, pipe.labels[k]) for s, e, k, _ in prediction.candidates}
            assert wanted <= {(s.start, s.end, s.label) for f in found for s in f.candidates}
        else:
            spans = [(s.start, s.end, LABELS.index(s.label)) for f in found for s in f.spans]
            starts, ends, labels = (np.array(x, "int64") for x in zip(*spans, strict=True))
            parts = starts, ends, np.array([pipe.labels.index(LABELS[k]) for k in labels])
            p = pipe.confidences(pipe.posterior(pipe.find_potentials([doc])), parts)
            assert (p >= np.array(MINIMUM)[labels] - TOLERANCE).all()


@pytest.mark.parametrize("kind", ["ner", "ner phrases"])
def test_annotated_documents(kind: str) -> None:
    """Sentence starts of earlier components count, as in the whole document, and so do phrases."""
    nlp = pipeline(kind)
    nlp.add_pipe("sentencizer", before="x") if "sentencizer" not in nlp.pipe_names else None
    try:
        doc = nlp.get_pipe("sentencizer")(nlp.make_doc(draw(random.Random(1), 60)))
    finally:
        nlp.remove_pipe("sentencizer")
    pipe = nlp.get_pipe("x")
    stream = pipe.stream()
    found = [stream.feed(doc[i : i + 7]) for i in range(0, len(doc), 7)]
    tags = [tag for final in [*found, stream.close()] for tag in final.tags]
    assert tags == [pipe.tags[tag] for tag in pipe.predict([doc])[0].tags.tolist()]


def test_a_part_of_a_document() -> None:
    """A stream may begin and end within a document, but loses nothing between its parts."""
    nlp = pipeline("ner")
    pipe, doc = nlp.get_pipe("x"), nlp.make_doc(draw(random.Random(2), 30))
    other = doc.copy()
    other.ents = [Span(other, 0, 2, label="PER")]
    stream = pipe.stream()
    found = [stream.feed(other[10:15])]  # the entity is in no token that is fed
    with pytest.raises(ValueError, match="token 15 of the document comes next, got a span from"):
        stream.feed(other[16:20])
    with pytest.raises(ValueError, match="token 15 of the document comes next, got a span from"):
        stream.feed(other)
    found += [stream.feed(other[15:20]), stream.feed(doc[20:22]), stream.close()]
    part = doc[10:22].as_doc()
    assert [word for final in found for word in final.words] == [t.text_with_ws for t in doc[10:22]]
    tags = [tag for final in found for tag in final.tags]
    assert tags == [pipe.tags[tag] for tag in pipe.predict([part])[0].tags.tolist()]


def test_memory_zones_keep_no_strings() -> None:
    """Each piece may have a zone of its own: a stream keeps its words itself."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", name="x")
    nlp.from_bytes(pipeline("ner").to_bytes())
    text = "Ann met newword1 in newplace2 and newname3 left newplace2 . Bob met newname4"
    stream = nlp.get_pipe("x").stream(nlp.tokenizer)
    known, found = len(nlp.vocab.strings), []
    for at in range(0, len(text), 5):
        with nlp.memory_zone():
            found.append(stream.feed(text[at : at + 5]))
    with nlp.memory_zone():
        found.append(stream.close())
    assert len(nlp.vocab.strings) == known
    doc = nlp.make_doc(text)
    tags = [tag for final in found for tag in final.tags]
    assert tags == [nlp.get_pipe("x").tags[tag] for tag in nlp.get_pipe("x").predict([doc])[0].tags]


def test_errors_lose_nothing() -> None:
    nlp = pipeline("ner")
    pipe = nlp.get_pipe("x")
    stream = pipe.stream(nlp.tokenizer)
    stream.feed("").words.append("of the caller")  # each result is its own
    found = [stream.feed(""), stream.feed("Ann Lee met ")]
    with pytest.raises(TypeError, match="a stream takes a text, a Doc or a Span, got bytes"):
        stream.feed(b"Bob")
    with pytest.raises(TypeError, match="text or documents, not both"):
        stream.feed(nlp.make_doc("Bob"))
    with pytest.raises(ValueError, match="lone surrogate"):
        stream.feed("\udcff")
    found += [stream.feed("Bob"), stream.close()]
    assert "".join(final.text for final in found) == "Ann Lee met Bob"
    for call in (stream.close, lambda: stream.feed("x")):
        with pytest.raises(ValueError, match=r"\[x\] the stream is closed"):
            call()
    with pytest.raises(TypeError, match="needs a tokenizer"):
        pipe.stream().feed("Ann")
    with pytest.raises(ValueError, match="max_lag must be at least 1"):
        pipe.stream(max_lag=0)
    doc = nlp.make_doc("Ann Lee")
    doc.ents = [Span(doc, 0, 2, label="PER")]
    with pytest.raises(ValueError, match="no preset entities"):
        pipe.stream().feed(doc)


@pytest.mark.parametrize("as_text", [True, False])
def test_scores_of_nan_lose_nothing(as_text: bool) -> None:
    """A piece whose scores are NaN is not taken: the stream goes on with others."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", name="x")
    nlp.from_bytes(pipeline("ner").to_bytes())
    stream = nlp.get_pipe("x").stream(nlp.tokenizer)
    pieces = ["Ann Lee met", " Bob and Co in Paris .", " Ann left York ."]
    stream._weights.flags.writeable = True
    of_all_tokens = stream._weights[len(nlp.get_pipe("x").tags)]
    known = of_all_tokens.copy()
    make: Any = str if as_text else nlp.make_doc
    found = [stream.feed(make(pieces[0]))]
    for call in (lambda: stream.feed(make(pieces[1])), stream.close):
        pending = len(stream._words)
        of_all_tokens[:] = np.nan
        with pytest.raises(ValueError, match=r"\[x\] the scores are NaN or infinite"):
            call()
        assert len(stream._words) == pending
        of_all_tokens[:] = known
    found += [stream.feed(make(piece)) for piece in pieces[1:]]
    found.append(stream.close())
    assert "".join(final.text for final in found) == "".join(pieces)
    if as_text:
        pipe, doc = nlp.get_pipe("x"), nlp.make_doc("".join(pieces))
        tags = [tag for final in found for tag in final.tags]
        assert tags == [pipe.tags[tag] for tag in pipe.predict([doc])[0].tags.tolist()]


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ({"two_pass": True}, "two_pass reads the whole document"),
        ({"templates": ["repeated[0]", "w[0]"]}, "its features repeated may read the whole"),
        ({"order": 2}, "order = 2"),
        ({"decoder": "mbr"}, "its decoder is mbr"),
        ({"objective": "bcrf"}, "its objective is bcrf"),
        (None, "a network may read the whole text"),
    ],
)
def test_components_that_cannot_stream(model: dict[str, Any] | None, why: str) -> None:
    nlp = spacy.blank("xx")
    config = {} if model is None else {"model": {**LINEAR, **model}}
    pipe = nlp.add_pipe("bcrf_segmenter" if model is None else "bcrf_ner", config=config)
    with pytest.raises(ValueError, match=rf"cannot stream: {why}"):
        pipe.stream(nlp.tokenizer)


def test_features_of_components() -> None:
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_chunker")
    with pytest.raises(ValueError, match="its features read tag, which other components set"):
        pipe.stream(nlp.tokenizer)


def test_later_special_cases_count() -> None:
    """Streams keep the tokens of words only as long as the tokenizer's rules stay the same."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", name="x")
    nlp.from_bytes(pipeline("ner").to_bytes())
    text = "Ann met BobLee in Paris . New York left BobLee . "
    for case in ("", "BobLee", "New York"):
        if case:
            parts = [{"ORTH": case[:3]}, {"ORTH": case[3:]}]
            nlp.tokenizer.add_special_case(case, parts)
        for seed in range(3):
            _, found = run(nlp, text, seed)
            assert found.words == [token.text_with_ws for token in nlp.make_doc(text)]
