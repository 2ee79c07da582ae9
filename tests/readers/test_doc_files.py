"""Documents in one `.spacy` file or in a folder of them."""

import errno
import os
import threading
from pathlib import Path

import pytest
import spacy
from catalogue import Registry
from spacy.tokens import Doc, DocBin, Span
from srsly.msgpack import msgpack_decoders

from bcrf.io.text import CorpusError
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.readers.doc_files import find_files, read_docs, write_all

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


def test_span_groups_cost_no_search_of_entry_points(tmp_path, monkeypatch):
    docs = make_docs(20)
    for doc in docs:
        for name in "abc":
            doc.spans[name] = [Span(doc, 0, 1, name)]
    searched = []
    search = Registry.get_all
    monkeypatch.setattr(Registry, "get_all", lambda self: searched.append(1) or search(self))
    write_all(docs, tmp_path / "x.spacy")
    found = list(read_docs(tmp_path / "x.spacy", NLP.vocab))
    assert [[span.label_ for span in doc.spans["b"]] for doc in found] == [["b"]] * 20
    assert len(searched) < 20
    assert "get_all" not in vars(msgpack_decoders)


def test_no_half_written_files(tmp_path):
    def fail():
        yield make_docs(1)[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_all(fail(), tmp_path / "one.spacy")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda data: b"no", "Error -3 while decompressing data"),
        (lambda data: b"", "it is empty$"),
        (lambda data: data[:-9], "it ends too early$"),
    ],
)
def test_an_unreadable_file(tmp_path, change, problem):
    path = tmp_path / "x.spacy"
    write_all(make_docs(2), path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(
        CorpusError, match=rf"x\.spacy: cannot be read as a \.spacy file: {problem}"
    ):
        list(read_docs(path, NLP.vocab))


def test_shards_appear_together_at_the_end(tmp_path):
    path = tmp_path / "corpus/train"

    def docs():
        yield from make_docs(5)
        # A process that is killed now leaves a folder with another name, which no corpus includes.
        assert not path.exists() and list(path.parent.iterdir())
        with pytest.raises(ValueError, match=r"the folder has no \.spacy file"):
            find_files(path.parent)

    write_all(docs(), path, shard=2)
    assert [file.name for file in find_files(path.parent)] == [f"00000{i}.spacy" for i in range(3)]


@pytest.mark.parametrize("shard", [0, 2])
@pytest.mark.parametrize("n_docs", [2, 3])
def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, shard, n_docs):
    path = tmp_path / ("corpus" if shard else "corpus.spacy")
    to_disk = DocBin.to_disk

    def fail_at_the_last(docs, target):
        to_disk(docs, target)
        if not shard or n_docs == 2 or len(docs) == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(DocBin, "to_disk", fail_at_the_last)
    with pytest.raises(CorpusError, match=r"corpus.*: cannot be written: No space left"):
        write_all(make_docs(n_docs), path, shard)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shard", [0, 2])
def test_an_output_that_cannot_be_made_is_named(tmp_path, shard):
    (tmp_path / "file").touch()
    path = tmp_path / "file/corpus.spacy"
    with pytest.raises(CorpusError, match=r"corpus\.spacy: cannot be written: "):
        write_all(make_docs(2), path, shard)


def test_shards_that_cannot_be_moved_are_named(tmp_path, monkeypatch):
    def fail(part, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(CorpusError, match=r"corpus: cannot be written: No space left"):
        write_all(make_docs(2), tmp_path / "corpus", shard=1)
    assert not list(tmp_path.iterdir())


def test_old_and_new_shards_are_not_mixed(tmp_path):
    write_all(make_docs(4), tmp_path / "corpus", shard=1)
    with pytest.raises(
        ValueError, match="expected a new or empty folder; nothing in it is replaced"
    ):
        write_all(make_docs(2), tmp_path / "corpus", shard=1)
    assert len(find_files(tmp_path / "corpus")) == 4


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_needs_no_extension(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    assert write_all(make_docs(2), tmp_path / "pipe") == 2
    reader.join(timeout=10)
    assert len(list(DocBin().from_bytes(found[0]).get_docs(NLP.vocab))) == 2


def test_only_documents_with_user_data_store_it(tmp_path):
    # To read stored user data, even an empty dictionary, takes longer than the document.
    docs = make_docs(3)
    docs[1].user_data["id"] = "a"
    write_all(docs, tmp_path / "docs.spacy")
    stored = DocBin(store_user_data=True).from_disk(tmp_path / "docs.spacy")
    assert [data is None for data in stored.user_data] == [True, False, True]
    for read in (stored.get_docs(NLP.vocab), read_docs(tmp_path / "docs.spacy", NLP.vocab)):
        assert [doc.user_data for doc in read] == [{}, {"id": "a"}, {}]


def test_a_pipeline_in_place_of_a_corpus(tmp_path):
    spacy.blank("xx").to_disk(tmp_path / "model")
    with pytest.raises(ValueError, match="it is a pipeline, expected a corpus"):
        find_files(tmp_path / "model")


def test_a_folder_of_shards_may_be_named_as_a_file(tmp_path):
    write_all(make_docs(4), tmp_path / "corpus" / "x.spacy", shard=2)
    assert len(find_files(tmp_path / "corpus")) == 2


def test_a_reader_that_waits_leaves_srsly_alone(tmp_path):
    write_all(make_docs(2), tmp_path / "x.spacy")
    reading = read_docs(tmp_path / "x.spacy", NLP.vocab)
    next(reading)
    assert "get_all" not in vars(msgpack_decoders)
