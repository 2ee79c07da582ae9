"""HTTP connections whose requests have a head of limited size and time. Needs the extra serve."""

from asyncio import TimerHandle
from collections.abc import Callable
from functools import partial
from typing import Any

from bcrf.io.extras import require

from .server import Limits

_implementation: Any = require("uvicorn.protocols.http.httptools_impl", "serve")
_Base: Any = _implementation.HttpToolsProtocol


def limit_heads(limits: Limits) -> Callable[..., Any]:
    """Return the HTTP protocol for uvicorn's `http`. uvicorn's own keeps heads of any size."""
    return partial(_Connection, limits=limits)


class _Connection(_Base):
    """A connection that ends if a head is too long or late, with status 431 or 408.

    Whatever is no content counts: also the sizes of chunks, and the headers after the last one.
    """

    def __init__(self, *, limits: Limits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._n_bytes = 0  # since the last head, chunk or request has ended
        self._in_head = True
        self._timer: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        self._n_bytes += len(data)
        if self._in_head:
            self._start_timer()
        super().data_received(data)
        if self._n_bytes > self._limits.head_bytes:
            self._refuse(431, f"the head has more than {self._limits.head_bytes} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start_timer()

    def on_headers_complete(self) -> None:
        self._n_bytes, self._in_head = 0, False
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._n_bytes -= len(body)
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        self._n_bytes = 0

    def on_message_complete(self) -> None:
        self._n_bytes, self._in_head = 0, True
        super().on_message_complete()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self._limits.head_seconds, self._end_wait)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_wait(self) -> None:
        self._timer = None
        if self.flow.read_paused:  # the rest of the head waits for the answers before it
            self._start_timer()
        else:
            self._refuse(408, f"the head took more than {self._limits.head_seconds:g} s")

    def _refuse(self, status: int, reason: str) -> None:
        """End the connection, with an answer unless another one is under way."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            line = _implementation.STATUS_LINE[status]
            headers = f"content-length: {len(reason)}\r\nconnection: close\r\n\r\n{reason}"
            self.transport.write(line + headers.encode())
        self.transport.close()
