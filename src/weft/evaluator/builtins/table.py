"""Declaration of built-ins, and their shared checks."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from weft.evaluator.errors import ProgramError, exhausted, program_error
from weft.evaluator.functions import BuiltIn
from weft.evaluator.values import is_number, kind_of
from weft.language.builtins import BUILT_IN_ARITIES
from weft.limits import MAX_VALUE_SIZE

Act = TypeVar("Act", bound=Callable[..., Any])

BUILT_INS: dict[str, BuiltIn] = {}
"""All built-ins by name; filled when the modules of this package are imported."""

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_TYPES: dict[str, tuple[type, ...]] = {
    "number": (int, float),
    "integer": (int,),
    "string": (str,),
    "dict": (dict,),
}


def built_in(
    name: str,
    usage: str,
    *,
    is_linear: bool = False,
    needs_compiler: bool = False,
    takes_keywords: bool = False,
) -> Callable[[Act], Act]:
    """Declare a built-in; its help is the usage and its one-line docstring."""

    def declare(act: Act) -> Act:
        least, most = BUILT_IN_ARITIES[name]
        BUILT_INS[name] = BuiltIn(
            name,
            act,
            least=least,
            most=most,
            doc=f"{usage}: {act.__doc__}",
            is_linear=is_linear,
            needs_compiler=needs_compiler,
            takes_keywords=takes_keywords,
        )
        return act

    return declare


def require_type(kind: str, name: str, *values: Any, first: int = 0) -> None:
    """Raise ProgramError unless all values are of the kind; `first` is the argument position of the first."""
    allowed = _TYPES[kind]
    for position, value in enumerate(values, first):
        if value.__class__ not in allowed:
            raise wrong_type(name, f"{kind}s" if len(values) > 1 else f"a {kind}", value, position)


def as_list(name: str, value: Any, position: int = 0) -> list[Any]:
    """Return a list argument; nil is an empty list. Raise ProgramError."""
    if value.__class__ is list:
        return value
    if value is None:
        return []
    raise wrong_type(name, "a list", value, position)


def wrong_type(name: str, wanted: str, value: Any, position: int) -> ProgramError:
    """Return an error such as `+ takes numbers; the second is a string`; `position` counts from 0."""
    which = _ORDINALS[position] if position < len(_ORDINALS) else f"argument {position + 1}"
    article = "an" if wanted == "a integer" else ""
    wanted = f"{article} integer" if article else wanted
    argument = f"the {which}" if position < len(_ORDINALS) else which
    return program_error("wrong-type", f"{name} takes {wanted}; {argument} is {kind_of(value)}")


def require_function(name: str, value: Any) -> None:
    if kind_of(value) not in ("a function", "a task"):
        raise wrong_type(name, "a function", value, 0)


def require_numbers(name: str, values: Sequence[Any]) -> None:
    for position, value in enumerate(values):
        if not is_number(value):
            raise wrong_type(name, "numbers", value, position)


def check_size(name: str, size: int, most: int = MAX_VALUE_SIZE) -> None:
    """Raise ProgramError if a value would have more than `most` elements or characters."""
    if size > most:
        message = f"{name} would return {size} elements or characters; the limit is {most}"
        raise exhausted("size", message, limit=most)
