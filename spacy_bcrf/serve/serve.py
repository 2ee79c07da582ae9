"""`serve`: a pipeline over HTTP."""

import asyncio
import gc
from collections.abc import Callable, Sequence
from pathlib import Path

from bcrf.io.extras import require
from spacy_bcrf.loading import load_pipeline
from spacy_bcrf.privacy.vault import OpenVault

from .server import Limits

GRACE = 20
"""Seconds after which a server that was told to end leaves requests without an answer."""


def serve(
    model: str | Path,
    pipes: Sequence[str] = (),
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: Limits | None = None,
    page: bool = True,
    hosts: Sequence[str] = (),
    vault: Path | None = None,
    key: bytes | None = None,
    ready: Callable[[str], object] = lambda address: None,
    report: Callable[[str], object] = lambda note: None,
) -> None:
    """Serve a pipeline over HTTP until a signal ends the process.

    pipes, page, report: see `make_app`. hosts: names of this server besides `host`, localhost and
    addresses. vault, key: a file of originals, see `make_app`, and its secret. ready: receives the
    address once the pipeline is loaded. ImportError names the extra. ValueError if nothing can
    listen on the port.
    """
    uvicorn = require("uvicorn", "serve")
    require("fastapi", "serve")
    try:  # uvicorn would find out after all the work
        asyncio.run(_try_port(host, port))
    except OSError as error:
        raise ValueError(f"{error.strerror}; expected another port or host") from None
    from .app import make_app
    from .limited_heads import limit_heads

    names = {name.lower() for name in (host, *hosts)}
    opened = None if vault is None else OpenVault(vault, key)
    nlp = load_pipeline(model)
    app = make_app(nlp, pipes, limits, page=page, hosts=names, opened=opened, report=report)
    gc.freeze()  # the collector would go through the pipeline and its libraries again and again
    ready(f"http://{host}:{port}/")
    uvicorn.run(
        app,
        host=host,
        port=port,
        http=limit_heads(limits or Limits()),
        ws="none",
        log_level="warning",
        timeout_graceful_shutdown=GRACE,
    )


async def _try_port(host: str, port: int) -> None:
    """Open a port as uvicorn does, and close it. OSError names the address."""
    (await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)).close()
