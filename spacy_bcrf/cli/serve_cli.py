"""`python -m spacy bcrf serve`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Opt

from .options import Model, PipeNames
from .paths import print_notes
from .pieces import read_key


def serve_cli(
    model: Model,
    host: Annotated[str, Opt(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, Opt(help="Port to listen on", min=1, max=65535)] = 8000,
    pipe: PipeNames = None,
    timeout: Annotated[float, Opt(help="Seconds for the tokenizer of a text", min=0.0)] = 2.0,
    page: Annotated[bool, Opt("--page/--no-page", help="GET / is a page for a text")] = True,
    vault: Annotated[
        Path | None, Opt(help="File of originals: POST /redact numbers, POST /restore undoes it")
    ] = None,
    key: Annotated[Path | None, Opt(help="File with the secret of an encrypted vault")] = None,
    allowed_host: Annotated[
        list[str] | None, Opt(help="Name of this server besides localhost, addresses. Repeatable")
    ] = None,
) -> None:
    """
    Serve a pipeline over HTTP: POST /annotate takes {"text": ".."}, GET / is a page on which you
    type a text, GET /healthz and /metrics watch the server, /docs describes it. If one component
    has a promise of recall and can stream, POST /redact redacts a text as it arrives. With --vault,
    POST /restore puts the originals back.
    Requests from pages of other sites and to unknown host names get status 403.
    """
    from spacy_bcrf.serve.serve import serve
    from spacy_bcrf.serve.server import Limits

    place = "" if page else "docs"
    serve(
        model,
        pipe or (),
        host=host,
        port=port,
        limits=Limits(seconds=timeout),
        page=page,
        hosts=allowed_host or (),
        vault=vault,
        key=None if key is None else read_key(key),
        ready=lambda address: typer.echo(f"next: open {address}{place} in a browser", err=True),
        report=lambda note: print_notes([note]),
    )
