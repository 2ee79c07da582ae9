"""The command `python -m spacy bcrf clusters`."""

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
    output = tmp_path / "clusters.tsv"
    result = run(texts, "-o", output, "-k", 4)
    assert "8 words in 4 clusters" in result.stdout
    assert [path.name for path in tmp_path.glob("*.state")] == []
    clusters = read_clusters(output)
    assert clusters["the"] == clusters["a"] and clusters["cat"] == clusters["dog"]
    assert clusters["sees"] == clusters["hears"] == clusters["bites"]
    assert len(set(clusters.values())) == 4
    # No path is the prefix of another one.
    paths = sorted(set(clusters.values()))
    assert not any(b.startswith(a) for a in paths for b in paths if a != b)


def test_each_word_is_a_cluster_of_its_own_if_they_are_few(texts, tmp_path):
    output = tmp_path / "clusters.tsv"
    assert "8 words in 8 clusters" in run(texts, "-o", output, "-k", 9).stdout
    assert len(read_clusters(output)) == 8


def test_texts_without_frequent_words_are_an_error(tmp_path):
    output, empty, short = (tmp_path / name for name in ("c.tsv", "empty.txt", "short.txt"))
    for path, text, n in (empty, "", "no"), (short, "Ann Ann Ann left", "1"):
        path.write_text(text)
        result = run(path, "-o", output, exit_code=1)
        assert result.stderr.startswith(f"{path}: {n} word occurs at least 3 times; expected 2 or")
    assert not output.exists()


def test_brown_clusters_come_from_the_lookups_of_the_language(tmp_path, monkeypatch):
    path = tmp_path / "clusters.json"
    numbers = {"a": 0b110, "b": 0b1, "c": 0, "d e": 1, "": 1}
    srsly.write_gzip_json(f"{path}.gz", numbers)
    tables = {"lexeme_cluster": path}
    monkeypatch.setitem(catalogue.REGISTRY, (*registry.lookups.namespace, "xx"), tables)
    output = tmp_path / "clusters.tsv"
    result = run("--lang", "xx", "-o", output)
    assert "2 words in 2 clusters" in result.stdout
    assert read_clusters(output) == {"a": "011", "b": "1"}


def test_brown_clusters_need_texts_or_the_package(tmp_path):
    output = tmp_path / "clusters.tsv"
    result = run("--lang", "is", "-o", output, exit_code=1)
    assert "no Brown clusters of the language 'is': give a file of texts" in result.stderr
    assert not output.exists()
