"""Documents in one `.spacy` file or in a folder of them."""

import pytest
import spacy
from spacy.tokens import Doc

from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.io.shards import Writer, find_files, read_docs, write_all

set_extensions()
NLP = spacy.blank("xx")


def make_docs(n):
    return [Doc(NLP.vocab, words=[f"Ann{i}", "left"], ents=["B-PER", "O"]) for i in range(n)]


def test_shards_hold_all_documents_in_order(tmp_path):
    docs = make_docs(25)
    docs[3]._.annotated_labels = ["PER"]
    assert write_all(docs, tmp_path / "many", shard=10) == 25
    assert write_all(docs, tmp_path / "one.spacy") == 25
    files = find_files(tmp_path / "many")
    assert [len(list(read_docs(file, NLP.vocab))) for file in files] == [10, 10, 5]
    for path in (tmp_path / "many", tmp_path / "one.spacy"):
        found = list(read_docs(path, NLP.vocab))
        assert [doc.text for doc in found] == [doc.text for doc in docs]
        assert list(found[3]._.annotated_labels) == ["PER"]


def test_no_half_written_files(tmp_path):
    def fail():
        with Writer(tmp_path / "one.spacy") as writer:
            writer.add(make_docs(1)[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not list(tmp_path.iterdir())


def test_an_unreadable_file(tmp_path):
    (tmp_path / "x.spacy").write_text("no")
    with pytest.raises(ValueError, match=r"x\.spacy: cannot be read as a \.spacy file"):
        list(read_docs(tmp_path / "x.spacy", NLP.vocab))
