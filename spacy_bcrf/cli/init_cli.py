"""`python -m spacy bcrf init`"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from filecmp import cmp
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from spacy.cli._util import Opt
from tqdm import tqdm

from bcrf.io.atomic import replacing, replacing_folder
from bcrf.io.text import text_suffix

from .errors import spacy_command
from .options import Force, Lang
from .paths import check_output_file, print_notes, read_corpus

if TYPE_CHECKING:
    from spacy_bcrf.corpora.inspection import Inspection

Encoder = Literal["sparse", "cnn", "hybrid", "transformer"]
HELD_OUT = 10
"""Without --dev, each of so many documents is held out as one."""


def init_cli(
    output: Annotated[Path, Opt("--output", "-o", help="The config to write")],
    train: Annotated[
        list[Path] | None,
        Opt(
            "--train",
            "-t",
            help="Corpora: .spacy, or as for `convert`, whose texts replace equal ones of .spacy",
            exists=True,
        ),
    ] = None,
    dev: Annotated[Path | None, Opt("--dev", "-d", help="Dev corpus (default: a tenth)")] = None,
    names: Annotated[list[str] | None, Opt(help="LABEL=FILE, a name a line. Repeatable")] = None,
    texts: Annotated[Path | None, Opt(help="Texts for --names, as for `rank`")] = None,
    lang: Lang = "xx",
    pipes: Annotated[
        str | None,
        Opt("--pipe", "-p", help="ner,spans,tagger; or segmenter (default: by corpus)"),
    ] = None,
    encoder: Annotated[Encoder, Opt("--encoder", "-e", help="Kind of model")] = "sparse",
    clusters: Annotated[
        str | None, Opt(help="What `clusters` wrote, or brown: of TEXTS.txt or text beside TRAIN")
    ] = None,
    transformer: Annotated[str | None, Opt(help="Folder or name of a transformer")] = None,
    scores: Annotated[
        str | None,
        Opt(
            help="A foreign tagger whose scores are features: folder of a token classifier or of a "
            "spaCy pipeline, or spans in .jsonl. Without --train, OUTPUT decodes its scores"
        ),
    ] = None,
    labels: Annotated[str | None, Opt(help="Of --scores, as ours: GPE=LOC,DATE=O")] = None,
    force: Force = False,
) -> str:
    """
    Look at a corpus and write a training config that fits it: components for its annotation,
    passes and evaluation interval. Corpora in other formats than .spacy are converted into the
    folder of the config. --names and --texts stand in place of --train. Names in lower case match
    any case.
    """
    from spacy_bcrf.analysis.first_config import check_choices, make_first_config
    from spacy_bcrf.analysis.loading import note_shared

    source = _find_source(scores, labels)
    if source is not None and not (train or texts or names):
        return _write_decoder(output, lang, source, labels)
    corpora = [texts] if texts else train or []
    if bool(names) != bool(texts) or bool(names) == bool(train):
        raise ValueError("expected --train, or --names with --texts, or --scores alone")
    if names and dev is None:
        raise ValueError("--names needs --dev: documents with all of their entities")
    check_output_file(output, ".cfg", *corpora, dev, keep=not force)
    if source is not None:
        source["cache"] = str(output.parent / "scores.sqlite")
    lists = _read_names(names or [])
    raw = texts if texts and text_suffix(texts) == ".txt" else _find_raw_text(corpora)
    chosen = [name.strip() for name in pipes.split(",")] if pipes else []
    choices: Any = {"encoder": encoder, "transformer": transformer, "scores": source}
    check_choices(chosen, clusters=Path(clusters) if clusters else None, **choices)
    spans_key = "sc" if "spans" in chosen else None
    parts = _Parts(output.parent, corpora, dev, lang, spans_key, force)
    with parts:
        clusters_file = _find_clusters(clusters, raw, output.parent, lang)
        paths = parts.prepare(lists)
        found = {name: _inspect(path) for name, path in paths.items()}
        own, gold = (sorted(found[part].labels) for part in ("train", "dev"))
        if own and gold and set(own).isdisjoint(gold) and (not chosen or "ner" in chosen):
            option = f", such as --names {gold[0]}=FILE" if names else ""
            raise ValueError(
                f"{paths['dev']} has the labels {', '.join(gold)}, but {paths['train']} has "
                f"{', '.join(own)}, so no entity can be right; expected equal labels{option}"
            )
        choices |= {"paths": {name: str(path) for name, path in paths.items()}}
        choices |= {"dev": found["dev"], "pipes": chosen, "clusters": clusters_file}
        config, notes = make_first_config(found["train"], lang, **choices)
        with replacing(output) as part:
            config.to_disk(part, interpolate=False)
    for note in notes:
        typer.echo(note)
    dev_docs, train_docs = read_corpus(paths["dev"]), read_corpus(paths["train"])
    print_notes(note_shared(dev_docs, train_docs, str(paths["dev"]), str(paths["train"])))
    for name, other, so in (
        ("dev", "train", "F says nothing about them"),
        ("train", "dev", "all of them in the dev part count as missed"),
    ):
        if only := sorted(found[other].labels - found[name].labels):
            print_notes([f"{paths[name]} has no {', '.join(only)}, so {so}"])
    if clusters is None and encoder == "sparse" and raw is not None:
        typer.echo(f"{raw} may be raw text: clusters of its words raise F. Add --clusters brown")
    return spacy_command("train", output, "--output", output.parent / "out")


def _find_source(path: str | None, labels: str | None) -> dict[str, Any] | None:
    if path is None:
        if labels is not None:
            raise ValueError("--labels names the labels of --scores, which is not given")
        return None
    from spacy_bcrf.scores.find_sources import guess_source

    source = guess_source(path)
    pairs = [pair.partition("=") for pair in labels.split(",")] if labels else []
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise ValueError(f"--labels: expected FOREIGN=OURS, got {wrong[0]!r}")
    ours = {name.strip(): own.strip() for name, _, own in pairs}
    return source | ({"labels": ours} if ours else {})


def _write_decoder(output: Path, lang: str, source: dict[str, Any], names: str | None) -> str:
    """Write a pipeline that decodes scores validly, without learning. names: option --labels."""
    from spacy_bcrf.analysis.compare_sources import make_decoder
    from spacy_bcrf.scores.foreign_labels import find_names
    from spacy_bcrf.scores.token_scores import Scorer

    with replacing_folder(output) as part:
        labels = find_names(Scorer(source).merge.labels)
        make_decoder(lang, source, labels).to_disk(part)
    typer.echo(
        f"{output}: decodes valid entities {', '.join(labels)} from the scores of "
        f"{source['path']}. Nothing was learned: no corpus was given"
    )
    init = "init", "--output", "config.cfg", "--train", "TRAIN", "--scores", source["path"]
    return spacy_command("bcrf", *init, labels=names, lang=lang)


def _inspect(corpus: Path) -> Inspection:
    from spacy_bcrf.corpora.inspection import Inspection

    found = Inspection()
    for doc in tqdm(read_corpus(corpus), "inspecting", unit="docs", delay=1, disable=None):
        found.add(doc)
    if not found.docs:
        raise ValueError(f"{corpus}: has no documents")
    return found


@dataclass
class _Parts(AbstractContextManager):
    """The .spacy files of the train and the dev part, beside the config.

    It replaces no input, another file only if `force`, and removes new files if its block fails.
    """

    folder: Path
    train: Sequence[Path]
    dev: Path | None
    lang: str
    spans_key: str | None
    force: bool
    new: list[Path] = field(default_factory=list)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        written = [path for path in self.new if path.exists()]
        if kind is not None and written:
            for path in written:
                path.unlink()
            typer.echo(f"removed again: {', '.join(map(str, written))}", err=True)

    def prepare(self, names: Mapping[str, Sequence[str]]) -> dict[str, Path]:
        """Return both parts' files, converted and split if needed. names: by label, of texts."""
        dev = self.dev
        if dev is None:
            return self._hold_out()
        if not dev.exists():
            raise ValueError(f"{dev}: no such file or folder")
        if any(dev.samefile(path) or cmp(dev, path, shallow=False) for path in self.train):
            raise ValueError(
                f"{dev}: the dev part is the training part; expected other documents, or no --dev, "
                "which holds some out"
            )
        return {
            "train": self._match(names) if names else self._join(self.train, "train.spacy"),
            "dev": self._join([dev], "dev.spacy"),
        }

    def _claim(self, name: str) -> Path:
        path = self.folder / name
        check_output_file(path, ".spacy", *self.train, self.dev, keep=not self.force)
        if not path.exists():
            self.new.append(path)
        return path

    def _join(self, corpora: Sequence[Path], name: str) -> Path:
        """Return a corpus, or write all to a file, without .spacy texts that others have again."""
        from spacy_bcrf.corpora.doc_files import write_all
        from spacy_bcrf.corpora.formats.brat import find_annotations

        from .convert_cli import convert_cli

        others = [
            path
            for path in corpora
            if path.suffix != ".spacy" and (path.is_file() or find_annotations(path))
        ]
        saved = [path for path in corpora if path not in others]
        if len(corpora) == 1 and saved:
            return saved[0]
        output = self._claim(name)
        if others:
            convert_cli(others, output, lang=self.lang, spans_key=self.spans_key)
        if saved:
            new = list(read_corpus(output)) if others else []
            known = {doc.text for doc in new}
            old = (doc for path in saved for doc in read_corpus(path) if doc.text not in known)
            typer.echo(f"{output}: {write_all([*old, *new], output):,} documents")
        return output

    def _match(self, names: Mapping[str, Sequence[str]]) -> Path:
        """Write the texts with the names in them as partial annotation."""
        import spacy

        from spacy_bcrf.corpora.doc_files import write_all
        from spacy_bcrf.corpora.name_matches import match_names

        from .text_docs import read_texts

        output, nlp = self._claim("train.spacy"), spacy.blank(self.lang)
        docs = list(match_names(read_texts(self.train[0], nlp), names, nlp))
        n_found = sum(len(doc.ents) for doc in docs)
        if not n_found:
            problem = "none of the names is in the texts" if any(map(len, docs)) else "has no text"
            raise ValueError(f"{self.train[0]}: {problem}")
        typer.echo(f"{output}: {write_all(docs, output):,} texts, {n_found:,} names in them")
        return output

    def _hold_out(self) -> dict[str, Path]:
        """Write each `HELD_OUT`th document to dev.spacy alone, and the others to train.spacy."""
        from spacy.tokens import DocBin

        paths = {name: self.folder / f"{name}.spacy" for name in ("train", "dev")}
        corpus = ", ".join(map(str, self.train))
        targets = [path.resolve() for path in paths.values()]
        if any(path.resolve() in targets for path in self.train):
            raise ValueError(
                f"{corpus}: a part would replace the whole; expected another name of it such as "
                "all.spacy, --output in another folder, or --dev"
            )
        whole = self._join(self.train, "train.spacy")
        parts = {name: DocBin(store_user_data=True) for name in paths}
        for i, doc in enumerate(read_corpus(whole)):
            parts["dev" if i % HELD_OUT == HELD_OUT - 1 else "train"].add(doc)
        if not len(parts["dev"]):
            raise ValueError(
                f"{corpus}: {len(parts['train'])} documents are too few to hold some out; expected "
                f"--dev, or at least {HELD_OUT}"
            )
        for name, docs in parts.items():
            # The converted file becomes the train part.
            path = whole if whole == paths[name] else self._claim(f"{name}.spacy")
            with replacing(path) as part:
                part.write_bytes(docs.to_bytes())
            held_out = f", each {HELD_OUT}th of {corpus}" * (name == "dev")
            typer.echo(f"{path}: {len(docs):,} documents{held_out}")
        return paths


def _find_clusters(option: str | None, raw: Path | None, folder: Path, lang: str) -> Path | None:
    if option is None:
        return None
    from spacy_bcrf.sparse.word_tables import read_clusters

    from .clusters_cli import clusters_cli

    if option != "brown":
        path = Path(option)
        if not path.is_file():
            raise ValueError(f"--clusters {option}: no such file; expected a file, or brown")
        read_clusters(path)  # training would find out what is wrong with it
        return path
    path = folder / "clusters.tsv"
    if path.exists():
        typer.echo(f"{path}: taken as it is")
    else:
        clusters_cli(path, raw, raw is None, lang=lang)
    return path


def _find_raw_text(corpora: Sequence[Path]) -> Path | None:
    """Return a .txt file beside the corpus that is larger than the corpus. None for folders."""
    if not all(path.is_file() for path in corpora):
        return None
    texts = [path for path in corpora[0].parent.glob("*.txt") if path not in corpora]
    size = sum(path.stat().st_size for path in corpora)
    return next((path for path in sorted(texts) if path.stat().st_size > size), None)


def _read_names(options: Sequence[str]) -> dict[str, list[str]]:
    """Read options such as `PER=people.txt`. ValueError names a wrong one."""
    from spacy_bcrf.sparse.gazetteers import read_phrases

    found: dict[str, list[str]] = {}
    for option in options:
        label, _, file = option.partition("=")
        if not (label and file):
            raise ValueError(f"--names {option}: expected LABEL=FILE, such as PER=people.txt")
        found.setdefault(label, []).extend(read_phrases(Path(file)))
    return found
