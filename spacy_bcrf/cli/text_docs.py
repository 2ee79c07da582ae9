"""Texts of a command line argument, as documents without annotation."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from tqdm import tqdm

from spacy_bcrf.corpora.formats.brat import has_annotation
from spacy_bcrf.corpora.texts import Rejected, TextRecord, as_json, find_inputs, read_records
from spacy_bcrf.corpora.time_limit import SECONDS, TookTooLongError, time_limit, watch_tokenizer

from .paths import print_notes


def read_texts(path: Path, nlp: Language) -> Iterator[Doc]:
    """Yield the texts of a file as documents without annotation, see `read_text_records`."""
    return (doc for _, doc in read_text_records(path, nlp))


def read_text_records(
    path: Path, nlp: Language, skip: Callable[[str], object] | None = None
) -> Iterator[tuple[TextRecord, Doc]]:
    """Yield the records of a file, and their texts as documents without annotation.

    path: a file that `corpora.texts.read_records` reads, or a folder of such files. Given tokens
    stay. skip: receives place and reason of a bad text; without it, they are a ValueError. A text
    that takes the tokenizer more than SECONDS is bad. An empty text is a document without words,
    and a note counts them.
    """
    watch_tokenizer(nlp)
    n_empty = 0
    files, _ = find_inputs([str(path)])
    if n := sum(map(has_annotation, files)):
        note = f"{path}: {n:,} texts of brat, each a document without annotation. `convert` "
        print_notes([f"{note}keeps it, and `review --gold` then shows it"])
    size = sum(file.stat().st_size for file in files)
    with tqdm(total=size, unit="B", unit_scale=True, desc="reading", delay=1, disable=None) as bar:
        for file in files:
            for item in read_records(file, advance=bar.update):
                try:
                    if isinstance(item, Rejected):
                        if item.empty is None:
                            raise ValueError(item.reason)
                        item, n_empty = item.empty, n_empty + 1
                    with time_limit(SECONDS):
                        pair = item, item.make_doc(nlp)
                except (ValueError, TookTooLongError) as error:  # also spaCy's limit of characters
                    problem = f"{item.place}: {error}"
                    if skip is None:
                        raise ValueError(problem) from None
                    skip(problem)
                else:
                    yield pair
    print_notes([f"{path}: {n_empty:,} texts are empty"] * bool(n_empty))


class Texts(Sequence[Doc]):
    """The texts of a file as documents: read once, then by number. problems: of bad texts."""

    def __init__(self, path: Path, nlp: Language, skip_bad: bool) -> None:
        self.path, self.nlp, self.skip_bad = path, nlp, skip_bad
        self.problems: list[str] = []
        self._kept = TemporaryFile()  # noqa: SIM115 (closed with this object)
        self._offsets: list[int] = []

    def __iter__(self) -> Iterator[Doc]:
        skip = self.problems.append if self.skip_bad else None
        for record, doc in read_text_records(self.path, self.nlp, skip):
            self._offsets.append(self._kept.tell())
            pickle.dump(record, self._kept)
            yield doc

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, i: Any) -> Any:
        return self._record(i).make_doc(self.nlp)

    def fields(self, i: int) -> dict[str, Any]:
        """Return id, text and all other columns of a document, as JSON values."""
        record = self._record(i)
        own_id = {} if record.id == record.place else {"id": record.id}
        return {**own_id, "text": self[i].text, **as_json(record.meta)}

    def _record(self, i: int) -> TextRecord:
        self._kept.seek(self._offsets[i])
        found: TextRecord = pickle.load(self._kept)
        return found
