"""`python -m spacy bcrf serve`"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from spacy.cli._util import Arg, Opt
from spacy.language import Language

from .errors import exit_on


def serve_cli(
    model: Annotated[str, Arg(help="Trained pipeline: a folder, or the name of a package")],
    host: Annotated[str, Opt("--host", help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, Opt("--port", help="Port to listen on", min=1, max=65535)] = 8000,
    pipe: Annotated[
        list[str] | None,
        Opt("--pipe", "-p", help="Component to answer. Repeatable (default: all of spacy-bcrf)"),
    ] = None,
    timeout: Annotated[
        float, Opt("--timeout", help="Seconds that the tokenizer may take for a text", min=0.0)
    ] = 2.0,
) -> None:
    """
    Serve a pipeline over HTTP: POST /annotate takes {"text": ".."}, GET / is a page on which one
    types a text, GET /healthz and /metrics watch the server, /docs describes it.
    """
    from spacy_bcrf.analysis.loading import load_pipeline
    from spacy_bcrf.io.extras import require

    with exit_on(ValueError, OSError, ImportError):
        uvicorn = require("uvicorn", "serve")
        app = make_app_of(load_pipeline(model), pipe or (), timeout)
        typer.echo(f"next: open http://{host}:{port}/ in a browser")
        uvicorn.run(app, host=host, port=port, log_level="warning")


def make_app_of(nlp: Language, chosen: Sequence[str], timeout: float = 2.0) -> Any:
    """Return the application of `serve`. chosen: the components to answer, by default all."""
    from spacy_bcrf.analysis.loading import find_labelers
    from spacy_bcrf.bulk.server import Limits, Server, make_app

    from .pages.typed_text import typed_text_page

    names = list(find_labelers(nlp, chosen))
    server = Server(nlp, names, Limits(seconds=timeout))
    return make_app(server, lambda text: typed_text_page(nlp, names, text))
