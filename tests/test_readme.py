"""The README's examples run and print the output that it shows."""

import re
from pathlib import Path

import pytest
from spacy.cli.train import train
from spacy.util import load_config, load_model_from_config

from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.convert_records import convert_records
from spacy_bcrf.corpora.formats.conllu import read_conllu

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf8")


def blocks(language: str) -> list[str]:
    """Return the README's code blocks in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_python_blocks_print_their_output(capsys):
    """Blocks run in order and share variables, as in a reader's session."""
    variables: dict = {}
    for code in blocks("python"):
        exec(code, variables)
        shown = re.findall(r"^# (.*)", code, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == shown


@pytest.mark.slow
@pytest.mark.parametrize("text", blocks("ini"))
def test_a_config_trains(text, tmp_path):
    (tmp_path / "base.cfg").write_text(text)
    filled = load_model_from_config(load_config(tmp_path / "base.cfg"), auto_fill=True).config
    filled.to_disk(tmp_path / "config.cfg")
    corpus = tmp_path / "dev.spacy"
    convert([(ROOT / "assets/sample/dev.conllu", read_conllu)], corpus, lang="en")
    paths = {"paths.train": str(corpus), "paths.dev": str(corpus)}
    train(tmp_path / "config.cfg", tmp_path / "out", overrides=paths | {"training.max_steps": 1})
    assert (tmp_path / "out/model-best").is_dir()


def test_the_records_of_each_format_convert(tmp_path):
    tools = "JSON lines|Prodigy|Label Studio|doccano|Hugging Face|spaCy"
    records = dict(re.findall(rf"^\| ({tools}) \| `(.*)` \|$", README, re.M))
    for name, record in records.items():
        path = tmp_path / "in.jsonl"
        path.write_text(record)
        counts = convert_records([(path, None)], tmp_path / "out.spacy", lang="xx", strict=True)
        assert counts.docs == 1 and counts.spans > 0, name
    assert len(records) == 6


def test_the_files_that_the_readme_names_exist():
    """The source distribution runs this test too, so it must have the files."""
    files = re.findall(
        r"(?:(?:docs|configs|assets|benchmarks|experiments)/[\w./-]*|Makefile)", README
    )
    modules = re.findall(r"python -m ((?:benchmarks|experiments)[\w.]+)", README)
    assert {"docs/results.md", "benchmarks/"} <= set(files) and len(modules) > 5
    for name in {*files, *(f"{module.replace('.', '/')}.py" for module in modules)}:
        assert (ROOT / name.rstrip(".")).exists(), name
