"""The HTTP client of the `http` executor: one request, with redirects and limits.

Addresses are checked where the socket is opened. The URL keeps its host, so the `Host` header and the name
that TLS verifies are the original ones; no second look-up can return another address between check and
connection (DNS rebinding); and redirects cannot bypass the check. `ipaddress.is_global` is not used, as its
tables differ between Python versions. Instead, addresses in the networks below are not public, and an IPv6
address outside of 2000::/3 (global unicast) is public only if it embeds a public IPv4 address.

Imported for the first request, because httpx2 takes a tenth of a second to import.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import httpcore2
import httpx2
import msgspec
from msgspec import UNSET, Struct

from weft.config.sections import HttpSettings
from weft.executors.http_inputs import HttpInputs
from weft.executors.protocol import ExecutionFailed, permanent_failure
from weft.secrets.truncation import cut
from weft.version import __version__

Address = IPv4Address | IPv6Address

LOCAL = frozenset({"loopback", "private", "shared"})
"""Kinds of addresses that `allow_private` allows. Others stay refused: link-local addresses serve the
credentials of cloud machines, and the remaining ones have no servers."""

_IPV4 = [
    (IPv4Network(network), kind)
    for network, kind in [
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),  # carrier-grade NAT
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    ]
]

_IPV6 = [
    (IPv6Network(network), kind)
    for network, kind in [
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),  # Teredo, benchmarks, ORCHID ...
        ("2001:db8::/32", "reserved"),
        ("3fff::/20", "reserved"),
    ]
]

_GLOBAL_UNICAST = IPv6Network("2000::/3")

# IPv6 networks with embedded IPv4 addresses, and the number of bits to the right of the embedded address.
_EMBEDDED_IPV4 = [
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
]


def special_kind(address: Address) -> str | None:
    """Return the kind of a non-public address, or None for a public one."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _IPV4 if address in network), None)
    # Without its zone (fe80::1%eth0), which would break the comparison with networks.
    plain = IPv6Address(int(address))
    for network, shift in _EMBEDDED_IPV4:
        if plain in network:
            return special_kind(IPv4Address(int(plain) >> shift & 0xFFFFFFFF))
    for network, kind in _IPV6:
        if plain in network:
            return kind
    return None if plain in _GLOBAL_UNICAST else "reserved"


def is_allowed(address: Address, *, allow_private: bool) -> bool:
    """Return True if the address is public, or of a `LOCAL` kind and `allow_private` is True."""
    kind = special_kind(address)
    return kind is None or (allow_private and kind in LOCAL)


CONNECT_SECONDS = 10.0
"""Time limit of a connection to one address: if an address of a host does not respond, another one may."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host, best first; raises OSError if there are none."""


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens sockets only to addresses that the settings allow."""

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
        allowed = [text for text in found if is_allowed(ip_address(text), allow_private=allow_private)]
        if not allowed:
            raise permanent_failure(
                f"{host} may not be called: {found[0]} is {_describe(found[0])}; "
                f'allow it in weft.toml: [executors.http] allow_hosts = ["{host}"]'
            )
        return allowed


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """Sends requests over guarded connections, without proxies, cookies or automatic redirects."""

    def __init__(self, settings: HttpSettings, *, resolve: Resolve, tls: ssl.SSLContext) -> None:
        # The initializer of the library is not called: its pool would open sockets to any address.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls, network_backend=GuardedBackend(settings, resolve)
        )


def _describe(address: str) -> str:
    kind = special_kind(ip_address(address)) or "public"
    return f"an {kind} address" if kind[0] in "aeiou" else f"a {kind} address"


MAX_REDIRECTS = 10

_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
"""Host names in IDNA form, and addresses."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

_HARMLESS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
"""Headers that are sent to another origin after a redirect. Headers of any other name may contain keys."""

_DEFAULT_HEADERS = {"accept": "*/*", "accept-encoding": "gzip, deflate", "user-agent": f"weft/{__version__}"}


class HttpResponse(Struct, frozen=True, kw_only=True):
    """The response after all redirects."""

    status: int
    reason: str
    url: str
    headers: dict[str, str]
    body: bytes
    is_truncated: bool
    redirects: int


def default_tls() -> ssl.SSLContext:
    """Return a TLS context that verifies with the default certificates and ignores environment variables."""
    return httpx2.create_ssl_context(trust_env=False)


async def call(
    inputs: HttpInputs, settings: HttpSettings, *, resolve: Resolve, tls: ssl.SSLContext
) -> HttpResponse:
    """Send a request and return the response, whatever its status. Raise ExecutionFailed if none arrives."""
    request = _request(inputs)
    transport = GuardedTransport(settings, resolve=resolve, tls=tls)
    try:
        for redirects in range(MAX_REDIRECTS + 1):
            response = await transport.handle_async_request(request)
            response.request = request
            try:
                location = response.headers.get("location")
                is_redirect = response.status_code in _REDIRECTS and location is not None
                if not (is_redirect and inputs.follow_redirects):
                    return await _read(response, inputs.max_bytes, redirects)
            finally:
                await response.aclose()
            request = _redirected(request, response.status_code, location or "")
    except httpx2.RequestError as error:
        raise ExecutionFailed(
            f"{inputs.method} {shown_url(request.url)} failed: {error or type(error).__name__}",
            is_permanent=isinstance(error, httpx2.LocalProtocolError),
        ) from error
    finally:
        await transport.aclose()
    raise permanent_failure(
        f"{inputs.method} {shown_url(request.url)} failed: more than {MAX_REDIRECTS} redirects"
    )


def shown_url(url: httpx2.URL) -> str:
    """Return the URL for messages, without its query, which may contain a key."""
    return str(url.copy_with(query=None, fragment=None))


def _request(inputs: HttpInputs) -> httpx2.Request:
    url = _checked_url(inputs.url)
    if inputs.params:
        url = url.copy_merge_params(inputs.params)
    headers = httpx2.Headers({**_DEFAULT_HEADERS})
    content = None
    if inputs.json is not UNSET:
        content = msgspec.json.encode(inputs.json)
        headers["content-type"] = "application/json"
    elif isinstance(inputs.body, str):
        content = inputs.body.encode()
        headers["content-type"] = "text/plain; charset=utf-8"
    headers.update(inputs.headers)
    return httpx2.Request(inputs.method, url, headers=headers, content=content)


def _redirected(request: httpx2.Request, status: int, location: str) -> httpx2.Request:
    """Return the request for a redirect.

    Methods other than GET and HEAD become GET, except for the status codes 307 and 308. Headers that may
    contain secrets are not sent to another origin.
    """
    url = _checked_url(location, base=request.url)
    headers = httpx2.Headers(request.headers.multi_items())
    headers.pop("host", None)
    if (url.scheme, url.host, _port(url)) != (request.url.scheme, request.url.host, _port(request.url)):
        headers = httpx2.Headers([pair for pair in headers.multi_items() if pair[0].lower() in _HARMLESS])
    keeps_method = status in {307, 308} or request.method in {"GET", "HEAD"}
    if not keeps_method:
        for name in ("content-length", "content-type"):
            headers.pop(name, None)
        return httpx2.Request("GET", url, headers=headers)
    headers.pop("content-length", None)
    return httpx2.Request(request.method, url, headers=headers, content=request.content or None)


def _checked_url(text: str, *, base: httpx2.URL | None = None) -> httpx2.URL:
    try:
        url = httpx2.URL(text) if base is None else base.join(text)
    except (httpx2.InvalidURL, ValueError) as error:
        raise permanent_failure(f"not a URL: {error}") from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise permanent_failure(f"only http and https URLs with a host can be called, not '{cut(text, 80)}'")
    if url.userinfo:
        raise permanent_failure("a URL may not contain a user or password; use a header")
    if not _HOST.fullmatch(url.raw_host.decode("ascii")) or not 0 < _port(url) < 65536:
        # The library accepts "a b" as a host and 99999 as a port, but sockets do not.
        raise permanent_failure(f"not a URL: bad host or port in '{cut(text, 80)}'")
    return url


def _port(url: httpx2.URL) -> int:
    return (443 if url.scheme == "https" else 80) if url.port is None else url.port


async def _read(response: httpx2.Response, max_bytes: int, redirects: int) -> HttpResponse:
    """Return the response with at most `max_bytes` of its decompressed body."""
    encodings = response.headers.get_list("content-encoding", split_commas=True)
    if len(encodings) > 1:
        # Each layer may expand a thousandfold, and all layers are decoded in one step of the event loop.
        raise permanent_failure(f"the response is compressed {len(encodings)} times")
    body = bytearray()
    async with aclosing(response.aiter_bytes()) as parts:
        async for part in parts:
            body += part[: max_bytes + 1 - len(body)]
            if len(body) > max_bytes:
                break
    return HttpResponse(
        status=response.status_code,
        reason=httpx2.codes.get_reason_phrase(response.status_code),
        url=str(response.request.url),
        headers=dict(response.headers.items()),
        body=bytes(body[:max_bytes]),
        is_truncated=len(body) > max_bytes,
        redirects=redirects,
    )
