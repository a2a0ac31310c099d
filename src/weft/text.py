"""Clean text at the borders of weft: files, processes, models and callers may send what no store can hold.

Whatever has passed a border is trusted: it has no lone surrogates, and no NUL where C strings or PostgreSQL
end at one.
"""

import re
from typing import Annotated

from msgspec import Meta

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character: never valid alone, and never encodable. Python uses it for bytes that are not UTF-8."""

NulFree = Annotated[str, Meta(pattern=r"^[^\x00]*$")]
"""A word of a command line or of an environment: NUL ends C strings."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Replace NUL and lone surrogates by U+FFFD."""
    return text if is_storable(text) else _UNSTORABLE.sub("\ufffd", text)


def decode_text(content: bytes | bytearray) -> str:
    """Decode UTF-8; bytes that are not UTF-8 become U+FFFD."""
    return content.decode("utf-8", "replace")


def is_storable(text: str) -> bool:
    """Return whether every store can hold the text: it has no NUL and no lone surrogate."""
    return "\x00" not in text and is_unicode(text)


def is_unicode(text: str) -> bool:
    """Return whether the text has no lone surrogate, and thus can be encoded."""
    return text.isascii() or SURROGATE.search(text) is None
