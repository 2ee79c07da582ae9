"""Corpora of the user's own, by path."""

import lzma

import pytest
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from bcrf.io.text import CorpusError
from experiments.paper.run import find_corpora
from experiments.paper.run import main as run_paper
from experiments.partial.run import main as run_partial
from lab.corpora import convert_parts, find_corpus, read_corpus

CONLLU = "1\tDas\tder\tPRON\tPDS\t_\t0\troot\t_\t_\n\n"
COLUMNS = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n"
TREEBANK = ["de_gsd-ud-train.conllu", "de_gsd-ud-dev.conllu", "de_gsd-ud-test.conllu"]
PARTS = ("train", "dev", "test")


def write(folder, names, text):
    """Write the same text to files of a new folder."""
    folder.mkdir()
    for name in names:
        content = text.encode()
        (folder / name).write_bytes(lzma.compress(content) if name.endswith("xz") else content)
    return folder


@pytest.mark.parametrize(
    "names, text, lang, words",
    [
        # Treebanks come with the text of each part, and other files.
        ([*TREEBANK, "de_gsd-ud-train.txt", "README.md"], CONLLU, "de", ["Das"]),
        ([name + ".xz" for name in TREEBANK], CONLLU, "de", ["Das"]),
        (["qaf-ud-train.conllu", "qaf-ud-dev.conllu", "qaf-ud-test.conllu"], CONLLU, "xx", ["Das"]),
        (["eng.train", "eng.testa", "eng.testb", "metadata"], COLUMNS, "xx", ["EU", "rejects"]),
        (["train.txt", "valid.txt", "test.txt"], COLUMNS, "xx", ["EU", "rejects"]),
        (["train.tsv", "devel.tsv", "test.tsv"], COLUMNS, "xx", ["EU", "rejects"]),
        (
            ["wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"],
            COLUMNS,
            "xx",
            ["EU", "rejects"],
        ),
    ],
)
def test_the_parts_of_a_corpus_are_found_by_name(names, text, lang, words, tmp_path):
    corpus = find_corpus(write(tmp_path / "corpus", names, text))
    assert corpus.lang == lang
    assert [name.rpartition("/")[2] for name in corpus.files] == names[:3]
    paths = convert_parts(tmp_path, corpus, f"{tmp_path}/out-")
    for part in PARTS:
        (doc,) = read_corpus(paths[part])
        assert [token.text for token in doc] == words


def test_entities_of_conll_2003(tmp_path):
    corpus = find_corpus(write(tmp_path / "c", ["eng.train", "eng.testa", "eng.testb"], COLUMNS))
    (doc,) = read_corpus(convert_parts(tmp_path, corpus, f"{tmp_path}/out-")["dev"])
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("EU", "ORG")]


def test_spacy_files_stay_as_they_are(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for part in PARTS:
        DocBin(docs=[Doc(Vocab(), words=[part])]).to_disk(folder / f"{part}.spacy")
    paths = convert_parts(tmp_path, find_corpus(folder), f"{tmp_path}/out-")
    assert [path.parent for path in paths.values()] == [folder] * 3
    assert [doc.text for path in paths.values() for doc in read_corpus(path)] == [
        f"{part} " for part in PARTS
    ]


@pytest.mark.parametrize(
    "names, found",
    [
        ([], "found train: none; dev: none; test: none"),
        (TREEBANK[:2], "test: none"),
        ([*TREEBANK, "nl_alpino-ud-train.conllu"], "train: de_gsd.*, nl_alpino.*; dev: de_gsd"),
        (["eng.train", "eng.testb"], "train: eng.train; dev: none; test: eng.testb"),
    ],
)
def test_a_wrong_folder_names_what_was_expected(names, found, tmp_path):
    folder = write(tmp_path / "corpus", names, CONLLU)
    message = rf"corpus: expected one file each .*-ud-train.conllu.*eng.testa.*train.spacy.*{found}"
    with pytest.raises(CorpusError, match=message):
        find_corpus(folder)
    with pytest.raises(SystemExit, match=f"--corpus .*{message}"):
        run_paper(["ner", "--corpus", str(folder), "--output", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match=message):
        run_partial([str(folder), str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"--corpus .*nowhere: no such folder; expected"):
        run_paper(["pos", "--corpus", str(tmp_path / "nowhere"), "--output", str(tmp_path)])


def test_corpora_have_names(tmp_path):
    folder = write(tmp_path / "UD_German-GSD", TREEBANK, CONLLU)
    assert list(find_corpora([str(folder), f"de={folder}"])) == ["UD_German_GSD", "de"]
    with pytest.raises(SystemExit, match="a second corpus named de; expected NAME=DIR"):
        find_corpora([f"de={folder}", f"de={folder}"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "expected --corpora DIR, or corpora of your own by --corpus DIR"),
        (["--corpora", ".", "--seeds", "-1"], "--seeds -1: expected 1 or more"),
        (["--corpus", ".", "--only", "en"], "--only selects from the default corpora"),
    ],
)
def test_wrong_options_are_explained(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run_paper(["pos", "--output", str(tmp_path), *arguments])
    assert message in capsys.readouterr().err


def test_another_corpus_of_the_same_name_is_refused(tmp_path):
    from experiments.paper.run import convert

    for name in ("first", "second"):
        write(tmp_path / name, TREEBANK, CONLLU.replace("Das", name))
    first, second = (find_corpus(tmp_path / name) for name in ("first", "second"))
    out = tmp_path / "out"
    files = convert("pos", "de", first, tmp_path, out)
    assert convert("pos", "de", first, tmp_path, out) == files
    with pytest.raises(SystemExit, match=r"de in .* is another one, with .*first.*NAME=DIR"):
        convert("pos", "de", second, tmp_path, out)
    assert read_corpus(files["train"])[0].text == "first "
