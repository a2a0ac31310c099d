"""One call of a URL: the request, the redirects, the answer within its limits.

Imported when the first call is made: httpx2 takes a tenth of a second to import.
"""

import re
import ssl
from contextlib import aclosing

import httpcore2
import httpx2
import msgspec
from msgspec import UNSET, Struct

from weft import __version__
from weft.executor_settings import HttpSettings
from weft.executors.http_connection import GuardedTransport, Resolve
from weft.executors.http_inputs import HttpInputs
from weft.executors.protocol import ExecutionFailed
from weft.secrets.cutting import cut

MAX_REDIRECTS = 10

_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
"""Names, as IDNA writes them, and addresses."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

_HARMLESS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
"""Headers that follow a redirect to another origin. No others: keys are sent in headers of any name."""

_DEFAULT_HEADERS = {"accept": "*/*", "accept-encoding": "gzip, deflate", "user-agent": f"weft/{__version__}"}

_FAILURES = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    httpx2.DecodingError,
)


class Answer(Struct, frozen=True, kw_only=True):
    """What came back in the end."""

    status: int
    reason: str
    url: str
    headers: dict[str, str]
    body: bytes
    is_cut: bool
    redirects: int


def default_tls() -> ssl.SSLContext:
    """Verification by the system's certificates, nothing from the environment."""
    return httpx2.create_ssl_context(trust_env=False)


async def call(
    inputs: HttpInputs, settings: HttpSettings, *, resolve: Resolve, tls: ssl.SSLContext
) -> Answer:
    """The answer to a request; what keeps it from coming raises ExecutionFailed."""
    request = _request(inputs)
    transport = GuardedTransport(settings, resolve=resolve, tls=tls)
    try:
        for redirects in range(MAX_REDIRECTS + 1):
            response = await transport.handle_async_request(request)
            try:
                location = response.headers.get("location")
                is_redirect = response.status_code in _REDIRECTS and location is not None
                if not (is_redirect and inputs.follow_redirects):
                    return await _read(response, inputs.max_bytes, redirects)
            finally:
                await response.aclose()
            request = _redirected(request, response.status_code, location or "")
    except _FAILURES as error:
        raise ExecutionFailed(
            f"{inputs.method} {shown_url(request.url)} failed: {error or type(error).__name__}",
            is_permanent=isinstance(error, httpcore2.LocalProtocolError),
        ) from error
    finally:
        await transport.aclose()
    raise ExecutionFailed(
        f"{inputs.method} {shown_url(request.url)} failed: more than {MAX_REDIRECTS} redirects",
        is_permanent=True,
    )


def shown_url(url: httpx2.URL) -> str:
    """The URL for messages: without its query, which may hold a key."""
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
        content = inputs.body.encode("utf-8", "replace")
        headers["content-type"] = "text/plain; charset=utf-8"
    headers.update(inputs.headers)
    return httpx2.Request(inputs.method, url, headers=headers, content=content)


def _redirected(request: httpx2.Request, status: int, location: str) -> httpx2.Request:
    """The request an answer asks for: with POST turned into GET as browsers do, and no secrets passed on."""
    url = _checked_url(location, base=request.url)
    headers = httpx2.Headers(request.headers.multi_items())
    headers.pop("host", None)
    if not _is_same_origin(url, request.url):
        headers = httpx2.Headers([pair for pair in headers.multi_items() if pair[0].lower() in _HARMLESS])
    is_kept = status in {307, 308} or request.method in {"GET", "HEAD"}
    if not is_kept:
        for name in ("content-length", "content-type"):
            headers.pop(name, None)
        return httpx2.Request("GET", url, headers=headers)
    headers.pop("content-length", None)
    return httpx2.Request(request.method, url, headers=headers, content=request.content or None)


def _checked_url(text: str, *, base: httpx2.URL | None = None) -> httpx2.URL:
    try:
        url = httpx2.URL(text) if base is None else base.join(text)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ExecutionFailed(f"not a URL: {error}", is_permanent=True) from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise ExecutionFailed(
            f"only http and https URLs can be called, not '{url.scheme or cut(text, 80)}'", is_permanent=True
        )
    if url.userinfo:
        raise ExecutionFailed("a URL may not hold a user or password; use a header", is_permanent=True)
    if not _HOST.fullmatch(url.raw_host.decode("ascii")) or not 0 < _port(url) < 65536:
        # The library takes "a b" for a host and 99999 for a port; the sockets below take neither.
        raise ExecutionFailed(f"not a URL: bad host or port in '{cut(text, 80)}'", is_permanent=True)
    return url


def _is_same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    return (one.scheme, one.host, _port(one)) == (other.scheme, other.host, _port(other))


def _port(url: httpx2.URL) -> int:
    return (443 if url.scheme == "https" else 80) if url.port is None else url.port


async def _read(response: httpx2.Response, max_bytes: int, redirects: int) -> Answer:
    """The answer with at most `max_bytes` of its body, counted as they come out of decompression."""
    encodings = response.headers.get_list("content-encoding", split_commas=True)
    if len(encodings) > 1:
        # Each layer multiplies by a thousand, and all of it is one step of the event loop.
        raise ExecutionFailed(f"the answer is compressed {len(encodings)} times over", is_permanent=True)
    body = bytearray()
    async with aclosing(response.aiter_bytes()) as parts:
        async for part in parts:
            body += part[: max_bytes + 1 - len(body)]
            if len(body) > max_bytes:
                break
    return Answer(
        status=response.status_code,
        reason=response.reason_phrase,
        url=str(response.request.url),
        headers=dict(response.headers.items()),
        body=bytes(body[:max_bytes]),
        is_cut=len(body) > max_bytes,
        redirects=redirects,
    )
