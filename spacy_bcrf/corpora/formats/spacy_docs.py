"""`.spacy` files: words and spaces of documents to annotate, and documents with annotation."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import srsly
from spacy.attrs import ORTH  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import DocBin

from bcrf.io.json_objects import Problem, parse_object
from spacy_bcrf.corpora.texts import (
    ID_KEY,
    META_KEY,
    Advance,
    Rejected,
    TextColumns,
    TextItem,
    TextRecord,
    check_id,
    check_meta,
)
from spacy_bcrf.corpora.writer import Row, Writer, dump_meta
from spacy_bcrf.readers.doc_files import load_docs, naming_damaged


def read_texts(path: Path, columns: TextColumns, advance: Advance) -> Iterator[TextItem]:
    with naming_damaged(path):
        docs = load_docs(path)
        strings = StringStore(docs.strings)
        orth = docs.attrs.index(ORTH)
        parts = list(zip(docs.tokens, docs.spaces, docs.user_data, strict=True))
    for i, (tokens, spaces, user_data) in enumerate(parts):
        place = f"{path}:{i + 1}"
        try:
            words = [strings[word] for word in tokens[:, orth].tolist()]
            yield _read_user_data(user_data, place, words, spaces.ravel().tolist())
        except Exception as error:
            yield Rejected(place, place, f"cannot be read: {error}")
    advance(path.stat().st_size)


def _read_user_data(
    data: bytes | None, place: str, words: list[str], spaces: list[bool]
) -> TextItem:
    kept = {} if data is None else srsly.msgpack_loads(data, use_list=False)
    key = kept.get(ID_KEY, place)
    if reason := check_id(key, ID_KEY):
        return Rejected(place, place, f"user_data: {reason}")
    try:
        meta = check_meta(parse_object(kept.get(META_KEY, "{}")))
    except Problem as problem:
        return Rejected(key, place, f'user_data["{META_KEY}"]: {problem}')
    return TextRecord(key, place, None, words, spaces, *meta)


class DocWriter(Writer):
    """Documents with their annotation. The id, meta and optional fields are in `user_data`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._docs = DocBin(store_user_data=True)

    def add(self, row: Row) -> None:
        """Add a document. A word of a document has its tags, an entity its confidence."""
        doc = row.predictions.doc
        doc.user_data[ID_KEY] = row.id
        doc.user_data[META_KEY] = dump_meta(row.meta)
        for name in self.optional:
            doc.user_data[name] = json.dumps(getattr(row.predictions, name), ensure_ascii=False)
        doc.to_bytes()  # what cannot be written must not get halfway into the file
        self._docs.add(doc)

    def finish(self) -> None:
        self.file.write(self._docs.to_bytes())
