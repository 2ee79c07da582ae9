"""The tokenizer that fits the annotation of texts."""

import json
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.vocab import Vocab

from spacy_bcrf.annotation.misaligned import find_misaligned
from spacy_bcrf.annotation.token_differences import TokenDifferences
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.tokenization import (
    LEAST_SHARE,
    MOST_CUT,
    TokenFit,
    make_blank,
    match_tokens,
)
from spacy_bcrf.readers.doc_files import read_docs

TEXTS = [
    ("Sexo: H. Ada vino", [(6, 7, "SEX"), (9, 12, "PER")]),
    ("Nhc-12 y Ada", [(4, 6, "NUM"), (9, 12, "PER")]),
    ("Adavino", [(0, 3, "PER")]),  # no tokenizer fits
]


def write(path: Path, texts: Any = TEXTS) -> Path:
    """Write JSON lines in the format of doccano."""
    records = [{"text": text, "label": [list(span) for span in spans]} for text, spans in texts]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read(tmp_path: Path, tokenizer: Any, texts: Any = TEXTS, **options: Any) -> Any:
    messages: list[str] = []
    counts = convert(
        [write(tmp_path / "texts.jsonl", texts)],
        tmp_path / "out.spacy",
        lang="es",
        tokenizer=tokenizer,
        report=messages.append,
        **options,
    )
    return list(read_docs(tmp_path / "out.spacy", Vocab())), counts, messages


def ents(docs: Any) -> list[str]:
    return [ent.text for doc in docs for ent in doc.ents]


def test_auto_takes_the_tokenizer_that_keeps_spans(tmp_path: Path) -> None:
    docs, counts, _ = read(tmp_path, "auto")
    assert counts.tokenizer == "split"
    assert ents(docs) == ["H", "Ada", "12", "Ada"]
    assert [find_misaligned(doc) for doc in docs] == [[], [], [(0, 3, "PER")]]
    assert counts.left_out == {"cut tokens": 1}
    assert counts.fit.describe("es") == (
        "3 of 5 spans cut tokens of spaCy's tokenizer for es, such as 'H' in 'H.'; "
        "1 cut tokens of spacy-bcrf.SplitTokenizer.v1"
    )


def test_the_tokenizer_of_the_language_says_what_the_other_keeps(tmp_path: Path) -> None:
    docs, counts, messages = read(tmp_path, "language")
    assert counts.tokenizer == "language" and ents(docs) == ["Ada", "Ada"]
    assert messages[-1].startswith("3 of 5 spans cut tokens of spaCy's tokenizer for es")
    assert messages[-1].endswith("(`convert --tokenizer split`)")
    *_, messages = read(tmp_path, "split")
    assert not any("--tokenizer" in message for message in messages)


FITTING = ("Ada vino", [(0, 3, "PER")])


@pytest.mark.parametrize("texts", [[*TEXTS[2:], FITTING], [FITTING], [("Ada", [])]])
def test_auto_keeps_the_tokenizer_of_the_language(tmp_path: Path, texts: Any) -> None:
    _, counts, messages = read(tmp_path, "auto", texts)
    assert counts.tokenizer == "language"
    assert not any("--tokenizer" in message for message in messages)


@pytest.mark.parametrize("row", ["{word} B-X", "{n}\t{word}\t_\t_\t_\t_\t0\tdep\t_\tNER=B-X"])
def test_auto_keeps_the_tokens_of_columns(tmp_path: Path, row: str) -> None:
    file = tmp_path / "words.conll"
    rows = [row.format(n=n, word=word) for n, word in enumerate(["H.", "Ada"], 1)]
    file.write_text("\n".join([*rows, "", ""]))
    counts = convert([file], tmp_path / "out.spacy", lang="es", tokenizer="auto")
    (doc,) = read_docs(tmp_path / "out.spacy", Vocab())
    assert [token.text for token in doc] == ["H.", "Ada"] and counts.tokenizer == "language"


@pytest.mark.parametrize(
    ("tokenizer", "words"), [("auto", ["H.", "b"]), ("language", ["H", ".", "b"])]
)
def test_only_the_language_keeps_tokens_of_a_text(
    tmp_path: Path, tokenizer: Any, words: list[str]
) -> None:
    """A tool that marks characters has its own tokens, which no pipeline makes of a new text."""
    file = tmp_path / "words.jsonl"
    spans = [{"start": 3, "end": 4, "label": "X"}]
    record = {"text": "H. b", "tokens": ["H", ".", "b"], "spans": spans}
    file.write_text(json.dumps(record) + "\n")
    counts = convert([file], tmp_path / "out.spacy", lang="es", tokenizer=tokenizer)
    (doc,) = read_docs(tmp_path / "out.spacy", Vocab())
    assert [token.text for token in doc] == words
    assert [ent.text for ent in doc.ents] == ["b"] and counts.fit.cut == 0


def test_bad_spans_are_as_without_the_choice(tmp_path: Path) -> None:
    texts = [*TEXTS, ("a  b", [(1, 3, "X")])]
    *_, counts, messages = read(tmp_path, "auto", texts)
    assert counts.left_out == {"cut tokens": 1, "white space": 1}
    assert any("is white space" in message for message in messages)


def test_the_least_share_decides() -> None:
    doc = make_blank("es")("H. Ada")
    for n, chosen in ((int(0.8 / LEAST_SHARE), "split"), (int(2 / LEAST_SHARE), "language")):
        fit = TokenFit()
        fit.add(doc, [(0, 1, "SEX"), *[(3, 6, "PER")] * (n - 1)])
        assert (fit.spans, fit.cut, fit.kept, fit.chosen) == (n, 1, 1, chosen)
    words = make_blank("en")("#HappyLife, H.")
    for n, choice in ((int(0.8 / MOST_CUT), "capitals"), (int(2 / MOST_CUT), "split")):
        fit = TokenFit()
        fit.add(words, [(6, 10, "X"), *[(12, 13, "Y")] * (n - 1)])
        assert (fit.kept, fit.capitals, fit.chosen) == (n - 1, 1, choice)
    assert TokenFit().chosen == "language"


def test_an_unknown_tokenizer_is_named() -> None:
    with pytest.raises(ValueError, match="tokenizer 'x': expected language, split, capitals"):
        make_blank("es", "x")  # type: ignore[arg-type]


def test_documents_show_their_tokenizer() -> None:
    texts = [text for text, _ in TEXTS]
    texts.append("#HappyLife")
    for name in ("language", "split", "capitals"):
        assert match_tokens(list(map(make_blank("es", name), texts)), "es") == name  # type: ignore[arg-type]
    others = list(map(spacy.blank("en"), texts))
    assert match_tokens(others, "es") == "language"


def test_other_tokens_are_noted() -> None:
    plain, split = make_blank("es"), make_blank("es", "split")
    found = TokenDifferences()
    for text, _ in TEXTS:
        found.add(split(text), plain(text))
    assert (found.texts, found.others) == (3, 2)
    (note,) = found.note("train.spacy")
    assert note.startswith(
        "train.spacy: 2 of 3 texts have other tokens than the pipeline, such as 'H.' for 'H', '.'. "
    )
    same = TokenDifferences()
    same.add(plain("H."), plain("H."))
    assert not same.note("train.spacy")
