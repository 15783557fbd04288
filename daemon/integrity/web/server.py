"""
Serve the page, or a hub, over HTTP or HTTPS, and bound what slow or many clients can take.

I1  A connection has ten seconds to send its next request, head and body; what takes long to answer is not bounded here.
I2  At most 400 connections are open: a new one ends the oldest whose request is not complete, of the address that has
    most of them.

``BoundedProtocol`` has these bounds; a hub, whose boxes keep their connections, has others.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, ClassVar

import anyio.to_thread
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from integrity.errors import ConfigError, show_path
from integrity.web.endpoint import find_address_group

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from integrity.web.endpoint import Endpoint

_BACKLOG = 100
"""So many connections are accepted before any is looked at."""

_LARGEST_HEAD = 32 * 1024


class BoundedProtocol(H11Protocol):
    """
    HTTP/1.1 with deadlines and a bound on connections (I1, I2).

    Attributes:
        request_s: how long a new connection may take to send its first request.
        idle_s: how long a connection may stay open between an answer and the first byte of the next request, which has
            ``body_s`` from then on; None: the next request has to be complete within ``request_s``.
        body_s: see ``idle_s``.
    """

    request_s: ClassVar[float] = 10.0
    idle_s: ClassVar[float | None] = None
    body_s: ClassVar[float] = 10.0
    most_connections: ClassVar[int] = 400

    _has_begun: bool
    _deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self.most_connections:
            self._make_room()
        super().connection_made(transport)
        self.made_at = self.loop.time()
        self.group = find_address_group(self.client[0] if self.client else "")
        self._await_request(self.request_s)

    def data_received(self, data: bytes) -> None:
        if self.idle_s is not None and not self._has_begun:
            self._deadline.cancel()
            self._await_request(self.body_s)
            self._has_begun = True
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._deadline.cancel()
        self._await_request(self.request_s if self.idle_s is None else self.idle_s)

    @property
    def is_busy(self) -> bool:
        """Whether a request has come in whole, and is being answered."""
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body

    def _await_request(self, within_s: float) -> None:
        self._has_begun = False
        self._deadline = self.loop.call_later(within_s, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if not self.is_busy:
            self.transport.abort()

    def _make_room(self) -> None:
        """End connections (I2): whoever opens many ends no one else's."""
        # One that was ended still stands in the list until the loop has come round.
        alive = [one for one in self.connections if isinstance(one, BoundedProtocol) and not one.transport.is_closing()]
        if len(alive) < self.most_connections:
            return
        counts = Counter(one.group for one in alive)
        idle = (one for one in alive if not one.is_busy)
        # Where thousands are kept, all of them would be looked at for each new one.
        count = 1 if self.idle_s is None else max(1, self.most_connections // 100)
        for one in nsmallest(count, idle, key=lambda one: (-counts[one.group], one.made_at)):
            one.transport.abort()


def serve(
    app: ASGIApp,
    endpoint: Endpoint,
    *,
    protocol: type[BoundedProtocol] = BoundedProtocol,
    background: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ready: Callable[[], None],
) -> None:
    """
    Serve until SIGINT or SIGTERM.

    Args:
        background: runs beside it in the same loop; is cancelled at the end.
        ready: called once the page can be asked.

    Raises:
        ConfigError: the address can't be used, or the certificate can't be read.
    """
    config = uvicorn.Config(
        app,
        host=endpoint.host,
        port=endpoint.port,
        backlog=_BACKLOG,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(endpoint.trusted_proxy),
        forwarded_allow_ips=endpoint.trusted_proxy or None,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        timeout_keep_alive=int(protocol.idle_s or protocol.request_s),
        timeout_graceful_shutdown=2,
        ssl_certfile=os.fsdecode(endpoint.certificate) or None,
        ssl_keyfile=os.fsdecode(endpoint.key) or None,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        places = " or ".join(show_path(place) for place in (endpoint.certificate, endpoint.key) if place)
        is_closed = isinstance(error, PermissionError)
        remedy = f"; let the user {getpass.getuser()} read them" if is_closed else ""
        raise ConfigError(f"{places}: can't be used as certificate and key: {error}{remedy}") from error
    server = _Server(config, ready)
    asyncio.run(_run(server, endpoint, background))


class _Server(uvicorn.Server):
    """A server that calls ``ready`` when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self._ready()


_THREADS = 4
"""Pages are made in so many threads; each may hold a connection to the catalog, and a page of a thousand entries."""


async def _run(server: _Server, endpoint: Endpoint, background: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
    """Run the server; uvicorn exits the process when it can't listen, so the address is tried first."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
    loop = asyncio.get_running_loop()
    try:
        tried = await loop.create_server(asyncio.Protocol, endpoint.host, endpoint.port, start_serving=False)
    except OSError as error:
        raise ConfigError(
            f"{endpoint.names.section} listen: can't listen on {endpoint.host} port {endpoint.port}:"
            f" {error.strerror or error}; choose another address or port, or stop the program that has it"
        ) from error
    tried.close()
    await tried.wait_closed()
    beside = None if background is None else asyncio.create_task(background())
    await server.serve()
    if beside is not None:
        beside.cancel()
        with suppress(asyncio.CancelledError):
            await beside
