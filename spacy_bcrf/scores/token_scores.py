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
from hashlib import blake2b
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ORTH, SENT_START, SPACY  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import ConfigValidationError

from bcrf.lazy import lazy

from .foreign_labels import Merge
from .score_files import Cache

KEPT = 200_000_000
"""Largest size in bytes of the scores that a source keeps in memory."""
LEAST = -100.0
"""Smaller log-probabilities count as this one."""


class Source(Protocol):
    """A foreign tagger. Functions of the registry `misc` return one.

    It reads files and imports extras at its first use, not when it is made.
    """

    @property
    def labels(self) -> Sequence[str]:
        """The L labels. ValueError names a missing or damaged file."""

    @property
    def identity(self) -> str:
        """What the scores depend on besides the tokens, such as the content of files."""

    def load(self) -> None:
        """Load what the calls need. An error here is no error of a text."""

    def __call__(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        """Return natural log-probabilities (n, L) of each document.

        The row of a silent token is NaN for all labels.
        """


class SourceError(ConfigValidationError):
    """A wrong source of scores. `spacy train` shows it as an error of the config."""

    def __init__(self, desc: str, **options: Any) -> None:
        super().__init__(desc=desc, **options)

    def __str__(self) -> str:
        return self.desc or ""


@dataclass
class TokenScores:
    """What a source says of one document.

    name: of the source. labels: its L labels. values: float32 (n, L), natural log-probabilities; a
    row of NaN where the source is silent.
    """

    name: str
    labels: list[str]
    values: NDArray[np.float32]

    @property
    def silent(self) -> NDArray[np.bool_]:
        """A mask (n,) of the tokens without scores."""
        return np.asarray(np.isnan(self.values).any(axis=1))


class Scorer:
    """A named source, and what it has said of texts so far.

    keeps: whether new scores go to the cache. Training sets it: a trained pipeline only reads.
    n_failed: number of texts for which the source raised an exception. They are silent.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """config: see the module. ValueError for a missing key and an unknown function."""
        self.config = dict(config)
        options = dict(config)
        try:
            self.name, function = options.pop("name"), options.pop("@misc")
        except KeyError as error:
            raise SourceError(
                f"scores: a source needs the key {error}, got {json.dumps(self.config)}; expected "
                'such as {"name": "pf", "@misc": "spacy-bcrf.HuggingFaceScores.v1", "path": "DIR"}'
            ) from None
        if not re.fullmatch("[a-zA-Z_][a-zA-Z_0-9]*", str(self.name)):
            raise SourceError(f"scores: the name must be letters, digits and _, got {self.name!r}")
        self._names, cache = options.pop("labels", {}), options.pop("cache", None)
        is_map = isinstance(self._names, Mapping)
        if not is_map or not all(isinstance(name, str) for name in self._names.values()):
            raise self._error(
                f'labels must be such as {{"GIVEN_NAME": "PERSON"}}, got {self._names!r}'
            )
        try:
            self.source: Source = registry.get("misc", function)(**options)
        except Exception as error:  # catalogue's errors, and those of wrong options
            what = str(error).rpartition("() ")[2]
            raise self._error(f"{function}: {what}") from error
        self._cache = None if cache is None else Cache(cache)
        self._kept: dict[bytes, NDArray[np.float32]] = {}
        self._size = 0
        self.keeps = False
        self._lock = Lock()
        self.n_failed = 0

    def __reduce__(self) -> tuple:
        return Scorer, (self.config,)

    @lazy
    def merge(self) -> Merge:
        """The labels of the source under our names."""
        with self._named_errors():
            return Merge(list(self.source.labels), self._names)

    @lazy
    def _loaded(self) -> bool:
        with self._named_errors():
            self.source.load()
        return True

    @property
    def labels(self) -> list[str]:
        return self.merge.foreign

    @lazy
    def _identity(self) -> str:
        return self.source.identity

    def find(self, docs: Sequence[Doc]) -> list[TokenScores]:
        """Return what the source says of documents.

        A text for which the source fails is silent. A warning names the first one.
        """
        labels, keys = self.labels, [_key(doc) for doc in docs]
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
        for look_up in (self._read, self._compute):
            missing = {key: doc for key, doc in zip(keys, docs, strict=True) if key not in found}
            if missing:
                new = look_up(missing)
                self._keep(new)
                found |= new
        return [TokenScores(self.name, labels, found[key]) for key in keys]

    def _read(self, missing: Mapping[bytes, Doc]) -> dict[bytes, NDArray[np.float32]]:
        if self._cache is None:
            return {}
        return self._cache.read(self._identity, list(missing), len(self.labels))

    def _keep(self, new: Mapping[bytes, NDArray[np.float32]]) -> None:
        with self._lock:
            new = {key: values for key, values in new.items() if key not in self._kept}
            self._kept |= new
            self._size += sum(values.nbytes for values in new.values())
            while self._size > KEPT:
                self._size -= self._kept.pop(next(iter(self._kept))).nbytes

    def _compute(self, missing: Mapping[bytes, Doc]) -> dict[bytes, NDArray[np.float32]]:
        self._loaded  # noqa: B018
        texts = {key: doc for key, doc in missing.items() if len(doc)}
        scored = dict(zip(texts, self._score(list(texts.values())), strict=True))
        known = {key: values for key, values in scored.items() if values is not None}
        if self._cache is not None and self.keeps:
            self._cache.write(self._identity, known)
        n_labels = len(self.labels)
        return {
            key: known.get(key, np.full((len(doc), n_labels), np.nan, dtype="float32"))
            for key, doc in missing.items()
        }

    def _score(self, docs: list[Doc]) -> list[NDArray[np.float32] | None]:
        """Return the checked scores of each document, None if the source fails for it."""
        try:
            return self._check(docs, self.source(docs)) if docs else []
        except SourceError:
            raise
        except Exception as error:  # a foreign model can raise any
            if len(docs) > 1:
                return [self._score([doc])[0] for doc in docs]
            self.n_failed += 1
            if self.n_failed == 1:
                text = docs[0].text
                warnings.warn(
                    f"scores {self.name!r}: the source fails for the text "
                    f"{text[:60]!r}{' ..' * (len(text) > 60)}: {type(error).__name__}: {error}. "
                    "It counts as silent. Further texts are counted, see `n_failed`",
                    stacklevel=2,
                )
            return [None]

    def _check(self, docs: list[Doc], found: Sequence[NDArray]) -> list[NDArray[np.float32] | None]:
        shapes = [(len(doc), len(self.labels)) for doc in docs]
        arrays = [np.asarray(values, dtype="float32") for values in found]
        if [a.shape for a in arrays] != shapes:
            raise self._error(
                f"expected arrays of tokens and labels {shapes[:3]}, got "
                f"{[a.shape for a in arrays][:3]}"
            )
        if any((a > 1e-3).any() for a in arrays):
            raise self._error("log-probabilities must be at most 0")
        if any((np.isnan(a) != np.isnan(a[:, :1])).any() for a in arrays):
            raise self._error("a token needs all log-probabilities, or NaN for all if it is silent")
        return [a.clip(LEAST, 0) for a in arrays]

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, OSError) as error:
            raise self._error(str(error)) from error

    def _error(self, what: str) -> SourceError:
        return SourceError(f"scores {self.name!r}: {what}")


def make_scorers(configs: Sequence[Mapping[str, Any]] | None) -> list[Scorer]:
    """Return the sources of a setting `scores`. ValueError for two sources of one name."""
    scorers = [Scorer(config) for config in configs or ()]
    names = [scorer.name for scorer in scorers]
    if len(set(names)) < len(names):
        raise SourceError(f"scores: the names of sources must differ, got {', '.join(names)}")
    return scorers


def _key(doc: Doc) -> bytes:
    tokens: Any = doc.to_array([ORTH, SPACY, SENT_START])
    return blake2b(tokens.tobytes(), digest_size=16).digest()
