"""The command `python -m spacy bcrf clusters`."""

import sys

import catalogue
import pytest
import srsly
from commands import command
from spacy.util import registry

from spacy_bcrf.sparse.word_tables import read_clusters

run = command("clusters")
TEXT = "".join(
    f"the {noun} {verb} a {other}\n"
    for noun in ("cat", "dog", "fox")
    for other in ("cat", "dog", "fox")
    for verb in ("sees", "hears", "bites")
)


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(TEXT)
    return path


def test_words_with_equal_neighbours_share_a_cluster(texts, tmp_path):
    pytest.importorskip("sklearn", reason="needs the extra clusters")
    output = tmp_path / "clusters.tsv"
    result = run(texts, "-o", output, "-k", 4)
    assert "8 words in 4 clusters" in result.stdout
    clusters = read_clusters(output)
    assert clusters["cat"] == clusters["dog"] == clusters["fox"]
    assert clusters["sees"] == clusters["hears"] == clusters["bites"]
    assert len(set(clusters.values())) == 4
    # No path is the prefix of another one.
    paths = sorted(set(clusters.values()))
    assert not any(b.startswith(a) for a in paths for b in paths if a != b)


def test_too_many_clusters_are_an_error(texts, tmp_path):
    pytest.importorskip("sklearn", reason="needs the extra clusters")
    output = tmp_path / "clusters.tsv"
    result = run(texts, "-o", output, "-k", 9, exit_code=1)
    assert "9 clusters of 8 words that occur at least 3 times" in result.stderr
    assert not output.exists()


def test_an_error_names_the_extra(texts, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.decomposition", None)
    result = run(texts, "-o", tmp_path / "clusters.tsv", exit_code=1)
    assert "pip install 'gensim>=4.3.3' 'scikit-learn>=1.3'" in result.stderr


def test_brown_clusters_come_from_the_lookups_of_the_language(tmp_path, monkeypatch):
    path = tmp_path / "clusters.json"
    numbers = {"a": 0b110, "b": 0b1, "c": 0, "d e": 1, "": 1}
    srsly.write_gzip_json(f"{path}.gz", numbers)
    tables = {"lexeme_cluster": path}
    monkeypatch.setitem(catalogue.REGISTRY, (*registry.lookups.namespace, "xx"), tables)
    output = tmp_path / "clusters.tsv"
    result = run("--brown", "--lang", "xx", "-o", output)
    assert "2 words in 2 clusters" in result.stdout
    assert read_clusters(output) == {"a": "011", "b": "1"}


def test_brown_clusters_need_the_package_and_no_texts(texts, tmp_path):
    output = tmp_path / "clusters.tsv"
    result = run("--brown", "--lang", "tlh", "-o", output, exit_code=1)
    assert "no Brown clusters of the language 'tlh'" in result.stderr
    for arguments in (["--brown", texts], []):
        result = run(*arguments, "-o", output, exit_code=1)
        assert "expected either a file of texts or --brown" in result.stderr
    assert not output.exists()


@pytest.mark.parametrize("kind", ["brown", "clark"])
def test_kinds_without_an_extra(texts, tmp_path, kind):
    output = tmp_path / "clusters.tsv"
    result = run(texts, "-o", output, "-k", 4, "--kind", kind)
    assert "8 words in 4 clusters" in result.stdout
    assert len(set(read_clusters(output).values())) == 4
    assert [path.name for path in tmp_path.glob("*.state")] == []
    result = run(texts, "-o", output, "-k", 9, "--kind", kind, exit_code=1)
    assert "9 clusters of 8 words that occur at least 3 times" in result.stderr


def test_skipgram_vectors(texts, tmp_path):
    pytest.importorskip("gensim", reason="needs the extra clusters")
    output, vectors = tmp_path / "clusters.tsv", tmp_path / "vectors.txt"
    options = ["--kind", "skipgram", "-k", 3, "--dimensions", 5]
    result = run(texts, "-o", output, *options, "--vectors", vectors)
    assert "8 words in 3 clusters" in result.stdout
    header, *rows = vectors.read_text().splitlines()
    assert header == "8 5" and [len(row.split(" ")) for row in rows] == [6] * 8
    assert {row.split(" ")[0] for row in rows} == set(read_clusters(output))
    # One thread: the same words and clusters again.
    first = output.read_text()
    run(texts, "-o", output, *options)
    assert output.read_text() == first
    result = run(texts, "-o", output, "--vectors", vectors, exit_code=1)
    assert "--vectors needs --kind skipgram, got svd" in result.stderr
