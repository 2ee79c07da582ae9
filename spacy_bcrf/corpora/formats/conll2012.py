"""CoNLL-2012, the format of OntoNotes: a word with its annotation a line, entities in parentheses.

    #begin document (bc/cctv/00/cctv_0000); part 000
    bc/cctv/00/cctv_0000   0   0   Ada   NNP   (TOP(NP*   -   -   -   Bo   (PERSON*   (0
    bc/cctv/00/cctv_0000   0   1   Lee   NNP   *))        -   -   -   Bo   *)         0)

Columns 4, 5 and 11 have word, tag and entity. Each predicate has a column before the last one.
"""

import re
from collections.abc import Iterable, Iterator
from functools import partial

from bcrf.io.text import Line
from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Record
from spacy_bcrf.corpora.sample import Sample
from spacy_bcrf.corpora.tagged_sentences import PREFIXED, make_records, scan_rows, skip_sentence

from .columns import read_columns

_START = "#begin document"
_ENTITY = re.compile(r"(?:\(([^()*]+))?\*?(\))?")


def recognize(sample: Sample) -> bool:
    return sample.first.startswith(_START)


def read(sample: Sample, reading: Reading) -> Iterator[Record]:
    sentences = read_columns(
        _translate(scan_rows(sample.path, reading.advance)),
        tag_column=2,
        drop_words=reading.drop_words,
        on_malformed=partial(skip_sentence, reading),
    )
    return make_records(sentences, reading, PREFIXED)


def _translate(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines of columns: word, tag and entity tag in IOB2. A malformed row has a problem."""
    label = ""
    for line in lines:
        row = line.text.split()
        if not row or row[0].startswith("#"):
            label = ""
            yield line._replace(text="-DOCSTART-" if line.text.startswith(_START) else "")
            continue
        match = _ENTITY.fullmatch(row[10]) if len(row) > 11 else None
        opens, closes = match.groups() if match is not None else (None, None)
        if match is None or (opens and label) or (closes and not (opens or label)):
            found = row[10] if len(row) > 11 else ""
            problem = f"{found!r} is no entity in column 11; expected (PERSON*, *, *) or (GPE)"
            yield line._replace(problem=line.problem or problem)
            continue
        label = opens or label
        tag = f"{'B' if opens else 'I'}-{label}" if label else "O"
        yield line._replace(text=f"{row[3]}\t{row[4]}\t{tag}")
        label = "" if closes else label
