"""project.yml, its configs and its experiments."""

import hashlib
import lzma
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import srsly
from forked_commands import run_module
from spacy.cli.project.run import project_run
from spacy.util import load_config, load_model_from_config, registry

from experiments.paper import run as paper
from experiments.partial import run as partial
from models.build import find_corpus, read_blocks

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

MAX_LINES = 52  # without comments and blank lines

# Modules and arguments that some configs need.
NEEDS = {"pos_attentive": "torch", "pos_bilstm": "torch"}
NEEDS |= {"pos_trf": "spacy_transformers", "ner_trf": "spacy_transformers"}
ARGUMENTS = {name: {"paths.transformer": "DIR"} for name in ("pos_trf", "ner_trf")}


@pytest.mark.parametrize("path, head", SWAPS, ids=lambda value: getattr(value, "stem", value))
def test_a_config_is_short_and_takes_any_head(path, head):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem], reason=f"{path.name} needs an extra")
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) <= MAX_LINES
    components = load_config(path)["components"]
    names = [name for name in components if "head" in components[name].get("model", {})]
    swap = {f"components.{name}.model.head.@layers": head for name in names}
    config = load_config(path, overrides=swap | ARGUMENTS.get(path.stem, {}))
    # `spacy train` fills the rest, but reads these two settings before.
    assert config["training"].keys() >= {"seed", "gpu_allocator"}
    filled = load_model_from_config(config, auto_fill=True).config
    for name in names:
        assert filled["components"][name]["model"]["head"]["@layers"] == head
    # Filling changes no setting of the file and leaves nothing to fill.
    assert filled.merge(config) == filled == load_model_from_config(filled).config


@pytest.mark.parametrize("asset", CHECKED, ids=lambda asset: asset["dest"])
def test_the_local_corpora_are_the_published_ones(asset, corpora):
    path = corpora / Path(asset["dest"]).relative_to("assets")
    content = b"".join(read_blocks(find_corpus(path)))
    if path.name == "train.tsv":
        # The renaming of labels in this copy also renamed a word.
        content = content.replace(b"E-PRGE", b"E-protein")
    assert hashlib.md5(content).hexdigest() == asset["checksum"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the project, and tiny corpora with the file names of the assets."""
    folder = tmp_path_factory.mktemp("project")
    for modules in ("lab", "experiments"):
        shutil.copytree(ROOT / modules, folder / "project" / modules)
    (folder / "project/configs").mkdir()
    for path in CONFIGS:
        # Narrow networks, and a language without special cases of the tokenizer, which are slow.
        quick = path.read_text().replace("width = 96", "width = 8").replace('"en"', '"xx"')
        (folder / "project/configs" / path.name).write_text(quick)
    commands = (ROOT / "project.yml").read_text().replace("-l en", "-l xx")
    (folder / "project/project.yml").write_text(commands)
    sentences = (ROOT / "assets/sample/dev.conllu").read_text().split("\n\n")[:N_SENTENCES]
    conllu = "\n\n".join(sentences) + "\n\n"
    for asset in PROJECT["assets"]:
        path = folder / "corpora" / Path(asset["dest"]).relative_to("assets")
        path.parent.mkdir(parents=True, exist_ok=True)
        if "git" in asset:
            shutil.copytree(ROOT / "assets/meddocan/sample", path)
        elif path.suffix == ".conllu":
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
    """Return a function that runs a command or workflow, and returns which commands ran."""

    def run(name, **variables):
        overrides = {f"vars.{key}": value for key, value in variables.items()}
        project_run(project, name, overrides={"vars.corpora": str(folder / "corpora")} | overrides)
        lines = capsys.readouterr().out.splitlines()
        skipped = [line.split("'")[1] for line in lines if "Skipping" in line]
        return [name for name in PROJECT["workflows"].get(name, [name]) if name not in skipped]

    return run


def test_the_worked_example_of_redaction(project, run):
    # Ten notes suffice for a small promise.
    assert run("redaction", recall=0.5) == PROJECT["workflows"]["redaction"]
    texts = [line["text"] for line in srsly.read_jsonl(project / "metrics/redacted.jsonl")]
    assert len(texts) == 10 and all("[NOMBRE_SUJETO_ASISTENCIA]" in text for text in texts)
    assert "characters" in (project / "metrics/redaction.html").read_text()


@pytest.mark.slow
def test_all_tasks_run_once_and_again_only_after_changes(project, run):
    few = {"pos_steps": 1, "ner_steps": 1, "chunking_epochs": 1, "seg_steps": 1}
    assert run("all", **few) == PROJECT["workflows"]["all"]
    for task, score in SCORES.items():
        assert srsly.read_json(project / f"metrics/{task}.json")[score] is not None
    assert run("all", **few) == []
    again = run("wnut-ner", **few, head="spacy-bcrf.CRF.v1")
    assert again == ["train-wnut-ner", "evaluate-wnut-ner"]


@pytest.mark.slow
def test_the_sapo_experiments_resume_and_are_drawn(project, run):
    pytest.importorskip("matplotlib", reason="draws figures")
    few = {"sapo_passes": 2, "sapo_seeds": 2, "bilstm_passes": 0}
    for name in ("train-sapo-bioner", "train-sapo-pos", "sapo-chunking"):
        assert run(name, **few)
    figures = [path.name for path in (project / "figures/sapo").glob("*.png")]
    assert len(figures) == 5
    measured = project / "metrics/sapo/chunking.csv"
    rows = measured.read_text().splitlines()
    assert len(rows) == 1 + 12 * 2 * 2
    results = (project / "figures/sapo/results.md").read_text()
    for name in ("CRF", "SAPO", "averaged n-best MIRA", "SAPO, beam"):
        assert name in results
    # The last pass of the last method and seed is missing. Only this method and seed run again.
    measured.write_text("\n".join(rows[:-1]) + "\n")
    assert run("train-sapo-chunking", **few)
    again = measured.read_text().splitlines()
    assert again[:-2] == rows[:-2]
    assert len(again) == len(rows)


@pytest.mark.slow
def test_partial_annotation_is_compared_with_full(project, run, capsys):
    pytest.importorskip("matplotlib", reason="draws figures")
    run("convert-wnut-ner")
    arguments = ["corpus/wnut-ner", "metrics/partial", "--config", "configs/ner.cfg"]
    arguments += ["--steps", "1"]
    methods = ["--methods", "CRF", "missing as O", "--shares", "0.5"]
    partial.main([*arguments, *methods])
    folder = project / "metrics/partial"
    before = stored_results(folder)
    assert len(before) == 6
    table = (folder / "results.md").read_text()
    assert table in capsys.readouterr().out
    assert len(table.splitlines()) == 2 + 1 + 2 + 1 + 2
    assert (folder / "curve.png").stat().st_size > 1000
    # Stored results are not computed again, only the table.
    (folder / "results.md").unlink()
    partial.main([*arguments, *methods])
    assert (folder / "results.md").read_text() == table
    assert stored_results(folder) == before
    # Two seeds without a share of entities: one run of the first seed is stored.
    two_seeds = ["--methods", "CRF", "--shares", "--seeds", "2"]
    partial.main([*arguments, *two_seeds])
    after = stored_results(folder)
    assert len(after) == len(before) + 3 and after.items() >= before.items()
    assert (folder / "results.md").read_text().count(" ± ") == 3 * 2
    assert not any(
        run.load() for run in plan(partial, [*arguments, *two_seeds, "--training.dropout", "0.3"])
    )


@pytest.mark.slow
def test_the_papers_entity_experiment_runs_again_with_other_settings(
    folder, project, capsys, monkeypatch
):
    corpora = paper.EXPERIMENTS["ner"].corpora
    monkeypatch.setitem(corpora, "wnut", replace(corpora["wnut"], lang="xx"))
    arguments = paper_arguments(folder, "ner", "wnut", "supervised", "partial")
    assert len(run_paper(project, capsys, arguments, n_scores=28)) == 4 + 2
    assert all(run.load() for run in plan(paper, arguments))
    for other in (["--steps", "2"], ["--training.dropout", "0.25"]):
        assert not any(run.load() for run in plan(paper, [*arguments, *other]))


@pytest.mark.slow
def test_the_papers_segmentation_experiment_resumes(folder, project, capsys):
    arguments = paper_arguments(folder, "seg", "zh", "0 layers")
    before = run_paper(project, capsys, arguments, n_scores=16)
    lost = min(before)
    lost.unlink()
    after = run_paper(project, capsys, arguments, n_scores=16)
    assert {path for path in after if after[path] != before[path]} == {lost}


def paper_arguments(folder, experiment, corpus, *variants):
    """Return the arguments of an experiment with one corpus for one step."""
    for module in ("torch", "matplotlib"):
        pytest.importorskip(module, reason="needs the extras torch and plot")
    arguments = [experiment, "--output", "metrics/paper", "--corpora", str(folder / "corpora")]
    return [*arguments, "--only", corpus, "--variants", *variants, "--steps", "1"]


def run_paper(project, capsys, arguments, n_scores):
    """Run an experiment, check its tables and return its stored results."""
    paper.main(arguments)
    output = project / "metrics/paper/small" / arguments[0]
    assert (output / "results.md").read_text() in capsys.readouterr().out
    assert len((output / "results.csv").read_text().splitlines()) == 1 + n_scores
    return stored_results(output)


def stored_results(folder):
    """Return the time at which each run has stored its result."""
    return {path: path.stat().st_mtime_ns for path in folder.glob("*/result.json")}


def plan(experiment, arguments):
    """Return the runs that an experiment would perform."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stopped:
        patch.setattr(experiment, "perform", lambda runs, jobs: sys.exit(runs))
        experiment.main(arguments)
    return stopped.value.code
