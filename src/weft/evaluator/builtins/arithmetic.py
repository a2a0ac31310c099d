"""Built-in arithmetic, comparisons and predicates.

Integers are exact; a float result that is not finite is an error.
"""

import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from weft.evaluator.builtins.table import built_in, declare_all, wrong_type
from weft.evaluator.errors import exhausted, program_error
from weft.evaluator.functions import BuiltIn, Closure
from weft.evaluator.results import TaskResult
from weft.evaluator.values import are_equal, is_number
from weft.language.ast import Symbol
from weft.language.library import TaskDefinition
from weft.limits import MAX_INTEGER_BITS


def _check_result(name: str, value: Any) -> Any:
    """Return the result of an operation. Raise ProgramError if it is too large or not real."""
    if value.__class__ is int:
        if value.bit_length() > MAX_INTEGER_BITS:
            raise exhausted(
                "size", f"{name}: an integer of more than {MAX_INTEGER_BITS} bits", limit=MAX_INTEGER_BITS
            )
        return value
    if value.__class__ is complex:
        raise program_error("bad-value", f"{name}: the result is not a real number")
    if not math.isfinite(value):
        raise program_error("bad-value", f"{name}: the result is too large for a float")
    return value


@built_in("+")
def add(*values: Any) -> Any:
    return _check_result("+", sum(values))


@built_in("-")
def subtract(first: Any, *others: Any) -> Any:
    return _check_result("-", first - sum(others) if others else -first)


@built_in("*")
def multiply(*values: Any) -> Any:
    product: Any = 1
    for value in values:
        product = _check_result("*", product * value)
    return product


@built_in("/")
def divide(first: Any, *others: Any) -> Any:
    quotient, divisors = (first, others) if others else (1, (first,))
    for divisor in divisors:
        quotient = _quotient(quotient, divisor)
    return quotient


def _quotient(value: Any, divisor: Any) -> Any:
    if value.__class__ is int and divisor.__class__ is int:
        whole, remainder = divmod(value, divisor)
        if not remainder:
            return whole
    return _check_result("/", value / divisor)


@built_in("quotient")
def whole_quotient(value: Any, divisor: Any) -> int:
    if value.__class__ is int and divisor.__class__ is int:
        whole = int(abs(value) // abs(divisor))
        return whole if (value < 0) == (divisor < 0) else -whole
    return math.trunc(float(_check_result("quotient", value / divisor)))


@built_in("sqrt")
def square_root(value: Any) -> Any:
    if value < 0:
        raise program_error("bad-value", "sqrt takes a number that is not negative")
    if value.__class__ is int:
        root = math.isqrt(value)
        if root * root == value:
            return root
    return math.sqrt(value)


@built_in("expt")
def power(base: Any, exponent: Any) -> Any:
    if base.__class__ is int and exponent.__class__ is int and exponent >= 0:
        bits = base.bit_length() * exponent
        if abs(base) > 1 and bits - exponent > MAX_INTEGER_BITS:
            raise exhausted("size", f"expt: an integer of about {bits} bits", limit=MAX_INTEGER_BITS)
    return _check_result("expt", base**exponent)


def _declare_extreme(name: str, choose: Callable[[Any], Any]) -> None:
    def extreme(*values: Any) -> Any:
        if len(values) == 1 and values[0].__class__ is list:
            (values,) = values
            if not values:
                raise program_error("bad-value", f"{name} of an empty list")
        require_numbers(name, values)
        return choose(values)

    built_in(name, is_linear=True)(extreme)


def require_numbers(name: str, values: Sequence[Any]) -> None:
    """Raise ProgramError unless all values, such as the elements of a list, are numbers."""
    for position, value in enumerate(values):
        if not is_number(value):
            raise wrong_type(name, "numbers", value, position)


_declare_extreme("min", min)
_declare_extreme("max", max)


def _all_equal(*values: Any) -> bool:
    first = values[0]
    return all(are_equal(first, other) for other in values[1:])


def _declare_ordering(name: str, holds: Callable[[Any, Any], bool]) -> None:
    def compare(*values: Any) -> bool:
        is_string = values[0].__class__ is str
        for position, value in enumerate(values):
            if (value.__class__ is str) is not is_string:
                raise wrong_type(name, "strings" if is_string else "numbers", value, position)
        return holds(*values) if len(values) == 2 else all(holds(*pair) for pair in pairwise(values))

    built_in(name)(compare)


_declare_ordering("<", operator.lt)
_declare_ordering(">", operator.gt)
_declare_ordering("<=", operator.le)
_declare_ordering(">=", operator.ge)

_CALLABLE = (Closure, BuiltIn, TaskDefinition)

declare_all(
    {
        "mod": operator.mod,
        "abs": abs,
        "round": round,
        "floor": math.floor,
        "ceiling": math.ceil,
        "=": _all_equal,
        "eq?": _all_equal,
        "equal?": _all_equal,
        "!=": lambda *values: not _all_equal(*values),
        "not": operator.not_,
        "number?": is_number,
        "integer?": lambda x: x.__class__ is int or (x.__class__ is float and x.is_integer()),
        "string?": lambda x: x.__class__ is str,
        "boolean?": lambda x: x is True or x is False,
        "list?": lambda x: x.__class__ is list,
        "dict?": lambda x: x.__class__ is dict,
        "symbol?": lambda x: x.__class__ is Symbol,
        "function?": lambda x: x.__class__ in _CALLABLE,
        "null?": lambda x: x is None or (x.__class__ is list and not x),
        "empty?": lambda x: not (x.content if x.__class__ is TaskResult else x),
    }
)
