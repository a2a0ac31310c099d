"""Values and functions of conditions: kinds, equality, order and arithmetic of CEL.

Kinds are those of JSON, with `int` and `double` for numbers. A function or symbol of weft can only be
compared with null. Task results are converted to maps before a condition sees them.
"""

import operator
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from weft.language.cel.errors import Fault, TooMuchWork
from weft.language.cel.tokens import (
    CHARACTERS_PER_WORK_UNIT,
    MAX_PATTERN_CHARACTERS,
    MAX_VALUE_SIZE,
    MAX_WORK,
    WORK_PER_ITEM,
    WORK_PER_PATTERN,
    shorten,
)

MIN_INT, MAX_INT = -(2**63), 2**63 - 1

_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    list: "list",
    tuple: "list",
    dict: "map",
}
NUMBERS = frozenset(["int", "double"])


class EvalState:
    """State of one evaluation: the lookup of names, and the units of work that are left."""

    __slots__ = ("lookup", "work_left")

    def __init__(self, lookup: Callable[[str], Any]) -> None:
        self.lookup = lookup
        self.work_left = MAX_WORK

    def spend(self, work: int, at: int) -> None:
        """Subtract units of work. Raise TooMuchWork if fewer are left."""
        self.work_left -= work
        if self.work_left < 0:
            raise TooMuchWork(
                at, "bad-value", "this condition is too expensive to evaluate: use smaller values"
            )


def kind_of(value: Any) -> str:
    """Return the kind of a value, such as "map"."""
    return _KINDS.get(type(value), "function or symbol")


def operand_kind(value: Any, at: int) -> str:
    """Return the kind of an operand. Raise Fault for an int beyond 64 bits."""
    kind = kind_of(value)
    if kind == "int" and not MIN_INT <= value <= MAX_INT:
        raise Fault(at, "bad-value", "a whole number does not fit in 64 bits")
    return kind


def require_bool(value: Any, at: int, where: str) -> bool:
    """Return a boolean value. Raise Fault for any other value; `where` names it in the message."""
    if value is True or value is False:
        return bool(value)
    raise Fault(at, "wrong-type", f"{where} must be true or false, not {describe(kind_of(value))}")


def describe(kind: str) -> str:
    """Return the kind with its article: `an int`, `a string`; `null` stays as it is."""
    if kind == "null":
        return kind
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def are_equal(left: Any, right: Any, state: EvalState, at: int) -> bool:
    """Compare as CEL's `==`: numbers by value, lists and maps by items; different kinds are not equal.

    Raise Fault for a function or symbol, except in a comparison with null.
    """
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        state.spend(WORK_PER_ITEM, at)
        kind, other_kind = operand_kind(one, at), operand_kind(other, at)
        if kind != other_kind:
            _reject_opaque(kind, other_kind, at)
            if not (kind in NUMBERS and other_kind in NUMBERS and one == other):
                return False
        elif kind == "list":
            if len(one) != len(other):
                return False
            state.spend(WORK_PER_ITEM * len(one), at)
            pairs.extend(zip(one, other, strict=True))
        elif kind == "map":
            state.spend(WORK_PER_ITEM * len(one), at)
            if one.keys() != other.keys():
                return False
            pairs.extend((value, other[key]) for key, value in one.items())
        else:
            _reject_opaque(kind, other_kind, at)
            if kind == "string":
                state.spend(len(one) // CHARACTERS_PER_WORK_UNIT, at)
            if one != other:
                return False
    return True


def _reject_opaque(kind: str, other_kind: str, at: int) -> None:
    """Raise Fault for a comparison of a function or symbol with anything but null."""
    for which, beside in ((kind, other_kind), (other_kind, kind)):
        if which == "function or symbol" and beside != "null":
            message = f"{describe(which)} cannot be compared with {describe(beside)}"
            raise Fault(at, "wrong-type", message)


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def is_ordered(op: str, left: Any, right: Any, state: EvalState, at: int) -> bool:
    """Return whether `left op right` holds: numbers by value, strings by code point, false before true.

    Raise Fault for all other kinds.
    """
    kind, other = operand_kind(left, at), operand_kind(right, at)
    if not (kind in NUMBERS and other in NUMBERS) and not (kind == other and kind in ("string", "bool")):
        raise _operation_fault(op, kind, other, at)
    if kind == "string":
        state.spend(min(len(left), len(right)) // CHARACTERS_PER_WORK_UNIT, at)
    return _ORDERS[op](left, right)


def is_in(item: Any, container: Any, state: EvalState, at: int) -> bool:
    """Return whether a list contains an equal item, or a map the key."""
    kind, container_kind = operand_kind(item, at), kind_of(container)
    if container_kind == "list":
        return any(are_equal(item, one, state, at) for one in container)
    if container_kind == "map" and kind in ("string", "bool", "int", "double"):
        return kind == "string" and item in container
    raise _operation_fault("in", kind, container_kind, at)


def _operation_fault(op: str, kind: str, other: str, at: int) -> Fault:
    hint = ""
    if kind in NUMBERS and other in NUMBERS and kind != other:
        hint = "; int and double cannot be mixed: write 1.0 beside a double, 1 beside an int"
    return Fault(at, "wrong-type", f"'{op}' does not take {describe(kind)} and {describe(other)}{hint}")


def arithmetic(op: str, left: Any, right: Any, state: EvalState, at: int) -> Any:
    """Compute `+ - * /` of two ints or two doubles, `%` of two ints, or `+` of two strings or two lists."""
    kind, other = operand_kind(left, at), operand_kind(right, at)
    if kind == other:
        if kind == "int":
            return require_int64(_INT_OPERATIONS[op](left, right, at), at)
        if kind == "double" and op in _DOUBLE_OPERATIONS:
            return _DOUBLE_OPERATIONS[op](left, right)
        if op == "+" and kind in ("string", "list"):
            return _concatenate(left, right, state, at)
    raise _operation_fault(op, kind, other, at)


def require_int64(value: int, at: int) -> int:
    """Return the value. Raise Fault if it does not fit in 64 bits."""
    if MIN_INT <= value <= MAX_INT:
        return value
    raise Fault(at, "bad-value", "the result does not fit in 64 bits")


def negate(value: Any, at: int) -> Any:
    kind = operand_kind(value, at)
    if kind not in NUMBERS:
        raise Fault(at, "wrong-type", f"'-' does not take {describe(kind)}")
    return require_int64(-value, at) if kind == "int" else -value


def _concatenate(left: Any, right: Any, state: EvalState, at: int) -> Any:
    size = len(left) + len(right)
    if size > MAX_VALUE_SIZE:
        raise Fault(at, "bad-value", f"'+' makes more than {MAX_VALUE_SIZE} characters or items")
    state.spend(size, at)
    return left + right if isinstance(left, str) else [*left, *right]


def _int_quotient(left: int, right: int, at: int) -> int:
    """Divide, rounding towards zero."""
    if right == 0:
        raise Fault(at, "bad-value", "division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _int_remainder(left: int, right: int, at: int) -> int:
    """Return the remainder, with the sign of the dividend. Raise Fault for 0 as divisor or an overflow."""
    return left - right * require_int64(_int_quotient(left, right, at), at)


def _double_quotient(left: float, right: float) -> float:
    """Divide as IEEE 754: division by zero gives infinity or NaN."""
    if right:
        return left / right
    if left == 0 or left != left:
        return float("nan")
    return float("inf") if (left > 0) == (str(right)[0] != "-") else float("-inf")


_INT_OPERATIONS: dict[str, Callable[[int, int, int], int]] = {
    "+": lambda left, right, at: left + right,
    "-": lambda left, right, at: left - right,
    "*": lambda left, right, at: left * right,
    "/": _int_quotient,
    "%": _int_remainder,
}
_DOUBLE_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _double_quotient,
}


def get_part(value: Any, key: Any, at: int) -> Any:
    """Return `value.key` or `value[key]`. Raise Fault if it is missing."""
    kind, key_kind = kind_of(value), kind_of(key)
    if kind == "list":
        return _get_item(value, key, key_kind, at)
    if kind != "map":
        what = f"field '{shorten(key)}'" if key_kind == "string" else "parts"
        raise Fault(at, "wrong-type", f"{describe(kind)} has no {what}")
    if key_kind != "string":
        raise Fault(at, "wrong-type", f"the key of a map is a string, not {describe(key_kind)}")
    if key not in value:
        message = f"there is no field '{shorten(key)}'"
        raise Fault(at, "missing-field", message, name=key, known=value)
    return value[key]


def _get_item(items: Any, key: Any, key_kind: str, at: int) -> Any:
    if key_kind not in NUMBERS or key != key or key in (float("inf"), float("-inf")) or key != int(key):
        raise Fault(at, "wrong-type", f"the index of a list is a whole number, not {describe(key_kind)}")
    if not 0 <= key < len(items):
        raise Fault(at, "missing-field", f"there is no item {int(key)} in a list of {len(items)}")
    return items[int(key)]


class Function(Struct, frozen=True):
    """A function; the target of a method counts as its first argument."""

    arity: int
    call: Callable[..., Any]
    """Takes the state, the offset of the call for error messages, and the arguments."""


def size(state: EvalState, at: int, value: Any) -> int:
    """Return the number of characters of a string, items of a list or fields of a map."""
    kind = kind_of(value)
    if kind not in ("string", "list", "map"):
        raise Fault(at, "wrong-type", f"'size' does not take {describe(kind)}")
    return len(value)


def compile_pattern(pattern: str, at: int) -> Any:
    """Compile a regular expression with RE2, which matches in linear time. Raise Fault."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise Fault(at, "bad-value", f"a regular expression has at most {MAX_PATTERN_CHARACTERS} characters")
    import re2  # type: ignore[import-untyped]  # imported here, because few programs match patterns

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if isinstance(error, re2.error) and error.args else "it is not Unicode text"
        if isinstance(reason, bytes):
            reason = reason.decode("utf-8", "replace")
        raise Fault(at, "bad-value", f"bad regular expression: {reason}") from None


def is_match(state: EvalState, at: int, text: Any, pattern: Any) -> bool:
    """Return whether the text contains a match of the pattern."""
    _require_strings("matches", at, text, pattern)
    state.spend(WORK_PER_PATTERN, at)
    return is_found(state, at, compile_pattern(pattern, at), text)


def is_found(state: EvalState, at: int, pattern: Any, text: Any) -> bool:
    """Return whether the text contains a match of a compiled pattern."""
    _require_strings("matches", at, text)
    state.spend(len(text), at)
    try:
        return pattern.search(text) is not None
    except UnicodeError:
        raise Fault(at, "bad-value", "'matches' does not take a string with a lone surrogate") from None


def _string_method(name: str, method: Callable[[str, str], bool]) -> Function:
    def call(state: EvalState, at: int, text: Any, other: Any) -> bool:
        _require_strings(name, at, text, other)
        state.spend((len(text) + len(other)) // CHARACTERS_PER_WORK_UNIT, at)
        return method(text, other)

    return Function(2, call)


def _require_strings(name: str, at: int, *values: Any) -> None:
    for value in values:
        if kind_of(value) != "string":
            raise Fault(at, "wrong-type", f"'{name}' takes strings, not {describe(kind_of(value))}")


METHODS = {
    "size": Function(1, size),
    "matches": Function(2, is_match),
    "contains": _string_method("contains", str.__contains__),
    "startsWith": _string_method("startsWith", str.startswith),
    "endsWith": _string_method("endsWith", str.endswith),
}
"""Methods, called as `target.name(...)`."""

FUNCTIONS = ("has", "matches", "size")
"""Functions, called as `name(...)`: methods that are also functions in CEL, and the special form `has`."""
