"""Keys are taken out of every text that leaves this room, however they are encoded in it."""

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

LONGEST_MESSAGE = 300
"""Characters of what a provider says that are passed on."""

SHORTEST_KEY = 4
"""A shorter one is no secret, and would blot out parts of ordinary words."""

MARK = "[key]"

_BLANKS = re.compile(r"\s+")


class Redactor:
    """Replaces keys in texts."""

    def __init__(self, keys: Iterable[str]) -> None:
        forms = {form for key in keys if len(key) >= SHORTEST_KEY for form in encodings(key)}
        longest_first = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def __repr__(self) -> str:
        return "Redactor(...)"

    def clean(self, text: str) -> str:
        """The text without keys."""
        return self._pattern.sub(MARK, text) if self._pattern else text

    def message(self, text: str) -> str:
        """The text on one line, without keys and not too long; cut last, so that no half of a key is left."""
        cleaned = _BLANKS.sub(" ", self.clean(text)).strip()
        if len(cleaned) <= LONGEST_MESSAGE:
            return cleaned
        return f"{cleaned[: LONGEST_MESSAGE - 1]}…"


def encodings(key: str) -> set[str]:
    """The key as it is, quoted for URLs and JSON, and in base64 at each place it can have in it."""
    forms = {
        key,
        quote(key, safe=""),
        quote_plus(key),
        json.dumps(key)[1:-1],
        json.dumps(key, ensure_ascii=False)[1:-1],
    }
    for offset in range(3):
        # What stands before it decides how its bytes fall into groups of three; the characters at the edges
        # depend on its neighbours and are left out.
        encoded = base64.b64encode(b"\0" * offset + key.encode()).decode().rstrip("=")
        inner = encoded[-(-offset * 8 // 6) : len(encoded) - 1]
        forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form) >= SHORTEST_KEY}
