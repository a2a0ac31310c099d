"""The key of a provider is taken out of every text that leaves this room, however it is encoded in it."""

import re

from weft.llm.providers.access import Access
from weft.secrets.registry import Registry, register

LONGEST_MESSAGE = 300
"""Characters of what a provider says that are passed on."""

LONGEST_BEGINNING = 80
"""Characters of what came that are shown when it is no answer."""

_BLANKS = re.compile(r"\s+")


class Redactor:
    """Takes the key of one provider out of texts, and makes it known as a secret to everything else."""

    def __init__(self, access: Access) -> None:
        # One of its own beside that of the process: what is said here does not depend on what others forget.
        self._registry = Registry()
        if access.key is not None:
            key, name = access.key.reveal(), access.key_variable or "key"
            self._registry.register(key, name)
            register(key, name)

    def clean(self, text: str) -> str:
        """The text without the key."""
        return self._registry.redact(text)

    def beginning(self, text: str) -> str:
        """The first characters of a text that may be cut anywhere; the key is taken out before that."""
        cleaned = self.clean(text)
        return cleaned if len(cleaned) <= LONGEST_BEGINNING else f"{cleaned[:LONGEST_BEGINNING]}…"

    def message(self, text: str) -> str:
        """The text on one line, without the key and not too long; cut last, so that no half of it is left."""
        cleaned = _BLANKS.sub(" ", self.clean(text)).strip()
        if len(cleaned) <= LONGEST_MESSAGE:
            return cleaned
        return f"{cleaned[: LONGEST_MESSAGE - 1]}…"
