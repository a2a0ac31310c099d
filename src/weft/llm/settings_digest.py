"""What decides on the answers of a model besides its name, as one short text."""

import hashlib
from typing import Any

import msgspec

from weft.secrets.registry import redact

DIGEST_BYTES = 8


def settings_digest(*settings: Any) -> str:
    """The same for the same settings. An address may hold a secret: of that no hash is made."""
    text = redact(msgspec.json.encode(settings).decode())
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()
