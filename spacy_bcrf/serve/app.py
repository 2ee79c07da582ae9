"""The HTTP application of a pipeline: routes, and limits of requests and of their origin."""

# Without `from __future__ import annotations`: FastAPI evaluates type hints of nested functions.

import asyncio
import ipaddress
import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from spacy.language import Language

from bcrf.io.extras import require
from spacy_bcrf.corpora.time_limit import TookTooLongError
from spacy_bcrf.corpora.writer import SpanRecord
from spacy_bcrf.loading import find_labelers
from spacy_bcrf.pipeline.predict_in_parts import is_out_of_memory
from spacy_bcrf.privacy.redact_stream import RedactionStream
from spacy_bcrf.privacy.restore import Restorer, TextChange
from spacy_bcrf.privacy.vault import OpenVault

from .events import Redacting, TextEvents
from .pages.lattice_page import typed_text_page
from .server import BusyError, Limits, Server

_fastapi, _responses = (require(name, "serve") for name in ("fastapi", "fastapi.responses"))
_requests: Any = require("starlette.requests", "serve")
Request: Any = _requests.Request
Headers: Any = require("starlette.datastructures", "serve").Headers
_routing = require("starlette.routing", "serve")
APIRoute: Any = require("fastapi.routing", "serve").APIRoute
_LOG = logging.getLogger(__name__)

_DOCS_POLICY = (
    "default-src 'self'; style-src https://cdn.jsdelivr.net 'unsafe-inline'; img-src 'self' data: "
    "https://fastapi.tiangolo.com; script-src-elem https://cdn.jsdelivr.net 'unsafe-inline'; "
    "script-src-attr 'none'"
)
"""The content security policy of /docs, a page of FastAPI that loads Swagger UI."""


def make_app(
    nlp: Language,
    pipes: Sequence[str] = (),
    limits: Limits | None = None,
    *,
    page: bool = True,
    hosts: Collection[str] | None = None,
    opened: OpenVault | None = None,
    report: Callable[[str], object] = lambda note: None,
) -> Any:
    """Return the FastAPI application of a pipeline. Its `state.server` is the `Server`.

    pipes: components whose annotation the answers have, by default all. page: whether GET / is a
    page for a typed text. hosts: names of this server besides localhost and addresses; requests to
    another name get status 403. None allows all names. opened: a vault. With it, POST /redact
    writes numbered placeholders, and POST /restore undoes them. report: receives why a pipeline
    with a promise of recall has no POST /redact. ValueError as from `find_labelers`.
    """
    labelers = find_labelers(nlp, pipes, str(nlp.path or "the pipeline"))
    names = list(labelers)
    server = Server(nlp, names, limits or Limits())
    title, described = "spacy-bcrf", "Annotation with probabilities"
    no_pages = {"redoc_url": None, "swagger_ui_oauth2_redirect_url": None}
    app = _fastapi.FastAPI(title=title, description=described, **no_pages)
    app.state.server = server
    app.add_middleware(Guard, server=server, hosts=hosts, docs=app.docs_url)
    _add_annotation(app, server)
    _add_health(app, server)
    if page:
        _add_page(app, server, lambda text: typed_text_page(nlp, names, text))
    pipe = names[0] if len(names) == 1 else None
    make_redacting, reason = None, ""
    save = opened.save if opened else lambda: None
    style: dict[str, Any] = {"style": "numbered", "vault": opened.vault} if opened else {}
    try:
        RedactionStream(nlp, pipe, **style)
        make_redacting = lambda: Redacting(RedactionStream(nlp, pipe, **style), save)  # noqa: E731
    except ValueError as error:  # no promise of recall, or a component that cannot stream
        reason = str(error)
        if any(each.control and each.control.promise == "recall" for each in labelers.values()):
            report(f"no POST /redact: {error}")
    _add_texts(app, server, "redact", make_redacting, reason)
    vault = opened.vault if opened else None
    make_restoring = None if vault is None else lambda: Restorer(vault)
    _add_texts(app, server, "restore", make_restoring, "the server has no vault: `serve --vault`")
    return app


class PlainRoute(APIRoute):
    """A route that FastAPI describes, and that Starlette answers, with less work per request."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = _routing.request_response(endpoint)


def _add_annotation(app: Any, server: Server) -> None:
    text = {"type": "string", "maxLength": server.limits.characters}
    schema = {"type": "object", "required": ["text"], "properties": {"text": text}}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}

    async def annotate(request: Request) -> Any:
        """Return the annotation of a text: pipe, start, end, label, probability."""
        text = await _read_text(request, server.limits)
        with _failing():
            return _responses.JSONResponse(await server.answer(text))

    app.router.add_api_route(
        "/annotate",
        annotate,
        methods=["POST"],
        openapi_extra={"requestBody": body},
        response_model=list[SpanRecord],
        route_class_override=PlainRoute,
    )


def _add_health(app: Any, server: Server) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Answer as long as the server is alive."""
        return {"status": "ok"}

    @app.get("/metrics", response_class=_responses.PlainTextResponse)
    async def metrics() -> str:
        """Return the counts of answers, texts, characters and batches."""
        return server.metrics()


def _add_page(app: Any, server: Server, page: Callable[[str], str]) -> None:
    @app.get("/", response_class=_responses.HTMLResponse, include_in_schema=False)
    async def show(text: str = "") -> str:
        if not text.strip():
            return page("")
        if len(text) > (n := server.limits.page_characters):
            reason = f"the text has more than {n} characters, the most for a page"
            raise _fastapi.HTTPException(422, reason)
        with _failing():
            return await server.show(page, text)


def _add_texts(
    app: Any, server: Server, name: str, make: Callable[[], TextChange] | None, reason: str
) -> None:
    """Add POST /redact or /restore. reason: why the server cannot, for the status 501."""

    @app.post(f"/{name}", name=name, response_model=None)
    async def change(request: Request) -> Any:
        """Change the body, a text in UTF-8, as it arrives, in server-sent events."""
        if make is None:
            raise _fastapi.HTTPException(501, reason)
        kind = request.headers.get("content-type", "text/plain")
        if not kind.startswith("text/"):
            raise _fastapi.HTTPException(415, f"expected plain text as the body, got {kind}")
        return TextEvents(server, make())


@contextmanager
def _failing() -> Iterator[None]:
    """Answer with status 503 if the server is busy or a text takes too much, else with 500."""
    try:
        yield
    except Exception as error:
        busy = isinstance(error, TookTooLongError | BusyError) or is_out_of_memory(error)
        reason = str(error) or type(error).__name__
        raise _fastapi.HTTPException(503 if busy else 500, reason) from error


async def _read_text(request: Request, limits: Limits) -> str:
    """Return the text of a request. HTTPException with status 408, 413, 422 or 499."""
    content = bytearray()

    async def receive() -> None:
        async for part in request.stream():
            content.extend(part)
            if len(content) > limits.body_bytes:
                reason = f"the body has more than {limits.body_bytes} bytes"
                raise _fastapi.HTTPException(413, reason)

    try:
        await asyncio.wait_for(receive(), limits.body_seconds)
    except asyncio.TimeoutError:
        reason = f"the body took more than {limits.body_seconds:g} s"
        raise _fastapi.HTTPException(408, reason, {"Connection": "close"}) from None
    except _requests.ClientDisconnect:
        _LOG.warning("a client has left before the end of its body")
        raise _fastapi.HTTPException(499, "the client has left") from None
    try:
        return _parse(content, limits)
    except ValueError as error:
        raise _fastapi.HTTPException(422, str(error)) from None


def _parse(body: bytearray, limits: Limits) -> str:
    """Return the text of a request. ValueError for another body."""
    try:
        text = json.loads(body)["text"]
        text.encode()  # half a surrogate pair is no text
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError('expected JSON: {"text": "..."}') from None
    if len(text) > limits.characters:
        raise ValueError(f"the text has more than {limits.characters} characters")
    return str(text)


class Guard:
    """Refuse intruders and count answers. FastAPI's own middleware starts tasks."""

    def __init__(self, app: Any, server: Server, hosts: Collection[str] | None, docs: str) -> None:
        self.app, self.server, self.hosts, self.docs = app, server, hosts, docs

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def count(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.server.counts[f"answers_{message['status']}"] += 1
                if scope["path"] == self.docs:
                    policy = _DOCS_POLICY.encode()
                    message["headers"].append((b"content-security-policy", policy))
            await send(message)

        has_text = scope["method"] == "POST" or bool(scope["query_string"])
        intruder = find_intruder(Headers(scope=scope), has_text, self.hosts)
        answer = self.app
        if intruder is not None:
            answer = _responses.JSONResponse({"detail": intruder}, 403)
        await answer(scope, receive, count)


def find_intruder(headers: Any, has_text: bool, hosts: Collection[str] | None) -> str | None:
    """Return why a request comes from a page of another site, or None.

    A page whose domain resolves to this machine sends its own name as the host (DNS rebinding).
    Browsers mark requests from other sites (Sec-Fetch-Site).

    headers: headers of the request, by name. has_text: whether the request has a text. hosts: see
    `make_app`.
    """
    if has_text and headers.get("sec-fetch-site") == "cross-site":
        return "the request comes from a page of another site"
    name = re.sub(r":\d*$", "", headers.get("host", "localhost")).strip("[].").lower()
    if hosts is None or name == "localhost" or name in hosts:
        return None
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return f"unknown host {name!r}; expected an address, localhost or an allowed name"
    return None
