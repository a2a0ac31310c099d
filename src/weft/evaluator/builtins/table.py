"""Declaration of built-ins: the checks of their arguments follow from the table of the language."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from weft.evaluator.errors import ProgramError, exhausted, program_error
from weft.evaluator.functions import BuiltIn, Closure
from weft.evaluator.results import TaskResult
from weft.evaluator.values import fields_of, kind_of
from weft.language.ast import Symbol
from weft.language.builtins import SIGNATURES, Argument, Signature, argument_text
from weft.language.library import TaskDefinition
from weft.limits import MAX_VALUE_SIZE

Act = TypeVar("Act", bound=Callable[..., Any])

BUILT_INS: dict[str, BuiltIn] = {}
"""All built-ins by name; filled when the modules of this package are imported."""

_CLASSES: Mapping[str, tuple[type, ...]] = {
    "number": (int, float),
    "integer": (int,),
    "string": (str,),
    "symbol": (Symbol,),
    "list": (list,),
    "items": (list,),
    "dict": (dict,),
    "fields": (dict,),
    "result": (TaskResult,),
    "function": (Closure, BuiltIn, TaskDefinition),
    "nil": (type(None),),
}
"""Types of the values that are passed on unchanged. `any` and `json` are not checked."""


def built_in(
    name: str, *, is_linear: bool = False, needs_compiler: bool = False, takes_keywords: bool = False
) -> Callable[[Act], Act]:
    """Declare the implementation of a built-in.

    It is only called with arguments of the declared kinds: `items` as a list, `fields` as a dict. One that
    needs the compiler checks its arguments itself.
    """

    def declare(act: Act) -> Act:
        signature = SIGNATURES[name]
        guarded = act if needs_compiler else _guard(signature, act)
        BUILT_INS[name] = BuiltIn(
            signature, signature.accepts, guarded, act, is_linear, needs_compiler, takes_keywords
        )
        return act

    return declare


def declare_all(acts: Mapping[str, Callable[..., Any]], *, is_linear: bool = False) -> None:
    """Declare implementations by name."""
    for name, act in acts.items():
        built_in(name, is_linear=is_linear)(act)


def _guard(signature: Signature, act: Callable[..., Any]) -> Callable[..., Any]:
    """Return the implementation with checks of its arguments before it, for any number of them."""
    allowed = [_passed_classes(argument) for argument in signature.arguments]
    if not any(allowed):
        return act
    first = allowed[0] or frozenset()

    def call_first(x: Any, *others: Any) -> Any:
        return act(x, *others) if x.__class__ in first else act(*_convert(signature, (x, *others)))

    def call_uniform(*values: Any) -> Any:
        for value in values:
            if value.__class__ not in first:
                return act(*_convert(signature, values))
        return act(*values)

    def call(*values: Any) -> Any:
        for classes, value in zip(allowed, values, strict=False):
            if classes is not None and value.__class__ not in classes:
                return act(*_convert(signature, values))
        return act(*values) if len(values) <= len(allowed) else act(*_convert(signature, values))

    if not any(allowed[1:]) and signature.least:
        return call_first
    return call_uniform if len(set(signature.arguments)) == 1 else call


def guard_for(function: BuiltIn, count: int) -> Callable[..., Any]:
    """Return the fastest code for calls with `count` arguments."""
    signature = function.signature
    if function.act is function.unguarded or count > 2:
        return function.act
    allowed = [_passed_classes(argument) for argument in signature.expand(count)]
    if count == 1:
        return _guard_1(signature, function.unguarded, allowed[0] or frozenset())
    return _guard_2(signature, function.unguarded, *allowed) if count == 2 else function.act


def _guard_1(signature: Signature, act: Callable[..., Any], allowed: frozenset[type]) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        return act(x) if x.__class__ in allowed else act(*_convert(signature, (x,)))

    return call


def _guard_2(
    signature: Signature,
    act: Callable[..., Any],
    first: frozenset[type] | None,
    second: frozenset[type] | None,
) -> Callable[..., Any]:
    def call(x: Any, y: Any) -> Any:
        if (first is None or x.__class__ in first) and (second is None or y.__class__ in second):
            return act(x, y)
        return act(*_convert(signature, (x, y)))

    return call


def _passed_classes(argument: Argument) -> frozenset[type] | None:
    """Return the types that an argument may have without conversion; None: any."""
    if not argument.kinds or argument.words == ("json",):
        return None
    return frozenset(kind for word in argument.words for kind in _CLASSES[word])


def _convert(signature: Signature, values: Sequence[Any]) -> list[Any]:
    """Return arguments as the implementation takes them. Raise ProgramError for one of a wrong type."""
    converted: list[Any] = []
    for position, (argument, value) in enumerate(zip(signature.expand(len(values)), values, strict=True)):
        allowed = _passed_classes(argument)
        if allowed is None or value.__class__ in allowed:
            converted.append(value)
        elif value is None and "items" in argument.words:
            converted.append([])
        elif value.__class__ is TaskResult and "fields" in argument.words:
            converted.append(fields_of(value))
        else:
            raise wrong_type(signature.name, signature.describe(position, len(values)), value, position)
    return converted


def require_items(name: str, value: Any, position: int = 0) -> list[Any]:
    """Return a list argument; nil is an empty list. Raise ProgramError."""
    if value.__class__ is list:
        return value
    if value is None:
        return []
    raise wrong_type(name, "a list", value, position)


def wrong_type(name: str, wanted: str, value: Any, position: int) -> ProgramError:
    """Return an error such as `+ takes numbers; the second is a string`; `position` counts from 0."""
    message = f"{name} takes {wanted}; {argument_text(position)} is {kind_of(value)}"
    return program_error("wrong-type", message)


def require_function(name: str, value: Any) -> None:
    if kind_of(value) not in ("a function", "a task"):
        raise wrong_type(name, "a function", value, 0)


def check_size(name: str, size: int, most: int = MAX_VALUE_SIZE) -> None:
    """Raise ProgramError if a value would have more than `most` elements or characters."""
    if size > most:
        message = f"{name} would return {size} elements or characters; the limit is {most}"
        raise exhausted("size", message, limit=most)
