"""Just enough of PostgreSQL's wire protocol to see where a message ends and what it is."""

from collections.abc import Iterator

from msgspec import Struct

_SSL_REQUEST = 80877103
_GSS_REQUEST = 80877104


class Message(Struct, frozen=True):
    """One message of a client or of the server."""

    kind: bytes
    """Its type byte; empty for the untyped ones with which a client begins."""
    raw: bytes
    """All of it, as it was sent."""

    @property
    def body(self) -> bytes:
        return self.raw[len(self.kind) + 4 :]

    @property
    def asks_for_encryption(self) -> bool:
        """Whether the client asks for TLS or GSS before it says who it is."""
        return not self.kind and int.from_bytes(self.body[:4]) in (_SSL_REQUEST, _GSS_REQUEST)

    @property
    def is_query(self) -> bool:
        """Whether a client waits for the server's answer now: a Query or a Sync."""
        return self.kind in (b"Q", b"S")

    @property
    def is_committed(self) -> bool:
        """Whether the server says that a transaction is committed."""
        return self.kind == b"C" and self.body == b"COMMIT\0"

    @property
    def is_idle(self) -> bool:
        """Whether the server says that it is ready, outside of a transaction."""
        return self.kind == b"Z" and self.body == b"I"


class Messages:
    """Cuts a stream of bytes into messages."""

    def __init__(self, *, begins_untyped: bool) -> None:
        self._buffer = bytearray()
        self._is_untyped = begins_untyped

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield every message that is complete by now."""
        self._buffer += data
        while True:
            start = 0 if self._is_untyped else 1
            if len(self._buffer) < start + 4:
                return
            size = start + int.from_bytes(self._buffer[start : start + 4])
            if len(self._buffer) < size:
                return
            message = Message(bytes(self._buffer[:start]), bytes(self._buffer[:size]))
            del self._buffer[:size]
            # After the server has refused encryption, the client begins again.
            self._is_untyped = self._is_untyped and message.asks_for_encryption
            yield message
