"""`bcrf_identifiers` before a chain: fixed entities, a feature of neighbours, and streams."""

import pytest

pytest.importorskip("phonenumbers", reason="needs the extra identifiers")

import pickle
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_bcrf.loading import make_examples
from spacy_bcrf.privacy.redact import redact
from spacy_bcrf.privacy.redact_stream import RedactionStream
from spacy_bcrf.promises.evidence import Evidence

TEXTS = [
    "Call Ann Lee at +44 161 496 0257, or write to ann@lee.example. Ann Lee knows.",
    "user=ann.lee from 203.0.113.87: Bob Ray paid with 5500 0055 5555 5559, Bob Ray said",
    "Tel. 0161 496 0118\nEve Day\n\n-----BEGIN PRIVATE KEY-----\nMIIE a\n-----END PRIVATE KEY-----",
]
NUMBERS = "exp 2027 4111 1111 1111 1111 5500 0055 5555 5559 Tel: 0161 496 0118/0161 496 0118 x"


@pytest.fixture(scope="module", params=[True, False], ids=["split", "spacy"])
def nlp(request: Any) -> Language:
    split = {"nlp": {"tokenizer": {"@tokenizers": "spacy-bcrf.SplitTokenizer.v1"}}}
    nlp = spacy.blank("en", config=split if request.param else {})
    nlp.add_pipe("bcrf_identifiers", config={"regions": ["GB"]})
    templates = ["lower[-1..1]", "ent_type[-1..1]", "gazetteer.names[-1..1]"]
    lists = {"names": ["ann lee", "Lee", "lee . example", "Bob Ray", ", Bob", "Tel . 0161", "exp"]}
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": templates}
    model["gazetteers"] = lists
    nlp.add_pipe("bcrf_ner", config={"model": model | {"objective": "crf"}})
    find: Any = nlp.get_pipe("bcrf_identifiers")
    examples = [Example(find(nlp.make_doc(text)), gold(nlp, text)) for text in TEXTS]
    nlp.initialize(lambda: examples)
    for _ in range(5):
        nlp.update(examples)
    return nlp


def gold(nlp: Language, text: str) -> Doc:
    doc = nlp.make_doc(text)
    names = ("Ann Lee", "Bob Ray", "Eve Day")
    starts = [(i, name) for name in names for i in range(len(text)) if text.startswith(name, i)]
    doc.ents = [doc.char_span(i, i + len(name), "PERSON") for i, name in sorted(starts)]
    return doc


def show(spans: Sequence[Span]) -> list[tuple[str, str]]:
    return [(span.text, span.label_) for span in spans]


def test_identifiers_stay_and_the_chain_finds_the_rest(nlp: Language) -> None:
    found = show(nlp(TEXTS[0]).ents)
    assert {("Ann Lee", "PERSON"), ("+44 161 496 0257", "PHONE_NUMBER")} <= {*found}
    assert any(label == "EMAIL_ADDRESS" and "ann@lee.example" in text for text, label in found)


def test_processes_that_spawn_get_a_copy(nlp: Language) -> None:
    copied = pickle.loads(pickle.dumps(nlp.get_pipe("bcrf_identifiers")))
    assert show(copied(nlp.make_doc(TEXTS[1])).ents) == show(
        nlp.get_pipe("bcrf_identifiers")(nlp.make_doc(TEXTS[1])).ents
    )


def test_earlier_entities_stay(nlp: Language) -> None:
    doc = nlp.make_doc("write to ann@lee.example now")
    doc.ents = [Span(doc, 2, 4, "THING")]
    assert [ent.label_ for ent in nlp.get_pipe("bcrf_identifiers")(doc).ents] == ["THING"]


@pytest.mark.parametrize("sizes", [(1,), (3, 20), (200,)])
@pytest.mark.parametrize("text", [*TEXTS, NUMBERS])
def test_a_redacted_stream_equals_the_whole_text(
    nlp: Language, text: str, sizes: Sequence[int]
) -> None:
    stream, new, at = RedactionStream(nlp, threshold=0.2), "", 0
    for size in cycle(sizes):
        new += stream.feed(text[at : at + size])
        at += size
        if at >= len(text):
            break
    rest, report = stream.close()
    (whole,) = redact(nlp, [nlp.make_doc(text)], threshold=0.2)
    assert new + rest == whole.text
    assert [x[:3] for x in report.redacted.regions] == [x[:3] for x in whole.regions]
    assert not any(word in whole.text for word in ("0257", "lee.example", "5555", "MIIE", "0118"))


def test_a_stream_needs_other_labels(nlp: Language) -> None:
    other = spacy.blank("en")
    for factory in ("bcrf_identifiers", "bcrf_ner"):
        other.add_pipe(factory)
    reference = Doc(other.vocab, words=["a", "b"], ents=["B-KEY", "O"])
    other.initialize(lambda: [Example(other.make_doc("a b"), reference)])
    with pytest.raises(ValueError, match="both have the label KEY"):
        RedactionStream(other, threshold=0.2)


def test_a_covered_promise_counts_identifiers(nlp: Language) -> None:
    doc = nlp.make_doc("paid with 5500 0055 5555 5559")
    doc.ents = [doc.char_span(10, 29, "PERSON")]
    examples = make_examples(nlp, "bcrf_ner", [doc])
    evidence = Evidence(nlp.get_pipe("bcrf_ner"), examples, "recall", True)
    assert evidence.units.posteriors.tolist() == [1.0]
