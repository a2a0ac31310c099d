"""Names of tools at a model's edge: providers take letters, digits, `_` and `-`, 64 of them."""

import re
from collections.abc import Iterable

MAX_CHARACTERS = 64

_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """Names that providers take, each with its tool: `system_read_files` for `system:read_files`.

    Of two that would have the same name the second gets a number.
    """
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        base = _OTHER.sub("_", name)[:MAX_CHARACTERS] or "_"
        chosen, number = base, 1
        while chosen in found:
            number += 1
            chosen = f"{base[: MAX_CHARACTERS - len(f'_{number}')]}_{number}"
        found[chosen] = name
    return found
