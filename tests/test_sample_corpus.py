"""The statements of `assets/sample/README.md` about the embedded corpus."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from light_spacy import WholeEnglish

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "sample"
SPLITS = ("train", "dev", "test")
ENTITIES = ("PERSON", "ORG", "LOC", "DATE")
OPEN_CLASSES = {"ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"}
CLOSED_CLASSES = {"ADP", "AUX", "CCONJ", "DET", "NUM", "PART", "PRON", "SCONJ"}
UPOS = OPEN_CLASSES | CLOSED_CLASSES | {"PUNCT", "SYM", "X"}

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="assets/sample is in the source tree, not in the package"
)

Row = list[str]
Sentence = tuple[dict[str, str], list[Row]]
Corpus = dict[str, list[Sentence]]


def read(split: str) -> Iterator[Sentence]:
    """Read the sentences of one file: comments (`key = value`) and token rows of ten columns."""
    content = (FOLDER / f"{split}.conllu").read_text(encoding="utf8")
    assert content.endswith("\n\n")
    for block in content[:-2].split("\n\n"):
        lines = block.split("\n")
        comments = dict(line[2:].split(" = ", 1) for line in lines if line.startswith("# "))
        yield comments, [line.split("\t") for line in lines if not line.startswith("# ")]


def misc(row: Row) -> dict[str, str]:
    """Return the fields of the last column."""
    return dict(field.split("=", 1) for field in row[9].split("|"))


def stated_counts() -> dict[str, list[int]]:
    """Return the counts in the README's tables by name: train, dev, test, all."""
    table = {}
    for line in (FOLDER / "README.md").read_text(encoding="utf8").splitlines():
        cells = [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        if len(cells) == 5 and all(cell.isdigit() for cell in cells[1:]):
            table[cells[0]] = [int(cell) for cell in cells[1:]]
    return table


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return {split: list(read(split)) for split in SPLITS}


@pytest.mark.parametrize("split", SPLITS)
def test_rows_are_plain_conllu(corpus: Corpus, split: str) -> None:
    for number, (comments, rows) in enumerate(corpus[split], 1):
        assert comments["sent_id"] == f"sample-{split}-{number}"
        assert [row[0] for row in rows] == [str(i) for i in range(1, len(rows) + 1)]
        for row in rows:
            assert len(row) == 10, row
            assert [row[i] for i in (2, 4, 5, 6, 7, 8)] == ["_"] * 6, row
            assert list(misc(row)) in (["NER"], ["SpaceAfter", "NER"]), row
            assert misc(row).get("SpaceAfter", "No") == "No", row


@pytest.mark.parametrize("split", SPLITS)
def test_tokens_agree_with_spacy(corpus: Corpus, split: str) -> None:
    nlp = WholeEnglish()
    for comments, rows in corpus[split]:
        doc = nlp(comments["text"])
        assert [token.text for token in doc] == [row[1] for row in rows], comments["text"]
        # The last token ends the text, so its whitespace does not count.
        spaces = ["SpaceAfter" not in misc(row) for row in rows[:-1]]
        assert [bool(token.whitespace_) for token in doc[:-1]] == spaces, comments["text"]


@pytest.mark.parametrize("split", SPLITS)
def test_tags_are_universal_and_iob2(corpus: Corpus, split: str) -> None:
    allowed = {"O"} | {f"{prefix}-{label}" for prefix in "BI" for label in ENTITIES}
    for comments, rows in corpus[split]:
        previous = "O"
        for row in rows:
            tag = misc(row)["NER"]
            assert row[3] in UPOS, (comments["text"], row)
            assert tag in allowed, (comments["text"], row)
            if tag.startswith("I-"):
                assert previous[2:] == tag[2:], (comments["text"], row)
            previous = tag


def test_no_sentence_occurs_twice(corpus: Corpus) -> None:
    texts = Counter(c["text"].casefold() for sentences in corpus.values() for c, _ in sentences)
    assert [text for text, count in texts.items() if count > 1] == []


def test_counts_agree_with_the_readme(corpus: Corpus) -> None:
    counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
    for split, sentences in corpus.items():
        for _, rows in sentences:
            tags = [misc(row)["NER"] for row in rows]
            counts[split].update(row[3] for row in rows)
            counts[split].update(tag[2:] for tag in tags if tag.startswith("B-"))
            counts[split]["sentences"] += 1
            counts[split]["tokens"] += len(rows)
            counts[split]["sentences without entities"] += set(tags) == {"O"}
    names = set().union(*counts.values())
    per_split = {name: [counts[split][name] for split in SPLITS] for name in names}
    assert stated_counts() == {name: [*row, sum(row)] for name, row in per_split.items()}


def test_every_part_has_enough_of_each_entity(corpus: Corpus) -> None:
    stated = stated_counts()
    total, bare = stated["sentences"][-1], stated["sentences without entities"][-1]
    assert 400 <= total <= 420
    assert total / 3 <= bare <= total / 2
    assert all(min(stated[label][:3]) >= 15 for label in ENTITIES)
