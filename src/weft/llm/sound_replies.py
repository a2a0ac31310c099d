"""What a model asked for, as JSON that can be checked, kept and sent again, whatever it said."""

from math import isfinite
from typing import Any

import msgspec

from weft.evaluator.tools import ToolUse
from weft.limits import MAX_INTEGER_BITS, MAX_JSON_DEPTH
from weft.llm.payload import ModelReply

MAX_PARTS = 200_000
"""Of the arguments of one call: many times what a model writes in one answer, and a moment to walk over."""


def sound_reply(reply: ModelReply) -> ModelReply:
    """The reply; arguments of tools that no JSON reader would take are a text that says what is wrong."""
    if not reply.tool_uses:
        return reply
    return msgspec.structs.replace(reply, tool_uses=tuple(_sound_use(use) for use in reply.tool_uses))


def _sound_use(use: ToolUse) -> ToolUse:
    return ToolUse(id=_sound_text(use.id), name=_sound_text(use.name), arguments=_sound_arguments(use))


def _sound_arguments(use: ToolUse) -> dict[str, Any] | str:
    if isinstance(use.arguments, str):
        return _sound_text(use.arguments)
    try:
        found: dict[str, Any] = _Walk().sound(use.arguments, MAX_JSON_DEPTH)
    except ValueError as error:
        return f"left out, because {error}"
    return found


def _sound_text(text: str) -> str:
    """The text with halves of surrogate pairs replaced, which nobody can write."""
    return text.encode("utf-8", "replace").decode()


class _Walk:
    """One walk over a value: a list that holds a list twice, and so on, is small and has no end."""

    def __init__(self) -> None:
        self._parts = 0

    def sound(self, value: Any, levels: int) -> Any:
        """The value with every text in it sound; raises ValueError, which says what is wrong."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ValueError(f"they have more than {MAX_PARTS} parts")
        if isinstance(value, str):
            return _sound_text(value)
        if isinstance(value, list | tuple | dict):
            if levels == 0:
                raise ValueError(f"they are nested deeper than {MAX_JSON_DEPTH} levels")
            if isinstance(value, dict):
                return {_sound_text(str(key)): self.sound(item, levels - 1) for key, item in value.items()}
            return [self.sound(item, levels - 1) for item in value]
        return _sound_atom(value)


def _sound_atom(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise ValueError(f"a whole number in them has more than {MAX_INTEGER_BITS} bits")
    if value is not None and not isinstance(value, bool | int | float):
        raise ValueError(f"a Python {type(value).__name__} is no JSON")
    return value
