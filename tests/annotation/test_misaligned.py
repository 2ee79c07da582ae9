"""Gold spans that cut tokens, beside a document."""

from collections.abc import Callable

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_bcrf.annotation.misaligned import (
    MisalignedSpan,
    add_misaligned,
    find_misaligned,
    find_touched,
)
from spacy_bcrf.readers.split_corpus import split_doc

VOCAB = spacy.blank("en").vocab
SEX, NUMBER = MisalignedSpan(5, 6, "SEX"), MisalignedSpan(12, 14, "NUMBER")


def make() -> Doc:
    """Return "Sexo H. Nhc-12 ." with a cut entity in the second and in the third token."""
    doc = Doc(VOCAB, words=["Sexo", "H.", "Nhc-12", "."], sent_starts=[True, False, True, False])
    add_misaligned(doc, NUMBER)
    add_misaligned(doc, SEX)
    add_misaligned(doc, SEX._replace(label="GROUPED"), "sc")
    return doc


@pytest.mark.parametrize(
    "copy",
    [
        lambda doc: doc,
        lambda doc: doc.copy(),
        lambda doc: Doc(VOCAB).from_bytes(doc.to_bytes()),
        lambda doc: Doc.from_docs([doc]),
        lambda doc: doc[:].as_doc(copy_user_data=True),
        lambda doc: next(
            DocBin()
            .from_bytes(DocBin(docs=[doc], store_user_data=True).to_bytes())
            .get_docs(spacy.blank("xx").vocab)
        ),
    ],
)
def test_copies_keep_the_spans(copy: Callable[[Doc], Doc]) -> None:
    doc = copy(make())
    assert find_misaligned(doc) == [SEX, NUMBER]
    assert find_misaligned(doc, "sc") == [SEX._replace(label="GROUPED")]
    assert find_misaligned(doc, "other") == []


def test_joined_documents_and_sentences_move_the_spans() -> None:
    doc = make()
    joined = Doc.from_docs([doc, doc])
    n = len(doc.text_with_ws)
    assert find_misaligned(joined)[2:] == [
        MisalignedSpan(span.start + n, span.end + n, span.label) for span in (SEX, NUMBER)
    ]
    first, second = split_doc(doc)
    assert [first.text, second.text] == ["Sexo H. ", "Nhc-12 . "]
    assert find_misaligned(first) == [SEX]
    assert find_misaligned(second) == [MisalignedSpan(4, 6, "NUMBER")]
    part = doc[2:].as_doc(copy_user_data=True)  # spaCy keeps the span before the part, too
    assert find_misaligned(part) == [MisalignedSpan(4, 6, "NUMBER")]


def test_touched_tokens() -> None:
    doc = make()
    assert find_touched(doc, find_misaligned(doc)) == {1, 2}
    assert find_touched(doc, [MisalignedSpan(0, 6, "X")]) == {0, 1}
    assert find_touched(doc, []) == set()


def test_they_are_no_entities_and_no_o() -> None:
    doc = make()
    example = Example(doc.copy(), doc)
    assert example.get_aligned_ner() == [None] * 4
