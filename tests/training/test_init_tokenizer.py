"""`init` looks at which tokens fit the annotated characters."""

import json
from pathlib import Path
from typing import Any

from spacy.util import load_model_from_config

from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.readers.doc_files import read_own_docs
from spacy_bcrf.training.init import init

SPLIT = "spacy-bcrf.SplitTokenizer.v1"


def write(path: Path, ages: Any) -> Path:
    lines = []
    for age in ages:
        text = f"Sexo: H. Edad: {age}a. Ada vino"
        spans = [[6, 7, "SEX"], [text.index("Ada"), text.index(" vino"), "PER"]]
        lines.append(json.dumps({"text": text, "label": spans}) + "\n")
    path.write_text("".join(lines))
    return path


def tokenizer_of(config: Any) -> str:
    return config["nlp"]["tokenizer"]["@tokenizers"]


def test_init_takes_the_tokenizer_that_fits(tmp_path: Path) -> None:
    train, dev = write(tmp_path / "t.jsonl", range(20, 26)), write(tmp_path / "d.jsonl", "12")
    made = init(tmp_path / "config.cfg", [train], dev, lang="es")
    assert tokenizer_of(made.config) == SPLIT
    assert made.config["components"]["ner"]["model"]["templates"] == "split"
    start = "tokenizer: 6 of 12 spans cut tokens of spaCy's tokenizer for es, such as 'H' in 'H.'"
    assert any(reason.startswith(start) for reason in made.reasons)
    assert not made.notes
    for name in ("train", "dev"):
        for doc in read_own_docs(tmp_path / f"{name}.spacy"):
            assert [ent.text for ent in doc.ents] == ["H", "Ada"]
    nlp = load_model_from_config(made.config, auto_fill=True)
    assert [token.text for token in nlp.make_doc("H.")] == ["H", "."]


def test_init_keeps_a_chosen_tokenizer_and_alignment(tmp_path: Path) -> None:
    train, dev = write(tmp_path / "t.jsonl", range(20, 26)), write(tmp_path / "d.jsonl", "12")
    made = init(
        tmp_path / "config.cfg", [train], dev, lang="es", tokenizer="language", align="expand"
    )
    assert tokenizer_of(made.config) == "spacy.Tokenizer.v1"
    doc = next(read_own_docs(tmp_path / "train.spacy"))
    assert [ent.text for ent in doc.ents] == ["H.", "Ada"]


def test_init_takes_the_tokenizer_of_converted_files(tmp_path: Path) -> None:
    source = write(tmp_path / "t.jsonl", range(20, 26))
    dev = write(tmp_path / "d.jsonl", "12")
    for name in ("language", "split"):
        file = tmp_path / f"{name}.spacy"
        convert([source], file, lang="es", tokenizer=name)  # type: ignore[arg-type]
        (tmp_path / name).mkdir()
        made = init(tmp_path / name / "config.cfg", [file], dev, lang="es")
        assert tokenizer_of(made.config) == (SPLIT if name == "split" else "spacy.Tokenizer.v1")
        assert not made.notes


def test_init_names_a_file_with_other_tokens(tmp_path: Path) -> None:
    source, dev = write(tmp_path / "t.jsonl", range(20, 26)), write(tmp_path / "d.jsonl", "12")
    convert([source], tmp_path / "old.spacy", lang="es")
    made = init(
        tmp_path / "config.cfg", [tmp_path / "old.spacy"], dev, lang="es", tokenizer="split"
    )
    start = f"{tmp_path / 'old.spacy'}: 6 of 6 texts have other tokens than the pipeline"
    assert any(note.startswith(start) for note in made.notes)


def test_a_segmenter_keeps_characters(tmp_path: Path) -> None:
    train = tmp_path / "t.conllu"
    rows = ["1\tHi\t_\tINTJ\tUH\t_\t_\t_\t_\tSpaceAfter=No", "2\t.\t_\tPUNCT\t.\t_\t_\t_\t_\t_"]
    train.write_text("\n".join([*rows, "", ""]) * 12)
    made = init(tmp_path / "config.cfg", [train], None, pipes=["segmenter"], lang="en")
    assert tokenizer_of(made.config) == "spacy-bcrf.CharTokenizer.v1"
    assert not any("other tokens" in note for note in made.notes)


def test_brown_clusters_are_of_the_tokens_of_the_config(tmp_path: Path) -> None:
    train, dev = write(tmp_path / "t.jsonl", range(20, 26)), write(tmp_path / "d.jsonl", "12")
    (tmp_path / "raw.txt").write_text("Sexo: H. Edad: 30a.\n" * 50)
    init(tmp_path / "config.cfg", [train], dev, lang="es", clusters="brown")
    words = {line.split("\t")[0] for line in (tmp_path / "clusters.tsv").read_text().splitlines()}
    assert words == {"Sexo", ":", "H", ".", "Edad", "30", "a"}
