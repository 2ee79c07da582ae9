"""Work of an HTTP server: texts of requests in batches, pages, limits and counts."""

import asyncio
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from spacy_bcrf.bulk.predictor import Predictor
from spacy_bcrf.bulk.worker import WARM_UP
from spacy_bcrf.corpora.time_limit import TookTooLongError, time_limit, watch_tokenizer
from spacy_bcrf.corpora.writer import SpanRecord
from spacy_bcrf.pipeline.predict_in_parts import predict_in_parts


@dataclass(frozen=True)
class Limits:
    """Limits of requests.

    head_bytes, body_bytes: bytes of a head and a body. head_seconds, body_seconds: seconds until
    one has arrived. characters: characters of a text. page_characters: characters of a text that a
    page shows. seconds: seconds in the tokenizer. stream_seconds: seconds of work for a whole
    stream. batch: texts in a batch. waiting: texts that wait for a batch.
    """

    head_bytes: int = 64 << 10
    head_seconds: float = 10.0
    body_bytes: int = 2_000_000
    body_seconds: float = 10.0
    characters: int = 100_000
    page_characters: int = 5_000
    seconds: float = 2.0
    stream_seconds: float = 10.0
    batch: int = 64
    waiting: int = 1000


class BusyError(Exception):
    """Too many texts or pages wait."""


class Server:
    """Annotates texts of requests in batches. The texts that arrive meanwhile are the next batch.

    names: the components whose annotation the answers have. counts: of answers by status, and of
    texts, characters and batches.
    """

    def __init__(self, nlp: Language, names: Sequence[str], limits: Limits = Limits()) -> None:
        self.nlp, self.limits = nlp, limits
        self.counts: Counter[str] = Counter()
        self._predictor = Predictor(nlp, names, 0, False)
        self._lock = asyncio.Lock()  # one batch or page at a time has the memory zone
        self._waiting: list[tuple[str, asyncio.Future]] = []
        self._has_page = False
        self._tasks: set[asyncio.Task] = set()  # asyncio itself may forget them
        self._n_characters = 0
        watch_tokenizer(nlp)

    def zone(self, n_characters: int) -> AbstractContextManager:
        """Return a memory zone for texts of this many characters, or none during the warm-up."""
        self._n_characters += n_characters
        return self.nlp.memory_zone() if self._n_characters > WARM_UP else nullcontext()

    def _tokenize(self, text: str) -> Doc | Exception:
        try:
            with time_limit(self.limits.seconds):
                return self.nlp.make_doc(text)
        except TookTooLongError as error:
            return error

    def _predict(self, docs: Sequence[Doc]) -> list[list[SpanRecord]]:
        # A component that fails leaves its documents in no usable state.
        return [one.spans for one in self._predictor.predict([doc.copy() for doc in docs])]

    def annotate(self, texts: Sequence[str]) -> list[list[SpanRecord] | Exception]:
        """Return the annotation of each text, or the exception of a text that fails alone."""
        with self.zone(sum(map(len, texts))):
            docs = [self._tokenize(text) for text in texts]
            good = [doc for doc in docs if isinstance(doc, Doc)]
            found = iter(predict_in_parts(self._predict, good, _report) if good else [])
            return [next(found) if isinstance(doc, Doc) else doc for doc in docs]

    async def answer(self, text: str) -> list[SpanRecord]:
        """Return the annotation of a text. Raises its exception; BusyError if too many wait."""
        if len(self._waiting) >= self.limits.waiting:
            raise BusyError(f"{self.limits.waiting} texts wait already; try again later")
        result: asyncio.Future = asyncio.Future()
        self._waiting.append((text, result))
        self._start(self._answer_batch())
        found: list[SpanRecord] | Exception = await result
        if isinstance(found, Exception):
            raise found
        return found

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task:
        """Start a task of its own, which goes on when a client leaves, as its thread does."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _answer_batch(self) -> None:
        async with self._lock:
            self._waiting = [one for one in self._waiting if not one[1].done()]
            n = self.limits.batch
            batch, self._waiting[:n] = self._waiting[:n], []
            if not batch:
                return
            texts = [text for text, _ in batch]
            self.counts.update(texts=len(texts), batches=1, characters=sum(map(len, texts)))
            try:
                found = await asyncio.to_thread(self.annotate, texts)
            except Exception as error:
                found = [error] * len(batch)
            for (_, result), value in zip(batch, found, strict=True):
                if not result.done():  # the client has left
                    result.set_result(value)

    async def run(self, work: Callable[[], Any]) -> Any:
        """Return what a function returns that uses the pipeline, in a thread, beside no batch."""
        async with self._lock:
            return await asyncio.to_thread(work)

    async def show(self, page: Callable[[str], str], text: str) -> str:
        """Return a page about a text.

        BusyError if another page is not ready: a batch waits for one page at most.
        """

        def render() -> str:
            with self.zone(len(text)), time_limit(self.limits.seconds):
                return page(text)

        async def answer() -> str:
            try:
                async with self._lock:
                    return await asyncio.to_thread(render)
            finally:
                self._has_page = False

        if self._has_page or len(self._waiting) >= self.limits.waiting:
            raise BusyError("another page or too many texts wait already; try again later")
        self._has_page = True
        return str(await asyncio.shield(self._start(answer())))

    def metrics(self) -> str:
        """Return the counts in the text format of Prometheus."""
        lines = [f"spacy_bcrf_{name}_total {n}" for name, n in sorted(self.counts.items())]
        return "".join(f"{line}\n" for line in lines)


def _report(error: Exception, size: int) -> None:
    warnings.warn(f"a batch of {size} texts failed: {error!r}. Its halves follow", stacklevel=2)
