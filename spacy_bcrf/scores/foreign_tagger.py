"""Scores of a foreign tagger at tokens: one interface for all sources.

    scores = [{"name": "pf", "@misc": "spacy-bcrf.HuggingFaceScores.v1", "path": "models/pf"}]

`name` names the source in templates, such as `score.pf[-1..1]`. Further keys:

    labels  our label by foreign label, such as {"GIVEN_NAME": "PERSON"}; see `foreign_labels.Merge`
    cache   a file that keeps the scores, see `score_files`

The others are options of the function.
"""

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ORTH, SENT_START, SPACY  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import ConfigValidationError

from bcrf.chain.potentials import shorten
from bcrf.lazy import lazy

from .foreign_labels import OUTSIDE, Merge, find_names
from .score_files import ScoreFile

KEPT = 200_000_000
"""Largest size in bytes of the scores that a source keeps in memory."""
LOG_FLOOR = -100.0
"""Smaller log-probabilities count as this one."""
TOLERANCE = 1e-3
"""Rounding may take a log-probability above 0 by this much."""


_OWN_KEYS = ("name", "@misc", "labels", "cache")
"""Keys of a config that are no options of the source."""


class ScoreSource(Protocol):
    """A foreign tagger. Functions of the registry `misc` return one.

    It reads files and imports extras at its first use, not when it is made.
    """

    @property
    def labels(self) -> Sequence[str]:
        """The L labels. ValueError names a missing or damaged file."""

    @property
    def identity(self) -> str:
        """What the scores depend on besides the tokens, such as the content of files."""

    def load(self) -> object:
        """Load what the calls need, and return it. An error here is no error of a text."""

    def __call__(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        """Return natural log-probabilities (n, L) of each document.

        The row of a silent token is NaN for all labels.
        """


class FailedTextError(ValueError):
    """A source of scores fails for a text."""


class SourceError(ConfigValidationError):
    """A wrong source of scores. `spacy train` shows it as an error of the config."""

    def __init__(self, desc: str, **options: Any) -> None:
        super().__init__(desc=desc, **options)

    def __str__(self) -> str:
        return self.desc or ""


@dataclass
class TokenScores:
    """The scores of a source for one document.

    name: the source. labels: its L labels. values: float32 (n, L), natural log-probabilities; a
    row of NaN where the source is silent.
    """

    name: str
    labels: list[str]
    values: NDArray[np.float32]

    @property
    def silent(self) -> NDArray[np.bool_]:
        """A mask (n,) of the tokens without scores."""
        return np.asarray(np.isnan(self.values).any(axis=1))


class ForeignTagger:
    """A named source, and its scores of texts so far.

    expected: the labels `Merge.extended` that a loaded model learned with; None for any.
    n_failed: number of texts for which the source raised an exception.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """config: see the module. ValueError for a missing key and an unknown function."""
        self.config = dict(config)
        try:
            self.name, self._function = config["name"], config["@misc"]
        except KeyError as error:
            raise SourceError(
                f"scores: a source needs the key {error}, got {json.dumps(self.config)}; expected "
                'such as {"name": "pf", "@misc": "spacy-bcrf.HuggingFaceScores.v1", "path": "DIR"}'
            ) from None
        if not re.fullmatch("[a-zA-Z_][a-zA-Z_0-9]*", str(self.name)):
            raise SourceError(f"scores: the name must be letters, digits and _, got {self.name!r}")
        self._names, cache = config.get("labels", {}), config.get("cache")
        is_map = isinstance(self._names, Mapping)
        if not is_map or not all(isinstance(name, str) for name in self._names.values()):
            raise self._error(
                f'labels must be such as {{"GIVEN_NAME": "PERSON"}}, got {self._names!r}'
            )
        self.source = self._make_source()
        self.expected: Sequence[str] | None = None
        self._cache = None if cache is None else ScoreFile(cache)
        self._kept: dict[bytes, NDArray[np.float32]] = {}
        self._size = 0
        self._lock = Lock()
        self.n_failed = 0

    def __reduce__(self) -> tuple:
        return ForeignTagger, (self.config,), {"expected": self.expected}

    def _make_source(self) -> ScoreSource:
        options = {k: v for k, v in self.config.items() if k not in _OWN_KEYS}
        try:
            source: ScoreSource = registry.get("misc", self._function)(**options)
        except Exception as error:  # catalogue's errors, and errors of wrong options
            what = str(error).rpartition("() ")[2]
            raise self._error(f"{self._function}: {what}") from error
        return source

    def check_outside(self, tags: Sequence[str]) -> None:
        """Warn if a source has no label O, but one chain of tags has. It would find no gap."""
        if tags[0] == OUTSIDE and OUTSIDE not in self.merge.labels:
            warnings.warn(
                f"scores {self.name!r}: no label of the source is O (no entity), so each "
                "token starts as an entity. Name that label in the key labels, such as "
                f'{{"{find_names(self.labels)[0]}": "O"}}. The labels: {shorten(self.labels)}',
                stacklevel=2,
            )

    def seek_in(self, folder: Path) -> None:
        """Take a relative path from this folder, unless the current folder has it."""
        path = self.config.get("path")
        if isinstance(path, str) and not Path(path).exists() and (folder / path).exists():
            self.config["path"] = str(folder / path)
            self.source = self._make_source()

    @lazy
    def merge(self) -> Merge:
        """The labels of the source under our names. ValueError if others are expected."""
        with self._named_errors():
            merge = Merge(list(self.source.labels), self._names)
        if self.expected is not None and list(self.expected) != merge.extended:
            raise self._error(
                f"the model learned with the labels {shorten(self.expected)}, but the source has "
                f"{shorten(merge.extended)} here. Give the same labels in its config, or train "
                "again"
            )
        return merge

    @lazy
    def _loaded_source(self) -> ScoreSource:
        with self._named_errors():
            self.source.load()
        return self.source

    @property
    def labels(self) -> list[str]:
        return self.merge.foreign

    @lazy
    def _identity(self) -> str:
        with self._named_errors():
            return self.source.identity

    def find(
        self, docs: Sequence[Doc], *, store: bool = False, strict: bool = True
    ) -> list[TokenScores]:
        """Return the source's scores of documents. store: whether new ones go to the cache.

        FailedTextError for a text for which the source fails. Without `strict`, for training, this
        text is silent, and a warning comes with the first one.
        """
        labels, keys = self.labels, [_key(doc) for doc in docs]
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
        for look_up in (self._read, partial(self._compute, store=store, strict=strict)):
            missing = {key: doc for key, doc in zip(keys, docs, strict=True) if key not in found}
            if missing:
                new = look_up(missing)
                self._keep(new)
                found |= new
        silent = {key: _silence(doc, len(labels)) for key, doc in zip(keys, docs, strict=True)}
        return [TokenScores(self.name, labels, found.get(key, silent[key])) for key in keys]

    def _read(self, missing: Mapping[bytes, Doc]) -> dict[bytes, NDArray[np.float32]]:
        if self._cache is None:
            return {}
        n_labels = len(self.labels)
        with self._named_errors():
            found = self._cache.read(self._identity, list(missing), n_labels)
            for key, values in found.items():
                n_tokens = len(missing[key])
                if len(values) != n_tokens or not _are_scores(values):
                    raise ValueError(
                        f"cache {self._cache.path}: the scores of a text are damaged; expected "
                        f"log-probabilities of {n_tokens} tokens and {n_labels} labels. Delete the "
                        "file, and run `spacy bcrf scores` again"
                    )
        return found

    def _keep(self, new: Mapping[bytes, NDArray[np.float32]]) -> None:
        with self._lock:
            new = {key: values for key, values in new.items() if key not in self._kept}
            self._kept |= new
            self._size += sum(values.nbytes for values in new.values())
            while self._size > KEPT:
                self._size -= self._kept.pop(next(iter(self._kept))).nbytes

    def _compute(
        self, missing: Mapping[bytes, Doc], store: bool, strict: bool
    ) -> dict[bytes, NDArray[np.float32]]:
        """Return the scores of documents, without those for which the source fails."""
        source = self._loaded_source
        texts = {key: doc for key, doc in missing.items() if len(doc)}
        scored = zip(texts, self._score(source, list(texts.values()), strict), strict=True)
        known = {key: values for key, values in scored if values is not None}
        if self._cache is not None and store:
            with self._named_errors():
                self._cache.write(self._identity, known)
        empty = {key: _silence(doc, len(self.labels)) for key, doc in missing.items() if not doc}
        return known | empty

    def _score(
        self, source: ScoreSource, docs: list[Doc], strict: bool
    ) -> list[NDArray[np.float32] | None]:
        """Return the checked scores of each document, None if the source fails for it."""
        try:
            return self._check(docs, source(docs)) if docs else []
        except SourceError:
            raise
        except Exception as error:  # a foreign model can raise any
            if len(docs) > 1:
                return [self._score(source, [doc], strict)[0] for doc in docs]
            self.n_failed += 1
            # Messages of foreign code may have the text.
            reason = f"scores {self.name!r}: the source fails for a text: {type(error).__name__}"
            if strict:
                raise FailedTextError(reason) from error
            if self.n_failed == 1:
                more = "It counts as silent. Further texts are counted, see `n_failed`"
                warnings.warn(f"{reason}. {more}", stacklevel=2)
            return [None]

    def _check(self, docs: list[Doc], found: Sequence[NDArray]) -> list[NDArray[np.float32] | None]:
        shapes = [(len(doc), len(self.labels)) for doc in docs]
        arrays = [np.asarray(values, dtype="float32") for values in found]
        if [a.shape for a in arrays] != shapes:
            raise self._error(
                f"expected arrays of tokens and labels {shapes[:3]}, got "
                f"{[a.shape for a in arrays][:3]}"
            )
        if any((a > TOLERANCE).any() for a in arrays):
            raise self._error("log-probabilities must be at most 0")
        if not all(map(_are_scores, arrays)):
            raise self._error("a token needs all log-probabilities, or NaN for all if it is silent")
        return [a.clip(LOG_FLOOR, 0) for a in arrays]

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, OSError) as error:
            path = self.config.get("path")
            if isinstance(path, str) and not Path(path).exists():
                raise self._error(f"{error}. {_explain_move(self.name, path)}") from error
            raise self._error(str(error)) from error

    def _error(self, what: str) -> SourceError:
        return SourceError(f"scores {self.name!r}: {what}")


def _explain_move(name: str, path: str) -> str:
    """Return how to give the new path of a source."""
    folders = f"it is sought in {Path.cwd()} and in the folder of the pipeline. "
    return (
        f"If {path} has moved: {folders * (not Path(path).is_absolute())}Copy it there, or give "
        f'the new path by `spacy.load(.., config={{"paths": {{"{name}": PATH}}}})` or '
        f'`--paths.{name} PATH` if config.cfg has "${{paths.{name}}}", else in config.cfg'
    )


def make_taggers(configs: Sequence[Mapping[str, Any]] | None) -> list[ForeignTagger]:
    """Return the sources of a setting `scores`. ValueError for two sources of one name."""
    taggers = [ForeignTagger(config) for config in configs or ()]
    names = [tagger.name for tagger in taggers]
    if len(set(names)) < len(names):
        raise SourceError(f"scores: the names of sources must differ, got {', '.join(names)}")
    return taggers


def _are_scores(values: NDArray[np.floating]) -> bool:
    """Whether values (n, L) are log-probabilities, or NaN for all labels of a token."""
    is_silent = np.isnan(values)
    return not ((values > TOLERANCE).any() or (is_silent != is_silent[:, :1]).any())


def _silence(doc: Doc, n_labels: int) -> NDArray[np.float32]:
    return np.full((len(doc), n_labels), np.nan, dtype="float32")


def _key(doc: Doc) -> bytes:
    tokens: Any = doc.to_array([ORTH, SPACY, SENT_START])
    return blake2b(tokens.tobytes(), digest_size=16).digest()
