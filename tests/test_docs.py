"""The README and the pages of `docs/`: their code runs, their commands exist, their links work.

- Python blocks of a page run in order and share variables, as in a reader's session. Lines that
  start with "# " are the expected output. Numbers with a decimal point may differ. A page that
  needs a package of a missing extra is skipped.
- Configs train. Parts of configs name registered functions and their options.
- Commands, in blocks and in the text, have the options that they are called with.
"""

import ast
import configparser
import contextlib
import doctest
import importlib
import inspect
import io
import json
import lzma
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly
from forked_commands import run_module
from spacy.cli._util import app as spacy_app
from spacy.cli._util import parse_config_overrides
from spacy.cli.train import train
from spacy.training import Corpus
from spacy.util import fix_random_seed, load_config, load_model_from_config, registry
from thinc.api import Config
from tiny_taggers import write_bert, write_onnx_model
from typer.main import get_command

from spacy_bcrf.corpora.convert import convert

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf8")
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("bcrf/README.md"),
        *sorted(ROOT.glob("docs/*.md")),
    )
}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """Return the page and the text of all code blocks in this language."""
    return [
        (name, text)
        for name, page in PAGES.items()
        for found, text in FENCED.findall(page)
        if found == language
    ]


def pages_with(language: str) -> list[str]:
    """Return the pages that have code blocks in this language."""
    return sorted({name for name, _ in blocks(language)})


# Python


def annotated_part(part: str, most: int | None = None) -> str:
    """Return the first sentences of the English corpus that have entity annotation."""
    with lzma.open(ROOT / f"assets/english/{part}.conllu.xz", "rt", encoding="utf8") as file:
        sentences = file.read().split("\n\n")
    annotated = [sentence for sentence in sentences if "NER=" in sentence][:most]
    return "".join(f"{sentence}\n\n" for sentence in annotated)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `training/english/model-best`, a sparse chain, and taggers in `models`."""
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "assets").symlink_to(ROOT / "assets")
    (folder / "train.conllu").write_text(annotated_part("train"), encoding="utf8")
    corpus = folder / "train.spacy"
    convert([folder / "train.conllu"], corpus, lang="en")
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": "ner"}
    model["feature_dropout"] = 0.0  # as configs/english.cfg
    nlp.add_pipe("bcrf_ner", name="ner", config={"model": model})
    examples = list(Corpus(corpus)(nlp))
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(8):
        nlp.update(examples, sgd=optimizer)
    (folder / "training/english").mkdir(parents=True)
    nlp.to_disk(folder / "training/english/model-best")
    for write, name in MODELS.items():
        with contextlib.suppress(ImportError):
            write(folder / name)
    return folder


MODELS = {write_onnx_model: "models/pii-onnx", write_bert: "models/pii"}
"""What writes a model that pages read. Without its extra, a page that reads it is skipped."""


def mask_numbers(text: str) -> str:
    """Replace numbers with a decimal point. Their digits depend on the model and the processor."""
    return re.sub(r"\d+\.\d+", "0.0", text)


NOTEBOOK = "docs/notebook.md"


@pytest.mark.parametrize("page", [page for page in pages_with("python") if page != NOTEBOOK])
def test_python_blocks_print_their_output(page, workspace, monkeypatch, capsys):
    """A block that trains also lowers its loss."""
    updates = record_updates(monkeypatch)
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("MODEL", "training/english/model-best")
    fix_random_seed(0)
    variables: dict[str, Any] = {}
    for name, code in blocks("python"):
        if name == page:
            for model in MODELS.values():
                if f'"{model}"' in code and not Path(model).exists():
                    pytest.skip(f"the extra that writes {model} is missing")
            try:
                exec(compile(code, page, "exec"), variables)
            except ImportError as error:
                # Without an extra, `require` raises an error that names it and no module.
                if str(error.name).partition(".")[0] in ("bcrf", "spacy_bcrf"):
                    raise
                pytest.skip(str(error))
            expected = re.findall(r"^# (.*)", code, re.MULTILINE)
            printed = [mask_numbers(line) for line in capsys.readouterr().out.splitlines()]
            assert not expected or printed == [mask_numbers(line) for line in expected]
            for compute in losses_of(code, variables):
                assert descend(compute)
    assert all(losses[-1] < losses[0] for losses in updates.values() if len(losses) > 1)


def record_updates(monkeypatch: pytest.MonkeyPatch) -> dict[Any, list[float]]:
    """Return a dict that gets the losses of each pipeline's updates with equal texts."""
    found: dict[Any, list[float]] = {}
    update = spacy.Language.update

    def record(self, examples, *args, **kwargs):
        losses = update(self, examples, *args, **kwargs)
        texts = tuple(example.text for example in examples)
        found.setdefault((id(self), texts), []).append(sum(losses.values()))
        return losses

    monkeypatch.setattr(spacy.Language, "update", record)
    return found


def losses_of(code: str, variables: dict[str, Any]) -> Iterator[Callable[[], Any]]:
    """Yield a function that computes the loss anew, for each `.backward()` of a block."""
    assigned: dict[str, ast.expr] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assigned[node.targets[0].id] = node.value
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr == "backward":
            loss = called.value
            while isinstance(loss, ast.Name):
                loss = assigned[loss.id]
            expression = compile(ast.Expression(loss), "loss", "eval")
            yield partial(eval, expression, variables)


def descend(compute: Callable[[], Any]) -> bool:
    """Return whether steps of gradient descent lower a PyTorch loss towards 0."""
    import torch

    def leaves(node):
        if hasattr(node, "variable"):
            yield node.variable
        for inner, _ in node.next_functions:
            yield from leaves(inner) if inner is not None else ()

    losses, saved = [], {}
    for _ in range(10):
        loss = compute()
        losses.append(loss.item())
        tensors = list(dict.fromkeys(leaves(loss.grad_fn)))
        for x, d in zip(tensors, torch.autograd.grad(loss, tensors), strict=True):
            saved.setdefault(x, x.detach().clone())
            x.data -= 0.1 * d
    for x, before in saved.items():
        x.data.copy_(before)
    return losses[0] > losses[-1] >= 0


@pytest.mark.parametrize("sign, falls", [("-", True), ("", False)])
def test_a_wrong_sign_in_a_page_is_found(sign, falls):
    torch = pytest.importorskip("torch")
    from bcrf.torch import CRF

    torch.manual_seed(0)
    variables = {"crf": CRF(3), "x": torch.randn(4, 1, 3), "y": torch.zeros(4, 1).long()}
    for code in f"({sign}crf(x, y)).backward()", f"loss = {sign}crf(x, y)\nloss.backward()":
        (compute,) = losses_of(code, variables)
        assert descend(compute) == falls


def test_the_cells_of_the_notebook_show_tables_and_pictures(tmp_path, monkeypatch):
    """A notebook shows the value of a cell's last expression by these methods.

    It reads the start of each corpus. Its commands run in forks.
    """
    monkeypatch.chdir(tmp_path)

    real_run = subprocess.run

    def run(command, **options):
        if options != {"check": True}:  # a library asks for a version
            return real_run(command, **options)
        python, option, *arguments = command
        assert (python, option) == (sys.executable, "-m")
        return run_module(arguments, tmp_path, tmp_path / "log")

    monkeypatch.setattr(subprocess, "run", run)
    assets = tmp_path / "assets/english"
    assets.mkdir(parents=True)
    for part in ("train", "dev", "test"):
        text = annotated_part(part, 400).encode()
        (assets / f"{part}.conllu.xz").write_bytes(lzma.compress(text, preset=0))
    variables: dict[str, Any] = {}
    shown = []
    for name, code in blocks("python"):
        if name == NOTEBOOK:
            *statements, last = ast.parse(code).body
            if not isinstance(last, ast.Expr):
                exec(code, variables)
                continue
            exec(compile(ast.Module(statements, []), name, "exec"), variables)
            value = eval(compile(ast.Expression(last.value), name, "eval"), variables)
            for method in ("_repr_html_", "_repr_png_"):
                if hasattr(value, method) and getattr(value, method)():
                    shown.append(method)
    assert shown.count("_repr_html_") >= 6 and shown.count("_repr_png_") >= 3
    assert {path.name for path in tmp_path.glob("notebook/*")} >= {"train.spacy", "controlled"}


@pytest.mark.parametrize("page", pages_with("pycon"))
def test_interactive_sessions(page):
    session = "".join(text for name, text in blocks("pycon") if name == page)
    test = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    report = io.StringIO()
    results = doctest.DocTestRunner().run(test, out=report.write)
    assert results.attempted > 5 and not results.failed, report.getvalue()


# Configs


def is_complete(text: str) -> bool:
    return "\n[nlp]\n" in f"\n{text}" and "pipeline" in text


CONFIGS = blocks("ini")


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dev part of the sample corpus."""
    path = tmp_path_factory.mktemp("dev") / "dev.spacy"
    convert([ROOT / "assets/sample/dev.conllu"], path, lang="en")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("text", [text for _, text in CONFIGS if is_complete(text)])
def test_a_config_trains(text, dev, tmp_path):
    (tmp_path / "base.cfg").write_text(text)
    filled = load_model_from_config(load_config(tmp_path / "base.cfg"), auto_fill=True).config
    filled.to_disk(tmp_path / "config.cfg")
    paths = {"paths.train": str(dev), "paths.dev": str(dev)}
    train(tmp_path / "config.cfg", tmp_path / "out", overrides=paths | {"training.max_steps": 1})
    assert (tmp_path / "out/model-best").is_dir()


def find_unknown(section: dict[str, Any]) -> Iterator[str]:
    """Yield the options that a registered function or a factory does not have."""
    known = set(section)
    if "factory" in section:
        # Only a pipeline imports the factories of plug-ins.
        meta = spacy.blank("xx").get_factory_meta(section["factory"])
        known = {"factory", "name", *meta.default_config}
    for key, name in section.items():
        if key.startswith("@"):
            parameters = inspect.signature(registry.get(key[1:], name)).parameters
            known = {key, *parameters}
    yield from set(section) - known
    for value in section.values():
        if isinstance(value, dict):
            yield from find_unknown(value)


@pytest.mark.parametrize("text", [text for _, text in CONFIGS if not is_complete(text)])
def test_a_part_of_a_config_names_known_options(text):
    names, printed = re.findall(r"^\[([\w.]+)\]$", text, re.MULTILINE), text
    # The parser needs the sections above each section, before it.
    for name in names:
        for i in range(1, name.count(".") + 1):
            above = f"[{'.'.join(name.split('.')[:i])}]\n"
            if above not in text:
                # The rest of a config has it, unless the block has the section above it.
                assert f"[{'.'.join(name.split('.')[: i - 1])}]\n" not in printed, above
                text = text.replace(f"[{name}]\n", f"{above}\n[{name}]\n")
    config = Config().from_str(text, interpolate=False)
    assert names and not list(find_unknown(config))


def test_the_parts_of_configs_are_checked():
    parser = {"@architectures": "spacy-bcrf.SequenceLabeler.v1", "head": {"@layers": "x", "a": 1}}
    parser["head"]["@layers"] = "spacy-bcrf.CRF.v1"
    assert list(find_unknown({"model": parser | {"moves": None}})) == ["moves", "a"]


# Commands


OTHER_PROGRAMS = {"export", "curl", "prodigy", "uvicorn"}
"""Programs whose options the pages take from their own documentation."""


def split_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a shell script, without loops."""
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"(^|\s)#.*|\s[<>] *\S+", "", line)  # comments, redirections
        for command in re.split(r"; *", line):
            words = shlex.split(re.sub(r"^\s*do ", "", command))
            if words and words[0] not in ("for", "done"):
                yield words


def inline_commands(page: str) -> Iterator[list[str]]:
    """Yield the commands in backquotes. `...` stands for further words."""
    for code in re.findall(r"`([^`]+)`", FENCED.sub("", page)):
        if re.match(r"(python -m|make|project run|pip) ", code):
            words = shlex.split(code)
            if words[0] == "project":
                words = ["python", "-m", "spacy", *words]
            yield [word for word in words if word != "..."]


COMMANDS = [
    (page, words)
    for page, text in blocks("bash") + blocks("sh")
    for words in split_commands(text)
    if words[0] not in OTHER_PROGRAMS
] + [(name, words) for name, page in PAGES.items() for words in inline_commands(page)]


@cache
def sources_of(module: str) -> str:
    """Return the text of a module of the clone, and of those that it imports."""
    text = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf8")
    for package, names in re.findall(
        r"^from ((?:lab|benchmarks|experiments)\S*) import (.*)", text, re.M
    ):
        for name in (package, *(f"{package}.{name}" for name in names.split(", "))):
            if (ROOT / f"{name.replace('.', '/')}.py").exists():
                text += sources_of(name)
    return text


@cache
def help_of(module: str) -> str:
    """Return the `--help` of a module of the clone."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [module, "--help"])
        with pytest.raises(SystemExit):
            importlib.import_module(module).main()
    return printed.getvalue()


@cache
def spacy_command() -> Any:
    """Return `python -m spacy` with the command `bcrf`."""
    registry.cli.get_all()
    return get_command(spacy_app)


def check_spacy(words: list[str]) -> None:
    """Parse the words by the options of spaCy's commands, without running one."""
    command = spacy_command()
    while hasattr(command, "commands") and words and words != ["--help"]:
        assert words[0] in command.commands, f"no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    if not words or "--help" in words or hasattr(command, "commands"):
        return
    context = command.context_class(command, **command.context_settings)
    values, rest, _ = command.make_parser(context).parse_args(words)
    if context.allow_extra_args:
        parse_config_overrides(rest)
    else:
        assert not rest, f"{rest} not expected"
    for param in command.params:
        value = values.get(param.name)
        assert value is not None or not param.required, f"{param.name} missing"


def check_command(words: list[str]) -> None:
    """Raise AssertionError or a usage error if a command or an option does not exist."""
    match words:
        case ["make", *targets]:
            makefile = (ROOT / "Makefile").read_text()
            for target in targets:
                assert "=" in target or re.search(rf"^{target}:", makefile, re.MULTILINE), target
        case ["pip", "install", *packages]:
            setup = configparser.ConfigParser()
            setup.read(ROOT / "setup.cfg")
            extras = set(setup["options.extras_require"])
            for names in re.findall(r"\[(.+?)\]", " ".join(packages)):
                assert set(names.split(",")) <= extras, names
        case ["docker", "build", "--build-arg", argument, *_]:
            name = argument.partition("=")[0]
            assert f"ARG {name}" in (ROOT / "Dockerfile").read_text().splitlines()
        case ["docker", "run", "-p", ports, _]:
            exposed = f"EXPOSE {ports.partition(':')[2]}"
            assert exposed in (ROOT / "Dockerfile").read_text().splitlines()
        case ["python", "-m", "spacy", "project", "run", name, *options]:
            project = srsly.read_yaml(ROOT / "project.yml")
            assert name in {*project["workflows"], *(step["name"] for step in project["commands"])}
            variables = re.findall(r"--vars\.(\w+)", " ".join(options))
            assert set(variables) <= {*project["vars"]}, variables
        case ["python", "-m", "spacy", *rest]:
            check_spacy(rest)
        case ["python", "-m", module, *rest]:
            options = {word for word in rest if re.fullmatch(r"--[\w-]+", word)}
            known = {"--help", *re.findall(r'"(--[\w-]+)"', sources_of(module))}
            # Importing such a module takes seconds, and few of them compute names of options.
            assert all(option in known or option in help_of(module) for option in options), words
        case _:
            pytest.fail(f"{words[0]} is no command of the pages")


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_the_options_that_pages_name(page):
    for name, words in COMMANDS:
        if name == page:
            check_command(words)


def test_a_page_names_each_option_of_a_command_besides_the_reference():
    pages = "\n".join(text for name, text in PAGES.items() if name != "docs/commands.md")
    missing = []
    for name, command in spacy_command().commands["bcrf"].commands.items():
        for option in command.params:
            names = [*option.opts, *option.secondary_opts]
            if all(each[:1] != "-" for each in names):
                continue  # an argument
            # A short name counts where a command or a sentence about it has it.
            found = [f"\\b{name}\\b.*\\W" * (each[:2] != "--") + each for each in names]
            if not re.search(rf"(?<![\w-])(?:{'|'.join(found)})(?![\w-])", pages):
                missing.append((name, *names))
    assert missing == []


@pytest.mark.parametrize(
    "command",
    [
        "make nothing",
        "pip install spacy-bcrf[nothing]",
        "python -m spacy nothing",
        "python -m spacy bcrf convert a.conllu",
        "python -m spacy bcrf convert a.conllu b.spacy --nothing",
        "python -m spacy project run nothing",
        "python -m spacy project run all . --vars.nothing 1",
        "python -m benchmarks.memory --nothing",
        "nothing",
    ],
)
def test_wrong_commands_are_found(command):
    with pytest.raises((Exception, pytest.fail.Exception)):
        check_command(command.split())


def test_all_kinds_of_commands_are_found():
    kinds = {" ".join(words[:4]) if words[2:3] == ["spacy"] else words[0] for _, words in COMMANDS}
    assert {"make", "pip", "python", "python -m spacy bcrf", "python -m spacy train"} <= kinds
    assert len(COMMANDS) > 60


# Files, links and records


def slug(title: str) -> str:
    """Return the anchor of a title, as GitHub and MkDocs make it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_titles(page):
    text = FENCED.sub("", PAGES[page])
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        target, _, anchor = link.partition("#")
        if not re.match(r"https?:", target):
            path = (ROOT / page).parent / target if target else ROOT / page
            assert path.exists(), link
            if anchor:
                titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf8"), re.MULTILINE)
                assert anchor in map(slug, titles), link


def test_the_files_that_pages_name_exist():
    """The source distribution runs this test too, so it must have the files."""
    text = "\n".join(PAGES.values())
    names = re.findall(r"\b(?:docs|configs|assets|lab|benchmarks|experiments)/[\w./-]*\w", text)
    assert {"assets/sample", "configs/ner_hybrid.cfg"} <= {*names}
    project = (ROOT / "project.yml").read_text("utf8")
    fetched = {*re.findall(r'dest: "(assets/[^"]*)"', project)}
    for name in {*names} - fetched:
        assert (ROOT / name).exists() or "$" in text[text.index(name) :][: len(name) + 1], name


def test_the_records_of_each_format_convert(tmp_path):
    tools = "JSON lines|Prodigy|Label Studio|doccano|Hugging Face|spaCy|GLiNER"
    page = PAGES["docs/annotation-tools.md"]
    records = dict(re.findall(rf"^\| ({tools}) \| `(.*)` \|$", page, re.M))
    for name, record in records.items():
        assert json.loads(record), name
        path = tmp_path / "in.jsonl"
        path.write_text(record)
        counts = convert([path], tmp_path / "out.spacy", skip_malformed=False)
        assert counts.docs == 1 and counts.spans > 0, name
    assert len(records) == 7


@pytest.mark.parametrize("package", ["bcrf", "spacy_bcrf"])
def test_the_map_has_the_rooms_of_both_packages(package):
    tables = re.findall(rf"^\| `{package}/`.*(?:\n\|.*)+", PAGES["CONTRIBUTING.md"], re.MULTILINE)
    cells = re.findall(r"^\| ((?:`[^`]*`(?:, )?)+) \|", "\n".join(tables), re.MULTILINE)
    rooms = re.findall(r"`([^`]*)`", " ".join(cells))
    folder = Path(importlib.import_module(package).__file__).parent
    found = {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    found |= {path.name for path in folder.glob("*.py") if path.name != "__init__.py"}
    assert {*rooms} - {f"{package}/"} == found


def test_the_readme_is_short_and_has_the_two_commands():
    lines = PAGES["README.md"].splitlines()
    assert len(lines) <= 130
    assert {line.split("#")[0].strip() for line in lines} >= {"make quickstart", "make test"}


def test_the_reference_of_commands_is_their_help():
    """`python docs/theme/commands.py > docs/commands.md` writes it."""
    page = runpy.run_path(str(ROOT / "docs/theme/commands.py"))
    assert "\n".join(page["lines"]()) + "\n" == PAGES["docs/commands.md"]
