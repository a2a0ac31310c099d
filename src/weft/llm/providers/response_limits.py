"""Limits the size of HTTP responses while they are read, and captures their beginning for error messages."""

import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import urlsplit

import httpx2

from weft.limits import decode_text

MOST_BYTES = 32 * 1024 * 1024
"""Largest decompressed response. The longest responses of models are some megabytes of events."""

MOST_COPIED_BYTES = 1024**3
"""How many bytes a client may copy to put one event of a stream together. It copies the event again for each
line and piece that it appends, and nothing else of this process runs meanwhile: an event without an end would
take minutes long before `MOST_BYTES` have arrived."""

HEAD_BYTES = 600
"""Number of bytes at the beginning of a response that are captured."""

_STEP_BYTES = 64 * 1024
"""Most bytes that are decompressed at once."""
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_GZIP_ONLY = 31  # the `wbits` with which zlib accepts only gzip


class AnswerTooLarge(httpx2.TransportError):
    """The response exceeds the size limit. Clients wrap it, so check `ResponseCapture.is_too_large`."""


class ResponseCapture:
    """Status, headers, size and beginning of the response to one request."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.content_type = ""
        self.location = ""
        """The target of a redirect."""
        self.size = 0
        self.head = b""
        self.is_too_large = False
        self._is_stream = False
        self.event_bytes = 0
        """Number of bytes since the last end of an event, if the response is a stream of events."""
        self._copied_bytes = 0
        self._response: httpx2.Response | None = None

    def begin(self, response: httpx2.Response) -> None:
        """Start to capture a response, and forget an earlier one."""
        self.size, self.head, self.is_too_large = 0, b"", False
        self._response = response
        self.status = response.status_code
        self.content_type = response.headers.get("content-type", "")
        self.location = response.headers.get("location", "")
        self._is_stream = _is_stream(response)
        self.event_bytes = self._copied_bytes = 0

    def add(self, piece: bytes) -> None:
        """Count a piece of the response; raise AnswerTooLarge if the response or one event is too long."""
        self.size += len(piece)
        if len(self.head) < HEAD_BYTES:
            self.head += piece[: HEAD_BYTES - len(self.head)]
        if self._is_stream:
            self._count_event(piece)
        if self.size > MOST_BYTES or self._copied_bytes > MOST_COPIED_BYTES:
            self.is_too_large = True
            raise AnswerTooLarge(f"{self.size} bytes, and {self.event_bytes} in one event")

    def _count_event(self, piece: bytes) -> None:
        """Count the bytes of the current event, and how many its client has copied."""
        end = max((piece.rfind(mark) + len(mark) for mark in _EVENT_ENDS if mark in piece), default=0)
        if end:
            self.event_bytes = self._copied_bytes = 0
        lines = piece.count(b"\n", end) + piece.count(b"\r", end) + 1
        self.event_bytes += len(piece) - end
        self._copied_bytes += lines * self.event_bytes

    async def close(self) -> None:
        """Close the connection of a response that is not read to its end; not every client closes it."""
        if self._response is not None:
            await self._response.aclose()

    @property
    def is_redirect(self) -> bool:
        return self.status is not None and 300 <= self.status < 400

    @property
    def target(self) -> str:
        """Return the target of a redirect, without user, password and query, which may hold secrets."""
        try:
            parts = urlsplit(self.location)
            host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
        except ValueError:
            return "an invalid address"
        return f"{parts.scheme}://{host}{parts.path}" if host else parts.path or "an empty address"

    @property
    def beginning(self) -> str:
        """Return the beginning as text, with blanks collapsed and unprintable characters replaced by `?`."""
        text = " ".join(decode_text(self.head).split())
        return "".join(character if character.isprintable() else "?" for character in text)


_current: ContextVar[ResponseCapture | None] = ContextVar("weft_arrival", default=None)


@contextmanager
def capture_response() -> Iterator[ResponseCapture]:
    """Capture the response to the last request in the `with` block."""
    capture = ResponseCapture()
    token = _current.set(capture)
    try:
        yield capture
    finally:
        _current.reset(token)


async def request_gzip(request: httpx2.Request) -> None:
    """Accept only gzip, which `limit_response` decompresses in steps. A request hook of the client."""
    request.headers["accept-encoding"] = "gzip"


async def limit_response(response: httpx2.Response) -> None:
    """Limit the size of the response and capture its beginning. A response hook of the client."""
    capture = _current.get() or ResponseCapture()
    capture.begin(response)
    encoding = response.headers.pop("content-encoding", "").strip().lower()
    if isinstance(response.stream, httpx2.AsyncByteStream):  # always true for an asynchronous client
        response.stream = _LimitedStream(response.stream, capture, is_gzip=encoding in ("gzip", "x-gzip"))


def _is_stream(response: httpx2.Response) -> bool:
    """Return whether the client reads the response as events: it asked for them, or they came."""
    request = response.request
    has_asked = b'"stream":true' in request.content or "alt=sse" in str(request.url)
    return has_asked or response.headers.get("content-type", "").startswith("text/event-stream")


class _LimitedStream(httpx2.AsyncByteStream):
    """A stream that raises AnswerTooLarge if its decompressed contents are too long."""

    def __init__(self, stream: httpx2.AsyncByteStream, capture: ResponseCapture, *, is_gzip: bool) -> None:
        self._stream = stream
        self._capture = capture
        self._decompressor = zlib.decompressobj(_GZIP_ONLY) if is_gzip else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            for part in self._decompress(piece):
                self._capture.add(part)
                yield part

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _decompress(self, piece: bytes) -> Iterator[bytes]:
        """Decompress in steps, so that a compression bomb hits the limit early."""
        if self._decompressor is None:
            yield piece
            return
        try:
            while piece:
                if part := self._decompressor.decompress(piece, _STEP_BYTES):
                    yield part
                piece = self._decompressor.unconsumed_tail
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from None
