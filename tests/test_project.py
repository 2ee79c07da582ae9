"""project.yml and the configs that it trains."""

import hashlib
import lzma
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import srsly
from spacy.util import load_config, load_model_from_config, registry

ROOT = Path(__file__).resolve().parent.parent
PROJECT = srsly.read_yaml(ROOT / "project.yml")
CONFIGS = sorted((ROOT / "configs").glob("*.cfg"))
HEADS = [name for name in registry.layers.get_all() if name.startswith("spacy-bcrf.")]
SCORES = {
    "ewt-pos": "tag_acc",
    "wnut-ner": "ents_f",
    "jnlpba-ner": "ents_f",
    "conll2000-chunking": "spans_chunks_f",
    "chinese-segmentation": "tagged_token_f",
    "japanese-segmentation": "tagged_token_f",
}
CHECKED = [asset for asset in PROJECT["assets"] if "checksum" in asset]
CHUNKS = "He PRP B-NP\nreckons VBZ B-VP\nthe DT B-NP\ndeficit NN I-NP\n. . O\n\n" * 5


# What some configs need beside the base install: an extra, and an argument that has no default.
NEEDS = {"pos_attentive": "torch", "pos_bilstm": "torch"}
NEEDS |= {"pos_trf": "spacy_transformers", "ner_trf": "spacy_transformers"}
ARGUMENTS = {name: {"paths.transformer": "DIR"} for name in ("pos_trf", "ner_trf")}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
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
        # A copy in circulation, with other labels, has this word caught up in their renaming.
        content = content.replace(b"E-PRGE", b"E-protein")
    assert hashlib.md5(content).hexdigest() == asset["checksum"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The project in a folder of its own, and beside it corpora of the shape of the assets."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("configs", "experiments"):
        shutil.copytree(ROOT / name, folder / "project" / name)
    shutil.copy(ROOT / "project.yml", folder / "project")
    conllu = (ROOT / "assets/sample/dev.conllu").read_text()
    for asset in PROJECT["assets"]:
        path = folder / "corpora" / Path(asset["dest"]).relative_to("assets")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".conllu":
            path.with_name(path.name + ".xz").write_bytes(lzma.compress(conllu.encode()))
        elif path.parent.name == "conll2000":
            path.write_text(CHUNKS)
        else:
            path.write_text("-DOCSTART-\tO\n\nNew\tB-LOC\nYork\tI-LOC\n\nyes\tO\n\n" * 5)
    return folder


def run(folder, name, **variables):
    """What `project run` says it has done with each command, in order: True if it ran."""
    options = [part for key, value in variables.items() for part in (f"--vars.{key}", value)]
    done = subprocess.run(
        [sys.executable, "-m", "spacy", "project", "run", name, folder / "project", *options],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = [line.split("'")[1] for line in done.stdout.splitlines() if "Skipping" in line]
    return {name: name not in skipped for name in PROJECT["workflows"][name]}


@pytest.mark.slow
def test_all_tasks_run_and_then_only_what_changed(small):
    few = {"corpora": str(small / "corpora"), "pos_steps": "2", "ner_steps": "2"}
    few |= {"chunking_epochs": "2", "seg_steps": "2"}
    assert all(run(small, "all", **few).values())
    for task, score in SCORES.items():
        assert srsly.read_json(small / f"project/metrics/{task}.json")[score] is not None
    assert not any(run(small, "all", **few).values())
    assert run(small, "wnut-ner", **few, head="spacy-bcrf.CRF.v1") == {
        "convert-wnut-ner": False,
        "train-wnut-ner": True,
        "evaluate-wnut-ner": True,
    }


@pytest.mark.slow
def test_sapo_s_experiments_go_on_and_are_drawn(small):
    pytest.importorskip("matplotlib", reason="draws figures")
    few = {"corpora": str(small / "corpora"), "sapo_passes": "2", "sapo_seeds": "2"}
    few["bilstm_passes"] = "0"
    for task in ("chunking", "bioner", "pos"):
        assert all(run(small, f"sapo-{task}", **few).values())
    project = small / "project"
    drawn = {path.name for path in (project / "figures/sapo").iterdir()}
    assert len([name for name in drawn if name.endswith(".png")]) == 6
    rows = (project / "metrics/sapo/chunking.csv").read_text().splitlines()
    assert len(rows) == 1 + 10 * 2 * 2
    results = (project / "figures/sapo/results.md").read_text()
    for name in ("CRF", "SAPO", "averaged n-best MIRA", "Convergence"):
        assert name in results
    # What was measured stays, and only what is missing is done: the last method's last seed.
    (project / "metrics/sapo/chunking.csv").write_text("\n".join(rows[:-1]) + "\n")
    assert run(small, "sapo-chunking", **few)["train-sapo-chunking"]
    again = (project / "metrics/sapo/chunking.csv").read_text().splitlines()
    assert again[:-2] == rows[:-2]
    assert len(again) == len(rows)


@pytest.mark.slow
def test_partial_annotation_is_compared_with_full(small):
    pytest.importorskip("matplotlib", reason="draws figures")
    project = small / "project"
    convert = "convert-wnut-ner"
    steps = {"corpora": str(small / "corpora"), "partial_steps": "2"}
    options = [part for key, value in steps.items() for part in (f"--vars.{key}", value)]
    spacy_project = [sys.executable, "-m", "spacy", "project", "run"]
    subprocess.run([*spacy_project, convert, project, *options], check=True)
    script = [sys.executable, "-m", "experiments.partial.run", "corpus/wnut-ner", "metrics/partial"]
    command = [*script, "--steps", "2", "--shares", "0.5"]
    subprocess.run(command, cwd=project, check=True)
    folder = project / "metrics/partial"
    table = (folder / "results.md").read_text().splitlines()
    assert len(table) == 2 + 2 + 3 + 3
    assert (folder / "curve.png").stat().st_size > 1000
    # What is there is not done again: only the table is made anew.
    (folder / "results.md").unlink()
    done = {path: path.stat().st_mtime_ns for path in folder.glob("*/result.json")}
    subprocess.run(command, cwd=project, check=True)
    assert (folder / "results.md").read_text().splitlines() == table
    assert {path: path.stat().st_mtime_ns for path in done} == done
    # Unless other settings are asked for.
    subprocess.run([*command, "--seed", "1"], cwd=project, check=True)
    assert len(list(folder.glob("*/result.json"))) == 2 * len(done)


@pytest.mark.slow
@pytest.mark.parametrize(
    "experiment, corpus, variants, n_scores",
    [("ner", "wnut", ["supervised", "partial"], 20), ("seg", "zh", ["0 layers"], 12)],
)
def test_the_paper_s_experiments_run_and_go_on(small, experiment, corpus, variants, n_scores):
    for module in ("torch", "matplotlib"):
        pytest.importorskip(module, reason="needs the extras torch and plot")
    project = small / "project"
    output = project / "metrics/paper"
    command = [sys.executable, "-m", "experiments.paper.run", experiment, "--output", str(output)]
    command += ["--corpora", str(small / "corpora"), "--steps", "2", "--only", corpus]
    command += ["--variants", *variants]
    done = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)
    folder = output / "small" / experiment
    table = (folder / "results.md").read_text()
    assert table in done.stdout
    rows = (folder / "results.csv").read_text().splitlines()
    assert len(rows) == 1 + n_scores
    results = sorted(folder.glob("*/result.json"))
    before = {path: path.stat().st_mtime for path in results}
    results[0].unlink()
    subprocess.run(command, cwd=project, check=True)
    after = {path: path.stat().st_mtime for path in results}
    assert [path for path in results if after[path] != before[path]] == results[:1]
    if experiment == "ner":
        # With other settings nothing is done.
        command[command.index("2")] = "1"
        subprocess.run(command, cwd=project, check=True)
        assert all(path.stat().st_mtime > after[path] for path in results)
    if experiment == "seg":
        violation = [sys.executable, "-m", "experiments.paper.violation", str(folder)]
        subprocess.run(violation, cwd=project, check=True)
        assert (folder / "violation.png").stat().st_size > 1000
