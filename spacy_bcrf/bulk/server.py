"""An HTTP server of a pipeline: requests in batches, limits, health and metrics."""

# Without `from __future__ import annotations`: FastAPI evaluates type hints of nested functions.

import asyncio
import ipaddress
import json
import logging
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from bcrf.io.extras import require
from spacy_bcrf.corpora.time_limit import TookTooLongError, time_limit, watch_tokenizer
from spacy_bcrf.pipeline.predict_in_parts import is_out_of_memory, predict_in_parts

from .predictor import Annotation, Predictor

_LOG = logging.getLogger(__name__)

GRACE = 20
"""Seconds after which a server that was told to end leaves requests without an answer."""
WARM_UP = 500_000
"""Characters of the first texts. Their words stay in memory and in the tokenizer's cache.

Later texts are read in memory zones, which free their strings, but add no words to the cache. With
an empty cache, the tokenizer takes eight times as long."""


@dataclass(frozen=True)
class Limits:
    """Limits of requests.

    bytes: of a body. body_seconds: until a body has arrived. characters: of a text.
    page_characters: of a text that a page shows. seconds: in the tokenizer. batch: texts of a
    batch. waiting: texts that wait for one.
    """

    bytes: int = 2_000_000
    body_seconds: float = 10.0
    characters: int = 100_000
    page_characters: int = 5_000
    seconds: float = 2.0
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
        """Return a memory zone for texts of so many characters, or none during the warm-up."""
        self._n_characters += n_characters
        return self.nlp.memory_zone() if self._n_characters > WARM_UP else nullcontext()

    def _tokenize(self, text: str) -> Doc | Exception:
        try:
            with time_limit(self.limits.seconds):
                return self.nlp.make_doc(text)
        except TookTooLongError as error:
            return error

    def _predict(self, docs: Sequence[Doc]) -> list[list[Annotation]]:
        # A component that fails leaves its documents in no usable state.
        return [one.spans for one in self._predictor.predict([doc.copy() for doc in docs])]

    def annotate(self, texts: Sequence[str]) -> list[list[Annotation] | Exception]:
        """Return the annotation of each text, or the exception of a text that fails alone."""
        with self.zone(sum(map(len, texts))):
            docs = [self._tokenize(text) for text in texts]
            good = [doc for doc in docs if isinstance(doc, Doc)]
            found = iter(predict_in_parts(self._predict, good, _report) if good else [])
            return [next(found) if isinstance(doc, Doc) else doc for doc in docs]

    async def answer(self, text: str) -> list[Annotation] | Exception:
        """Return the annotation of a text, or the exception that it raises."""
        if len(self._waiting) >= self.limits.waiting:
            return BusyError(f"{self.limits.waiting} texts wait already; try again later")
        result: asyncio.Future = asyncio.Future()
        self._waiting.append((text, result))
        self._start(self._answer_batch())
        return await result

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


def _read(body: bytearray, limits: Limits) -> str:
    """Return the text of a request. ValueError for another body."""
    try:
        text = json.loads(body)["text"]
        text.encode()  # half a surrogate pair is no text
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError('expected JSON: {"text": "..."}') from None
    if len(text) > limits.characters:
        raise ValueError(f"the text has more than {limits.characters} characters")
    return str(text)


_DOCS_POLICY = (
    "default-src 'self'; style-src https://cdn.jsdelivr.net 'unsafe-inline'; img-src 'self' data: "
    "https://fastapi.tiangolo.com; script-src-elem https://cdn.jsdelivr.net 'unsafe-inline'; "
    "script-src-attr 'none'"
)
"""The content security policy of /docs, a page of FastAPI that loads Swagger UI."""


def find_intruder(headers: Any, has_text: bool, hosts: Collection[str] | None) -> str | None:
    """Return why a request comes from a page of another site, or None.

    A page whose domain resolves to this machine has a name of its own as the host (DNS rebinding).
    Browsers say of a request from a page that it is of another site.

    headers: of the request, by name. hosts: as of `make_app`.
    """
    if has_text and headers.get("sec-fetch-site") == "cross-site":
        return "the request comes from a page of another site"
    name = re.sub(r":\d*$", "", headers.get("host", "localhost")).strip("[].").lower()
    if hosts is None or name == "localhost" or name in hosts:
        return None
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return f"unknown host {name!r}; expected an address, localhost or a name of --allowed-host"
    return None


def make_app(
    server: Server,
    page: Callable[[str], str] | None = None,
    hosts: Collection[str] | None = None,
    redact: Callable[[], Any] | None = None,
) -> Any:
    """Return the FastAPI application of a server.

    page: returns the HTML page for a typed text, "" at first. redact: returns the answer
    to POST /redact, such as `events.RedactedEvents`. hosts: names of this server besides
    localhost and addresses; requests to another name get status 403. None for all names.
    """
    fastapi = require("fastapi", "serve")
    responses = require("fastapi.responses", "serve")
    routing = require("starlette.routing", "serve")
    ClientDisconnect = require("starlette.requests", "serve").ClientDisconnect
    Headers = require("starlette.datastructures", "serve").Headers
    Request: Any = fastapi.Request
    title, described = "spacy-bcrf", "Annotation with probabilities"
    no_pages = {"redoc_url": None, "swagger_ui_oauth2_redirect_url": None}
    app = fastapi.FastAPI(title=title, description=described, **no_pages)
    limits = server.limits
    text_schema = {"type": "string", "maxLength": limits.characters}
    schema = {"type": "object", "required": ["text"], "properties": {"text": text_schema}}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}

    async def read(request: Request) -> str:
        content = bytearray()

        async def receive() -> None:
            async for part in request.stream():
                content.extend(part)
                if len(content) > limits.bytes:
                    raise fastapi.HTTPException(413, f"the body has more than {limits.bytes} bytes")

        try:
            await asyncio.wait_for(receive(), limits.body_seconds)
        except asyncio.TimeoutError:
            reason = f"the body took more than {limits.body_seconds:g} s"
            raise fastapi.HTTPException(408, reason, {"Connection": "close"}) from None
        except ClientDisconnect:
            _LOG.warning("a client has left before the end of its body")
            raise fastapi.HTTPException(499, "the client has left") from None
        try:
            return _read(content, limits)
        except ValueError as error:
            raise fastapi.HTTPException(422, str(error)) from None

    @app.post("/annotate", openapi_extra={"requestBody": body}, response_model=list[Annotation])
    async def annotate(request: Request) -> Any:
        """Return the annotation of a text: pipe, start, end, label, probability."""
        found = await server.answer(await read(request))
        if isinstance(found, Exception):
            raise failure(found)
        return responses.JSONResponse(found)

    # FastAPI describes the route above. This one answers, without its work for each request.
    app.router.routes.insert(0, routing.Route("/annotate", annotate, methods=["POST"]))

    def failure(error: Exception) -> Exception:
        busy = isinstance(error, TookTooLongError | BusyError) or is_out_of_memory(error)
        reason: Exception = fastapi.HTTPException(
            503 if busy else 500, str(error) or type(error).__name__
        )
        return reason

    class Watch:
        """Refuse intruders and count answers. FastAPI's own middleware starts tasks."""

        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await self.app(scope, receive, send)
                return

            async def count(message: Any) -> None:
                if message["type"] == "http.response.start":
                    server.counts[f"answers_{message['status']}"] += 1
                    if scope["path"] == app.docs_url:
                        policy = _DOCS_POLICY.encode()
                        message["headers"].append((b"content-security-policy", policy))
                await send(message)

            has_text = scope["method"] == "POST" or bool(scope["query_string"])
            intruder = find_intruder(Headers(scope=scope), has_text, hosts)
            answer = self.app
            if intruder is not None:
                answer = responses.JSONResponse({"detail": intruder}, 403)
            await answer(scope, receive, count)

    app.add_middleware(Watch)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Answer as long as the server is alive."""
        return {"status": "ok"}

    @app.get("/metrics", response_class=responses.PlainTextResponse)
    async def metrics() -> str:
        """Return the counts of answers, texts, characters and batches."""
        return server.metrics()

    if redact is not None:

        @app.post("/redact", response_model=None)
        async def answer_redacted(request: Request) -> Any:
            """Redact the body, a text in UTF-8, as it arrives, in server-sent events."""
            kind = request.headers.get("content-type", "text/plain")
            if not kind.startswith("text/"):
                raise fastapi.HTTPException(415, f"expected plain text as the body, got {kind}")
            return redact()

    if page is not None:

        @app.get("/", response_class=responses.HTMLResponse, include_in_schema=False)
        async def show(text: str = "") -> str:
            if not text.strip():
                return page("")
            if len(text) > limits.page_characters:
                reason = f"the text has more than {limits.page_characters} characters"
                raise fastapi.HTTPException(422, f"{reason}, the most for a page")
            try:
                return await server.show(page, text)
            except Exception as error:
                raise failure(error) from error

    return app
