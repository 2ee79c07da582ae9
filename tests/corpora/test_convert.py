"""Conversion of column formats: documents, spaces, counts and errors."""

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training import Corpus

from bcrf.io.text import CorpusError
from spacy_bcrf.corpora.convert import convert

COLUMNS = "-DOCSTART-\tO\n\na\tO\n\nb\tB-X\nc\tI-X\n\nd\t_\n\n-DOCSTART-\tO\n\ne\tI-Y\n"
CONLLU = """\
# newdoc
# text = Hi, Ada.
1\tHi\t_\tINTJ\tUH\t_\t_\t_\t_\tSpaceAfter=No|NER=O
2\t,\t_\tPUNCT\t,\t_\t_\t_\t_\tNER=O
2.1\t,\t_\tPUNCT\t,\t_\t_\t_\t_\tNER=O
3\tAda\t_\tPROPN\tNNP\t_\t_\t_\t_\tSpaceAfter=No|NER=B-PER
4\t.\t_\t_\t_\t_\t_\t_\t_\t_

# text = Ada!
1\tAda\t_\tPROPN\tNNP\t_\t_\t_\t_\tSpaceAfter=No|NER=B-PER
2\t!\t_\tPUNCT\t.\t_\t_\t_\t_\tNER=O
"""


def run(folder, *texts, format="columns", **options):
    """Convert texts, each in its own file. Return Docs and counts."""
    sources = []
    for i, text in enumerate(texts):
        path = folder / f"{i}.txt"
        path.write_text(text, encoding="utf8")
        sources.append(path)
    output = folder / "out.spacy"
    counts = convert(sources, output, format=format, **options)
    docs = list(DocBin().from_disk(output).get_docs(spacy.blank("xx").vocab))
    return docs, counts


def words(docs):
    return [[[token.text for token in sent] for sent in doc.sents] for doc in docs]


@pytest.mark.parametrize(
    "n_sents, expected",
    [
        (1, [[["a"]], [["b", "c"]], [["d"]], [["e"]]]),
        (2, [[["a"], ["b", "c"]], [["d"]], [["e"]]]),
        (0, [[["a"], ["b", "c"], ["d"]], [["e"]]]),
    ],
)
def test_sentences_per_doc_never_cross_a_document(tmp_path, n_sents, expected):
    docs, counts = run(tmp_path, COLUMNS, n_sents=n_sents)
    assert words(docs) == expected
    assert (counts.docs, counts.used, counts.tokens) == (len(docs), 4, 5)


def test_each_file_starts_a_document(tmp_path):
    docs, counts = run(tmp_path, "a\tO\n\nb\tO", "c\tO", n_sents=0)
    assert words(docs) == [[["a"], ["b"]], [["c"]]]
    assert counts.docs == 2


def test_missing_entity_tags_stay_missing(tmp_path):
    docs, counts = run(tmp_path, COLUMNS, n_sents=0)
    tokens = [token for doc in docs for token in doc]
    assert [token.ent_iob_ for token in tokens] == ["O", "B", "I", "", "B"]
    assert [token.ent_type_ for token in tokens] == ["", "X", "X", "", "Y"]
    assert (counts.entities, counts.missing, counts.assumed_outside) == (2, 1, 0)
    assert (counts.scheme, counts.repaired) == ("bio", 1)
    docs, counts = run(tmp_path, COLUMNS, ent_complete=True)
    assert [token.ent_iob_ for doc in docs for token in doc] == ["O", "B", "I", "O", "B"]
    assert (counts.missing, counts.assumed_outside) == (0, 1)


def test_all_annotation_of_conllu(tmp_path):
    docs, counts = run(tmp_path, CONLLU, format="conllu", tag="xpos", n_sents=0)
    (doc,) = docs
    assert doc.text == "Hi, Ada. Ada!" and not doc.has_unknown_spaces
    assert [token.tag_ for token in doc] == ["UH", ",", "NNP", "", "NNP", "."]
    assert [token.pos_ for token in doc] == ["INTJ", "PUNCT", "PROPN", "", "PROPN", "PUNCT"]
    assert [token.ent_iob_ for token in doc] == ["O", "O", "B", "", "B", "O"]
    assert [token.is_sent_start for token in doc] == [True, *[False] * 3, True, False]
    assert (counts.tags, counts.pos, counts.missing, counts.tokens) == (5, 5, 1, 6)
    assert (counts.others["empty nodes"], counts.unknown_spaces) == (1, 0)


def test_summary_adds_up(tmp_path):
    _, counts = run(tmp_path, CONLLU, format="conllu", ent_complete=True)
    assert str(counts) == (
        "2 sentences read = 2 in 2 docs; 2 spans = 2 entities; 6 tokens; "
        "entity tags in the scheme bio; 5 tags; 5 pos tags; "
        "1 token without a tag taken as O; 1 empty nodes left out"
    )


def test_spacy_trains_on_words_if_the_text_is_unknown(tmp_path):
    run(tmp_path, "don't\tO\nU.K.!\tO\n")
    (example,) = Corpus(tmp_path / "out.spacy")(spacy.blank("en"))
    assert [token.text for token in example.predicted] == ["don't", "U.K.!"]


def test_one_sentence_without_spaces_makes_the_spaces_of_a_doc_unknown(tmp_path):
    text = CONLLU.replace("# text = Ada!", "# text = Ida!")
    (doc,), counts = run(tmp_path, text, format="conllu", n_sents=0)
    assert doc.has_unknown_spaces and counts.unknown_spaces == 1
    assert [token.text for token in doc] == ["Hi", ",", "Ada", ".", "Ada", "!"]


def test_language_decides_about_spaces_if_the_file_does_not(tmp_path):
    (doc,), counts = run(tmp_path, "日本\tO\n語\tO\n", lang="ja")
    assert doc.text == "日本語" and not doc.has_unknown_spaces and not counts.unknown_spaces
    (doc,), counts = run(tmp_path, "日本\tO\n語\tO\n")
    assert doc.has_unknown_spaces and counts.unknown_spaces == 1
    (doc, _), _ = run(tmp_path, CONLLU, format="conllu", lang="ja")
    assert doc.text == "Hi, Ada."


@pytest.mark.parametrize("text", ["", "\n\n", "-DOCSTART- O\n\n", "# only = a comment\n"])
def test_no_sentences(tmp_path, text):
    with pytest.raises(CorpusError, match=r"1.txt: no records; expected at least one"):
        run(tmp_path, "a\tO", text)
    assert not (tmp_path / "out.spacy").exists()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"lang": "klingon"}, "unknown language 'klingon'; expected a code"),
        ({"n_sents": -1}, "-1 sentences per document; expected 0"),
        ({"scheme": "bilou"}, "unknown scheme 'bilou'; expected auto, bio, iob1, biluo, bies"),
    ],
)
def test_bad_options(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        run(tmp_path, "a\tO", **options)


def test_the_output_must_be_a_spacy_file(tmp_path):
    (tmp_path / "a.txt").write_text("a\tO\n")
    (tmp_path / "folder.spacy").mkdir()
    for name in ("out.json", "out", "folder.spacy"):
        with pytest.raises(ValueError, match=f"{name}: expected the name of a .spacy file"):
            convert([tmp_path / "a.txt"], tmp_path / name)
    convert([tmp_path / "a.txt"], tmp_path / "new" / "folder" / "out.spacy")
    assert len(DocBin().from_disk(tmp_path / "new" / "folder" / "out.spacy")) == 1


def test_a_failure_leaves_the_output_unchanged(tmp_path, monkeypatch):
    run(tmp_path, "a\tO")
    before = (tmp_path / "out.spacy").read_bytes()
    with pytest.raises(CorpusError, match=r"1.txt:2: 1 column"):
        run(tmp_path, "a\tO", "b\tO\nc")

    def to_full_disk(docs, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DocBin, "to_disk", to_full_disk)
    with pytest.raises(CorpusError, match=r"out.spacy: cannot be written: No space left"):
        run(tmp_path, "a\tO")
    assert (tmp_path / "out.spacy").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.txt", "1.txt", "out.spacy"]
