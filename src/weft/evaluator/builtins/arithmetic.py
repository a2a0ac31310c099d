"""Numbers. Integers are exact; floats are finite: what would be infinite is an error."""

import math
from typing import Any

from weft.evaluator.builtins.table import built_in, want, want_numbers
from weft.evaluator.errors import exhausted, program_error
from weft.limits import MAX_INTEGER_BITS


def _number(name: str, value: Any) -> Any:
    """The result of an operation, if it can be kept."""
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
    """(+ n ...): the sum; 0 of none."""
    want_numbers("+", values)
    return _number("+", sum(values))


@built_in("-")
def subtract(first: Any, *rest: Any) -> Any:
    """(- n ...): the first less the others; of one, its negative."""
    want_numbers("-", (first, *rest))
    return _number("-", first - sum(rest) if rest else -first)


@built_in("*")
def multiply(*values: Any) -> Any:
    """(* n ...): the product; 1 of none."""
    want_numbers("*", values)
    product: Any = 1
    for value in values:
        product = _number("*", product * value)
    return product


@built_in("/")
def divide(first: Any, *rest: Any) -> Any:
    """(/ n ...): the first divided by the others, an integer where that is exact; of one, its inverse."""
    want_numbers("/", (first, *rest))
    quotient, divisors = (first, rest) if rest else (1, (first,))
    for divisor in divisors:
        quotient = _quotient(quotient, divisor)
    return quotient


def _quotient(value: Any, divisor: Any) -> Any:
    if value.__class__ is int and divisor.__class__ is int:
        whole, rest = divmod(value, divisor)
        if not rest:
            return whole
    return _number("/", value / divisor)


@built_in("mod")
def modulo(value: Any, divisor: Any) -> Any:
    """(mod a b): what is left of a; it has the sign of b."""
    want_numbers("mod", (value, divisor))
    return value % divisor


@built_in("quotient")
def whole_quotient(value: Any, divisor: Any) -> int:
    """(quotient a b): how often b goes into a, rounded towards zero."""
    want_numbers("quotient", (value, divisor))
    if value.__class__ is int and divisor.__class__ is int:
        whole = int(abs(value) // abs(divisor))
        return whole if (value < 0) == (divisor < 0) else -whole
    return math.trunc(float(_number("quotient", value / divisor)))


@built_in("abs")
def absolute(value: Any) -> Any:
    """(abs n): without the sign."""
    want("number", "abs", value)
    return abs(value)


@built_in("min", is_linear=True)
def minimum(*values: Any) -> Any:
    """(min n ...) or (min list): the smallest."""
    return min(_several("min", values))


@built_in("max", is_linear=True)
def maximum(*values: Any) -> Any:
    """(max n ...) or (max list): the largest."""
    return max(_several("max", values))


def _several(name: str, values: tuple[Any, ...]) -> Any:
    if len(values) == 1 and values[0].__class__ is list:
        (values,) = values
        if not values:
            raise program_error("bad-value", f"{name} of an empty list")
    want_numbers(name, values)
    return values


@built_in("round")
def rounded(value: Any) -> Any:
    """(round n): the nearest integer; of two, the even one."""
    want("number", "round", value)
    return round(value)


@built_in("floor")
def floor(value: Any) -> Any:
    """(floor n): the next integer below."""
    want("number", "floor", value)
    return math.floor(value)


@built_in("ceiling")
def ceiling(value: Any) -> Any:
    """(ceiling n): the next integer above."""
    want("number", "ceiling", value)
    return math.ceil(value)


@built_in("sqrt")
def square_root(value: Any) -> Any:
    """(sqrt n): the square root; an integer where that is exact."""
    want("number", "sqrt", value)
    if value < 0:
        raise program_error("bad-value", "sqrt takes a number from 0")
    if value.__class__ is int:
        root = math.isqrt(value)
        if root * root == value:
            return root
    return math.sqrt(value)


@built_in("expt")
def power(base: Any, exponent: Any) -> Any:
    """(expt a b): a to the power of b."""
    want_numbers("expt", (base, exponent))
    if base.__class__ is int and exponent.__class__ is int and exponent >= 0:
        bits = base.bit_length() * exponent
        if abs(base) > 1 and bits - exponent > MAX_INTEGER_BITS:
            raise exhausted("size", f"expt: an integer of about {bits} bits", limit=MAX_INTEGER_BITS)
    return _number("expt", base**exponent)
