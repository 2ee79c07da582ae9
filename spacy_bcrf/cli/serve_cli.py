"""`python -m spacy bcrf serve`"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from spacy.cli._util import Opt
from spacy.language import Language

from .options import Model, PipeNames

if TYPE_CHECKING:
    from spacy_bcrf.bulk.server import Limits


def serve_cli(
    model: Model,
    host: Annotated[str, Opt(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, Opt(help="Port to listen on", min=1, max=65535)] = 8000,
    pipe: PipeNames = None,
    timeout: Annotated[float, Opt(help="Seconds for the tokenizer of a text", min=0.0)] = 2.0,
    max_characters: Annotated[int, Opt(help="Longest text in characters", min=1)] = 100_000,
    max_waiting: Annotated[int, Opt(help="Waiting texts; others get status 503", min=1)] = 1000,
    page: Annotated[bool, Opt("--page/--no-page", help="GET / is a page for a text")] = True,
    allowed_host: Annotated[
        list[str] | None, Opt(help="Name of this server besides localhost, addresses. Repeatable")
    ] = None,
) -> None:
    """
    Serve a pipeline over HTTP: POST /annotate takes {"text": ".."}, GET / is a page on which one
    types a text, GET /healthz and /metrics watch the server, /docs describes it. If one component
    has a promise of recall and can stream, POST /redact redacts a text as it arrives.
    Requests from pages of other sites and to unknown host names get status 403.
    """
    from bcrf.io.extras import require
    from spacy_bcrf.analysis.loading import load_pipeline
    from spacy_bcrf.bulk.server import GRACE, Limits

    limits = Limits(seconds=timeout, characters=max_characters, waiting=max_waiting)
    uvicorn = require("uvicorn", "serve")
    require("fastapi", "serve")
    try:  # uvicorn would find out after all the work
        asyncio.run(_try_port(host, port))
    except OSError as error:
        raise ValueError(f"{error.strerror}; expected another --port or --host") from None
    nlp = load_pipeline(model)
    hosts = {name.lower() for name in (host, *(allowed_host or ()))}
    app = make_app_of(nlp, pipe or (), limits, page, hosts)
    place = "" if page else "docs"
    gc.freeze()  # the collector would go through the pipeline and its libraries again and again
    typer.echo(f"next: open http://{host}:{port}/{place} in a browser", err=True)
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=GRACE)


async def _try_port(host: str, port: int) -> None:
    """Open a port as uvicorn does, and close it. OSError names the address."""
    (await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)).close()


def make_app_of(
    nlp: Language,
    chosen: Sequence[str],
    limits: Limits | None = None,
    page: bool = True,
    hosts: Collection[str] | None = None,
) -> Any:
    """Return the application of `serve`.

    chosen: the components, by default all. page: whether GET / is a page. hosts: as of `make_app`.
    """
    from spacy_bcrf.analysis.loading import find_labelers
    from spacy_bcrf.analysis.redact_stream import RedactionStream
    from spacy_bcrf.bulk.events import RedactedEvents
    from spacy_bcrf.bulk.server import Limits, Server, make_app

    from .pages.lattice_page import typed_text_page

    labelers = find_labelers(nlp, chosen, str(nlp.path or "the pipeline"))
    names = list(labelers)
    server = Server(nlp, names, limits or Limits())
    show = (lambda text: typed_text_page(nlp, names, text)) if page else None
    pipe = names[0] if len(names) == 1 else None

    def redact() -> RedactedEvents:
        return RedactedEvents(server, RedactionStream(nlp, pipe))

    try:
        RedactionStream(nlp, pipe)
    except ValueError as error:  # no promise of recall, or a component that cannot stream
        if any(pipe.control and pipe.control.promise == "recall" for pipe in labelers.values()):
            typer.echo(f"Note: no POST /redact: {error}", err=True)
        return make_app(server, show, hosts)
    return make_app(server, show, hosts, redact)
