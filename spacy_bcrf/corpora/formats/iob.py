"""spaCy's `.iob` files: a sentence a line, of words such as `Ada|B-PER` or `Ada|NNP|B-PER`."""

import re
from collections.abc import Iterable, Iterator
from functools import partial

from bcrf.io.text import Line
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Record
from spacy_bcrf.corpora.sample import Sample
from spacy_bcrf.corpora.sentence import OnMalformed, Sentence, raise_error
from spacy_bcrf.corpora.tagged_sentences import PREFIXED, make_records, scan_rows, skip_sentence

_LINE = re.compile(r"(\S+\|(O|[_-]|[BILUES]-[^\s|]+)( +|$))+", re.IGNORECASE)


def recognize(sample: Sample) -> bool:
    """Return whether lines are words with tags. A word on each line is a column of `Ada|B-PER`."""
    lines = [line.text.split() for line in sample.lines if line.text.strip()]
    return _LINE.fullmatch(sample.first) is not None and any(len(line) > 1 for line in lines)


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    lines = scan_rows(sample.path, reading.advance)
    sentences = read_iob_lines(lines, on_malformed=partial(skip_sentence, reading))
    return make_records(sentences, reading, PREFIXED)


def read_iob_lines(
    lines: Iterable[Line], *, on_malformed: OnMalformed = raise_error
) -> Iterator[Sentence]:
    """Yield the sentences of a file. on_malformed: receives the error of a line of other words."""
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
