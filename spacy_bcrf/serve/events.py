"""Redaction and restoring of a request's body as it arrives, in server-sent events."""

import asyncio
import json
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable
from functools import partial
from time import thread_time
from typing import Any

from bcrf.io.extras import require
from bcrf.io.text import explain_utf8
from spacy_bcrf.corpora.time_limit import TookTooLongError, time_limit
from spacy_bcrf.privacy.redact_stream import RedactionStream
from spacy_bcrf.privacy.restore import TextChange

from .server import Server

IDLE = 60
"""Seconds that a client may take for its next piece."""

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_Base: Any = require("starlette.responses", "serve").Response


class Redacting:
    """The redaction of a text. save: called before a piece is sent."""

    def __init__(self, stream: RedactionStream, save: Callable[[], object]) -> None:
        self._stream, self._save = stream, save

    def feed(self, text: str) -> str:
        new = self._stream.feed(text)
        self._save()
        return new

    def close(self) -> tuple[str, dict[str, int]]:
        rest, (redacted, late, _) = self._stream.close()
        self._save()
        counts = {"replacements": len(redacted.spans), "left": len(redacted.left)}
        return rest, {**counts, "late": len(late)}


class TextEvents(_Base):
    """An answer of events: `text` for each piece of the new text, then `end` or `error`.

    The body of the request is the text in UTF-8, in as many pieces as the client likes.
    """

    media_type = "text/event-stream"

    def __init__(self, server: Server, stream: TextChange) -> None:
        """stream: its report is counts."""
        super().__init__(headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._server, self._stream = server, stream
        self._spent = 0.0  # seconds of work

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})

        async def tell(event: str, **data: Any) -> None:
            body = f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()
            await send({"type": "http.response.body", "body": body, "more_body": True})

        try:
            await self._change(receive, tell)
        except asyncio.TimeoutError:
            await tell("error", detail=f"the next piece took more than {IDLE} s")
        except (ValueError, TookTooLongError) as error:
            await tell("error", detail=str(error))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _change(self, receive: Receive, tell: Callable[..., Awaitable[None]]) -> None:
        decoder, stream = getincrementaldecoder("utf8")(), self._stream
        most, n, n_bytes, more = self._server.limits.characters, 0, 0, True
        while more:
            message = await asyncio.wait_for(receive(), IDLE)
            if message["type"] == "http.disconnect":
                return
            more = message.get("more_body", False)
            n_bytes += len(body := message.get("body", b""))
            try:
                piece = decoder.decode(body, final=not more)
            except UnicodeDecodeError as error:
                raise ValueError(f"the body {explain_utf8(error, n_bytes)}") from None
            n += len(piece)
            if n > most:
                raise ValueError(f"the text has more than {most} characters")
            if text := await self._run(partial(stream.feed, piece), len(piece)):
                await tell("text", text=text)
        rest, counts = await self._run(stream.close, 0)
        if rest:
            await tell("text", text=rest)
        await tell("end", **counts)

    async def _run(self, work: Callable[[], Any], n_characters: int) -> Any:
        """Return what a function returns. TookTooLongError for a slow tokenizer or stream."""
        limits = self._server.limits

        def limited() -> Any:
            if self._spent > limits.stream_seconds:
                most = f"the text took more than {limits.stream_seconds:g} s of work"
                raise TookTooLongError(f"{most}; send larger pieces, or parts of the text")
            start = thread_time()
            with self._server.zone(n_characters), time_limit(limits.seconds):
                found = work()
            self._spent += thread_time() - start
            return found

        return await self._server.run(limited)
