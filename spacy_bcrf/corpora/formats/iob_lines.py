"""spaCy's `.iob` files: a sentence a line, its words as `word|tag` or `word|part of speech|tag`."""

from collections.abc import Iterable, Iterator

from bcrf.io.text import Line
from spacy_bcrf.corpora.sentence import OnMalformed, Sentence, raise_error


def read_iob_lines(
    lines: Iterable[Line], *, on_malformed: OnMalformed = raise_error
) -> Iterator[Sentence]:
    """Yield the sentences. on_malformed: receives the error of a line of other words."""
    for line in lines:
        if line.problem is None and not line.text.strip():
            continue
        rows = [word.split("|") for word in line.text.split()]
        if line.problem or any(len(row) not in (2, 3) or not row[0] for row in rows):
            on_malformed(line.error(line.problem or "expected words such as Ada|B-PER"))
            continue
        n = len(rows)
        yield Sentence(
            lines=[line] * n,
            words=[row[0] for row in rows],
            tags=[row[1] if len(row) == 3 else None for row in rows],
            pos=[None] * n,
            entities=[None if row[-1] in ("_", "-", "") else row[-1] for row in rows],
        )
