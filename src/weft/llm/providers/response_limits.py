"""What comes back over HTTP for one request: bounded before it is in memory, and remembered for messages."""

import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import urlsplit

import httpx2

MOST_BYTES = 32 * 1024 * 1024
"""Of one answer, unpacked. The longest answers of models are some megabytes of events."""

HEAD_BYTES = 600
"""How much of the beginning is remembered."""

_STEP_BYTES = 64 * 1024
_GZIP = 31  # the window size that makes zlib take gzip and nothing else


class AnswerTooLarge(httpx2.TransportError):
    """More has arrived than any response has. Clients wrap it: see `ResponseCapture.is_too_large`."""


class ResponseCapture:
    """What is known of the answer to one request."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.content_type = ""
        self.location = ""
        """Where a redirect leads."""
        self.size = 0
        self.head = b""
        self.is_too_large = False
        self._response: httpx2.Response | None = None

    def begin(self, response: httpx2.Response) -> None:
        """Take note of a response; of several, as after a schema was refused, the last counts."""
        self.size, self.head, self.is_too_large = 0, b"", False
        self._response = response
        self.status = response.status_code
        self.content_type = response.headers.get("content-type", "")
        self.location = response.headers.get("location", "")

    def add(self, piece: bytes) -> None:
        """Count a piece; raises AnswerTooLarge."""
        self.size += len(piece)
        if len(self.head) < HEAD_BYTES:
            self.head += piece[: HEAD_BYTES - len(self.head)]
        if self.size > MOST_BYTES:
            self.is_too_large = True
            raise AnswerTooLarge(f"more than {MOST_BYTES} bytes")

    async def close(self) -> None:
        """Close the connection of an answer that is not read to its end; not every client does."""
        if self._response is not None:
            await self._response.aclose()

    @property
    def is_redirect(self) -> bool:
        return self.status is not None and 300 <= self.status < 400

    @property
    def target(self) -> str:
        """Where a redirect leads, without what may be secret in it."""
        try:
            parts = urlsplit(self.location)
            host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
        except ValueError:
            return "an address that is none"
        return f"{parts.scheme}://{host}{parts.path}" if host else parts.path or "nowhere"

    @property
    def beginning(self) -> str:
        """The first characters; blanks are one, and what cannot be printed is a question mark."""
        text = " ".join(self.head.decode("utf-8", "replace").split())
        return "".join(sign if sign.isprintable() else "?" for sign in text)


_current: ContextVar[ResponseCapture | None] = ContextVar("weft_arrival", default=None)


@contextmanager
def capture_response() -> Iterator[ResponseCapture]:
    """What the requests made inside the block get."""
    arrival = ResponseCapture()
    token = _current.set(arrival)
    try:
        yield arrival
    finally:
        _current.reset(token)


async def ask_for_what_is_bounded(request: httpx2.Request) -> None:
    """Before a request is sent: ask for no packing but the one that is unpacked here, step by step."""
    request.headers["accept-encoding"] = "gzip"


async def watch(response: httpx2.Response) -> None:
    """Before a response is read: bound it, and remember how it begins."""
    arrival = _current.get() or ResponseCapture()
    arrival.begin(response)
    packing = response.headers.pop("content-encoding", "").strip().lower()
    if isinstance(response.stream, httpx2.AsyncByteStream):  # always, of a client that is asynchronous
        response.stream = _Bounded(response.stream, arrival, is_packed=packing in ("gzip", "x-gzip"))


class _Bounded(httpx2.AsyncByteStream):
    """A stream that ends with AnswerTooLarge when it is too long, packed or not."""

    def __init__(self, stream: httpx2.AsyncByteStream, arrival: ResponseCapture, *, is_packed: bool) -> None:
        self._stream = stream
        self._arrival = arrival
        self._unpacking = zlib.decompressobj(_GZIP) if is_packed else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            for part in self._unpacked(piece):
                self._arrival.add(part)
                yield part

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _unpacked(self, piece: bytes) -> Iterator[bytes]:
        """A kilobyte may hold a megabyte: unpacked in steps, so that the bound is met in time."""
        if self._unpacking is None:
            yield piece
            return
        try:
            while piece:
                if part := self._unpacking.decompress(piece, _STEP_BYTES):
                    yield part
                piece = self._unpacking.unconsumed_tail
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from None
