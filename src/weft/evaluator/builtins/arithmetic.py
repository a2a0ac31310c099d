"""Built-in arithmetic. Integers are exact; a float result that is not finite is an error."""

import math
from typing import Any

from weft.evaluator.builtins.table import built_in, require_numbers, require_type
from weft.evaluator.errors import exhausted, program_error
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


@built_in("+", "(+ n ...)")
def add(*values: Any) -> Any:
    """Return the sum; 0 without arguments."""
    require_numbers("+", values)
    return _check_result("+", sum(values))


@built_in("-", "(- n ...)")
def subtract(first: Any, *others: Any) -> Any:
    """Subtract the other numbers from the first; negate a single number."""
    require_numbers("-", (first, *others))
    return _check_result("-", first - sum(others) if others else -first)


@built_in("*", "(* n ...)")
def multiply(*values: Any) -> Any:
    """Return the product; 1 without arguments."""
    require_numbers("*", values)
    product: Any = 1
    for value in values:
        product = _check_result("*", product * value)
    return product


@built_in("/", "(/ n ...)")
def divide(first: Any, *others: Any) -> Any:
    """Divide the first by the others, to an integer if exact; invert a single number."""
    require_numbers("/", (first, *others))
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


@built_in("mod", "(mod a b)")
def modulo(value: Any, divisor: Any) -> Any:
    """Return a modulo b, with the sign of b."""
    require_numbers("mod", (value, divisor))
    return value % divisor


@built_in("quotient", "(quotient a b)")
def whole_quotient(value: Any, divisor: Any) -> int:
    """Return the integer quotient, rounded towards zero."""
    require_numbers("quotient", (value, divisor))
    if value.__class__ is int and divisor.__class__ is int:
        whole = int(abs(value) // abs(divisor))
        return whole if (value < 0) == (divisor < 0) else -whole
    return math.trunc(float(_check_result("quotient", value / divisor)))


@built_in("abs", "(abs n)")
def absolute(value: Any) -> Any:
    """Return the absolute value."""
    require_type("number", "abs", value)
    return abs(value)


@built_in("min", "(min n ...) or (min list)", is_linear=True)
def minimum(*values: Any) -> Any:
    """Return the smallest number."""
    return min(_number_arguments("min", values))


@built_in("max", "(max n ...) or (max list)", is_linear=True)
def maximum(*values: Any) -> Any:
    """Return the largest number."""
    return max(_number_arguments("max", values))


def _number_arguments(name: str, values: tuple[Any, ...]) -> Any:
    if len(values) == 1 and values[0].__class__ is list:
        (values,) = values
        if not values:
            raise program_error("bad-value", f"{name} of an empty list")
    require_numbers(name, values)
    return values


@built_in("round", "(round n)")
def rounded(value: Any) -> Any:
    """Return the nearest integer; halves go to the even one."""
    require_type("number", "round", value)
    return round(value)


@built_in("floor", "(floor n)")
def floor(value: Any) -> Any:
    """Return the largest integer that is not greater than n."""
    require_type("number", "floor", value)
    return math.floor(value)


@built_in("ceiling", "(ceiling n)")
def ceiling(value: Any) -> Any:
    """Return the smallest integer that is not less than n."""
    require_type("number", "ceiling", value)
    return math.ceil(value)


@built_in("sqrt", "(sqrt n)")
def square_root(value: Any) -> Any:
    """Return the square root, as an integer if exact."""
    require_type("number", "sqrt", value)
    if value < 0:
        raise program_error("bad-value", "sqrt takes a number that is not negative")
    if value.__class__ is int:
        root = math.isqrt(value)
        if root * root == value:
            return root
    return math.sqrt(value)


@built_in("expt", "(expt a b)")
def power(base: Any, exponent: Any) -> Any:
    """Return a to the power of b."""
    require_numbers("expt", (base, exponent))
    if base.__class__ is int and exponent.__class__ is int and exponent >= 0:
        bits = base.bit_length() * exponent
        if abs(base) > 1 and bits - exponent > MAX_INTEGER_BITS:
            raise exhausted("size", f"expt: an integer of about {bits} bits", limit=MAX_INTEGER_BITS)
    return _check_result("expt", base**exponent)
