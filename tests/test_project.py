"""project.yml, its configs and its experiments."""

import hashlib
import lzma
import shutil
import sys
from pathlib import Path

import pytest
import srsly
from forked_commands import run_module
from spacy.cli.project.run import project_run
from spacy.util import load_config, load_model_from_config, registry

from experiments.paper import run as paper
from experiments.paper import violation
from experiments.partial import run as partial

ROOT = Path(__file__).resolve().parent.parent
PROJECT = srsly.read_yaml(ROOT / "project.yml")
CONFIGS = sorted((ROOT / "configs").glob("*.cfg"))
HEADS = [name for name in registry.layers.get_all() if name.startswith("spacy-bcrf.")]
# Two heads for each config. Together the configs take every head.
SWAPS = [(path, HEADS[(i + k) % len(HEADS)]) for i, path in enumerate(CONFIGS) for k in (0, 3)]
SCORES = {
    "ewt-pos": "tag_acc",
    "wnut-ner": "ents_f",
    "jnlpba-ner": "ents_f",
    "conll2000-chunking": "spans_chunks_f",
    "chinese-segmentation": "tagged_token_f",
    "japanese-segmentation": "tagged_token_f",
}
CHECKED = [asset for asset in PROJECT["assets"] if "checksum" in asset]
CHUNKS = "He PRP B-NP\nreckons VBZ B-VP\nthe DT B-NP\ndeficit NN I-NP\n. . O\n\n" * 3
ENTITIES = "-DOCSTART-\tO\n\nNew\tB-LOC\nYork\tI-LOC\n\nyes\tO\n\n" * 3
N_SENTENCES = 5


# Modules and arguments that some configs need.
NEEDS = {"pos_attentive": "torch", "pos_bilstm": "torch"}
NEEDS |= {"pos_trf": "spacy_transformers", "ner_trf": "spacy_transformers"}
ARGUMENTS = {name: {"paths.transformer": "DIR"} for name in ("pos_trf", "ner_trf")}


@pytest.mark.parametrize("path, head", SWAPS, ids=lambda value: getattr(value, "stem", value))
def test_a_config_is_complete_and_takes_any_head(path, head):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem], reason=f"{path.name} needs an extra")
    components = load_config(path)["components"]
    names = [name for name in components if "head" in components[name].get("model", {})]
    swap = {f"components.{name}.model.head.@layers": head for name in names}
    config = load_config(path, overrides=swap | ARGUMENTS.get(path.stem, {}))
    filled = load_model_from_config(config, auto_fill=True).config
    for name in names:
        assert filled["components"][name]["model"].pop("head")["@layers"] == head
        del config["components"][name]["model"]["head"]
    assert filled == config


@pytest.mark.parametrize("asset", CHECKED, ids=lambda asset: asset["dest"])
def test_the_local_corpora_are_the_published_ones(asset, corpora):
    path = corpora / Path(asset["dest"]).relative_to("assets")
    packed = path.with_name(path.name + ".xz")
    content = path.read_bytes() if path.exists() else lzma.decompress(packed.read_bytes())
    if path.name == "train.tsv":
        # The renaming of labels in this copy also renamed a word.
        content = content.replace(b"E-PRGE", b"E-protein")
    assert hashlib.md5(content).hexdigest() == asset["checksum"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the project, and tiny corpora with the file names of the assets."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("configs", "experiments"):
        shutil.copytree(ROOT / name, folder / "project" / name)
    shutil.copy(ROOT / "project.yml", folder / "project")
    sentences = (ROOT / "assets/sample/dev.conllu").read_text().split("\n\n")[:N_SENTENCES]
    conllu = "\n\n".join(sentences) + "\n\n"
    for asset in PROJECT["assets"]:
        path = folder / "corpora" / Path(asset["dest"]).relative_to("assets")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".conllu":
            path.with_name(path.name + ".xz").write_bytes(lzma.compress(conllu.encode()))
        else:
            path.write_text(CHUNKS if path.parent.name == "conll2000" else ENTITIES)
    return folder


@pytest.fixture
def project(folder, monkeypatch):
    """The project's folder. Its commands run in forks, without a new interpreter."""

    def run_command(command, **options):
        assert command[:2] == [sys.executable, "-m"]
        run_module(command[2:], folder / "project", folder / "log.txt")

    monkeypatch.setattr("weasel.cli.run.run_command", run_command)
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS"):
        # The experiments set these variables; monkeypatch restores them.
        monkeypatch.setenv(f"{library}_NUM_THREADS", "1")
    monkeypatch.chdir(folder / "project")
    return folder / "project"


@pytest.fixture
def run(folder, project, capsys):
    """Return a function that runs a workflow, and returns for each command whether it ran."""

    def run(name, **variables):
        overrides = {f"vars.{key}": value for key, value in variables.items()}
        project_run(project, name, overrides={"vars.corpora": str(folder / "corpora")} | overrides)
        lines = capsys.readouterr().out.splitlines()
        skipped = [line.split("'")[1] for line in lines if "Skipping" in line]
        return {name: name not in skipped for name in PROJECT["workflows"][name]}

    return run


@pytest.mark.slow
def test_all_tasks_run_once_and_again_only_after_changes(project, run):
    few = {"pos_steps": 2, "ner_steps": 2, "chunking_epochs": 2, "seg_steps": 2}
    assert all(run("all", **few).values())
    for task, score in SCORES.items():
        assert srsly.read_json(project / f"metrics/{task}.json")[score] is not None
    assert not any(run("all", **few).values())
    assert run("wnut-ner", **few, head="spacy-bcrf.CRF.v1") == {
        "convert-wnut-ner": False,
        "train-wnut-ner": True,
        "evaluate-wnut-ner": True,
    }


@pytest.mark.slow
def test_the_sapo_experiments_resume_and_are_drawn(project, run):
    pytest.importorskip("matplotlib", reason="draws figures")
    few = {"sapo_passes": 2, "sapo_seeds": 2, "bilstm_passes": 0}
    for task in ("chunking", "bioner", "pos"):
        assert all(run(f"sapo-{task}", **few).values())
    figures = [path.name for path in (project / "figures/sapo").glob("*.png")]
    assert len(figures) == 6
    measured = project / "metrics/sapo/chunking.csv"
    rows = measured.read_text().splitlines()
    assert len(rows) == 1 + 12 * 2 * 2
    results = (project / "figures/sapo/results.md").read_text()
    for name in ("CRF", "SAPO", "averaged n-best MIRA", "SAPO, beam", "Convergence"):
        assert name in results
    # The last pass of the last method and seed is missing. Only this method and seed run again.
    measured.write_text("\n".join(rows[:-1]) + "\n")
    assert run("sapo-chunking", **few)["train-sapo-chunking"]
    again = measured.read_text().splitlines()
    assert again[:-2] == rows[:-2]
    assert len(again) == len(rows)


@pytest.mark.slow
def test_partial_annotation_is_compared_with_full(project, run, capsys):
    pytest.importorskip("matplotlib", reason="draws figures")
    run("wnut-ner", ner_steps=2)
    arguments = ["corpus/wnut-ner", "metrics/partial", "--steps", "2", "--shares"]
    partial.main([*arguments, "0.5"])
    folder = project / "metrics/partial"
    table = (folder / "results.md").read_text()
    assert table in capsys.readouterr().out
    assert len(table.splitlines()) == 2 + 2 + 3 + 3
    assert (folder / "curve.png").stat().st_size > 1000
    # Stored results are not computed again, only the table.
    (folder / "results.md").unlink()
    done = {path: path.stat().st_mtime_ns for path in folder.glob("*/result.json")}
    assert len(done) == 8
    partial.main([*arguments, "0.5"])
    assert (folder / "results.md").read_text() == table
    assert {path: path.stat().st_mtime_ns for path in done} == done
    # Another seed makes other runs, here without the share of entities.
    partial.main([*arguments, "--seed", "1"])
    assert len(list(folder.glob("*/result.json"))) == len(done) + 2 + 3


@pytest.mark.slow
def test_the_papers_entity_experiment_runs_again_with_other_settings(folder, project, capsys):
    results = run_paper(folder, capsys, "ner", "wnut", "supervised", "partial", n_scores=20)
    before = {path: path.stat().st_mtime_ns for path in results}
    arguments = ["ner", "--output", "metrics/paper", "--corpora", str(folder / "corpora")]
    paper.main([*arguments, "--only", "wnut", "--variants", "partial", "--steps", "1"])
    again = [path for path in results if path.stat().st_mtime_ns != before[path]]
    assert [path.parent.name for path in again] == ["wnut-partial-BCRF-0", "wnut-partial-CRF-0"]


@pytest.mark.slow
def test_the_papers_segmentation_experiment_resumes(folder, project, capsys):
    results = run_paper(folder, capsys, "seg", "zh", "0 layers", n_scores=12)
    before = {path: path.stat().st_mtime_ns for path in results}
    results[0].unlink()
    assert run_paper(folder, capsys, "seg", "zh", "0 layers", n_scores=12) == results
    again = [path for path in results if path.stat().st_mtime_ns != before[path]]
    assert again == results[:1]
    violation.main(["metrics/paper/small/seg"])
    assert (project / "metrics/paper/small/seg/violation.png").stat().st_size > 1000


def run_paper(folder, capsys, experiment, corpus, *variants, n_scores):
    """Run an experiment for two steps, check its tables and return the files of its results."""
    for module in ("torch", "matplotlib"):
        pytest.importorskip(module, reason="needs the extras torch and plot")
    arguments = [experiment, "--output", "metrics/paper", "--corpora", str(folder / "corpora")]
    paper.main([*arguments, "--steps", "2", "--only", corpus, "--variants", *variants])
    output = folder / "project/metrics/paper/small" / experiment
    assert (output / "results.md").read_text() in capsys.readouterr().out
    assert len((output / "results.csv").read_text().splitlines()) == 1 + n_scores
    return sorted(output.glob("*/result.json"))
