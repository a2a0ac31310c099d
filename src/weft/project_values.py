"""What is wrong with a value of `weft.toml`, in words. Only a mistake imports this."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct, inspect

Hint = Callable[[str, list[str]], str]
"""What may be meant by a word that is not known, of those that are."""

_WORDS: tuple[tuple[type[Any], str], ...] = (
    (inspect.BoolType, "true or false"),
    (inspect.IntType, "a whole number"),
    (inspect.FloatType, "a number"),
    (inspect.StrType, "a text"),
    (inspect.DictType, "a table"),
)


def mistake(kind: type[Struct], values: dict[str, Any], hint: Hint) -> str | None:
    """The first value that does not fit its setting; None when all of them do."""
    for field in msgspec.structs.fields(kind):
        if field.name not in values:
            continue
        value = values[field.name]
        try:
            msgspec.convert(value, field.type)
        except msgspec.ValidationError:
            wanted = inspect.type_info(field.type)
            return f"{field.name} must be {_wanted(wanted)}{_given(value, wanted, hint)}"
    return None


def _wanted(wanted: inspect.Type) -> str:
    """What a setting takes: "a whole number, at least 1"."""
    match wanted:
        case inspect.UnionType(types=types):
            return " or ".join(_wanted(one) for one in types if not isinstance(one, inspect.NoneType))
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return f"a list, each of it {_wanted(item)}"
    words = next((words for known, words in _WORDS if isinstance(wanted, known)), "something else")
    return ", ".join([words, *_bounds(wanted)])


def _bounds(wanted: inspect.Type) -> list[str]:
    named = (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))
    found = [(words, getattr(wanted, name, None)) for name, words in named]
    return [f"{words} {bound:g}" for words, bound in found if bound is not None]


def _given(value: Any, wanted: inspect.Type, hint: Hint) -> str:
    """What is there instead; a text only where one of some words is wanted, for it may be a secret."""
    if isinstance(value, bool):
        return f"; this is {str(value).lower()}"
    if isinstance(value, int | float):
        return f"; this is {value}"
    words = _literals(wanted)
    if isinstance(value, str) and words:
        said = hint(value, words)
        return f"; this is {value!r}{said if 'did you mean' in said else ''}"
    return ""


def _literals(wanted: inspect.Type) -> list[str]:
    if isinstance(wanted, inspect.UnionType):
        return [word for one in wanted.types for word in _literals(one)]
    return [str(value) for value in wanted.values] if isinstance(wanted, inspect.LiteralType) else []
