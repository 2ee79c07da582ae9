"""The statements of `assets/english/README.md` about the embedded corpus."""

from pathlib import Path

import pytest

from bcrf.io.text import read_lines
from spacy_bcrf.corpora.formats.conllu import read_conllu

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "english"
PARTS = ("train", "dev", "test")


def stated_counts() -> dict[str, tuple[int, ...]]:
    """Return the counts in the README's table by part: one for each row."""
    rows = [
        [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        for line in (FOLDER / "README.md").read_text(encoding="utf8").splitlines()
        if line.startswith("|")
    ]
    header, _, *counts = rows
    assert header[1:] == list(PARTS)
    return {part: tuple(int(row[1 + i]) for row in counts) for i, part in enumerate(PARTS)}


@pytest.mark.parametrize("part", PARTS)
def test_the_readme_counts_what_is_there(part: str) -> None:
    sentences = list(read_conllu(read_lines(FOLDER / f"{part}.conllu.xz")))
    annotated = [sentence for sentence in sentences if any(sentence.entities)]
    tags = [tag or "" for sentence in annotated for tag in sentence.entities]
    assert {tag[2:] for tag in tags} == {"", "LOC", "ORG", "PER"}
    assert stated_counts()[part] == (
        len(sentences),
        sum(len(sentence.words) for sentence in sentences),
        len(annotated),
        sum(tag.startswith("B-") for tag in tags),
    )
