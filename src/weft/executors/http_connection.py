"""Connections that go only where they may: the address is looked up once, checked, and connected to.

The check sits where the socket is opened. The URL keeps its host, so the `Host` header and the name that TLS
verifies are the original ones; no second look-up can give another address between check and connect
(DNS rebinding); and nothing above, a redirect least of all, gets around it.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing

import httpcore2
import httpx2

from weft.executor_settings import HttpSettings
from weft.executors.addresses import is_allowed, read_address, special_kind
from weft.executors.protocol import ExecutionFailed

CONNECT_SECONDS = 10.0
"""For one address; a host whose first address does not answer may have a second that does."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, best first; raises OSError when there are none."""


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """The addresses the machine's resolver knows."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens sockets to addresses that the settings allow."""

    def __init__(self, settings: HttpSettings, resolve: Resolve) -> None:
        self._settings = settings
        self._resolve = resolve
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the library
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._allowed_addresses(host, port)
        for address in addresses[:-1]:
            try:
                return await self._network.connect_tcp(address, port, timeout=CONNECT_SECONDS)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._network.connect_tcp(addresses[-1], port, timeout=CONNECT_SECONDS)

    async def _allowed_addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"{host} cannot be resolved: {error}") from error
        if not found:
            raise httpcore2.ConnectError(f"{host} has no address")
        if {host.lower(), f"{host.lower()}:{port}"} & {entry.lower() for entry in self._settings.allow_hosts}:
            return found
        allow_private = self._settings.allow_private
        allowed = [text for text in found if is_allowed(read_address(text), allow_private=allow_private)]
        if not allowed:
            raise ExecutionFailed(
                f"{host} may not be called: {found[0]} is {_described(found[0])}; "
                f'allow it in weft.toml: [executors.http] allow_hosts = ["{host}"]',
                is_permanent=True,
            )
        return allowed


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests over guarded connections: no proxy, no cookies, no redirects of its own."""

    def __init__(self, settings: HttpSettings, *, resolve: Resolve, tls: ssl.SSLContext) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls, network_backend=GuardedBackend(settings, resolve)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        sent = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
        )
        answer = await self._pool.handle_async_request(sent)
        return httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer), request=request)

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, as httpx2 wants it."""

    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._answer.aiter_stream()) as parts:
            async for part in parts:
                yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


def _described(address: str) -> str:
    kind = special_kind(read_address(address)) or "public"
    return f"an {kind} address" if kind[0] in "aeiou" else f"a {kind} address"
