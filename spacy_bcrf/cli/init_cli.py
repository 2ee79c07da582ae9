"""`python -m spacy bcrf init`"""

from __future__ import annotations

from dataclasses import dataclass, field
from filecmp import cmp
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from spacy.cli._util import Opt
from tqdm import tqdm

from bcrf.io.atomic import replacing

from .paths import check_output_file, read_corpus

if TYPE_CHECKING:
    from spacy_bcrf.corpora.inspection import Inspection

HELD_OUT = 10
"""Without --dev, each of so many documents is held out as one."""


def init_cli(
    output: Annotated[Path, Opt("--output", "-o", help="The config to write")],
    train: Annotated[
        Path,
        Opt("--train", "-t", help="Training corpus: .spacy, or what `convert` reads", exists=True),
    ],
    dev: Annotated[
        Path | None,
        Opt("--dev", "-d", help=f"Dev corpus; by default each {HELD_OUT}th document of --train"),
    ] = None,
    lang: Annotated[str, Opt("--lang", "-l", help="Language of the texts")] = "en",
    pipes: Annotated[
        str | None,
        Opt(
            "--pipe",
            "-p",
            help="ner, spans, tagger, or several; by default what the corpus annotates",
        ),
    ] = None,
    encoder: Annotated[
        str, Opt("--encoder", "-e", help="sparse, cnn, hybrid or transformer")
    ] = "sparse",
    clusters: Annotated[
        str | None,
        Opt(
            help="A file that `clusters` wrote, or brown: make Brown clusters of the raw text "
            "beside TRAIN, or take those of spacy-lookups-data"
        ),
    ] = None,
    transformer: Annotated[str | None, Opt(help="Folder or name of a transformer")] = None,
    force: Annotated[
        bool, Opt("--force", "-F", help="Replace the config, and .spacy files beside it")
    ] = False,
) -> str:
    """
    Look at a corpus and write a training config that fits it: components for its annotation,
    passes and evaluation interval. Corpora in other formats than .spacy are converted into the
    folder of the config.
    """
    from spacy_bcrf.analysis.first_config import check_choices, make_first_config
    from spacy_bcrf.corpora.convert import check_language

    check_output_file(output, train, dev)
    if output.exists() and not force:
        raise ValueError(f"{output} exists; expected another name, or --force to replace it")
    check_language(lang)
    raw = _find_raw_text(train)
    chosen = [name.strip() for name in pipes.split(",")] if pipes else []
    check_choices(chosen, encoder, Path(clusters) if clusters else None, transformer)
    parts = _Parts(output.parent, (train, dev), lang, "sc" if "spans" in chosen else None, force)
    with parts:
        clusters_file = _find_clusters(clusters, raw, output.parent, lang)
        paths = parts.prepare(train, dev)
        found = {name: _inspect(path) for name, path in paths.items()}
        made = make_first_config(
            found["train"],
            lang,
            dev=found["dev"],
            pipes=chosen,
            encoder=encoder,
            clusters=clusters_file,
            transformer=transformer,
            paths={name: str(path) for name, path in paths.items()},
        )
        with replacing(output) as part:
            made.config.to_disk(part, interpolate=False)
    for note in made.notes:
        typer.echo(note)
    if clusters is None and encoder == "sparse" and raw is not None:
        typer.echo(f"{raw} may be raw text: clusters of its words raise F. Add --clusters brown")
    return f"python -m spacy train {output} --output {output.parent / 'out'}"


def _inspect(corpus: Path) -> Inspection:
    from spacy_bcrf.corpora.inspection import Inspection

    found = Inspection()
    for doc in tqdm(read_corpus(corpus), "inspecting", unit="docs", delay=1, disable=None):
        found.add(doc)
    if not found.docs:
        raise ValueError(f"{corpus}: has no documents")
    return found


@dataclass
class _Parts:
    """The .spacy files of the train and the dev part, beside the config.

    It replaces no input, and another file only if `force`. If its block fails, new files are
    removed. spans_key: of `convert`.
    """

    folder: Path
    inputs: tuple[Path | None, ...]
    lang: str
    spans_key: str | None
    force: bool
    new: list[Path] = field(default_factory=list)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        written = [path for path in self.new if path.exists()]
        if kind is not None and written:
            for path in written:
                path.unlink()
            typer.echo(f"removed again: {', '.join(map(str, written))}", err=True)

    def prepare(self, train: Path, dev: Path | None) -> dict[str, Path]:
        """Return the files of both parts, converted and split where they must be."""
        if dev is not None and not dev.exists():
            raise ValueError(f"{dev}: no such file or folder")
        if dev is not None and (dev.samefile(train) or cmp(dev, train, shallow=False)):
            raise ValueError(
                f"{dev}: the dev part is the training part; expected other documents, or no --dev, "
                "which holds some out"
            )
        if dev is None:
            return self._hold_out(train)
        return {
            "train": self._convert(train, "train.spacy"),
            "dev": self._convert(dev, "dev.spacy"),
        }

    def _claim(self, name: str) -> Path:
        """Return the path of a file to write."""
        path = self.folder / name
        check_output_file(path, *self.inputs)
        if not path.exists():
            self.new.append(path)
        elif not self.force:
            raise ValueError(f"{path}: exists already; expected another folder, or --force")
        return path

    def _convert(self, corpus: Path, name: str) -> Path:
        if corpus.is_dir() or corpus.suffix == ".spacy":
            return corpus
        from .convert_cli import convert_cli

        output = self._claim(name)
        convert_cli([corpus], output, lang=self.lang, spans_key=self.spans_key)
        return output

    def _hold_out(self, corpus: Path) -> dict[str, Path]:
        """Write each `HELD_OUT`th document to dev.spacy, and the others to train.spacy.

        No file has all documents: training on it would learn the dev part.
        """
        from spacy.tokens import DocBin

        paths = {name: self.folder / f"{name}.spacy" for name in ("train", "dev")}
        if corpus.resolve() in [path.resolve() for path in paths.values()]:
            raise ValueError(
                f"{corpus}: a part would replace the whole; expected another name of it such as "
                "all.spacy, --output in another folder, or --dev"
            )
        whole = self._convert(corpus, "train.spacy")
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
            typer.echo(f"{path}: {len(docs):,} documents")
        return paths


def _find_clusters(option: str | None, raw: Path | None, folder: Path, lang: str) -> Path | None:
    """Return the file of --clusters, which `brown` makes."""
    if option != "brown":
        if option is not None and not Path(option).is_file():
            raise ValueError(f"--clusters {option}: no such file; expected a file, or brown")
        if option is None:
            return None
        from spacy_bcrf.sparse.word_tables import read_clusters

        read_clusters(Path(option))  # training would find out what is wrong with it
        return Path(option)
    from .clusters_cli import clusters_cli

    path = folder / "clusters.tsv"
    check_output_file(path, raw)
    if path.exists():
        typer.echo(f"{path}: taken as it is")
    elif raw is not None:
        clusters_cli(path, raw, kind="brown", lang=lang)
    else:
        clusters_cli(path, brown=True, lang=lang)
    return path


def _find_raw_text(corpus: Path) -> Path | None:
    """Return a .txt file beside the corpus that is larger than the corpus."""
    texts = [path for path in corpus.parent.glob("*.txt") if path != corpus]
    size = corpus.stat().st_size
    return next((path for path in sorted(texts) if path.stat().st_size > size), None)
