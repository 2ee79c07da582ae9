"""De-identified texts, and what is left of the gold spans."""

import json
import math
import unicodedata
from itertools import accumulate

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_bcrf.annotation.folding import Folded, StringIndex, fold
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.judging.folds import fit_sparse_chain, train_sparse_chain
from spacy_bcrf.pipeline.factories import NER_MODEL
from spacy_bcrf.pipeline.settings import Control
from spacy_bcrf.privacy.documents import read_document
from spacy_bcrf.privacy.leaks import measure_leaks
from spacy_bcrf.privacy.occurrences import Region, Words, find_strings
from spacy_bcrf.privacy.redact import Redacted, redact, replace_spans, replace_texts
from spacy_bcrf.privacy.replacer import Replacer

NAMES = ("Ann Lee", "Bob Ray", "Eve May", "Ida Fox")
PLACES = ("Rome", "Oslo", "Kiel", "Bonn")


def make_docs(vocab):
    docs = []
    for name in NAMES:
        for place in PLACES:
            words = [*name.split(), "saw", place, "and", "will", "see", "it", "."]
            ents = ["B-PER", "I-PER", "O", "B-LOC", *["O"] * 5]
            docs.append(Doc(vocab, words=words, ents=ents))
    return docs


@pytest.fixture(scope="module")
def nlp():
    vocab = spacy.blank("en").vocab
    docs = make_docs(vocab)
    # Words outside of entities, so that "will" and "of" are none.
    for text in (
        "it will see .",
        "and so it is .",
        "they saw it .",
        "so it is it 's , it 's and it 's .",
    ):
        docs.append(Doc(vocab, words=text.split(), ents=["O"] * len(text.split())))
    return train_sparse_chain(docs, ["LOC", "PER"], lang="en")


def run(nlp, text, **options):
    (found,) = redact(nlp, [nlp.make_doc(text)], **{"threshold": 0.3, **options})
    return found


def test_labels_replace_spans_and_the_new_spans_are_found(nlp):
    found = run(nlp, "Ann Lee saw Rome and will see it .")
    assert found.text == "[PER] saw [LOC] and will see it ."
    assert [found.text[s.start : s.end] for s in found.spans] == ["[PER]", "[LOC]"]
    assert [(r.start, r.end) for r in found.regions] == [(0, 7), (12, 16)]
    line = json.dumps(found.to_json())
    assert "Ann" not in line and "Rome" not in line


def test_further_occurrences_are_replaced(nlp):
    text = "Ann Lee saw Rome and will see it . so it is ROME 's , Lee 's and lee 's ."
    pipe = nlp.get_pipe("ner")
    only = pipe.entity_candidates([nlp.make_doc(text)], 0.3)[0]
    found = run(nlp, text)
    assert len(found.regions) > len({(c.span.start, c.span.end) for c in only})
    kept = found.text.split()
    # The case of whole strings does not matter; a word of a name is none in lower case.
    assert "ROME" not in kept and "Lee" not in kept
    assert "lee" in kept and "will" in kept and kept.count("'s") == 3
    assert any(region.repeated for region in found.regions)


def test_the_surrogates_of_equal_words_are_equal_and_keep_their_form():
    replacer = Replacer("surrogate", b"key")
    full, part, upper = (replacer.replace(x, "PER") for x in ("Ann Lee", "Lee", "LEE"))
    assert full.split()[1] == part and upper == part.upper() != "LEE"
    number = replacer.replace("+49 (30) 1234-x7", "PHONE")
    assert len(number) == 16 and number[0] == "+" and number[4] == "(" and number[7] == ")"
    assert all(a.isdigit() == b.isdigit() for a, b in zip(number, "+49 (30) 1234-x7", strict=True))
    for text in ("Straße", "Żółć", "東京都", "Москва", "résumé"):
        other = replacer.replace(text, "X")
        assert len(other) == len(text) and fold(other) != fold(text)
    assert Replacer("surrogate", b"other").replace("Ann Lee", "PER") != full
    assert Replacer("mask", b"").replace("Ann-7 Übel, No. 12", "X") == "Xxx-# Xxxx, Xx. ##"


def test_surrogates_do_not_tell_which_digit_they_hide():
    """A digit may be its own surrogate, a word never is, so no digit is absent at a place."""
    replacer = Replacer("surrogate", b"key")
    found = [replacer.replace(f"48213{n:06}", "ID") for n in range(400)]
    assert all(len({new[place] for new in found}) == 10 for place in range(5))
    assert all(replacer.replace(x, "X") != x for x in "0123456789aeiou")
    assert not any(map(is_control, replacer.replace("O\u00adbama", "X")))
    with pytest.raises(ValueError, match="key is empty"):
        Replacer("surrogate", b"")


def is_control(character):
    return unicodedata.category(character) == "Cc"


def test_entities_of_earlier_components_are_replaced(nlp):
    ruler = nlp.add_pipe("entity_ruler", before="ner")
    ruler.add_patterns([{"label": "MAIL", "pattern": [{"LIKE_EMAIL": True}]}])
    try:
        ruler.add_patterns([{"label": "PHONE", "pattern": [{"SHAPE": "dddd"}]}])
        found = run(nlp, "they saw x@y.org , 0171 . so it is 0171 .")
        assert found.text == "they saw [MAIL] , [PHONE] . so it is [PHONE] ."
        found = run(nlp, "it is 0171 ; mobile0171 .")
        assert found.text == "it is [PHONE] ; mobile[PHONE] ."
    finally:
        nlp.remove_pipe("entity_ruler")


def test_the_promise_gives_the_threshold(nlp):
    ner = nlp.get_pipe("ner")
    text = "Ann Lee saw Rome and will see it ."
    with pytest.raises(ValueError, match=r"\[ner\] has no promise of recall: run `control`"):
        run(nlp, text, threshold=None)
    ner.control = Control("recall", ("LOC",), (0.3,))
    try:
        assert run(nlp, text, threshold=None).text == "Ann Lee saw [LOC] and will see it ."
        assert run(nlp, text).text.startswith("[PER]")
        assert ner.control.labels == ("LOC",)
    finally:
        ner.control = None
    with pytest.raises(ValueError, match=r"style must be one of label, surrogate, .*, got 'x'"):
        run(nlp, text, style="x")


def test_a_shipped_promise_is_chosen_by_name(nlp):
    promise = {"promise": "recall", "labels": ["LOC"], "thresholds": [0.3]}
    nlp.meta["promises"] = {"ner": {"covered": promise, "exact": {**promise, "promise": "x"}}}
    nlp.meta["promises"]["ner"]["by label"] = promise
    try:
        found = run(nlp, "Ann Lee saw Rome .", threshold=None, promise="covered")
        assert found.text == "Ann Lee saw [LOC] ." and nlp.get_pipe("ner").control is None
        with pytest.raises(
            ValueError, match="no promise 'exact' of recall; it has 'covered', 'by label'"
        ):
            run(nlp, "", threshold=None, promise="exact")
        with pytest.raises(ValueError, match="give `promise=covered` or `promise='by label'`, or"):
            run(nlp, "", threshold=None)
    finally:
        del nlp.meta["promises"]


def test_a_text_that_fails_is_an_error_and_the_others_are_redacted(nlp):
    def fail(doc):
        if "bad" in doc.text:
            raise ValueError("fails")
        return doc

    Language.component("fail_at_bad", func=fail)
    nlp.add_pipe("fail_at_bad", first=True)
    docs = [nlp.make_doc(f"Ann Lee saw {x} .") for x in ("Rome", "bad", "Oslo")]
    try:
        found = list(redact(nlp, docs, threshold=0.3, return_exceptions=True))
        assert [getattr(x, "text", None) for x in found] == [
            *("[PER] saw [LOC] .", None),
            "[PER] saw [LOC] .",
        ]
        with pytest.raises(ValueError, match="fails"):
            list(redact(nlp, docs, threshold=0.3))
    finally:
        nlp.remove_pipe("fail_at_bad")


@pytest.mark.parametrize("text", ["", "  \n ", "?!"])
def test_texts_without_words_stay(nlp, text):
    assert run(nlp, text) == (text, [], [], [])


def test_leaks_are_counted_by_label_character_and_document(nlp):
    docs = make_docs(nlp.vocab)[:4]
    whole = [Region(0, 7, "PER", 1), Region(12, 16, "LOC", 1)]
    half = [Region(0, 3, "PER", 1), Region(12, 16, "LOC", 1), Region(21, 25, "X", 1)]
    redacted = [Redacted("", [], regions, []) for regions in (whole, whole, half, [])]
    report = measure_leaks(docs, redacted)
    every, loc, per = report.leaks
    assert [leak.label for leak in report.leaks] == [None, "LOC", "PER"]
    assert every.spans[:2] == (3, 8) and every.documents[:2] == (2, 4)
    assert per.characters[:2] == (3 + 6, 24) and loc.spans[:2] == (1, 4)
    assert every.documents[2:] == pytest.approx((0.0676, 0.9324), abs=1e-4)
    assert every.spans[2] < 3 / 8 < every.spans[3]
    n_other = sum(c.isalnum() for c in docs[0].text) * 4 - 4 * 10
    assert report.replaced == pytest.approx(4 / n_other)
    clean = measure_leaks(docs, redacted[:1] * 4)
    assert clean.leaks[0].spans[:3] == (0, 8, 0) and clean.leaks[0].spans[3] > 0.5
    assert json.loads(json.dumps(report.to_json()))["leaks"][0]["label"] is None
    assert "2 of 4 documents with gold spans leak, at most 93.2%" in repr(report)
    assert report.rows()[1][0] == "all" and "<table>" in report._repr_html_()


def test_spans_that_may_overlap(nlp):
    """Each label has a chain of its own: a repeated word counts in any of them."""
    own = spacy.blank("en")
    pipe = own.add_pipe("bcrf_spans", config={"model": NER_MODEL})
    docs = make_docs(own.vocab)
    for doc in docs:
        doc.spans["sc"] = [*doc.ents, Span(doc, 0, 4, label="EVENT")]
    fit_sparse_chain(own, [Example(copy_words(doc, own.vocab), doc) for doc in docs], 10)
    pipe.control = Control("recall", ("PER",), (0.3,))
    text = "Ann Lee saw Rome and will see it . Ann Lee saw Rome and will see it ."
    labels = [region.label for region in run(own, text, threshold=None).regions]
    assert labels == ["PER", "PER"]
    (one,) = redact(own, [copy_words(docs[0], own.vocab)], threshold=0.3)
    leaks = measure_leaks([docs[0]] * 2, [one, Redacted("", [], [], [])], spans_key="sc").leaks
    assert [leak.label for leak in leaks] == [None, "EVENT", "LOC", "PER"]
    assert [leak.spans[:2] for leak in leaks] == [(3, 6), (1, 2), (1, 2), (1, 2)]
    inside = 1 - np.prod(pipe.token_marginals([docs[0]])[0][:, [0, 5, 10]], axis=1)
    assert len(pipe.tags) == 15 and (inside[:4] > 0.5).all()


def test_leaks_of_one_document_have_no_interval(nlp):
    """Once, it had no width: "1 of 2 (50.0 to 50.0%)"."""
    docs = make_docs(nlp.vocab)[:3]
    docs[0].ents = [Span(docs[0], 0, 1, "ID"), Span(docs[0], 1, 2, "ID")]
    half = Redacted("", [], [Region(0, docs[0][1].idx, "ID", 1)], [])
    every, of_id, *_ = measure_leaks(docs, [half] * 3).rows()[1:]
    assert "%" in every[1] and of_id[:2] == ("ID", "1 of 2")


def test_leaks_without_an_entity_and_of_one_document(nlp):
    nothing = Redacted("it .", [], [], [])
    doc = Doc(nlp.vocab, words=["it", "."], ents=["O", "O"])
    (every,) = measure_leaks([doc], [nothing]).leaks
    assert every.spans[:2] == (0, 0) and math.isnan(every.documents[3])
    with pytest.raises(ValueError, match="expected gold documents, got none"):
        measure_leaks([], [])
    assert measure_leaks([doc], [nothing]).rows()[1] == ("all", *["none annotated"] * 3, "0")


def test_the_pipeline_is_as_before_between_two_documents(nlp):
    nlp.add_pipe("sentencizer", last=True)
    try:
        found = redact(nlp, [nlp.make_doc("Ann Lee saw Rome .")] * 2, threshold=0.3)
        next(found)
        assert nlp.disabled == [] and nlp.get_pipe("ner").control is None
    finally:
        nlp.remove_pipe("sentencizer")


REPEATS = {
    "an apostrophe": ("O'Brien met", "The O'Brien report; O\u2019Brien, o'brien, O'BRIEN's."),
    "a combining mark": (
        "Jose\u0301 Mart\u00ednez met",
        "Marti\u0301nez, MART\u00cdNEZ, Martinez.",
    ),
    "Hindi": ("अमिताभ बच्चन met", "अमिताभ; बच्चन."),
    "zero width": ("Obama met", "\u200bObama, Oba\u200bma, \u202aObama\u202c, O\u00adbama."),
    "full width": (
        "Obama met",
        "\uff2fbama, @Obama, obama@x.com, Obama_Bush, x/obama.",
    ),
    "lines": ("Ann Lee met", "Ann\nLee, ann\u00a0 lee."),
    "escapes": ("Obama met", r"\nObama, \u0022Obama\", C:\temp\obama, a%20Obama%2cObama."),
    "glued": ("Obama met", "Obama2024, obamas, the Obamas', 2024Obama, user=obama_2."),
    "joined": (
        "John Smith met",
        "john_smith, johnsmith@x.org, JohnSmith, /john.smith/, john-smith2, john smith.",
    ),
    "joined initials": ("J. Smith met", "j_smith, j.smith@x.org, J-Smith."),
    "joined ends": ("John F. O'Neil met", "john o'neil, john_f_o'neil, john.o'neil."),
    "Hangul": ("한국 met", "한국에서 \u1112\u1161\u11ab\u1100\u116e\u11a8."),
    "Chinese": ("东京 met", "在东京的."),
}


def replace(nlp, text, names, style="label", inside=0.5):
    """The redacted text where each of the names is found at its first place."""
    doc = nlp.make_doc(text)
    spans = [Region(text.index(x), text.index(x) + len(x), "X", p) for x, p in names.items()]
    return replace_spans(doc, spans, np.full(len(doc), inside), Replacer(style, b"key"))


@pytest.mark.parametrize("first, then", REPEATS.values(), ids=REPEATS)
def test_other_forms_of_a_found_string_are_replaced(nlp, first, then):
    name = first.removesuffix(" met")
    one = replace(nlp, f"{first} Bob. {then}", {name: 0.9})
    (rest,) = (one.text.split("Bob. ")[1:],)
    words = {fold(x) for x in (name, *name.split()) if len(x) > 2}
    assert not any(word in fold(rest[0]) for word in words), rest
    assert not one.left


def test_other_words_stay(nlp):
    text = "Ann met Bob. Annual channels of Anna, annex. Nam met मा and म."
    assert replace(nlp, text, {"Ann": 0.9}).text == text.replace("Ann", "[X]", 1)
    one = replace(nlp, "म met मा and म.", {"म": 0.9})
    assert one.text == "[X] met मा and [X]."
    assert replace(nlp, "가 met 각, \u1100\u1161\u11a8.", {"가": 0.9}).text.endswith("\u11a8.")


def test_short_numbers_in_a_found_string_say_nothing_alone(nlp):
    text = "10 : 1 took 10 ms . No. 39428 / 96 of 96 : 39428 ."
    one = replace(nlp, text, {"10 : 1": 0.9, "39428 / 96": 0.9})
    assert one.text == "[X] took 10 ms . No. [X] of 96 : [X] ." and not one.left


def test_joined_names_share_the_posterior_of_the_name(nlp):
    """A found name makes its user name probable, but not a frequent word that looks like it."""
    for n, expected in ((3, "[PER] met [PER] [PER] [PER]"), (20, "[PER] met" + " alsoft" * 20)):
        doc = nlp.make_doc("Al Soft met" + " alsoft" * n)
        inside = np.array([0.9, 0.9, *[0.0] * (len(doc) - 2)])
        spans = [Region(0, 7, "PER", 0.9)]
        one = replace_spans(doc, spans, inside, Replacer("label"))
        assert one.text == expected and len(one.left) == expected.count("alsoft")


@pytest.mark.parametrize(
    ("kind", "source", "n"),
    [
        (".json", '{"x": "José Lee saw it", "Jos\\u00e9 Lee": 1, "josé_lee": "so"}', 2),
        (".html", "<p id='jos&eacute;_lee' class='José Lee'>José Lee saw <b>it</b></p>", 2),
        (".csv", "José Lee;n\nJosé Lee saw it;1\n", 1),
        (".md", "José Lee saw it\n\n~~~José Lee\nso\n~~~\n", 1),
        ("", "José Lee saw it", 0),
    ],
)
def test_names_in_markup_are_counted(nlp, kind, source, n):
    """Names of fields, tags and ids stay, but are no silent leak."""
    document, docs = read_document(source, kind), []
    for intro, (start, end) in zip(document.intros, document.texts, strict=True):
        doc, at = nlp.make_doc(intro + document.text[start:end]), len(intro)
        is_name = document.text[start:end].startswith("José")
        spans = [Region(at, at + 8, "PER", 0.9)] if is_name else []
        docs.append((doc, (spans, np.full(len(doc), 0.5 * bool(spans)))))
    left = replace_texts(document, docs, Replacer("label")).left
    assert len([place for place in left if place.end - place.start == len("José Lee")]) == n


def test_a_long_text_is_not_searched_for_each_name(nlp):
    """Else many names take quadratic time."""
    searched = []

    class Text(str):
        def __contains__(self, form):
            searched.append(form)
            return super().__contains__(form)

    names = ["Ann Lee", *(f"B{a}n{b} C{b}r{a}" for a in "aeiouy" for b in "aeiouy")] * 200
    text = " ".join([*names, "ann_lee"])
    ends = list(accumulate(len(name) + 1 for name in names))
    spans = [
        Region(end - 1 - len(x), end - 1, "X", 0.9) for x, end in zip(names, ends, strict=True)
    ]
    strings = find_strings(Words.of(nlp.make_doc(text), text), spans, Text(fold(text)))
    assert {string.text for string in strings if string.name} == {"ann_lee"} == set(searched)


def test_a_longer_string_does_not_undo_the_repeats_of_a_shorter_one(nlp):
    text = "ann met Ann Lee, then ann left with Lee and lee."
    one = replace(nlp, text, {"ann": 0.6, "Ann Lee": 0.9})
    assert one.text == "[X] met [X], then [X] left with [X] and lee."


def test_each_string_is_replaced_wherever_it_occurs(nlp):
    rng = np.random.default_rng(0)
    words = ["ann", "Ann", "Lee", "lee", "Ann's", "met", "of", "O'Lee", "A\u0301nn"]
    for _ in range(1000):
        doc = Doc(nlp.vocab, words=rng.choice(words, 9).tolist())
        starts = rng.integers(0, 8, rng.integers(1, 4)).tolist()
        spans = [
            Region(doc[i].idx, doc[j].idx + len(doc[j]), "X", float(rng.random()))
            for i, j in zip(starts, (i + int(rng.integers(2)) for i in starts), strict=True)
        ]
        one = replace_spans(doc, spans, rng.uniform(0.1, 1, 9), Replacer("label", b""))
        rest = f" {fold(one.text)} "
        for start, end, *_ in spans:
            name = fold(doc.text[start:end]).removesuffix("'s")
            assert f" {name} " not in rest and f" {name}'s " not in rest, (doc, spans, one.text)
        assert not one.left


def test_a_long_string_takes_no_quadratic_memory():
    """A long address has thousands of units, so all its beginnings would take gigabytes."""
    index, address = StringIndex(), "x.org/" + "a-1/" * 5000
    strings = (address, address + "b", address[:102], "x.org", "a-1")
    for string in (*strings, address):
        index.add(string)
    assert sum(map(len, index._beginnings)) < 10_000
    folded = Folded(f"see {address} or {address}b")
    found, cut = index.find(folded)
    assert cut == len(folded.text)
    for string in strings:
        assert [(a, b) for x, a, b in found if x == string] == list(folded.find(string))
    assert index.find(Folded(f"see {address[:9000]}"))[1] == len("see ")


def test_what_stands_in_the_output_counts(nlp):
    """An improbable repeat stays, and the report has it."""
    text = "Will met Bob. They will see. No will."
    doc = nlp.make_doc(text)
    spans = [Region(0, 4, "PER", 0.9)]
    inside = np.array([0.2, *[0.0] * (len(doc) - 1)])
    one = replace_spans(doc, spans, inside, Replacer("label", b""))
    assert one.text == "[PER] met Bob. They will see. No will."
    assert [one.text[r.start : r.end] for r in one.left] == ["will", "will"]
    gold = Doc(nlp.vocab, words=[t.text for t in doc], ents=["B-PER", *["O"] * (len(doc) - 1)])
    report = measure_leaks([gold, gold], [one, one._replace(left=[])])
    every = report.leaks[0]
    assert (every.spans[:2], every.documents[:2], every.strings) == ((0, 2), (1, 2), 2)
    assert "found strings still stand at 2 places" in repr(report)
    # A document without gold spans is in no share, whether it has a leak or not.
    other = Doc(nlp.vocab, words=[t.text for t in doc], ents=["O"] * len(doc))
    every, *_ = measure_leaks([gold, gold, other, other], [one, one._replace(left=[])] * 2).leaks
    assert (every.documents[:2], every.strings) == ((1, 2), 4)
    masked = replace(nlp, "Xx met Bob", {"Xx": 0.9}, "mask")
    assert masked.text == "Xx met Bob" and len(masked.left) == 1


@pytest.mark.parametrize("label", ["CREDIT_CARD", "credit-card"])
@pytest.mark.parametrize("style", ["label", "numbered"])
def test_a_placeholder_has_nothing_of_a_text(nlp, label, style):
    doc = nlp.make_doc("my Card 401")
    span = Region(3, 11, label, 0.9)
    one = replace_spans(doc, [span], np.full(len(doc), 0.9), Replacer(style, b""))
    expected = f"my [{label}]" if style == "label" else "my [CREDIT_CARD_1]"
    assert one.text == expected and not one.left


@pytest.mark.parametrize("style", ["surrogate", "mask", "shifted"])
@pytest.mark.parametrize(
    "word",
    [
        "Анна",
        "Ελένη",
        "ΕΛΈΝΗ",
        "Łódź",
        "ガーナ",
        "Straße",
        "किताब",
        "Ⓐⓝⓝ",
        "🅰🅽🅽",
        "ﬁx",
        "Jose\u0301",
    ],
)
def test_marks_and_symbols_are_replaced_and_the_form_is_kept(word, style):
    for n in range(256):
        new = Replacer(style, bytes([n])).replace(word, "X")
        assert len(new) == len(word)
        assert fold(new) != fold(word)
        if style == "surrogate":
            assert all(a.isupper() == b.isupper() for a, b in zip(new, word, strict=True))


def test_equal_words_in_other_forms_have_equal_surrogates():
    replacer = Replacer("surrogate", b"key")
    one, other = (replacer.replace(x, "X") for x in ("Ελενη", "ΕΛΕΝΗ"))
    assert other == one.upper()
    assert fold(replacer.replace("José", "X")) == fold(replacer.replace("Jose\u0301", "X"))


def test_a_plural_ending_does_not_cut_a_character():
    assert list(Folded("\u00df").find("s")) == []  # folds to ss
