"""`spacy-bcrf.PartialCorpora.v1`: a reader of several corpora with different labels."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from spacy.language import Language
from spacy.training import Corpus, Example

from spacy_bcrf.annotation.extensions import set_extensions

from .doc_files import find_files, read_docs, read_shuffled


class CorpusPart(BaseModel):
    """One corpus. annotated_labels: None keeps each document's own. weight: of its examples."""

    model_config = ConfigDict(extra="forbid")

    path: Annotated[Path, BeforeValidator(lambda path: path or None)]
    annotated_labels: list[str] | None = None
    weight: float = Field(1.0, gt=0, strict=True, allow_inf_nan=False)


def make_partial_reader(
    corpora: dict[str, dict[str, Any]], seed: int = 0, buffer_size: int = 0
) -> Callable[[Language], Iterator[Example]]:
    """Return a corpus reader that mixes the examples of several corpora at random.

    corpora: settings by name of the corpus: `path`, a `.spacy` file or a folder of them, and
        optionally `annotated_labels` and `weight` (1.0), see `CorpusPart`.
    seed: random seed. Every pass has another order.
    buffer_size: documents of each corpus in a buffer that shuffles them, see `read_shuffled`; 0 for
        the order of the files.

    Each step draws a corpus in proportion to the weights and yields its next example. A pass ends
    when every corpus has ended at least once; shorter corpora start again. One file of each corpus,
    and its buffer, is in memory; `max_epochs = -1` streams them. ValueError names a wrong setting.
    """
    parts = [_check(name, settings) for name, settings in corpora.items()]
    if not parts:
        raise ValueError("[PartialCorpora] needs at least one corpus; expected a block for each")
    if buffer_size < 0:
        raise ValueError(f"[PartialCorpora] buffer_size must be at least 0, got {buffer_size}")
    rng = random.Random(seed)

    def read(nlp: Language) -> Iterator[Example]:
        streams = [_read(part, nlp, rng, buffer_size) for part in parts]
        unfinished = set(range(len(parts)))
        while unfinished:
            (i,) = rng.choices(range(len(parts)), [part.weight for part in parts])
            example = next(streams[i], None)
            if example is None:
                unfinished.discard(i)
                streams[i] = _read(parts[i], nlp, rng, buffer_size)
                example = next(streams[i], None)
                if example is None:
                    raise ValueError(f"{parts[i].path}: found no documents")
                if not unfinished:
                    return
            yield example

    return read


def _check(name: str, settings: dict[str, Any]) -> CorpusPart:
    where = f"[PartialCorpora] corpora.{name}"
    try:
        part = CorpusPart.model_validate(settings)
        find_files(part.path)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(
            f"{where}: {' '.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r}; "
            "expected a block with a path, and annotated_labels or weight at will"
        ) from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return part


def _read(
    part: CorpusPart, nlp: Language, rng: random.Random, buffer_size: int
) -> Iterator[Example]:
    set_extensions()
    reader, docs = Corpus(part.path), read_docs(part.path, nlp.vocab)
    if buffer_size:
        # A generator of its own: the corpora are drawn between its documents.
        own = random.Random(rng.random())
        docs = read_shuffled(find_files(part.path), nlp.vocab, own, buffer_size)
    for doc in docs:
        if part.annotated_labels is not None:
            doc._.annotated_labels = part.annotated_labels
        yield reader._make_example(nlp, doc, False)
