"""Built-in comparisons and predicates."""

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from weft.evaluator.builtins.table import built_in, wrong_type
from weft.evaluator.functions import BuiltIn, Closure
from weft.evaluator.results import TaskResult
from weft.evaluator.values import are_equal, is_number
from weft.language.ast import Symbol
from weft.language.library import TaskDefinition


def _all_equal(*values: Any) -> bool:
    """Return whether all are equal: numbers by value, lists and dicts by content."""
    first = values[0]
    return all(are_equal(first, other) for other in values[1:])


for _name in ("=", "eq?", "equal?"):
    built_in(_name, "(= a b ...)")(_all_equal)


@built_in("!=", "(!= a b ...)")
def differ(*values: Any) -> bool:
    """Return whether not all are equal."""
    return not _all_equal(*values)


def _declare_ordering(name: str, holds: Callable[[Any, Any], bool], doc: str) -> None:
    def compare(*values: Any) -> bool:
        if not all(is_number(value) for value in values):
            _require_comparable(name, values)
        return all(holds(one, other) for one, other in pairwise(values))

    compare.__doc__ = doc
    built_in(name, f"({name} a b ...)")(compare)


def _require_comparable(name: str, values: tuple[Any, ...]) -> None:
    """Raise ProgramError unless all values are numbers or all are strings."""
    first = values[0]
    for position, value in enumerate(values):
        if first.__class__ is str and value.__class__ is not str:
            raise wrong_type(name, "strings" if position else "numbers or strings", value, position)
        if first.__class__ is not str and not is_number(value):
            raise wrong_type(name, "numbers" if position else "numbers or strings", value, position)


_declare_ordering("<", operator.lt, "Return whether each is less than the next; numbers or strings.")
_declare_ordering(">", operator.gt, "Return whether each is greater than the next; numbers or strings.")
_declare_ordering("<=", operator.le, "Return whether no value is greater than the next; numbers or strings.")
_declare_ordering(">=", operator.ge, "Return whether no value is less than the next; numbers or strings.")


@built_in("not", "(not x)")
def negate(value: Any) -> bool:
    """Return whether x is false: false, nil, 0, "", () or the empty dict."""
    return not value


@built_in("number?", "(number? x)")
def number(value: Any) -> bool:
    """Return whether x is a number."""
    return is_number(value)


@built_in("integer?", "(integer? x)")
def integer(value: Any) -> bool:
    """Return whether x is a number without a fraction, such as 2 or 2.0."""
    return value.__class__ is int or (value.__class__ is float and value.is_integer())


@built_in("string?", "(string? x)")
def string(value: Any) -> bool:
    """Return whether x is a string."""
    return value.__class__ is str


@built_in("boolean?", "(boolean? x)")
def boolean(value: Any) -> bool:
    """Return whether x is true or false."""
    return value is True or value is False


@built_in("list?", "(list? x)")
def is_list(value: Any) -> bool:
    """Return whether x is a list."""
    return value.__class__ is list


@built_in("dict?", "(dict? x)")
def is_dict(value: Any) -> bool:
    """Return whether x is a dict."""
    return value.__class__ is dict


@built_in("symbol?", "(symbol? x)")
def symbol(value: Any) -> bool:
    """Return whether x is a quoted name."""
    return value.__class__ is Symbol


@built_in("function?", "(function? x)")
def function(value: Any) -> bool:
    """Return whether x can be called: a closure, a built-in, a task."""
    return value.__class__ in (Closure, BuiltIn, TaskDefinition)


@built_in("null?", "(null? x)")
def null(value: Any) -> bool:
    """Return whether x is nil or the empty list."""
    return value is None or (value.__class__ is list and not value)


@built_in("empty?", "(empty? x)")
def empty(value: Any) -> bool:
    """Return whether a list, dict or string is empty; nil is empty."""
    if value is None or value.__class__ in (list, dict, str):
        return not value
    if value.__class__ is TaskResult:
        return not value.content
    raise wrong_type("empty?", "a list, a dict or a string", value, 0)
