"""The .spacy files of a train and a dev part, beside the config that reads them."""

import errno
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from filecmp import cmp
from itertools import chain, islice
from pathlib import Path

from spacy.tokens import DocBin

from bcrf.chain.potentials import counted
from bcrf.io.atomic import check_replaced, replacing, resolve
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.formats.brat import find_annotations
from spacy_bcrf.corpora.make_doc import Align
from spacy_bcrf.corpora.name_matches import match_names
from spacy_bcrf.corpora.text_docs import read_text_docs
from spacy_bcrf.corpora.tokenization import (
    MOST_TEXTS,
    TokenFit,
    TokenizerChoice,
    make_blank,
    match_tokens,
)
from spacy_bcrf.readers.doc_files import read_own_docs, write_all

HELD_OUT = 10
"""Without a dev corpus, one document of this many is held out."""


@dataclass
class TrainDev(AbstractContextManager):
    """The train and the dev part. Replaces no input, and another file only with `force`.

    folder: place of new files. train, dev: corpora, .spacy or for `convert`. spans_key: span group
    for entities. align, tokenizer: see `convert`; "auto" is replaced by the tokenizer of .spacy
    files, or else by the one that fits the first corpus. fit: what this one showed. report:
    receives problems of corpora. written: what was written. The files that are new are removed
    again if the block fails.
    """

    folder: Path
    train: Sequence[Path]
    dev: Path | None
    lang: str
    spans_key: str | None
    force: bool
    report: Callable[[str], object]
    align: Align = "strict"
    tokenizer: TokenizerChoice = "auto"
    fit: TokenFit = field(default_factory=TokenFit)
    written: list[str] = field(default_factory=list)
    _new: list[Path] = field(default_factory=list)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        left = [path for path in self._new if path.exists()]
        if kind is not None and left:
            for path in left:
                path.unlink()
            self.report(f"removed again: {', '.join(map(str, left))}")

    def prepare(self, names: Mapping[str, Sequence[str]]) -> dict[str, Path]:
        """Return both parts' files, converted and split if needed.

        names: phrases by label, which annotate texts in the place of a train corpus. ValueError
        for a dev part that is missing, equal to the train part, or too small to hold out.
        """
        dev = self.dev
        if dev is None:
            return self._hold_out()
        if not dev.exists():
            raise ValueError(f"{dev}: no such file or folder")
        if any(dev.samefile(path) or cmp(dev, path, shallow=False) for path in self.train):
            raise ValueError(
                f"{dev}: the dev part is the training part; expected other documents, or no dev "
                "part, so that some training documents are held out"
            )
        if names:
            # The dev part alone has spans that annotators marked.
            dev = self._join([dev], "dev.spacy")
            return {"train": self._match(names), "dev": dev}
        train = self._join(self.train, "train.spacy")
        return {"train": train, "dev": self._join([dev], "dev.spacy")}

    @property
    def _corpus(self) -> str:
        return ", ".join(map(str, self.train))

    def _claim(self, name: str) -> Path:
        path = self.folder / name
        check_replaced(path, *self.train, *([self.dev] if self.dev else []))
        if not path.exists():
            self._new.append(path)
        elif not self.force:
            raise FileExistsError(errno.EEXIST, "exists", str(path))
        return path

    def _join(self, corpora: Sequence[Path], name: str) -> Path:
        """Return the only .spacy corpus, or write all to a file.

        A text of a .spacy corpus that another corpus has too is left out.
        """
        others = [
            path
            for path in corpora
            if path.suffix != ".spacy" and (path.is_file() or find_annotations(path))
        ]
        saved = [path for path in corpora if path not in others]
        if saved and self.tokenizer == "auto":
            docs = islice(chain.from_iterable(map(read_own_docs, saved)), MOST_TEXTS)
            self.tokenizer = match_tokens(list(docs), self.lang)
        if len(corpora) == 1 and saved:
            return saved[0]
        output = self._claim(name)
        if others:
            counts = convert(
                others,
                output,
                lang=self.lang,
                tokenizer=self.tokenizer,
                spans_key=self.spans_key,
                align=self.align,
                report=self.report,
            )
            if self.tokenizer == "auto":
                self.tokenizer, self.fit = counts.tokenizer, counts.fit
            self.written.append(f"{output}: {counts}")
        if saved:
            new = list(read_own_docs(output)) if others else []
            known = {doc.text for doc in new}
            old = (doc for path in saved for doc in read_own_docs(path) if doc.text not in known)
            self.written.append(f"{output}: {counted(write_all([*old, *new], output), 'document')}")
        return output

    def _match(self, names: Mapping[str, Sequence[str]]) -> Path:
        """Write the texts with the names in them as partial annotation."""
        output = self._claim("train.spacy")
        nlp = make_blank(self.lang, "language" if self.tokenizer == "auto" else self.tokenizer)
        texts = chain.from_iterable(read_text_docs(path, nlp, self.report) for path in self.train)
        docs = list(match_names(texts, names, nlp))
        n_found = sum(len(doc.ents) for doc in docs)
        if not n_found:
            problem = "none of the names is in the texts" if any(map(len, docs)) else "has no text"
            raise ValueError(f"{self._corpus}: {problem}")
        n_docs = write_all(docs, output)
        self.written.append(
            f"{output}: {counted(n_docs, 'text')}, {counted(n_found, 'name')} in them"
        )
        return output

    def _hold_out(self) -> dict[str, Path]:
        """Write each `HELD_OUT`th document to dev.spacy alone, and the others to train.spacy."""
        paths = {name: self.folder / f"{name}.spacy" for name in ("train", "dev")}
        targets = [*map(resolve, paths.values())]
        if any(resolve(path) in targets for path in self.train):
            raise ValueError(
                f"{self._corpus}: a part would replace the whole; expected another name of the "
                "corpus, such as all.spacy, another folder for the config, or a dev corpus"
            )
        whole = self._join(self.train, "train.spacy")
        parts = {name: DocBin(store_user_data=True) for name in paths}
        for i, doc in enumerate(read_own_docs(whole)):
            parts["dev" if i % HELD_OUT == HELD_OUT - 1 else "train"].add(doc)
        if not len(parts["dev"]):
            raise ValueError(
                f"{self._corpus}: {len(parts['train'])} documents are too few to hold some out; "
                f"expected a dev corpus, or at least {HELD_OUT}"
            )
        for name, docs in parts.items():
            # The converted file becomes the train part.
            path = whole if whole == paths[name] else self._claim(f"{name}.spacy")
            with replacing(path) as part:
                part.write_bytes(docs.to_bytes())
            held_out = f", each {HELD_OUT}th of {self._corpus}" * (name == "dev")
            self.written.append(f"{path}: {counted(len(docs), 'document')}{held_out}")
        return paths
