"""Values and functions of conditions: kinds, equality, order and arithmetic of CEL.

Kinds are those of JSON with whole numbers apart from others (`int` and `double`), and things that are none of
these: task results, which have fields, and functions and symbols, which can only be passed by.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

import re2  # type: ignore[import-untyped]
from msgspec import Struct

from weft.language.cel.errors import Fault, TooMuchWork
from weft.language.cel.tokens import (
    MAX_PATTERN_CHARACTERS,
    MAX_VALUE_SIZE,
    MAX_WORK,
    WORK_PER_ITEM,
    WORK_PER_PATTERN,
    shown,
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


@runtime_checkable
class HasFields(Protocol):
    """A value that is no map and has fields: a task result.

    It may say what fields there are with a method `field_names()`, for messages.
    """

    def field(self, name: str) -> Any:
        """The value of a field; raises KeyError when there is none."""
        ...


class Run:
    """One evaluation: where names are looked up, and how much work is left."""

    __slots__ = ("lookup", "work_left")

    def __init__(self, lookup: Callable[[str], Any]) -> None:
        self.lookup = lookup
        self.work_left = MAX_WORK

    def spend(self, work: int, at: int) -> None:
        """Take work from what is left."""
        self.work_left -= work
        if self.work_left < 0:
            raise TooMuchWork(at, "bad-value", "this condition takes too much work: its values are too large")


def kind_of(value: Any) -> str:
    """The word for the kind of a value."""
    return _KINDS.get(type(value)) or (
        "task result" if isinstance(value, HasFields) else "function or symbol"
    )


def usable_kind(value: Any, at: int) -> str:
    """The kind of an operand; a whole number beyond 64 bits cannot be one."""
    kind = kind_of(value)
    if kind == "int" and not MIN_INT <= value <= MAX_INT:
        raise Fault(at, "bad-value", "a whole number does not fit in 64 bits")
    return kind


def is_true(value: Any, at: int, where: str) -> bool:
    """The value, which must be a boolean."""
    if value is True or value is False:
        return bool(value)
    raise Fault(at, "wrong-type", f"{where} must be true or false, not {article(kind_of(value))}")


def article(kind: str) -> str:
    """`an int`, `a string`; `null` stands alone."""
    if kind == "null":
        return kind
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def are_equal(left: Any, right: Any, run: Run, at: int) -> bool:
    """CEL's `==`: numbers by value, lists and maps by their items; different kinds are not equal."""
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        run.spend(WORK_PER_ITEM, at)
        kind, other_kind = usable_kind(one, at), usable_kind(other, at)
        if kind != other_kind:
            _refuse_opaque(kind, other_kind, at)
            if not (kind in NUMBERS and other_kind in NUMBERS and one == other):
                return False
        elif kind == "list":
            if len(one) != len(other):
                return False
            run.spend(WORK_PER_ITEM * len(one), at)
            pairs.extend(zip(one, other, strict=True))
        elif kind == "map":
            run.spend(WORK_PER_ITEM * len(one), at)
            if one.keys() != other.keys():
                return False
            pairs.extend((value, other[key]) for key, value in one.items())
        else:
            _refuse_opaque(kind, other_kind, at)
            if kind == "string":
                run.spend(len(one) // WORK_PER_ITEM, at)
            if one != other:
                return False
    return True


def _refuse_opaque(kind: str, other_kind: str, at: int) -> None:
    """A task result is not compared as a whole, but with null."""
    for which, beside in ((kind, other_kind), (other_kind, kind)):
        if which in ("task result", "function or symbol") and beside != "null":
            hint = ": compare one of its fields" if which == "task result" else ""
            raise Fault(at, "wrong-type", f"{article(which)} cannot be compared with {article(beside)}{hint}")


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def in_order(sign: str, left: Any, right: Any, run: Run, at: int) -> bool:
    """Numbers by their value, strings by their characters, false before true; nothing else has an order."""
    kind, other = usable_kind(left, at), usable_kind(right, at)
    if not (kind in NUMBERS and other in NUMBERS) and not (kind == other and kind in ("string", "bool")):
        raise _no_operation(sign, kind, other, at)
    if kind == "string":
        run.spend(min(len(left), len(right)) // WORK_PER_ITEM, at)
    return _ORDERS[sign](left, right)


def is_in(item: Any, container: Any, run: Run, at: int) -> bool:
    """Whether a list has an equal item, or a map or task result such a key."""
    kind, container_kind = usable_kind(item, at), kind_of(container)
    if container_kind == "list":
        return any(are_equal(item, one, run, at) for one in container)
    if container_kind == "map" and kind in ("string", "bool", "int", "double"):
        return kind == "string" and item in container
    if container_kind == "task result" and kind == "string":
        return has_field(container, item)
    raise _no_operation("in", kind, container_kind, at)


def has_field(value: HasFields, name: str) -> bool:
    """Whether a task result has a field of that name."""
    try:
        value.field(name)
    except KeyError:
        return False
    return True


def _no_operation(sign: str, kind: str, other: str, at: int) -> Fault:
    hint = ""
    if kind in NUMBERS and other in NUMBERS and kind != other:
        hint = "; whole numbers and others are not mixed: write 1.0 beside a double, 1 beside an int"
    return Fault(at, "wrong-type", f"'{sign}' does not take {article(kind)} and {article(other)}{hint}")


def arithmetic(sign: str, left: Any, right: Any, run: Run, at: int) -> Any:
    """`+ - * / %` of two ints or two doubles; `+` of two strings or two lists."""
    kind, other = usable_kind(left, at), usable_kind(right, at)
    if kind == other:
        if kind == "int":
            return fitting(_INT_OPERATIONS[sign](left, right, at), at)
        if kind == "double" and sign in _DOUBLE_OPERATIONS:
            return _DOUBLE_OPERATIONS[sign](left, right)
        if sign == "+" and kind in ("string", "list"):
            return _joined(left, right, run, at)
    raise _no_operation(sign, kind, other, at)


def fitting(value: int, at: int) -> int:
    """The result of an operation, which must fit in 64 bits."""
    if MIN_INT <= value <= MAX_INT:
        return value
    raise Fault(at, "bad-value", "the result does not fit in 64 bits")


def negative(value: Any, at: int) -> Any:
    """`-value`."""
    kind = usable_kind(value, at)
    if kind not in NUMBERS:
        raise Fault(at, "wrong-type", f"'-' does not take {article(kind)}")
    return fitting(-value, at) if kind == "int" else -value


def _joined(left: Any, right: Any, run: Run, at: int) -> Any:
    size = len(left) + len(right)
    if size > MAX_VALUE_SIZE:
        raise Fault(at, "bad-value", f"'+' makes more than {MAX_VALUE_SIZE} characters or items")
    run.spend(size, at)
    return left + right if isinstance(left, str) else [*left, *right]


def _int_quotient(left: int, right: int, at: int) -> int:
    """Division that cuts towards zero."""
    if right == 0:
        raise Fault(at, "bad-value", "division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _int_remainder(left: int, right: int, at: int) -> int:
    """What the division leaves, with the sign of the dividend. It fails where the division does."""
    return left - right * fitting(_int_quotient(left, right, at), at)


def _double_quotient(left: float, right: float) -> float:
    """IEEE division: by zero it is infinite or not a number."""
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


def part_of(value: Any, key: Any, at: int) -> Any:
    """`value.key` or `value[key]`; a missing one is an error."""
    kind, key_kind = kind_of(value), kind_of(key)
    if kind == "list":
        return _item(value, key, key_kind, at)
    if kind not in ("map", "task result"):
        what = f"field '{shown(key)}'" if key_kind == "string" else "parts"
        raise Fault(at, "wrong-type", f"{article(kind)} has no {what}")
    if key_kind != "string":
        raise Fault(at, "wrong-type", f"the key of a {kind} is a string, not {article(key_kind)}")
    try:
        return value[key] if kind == "map" else value.field(key)
    except KeyError:
        raise missing_field(value, key, at) from None


def _item(items: Any, key: Any, key_kind: str, at: int) -> Any:
    if key_kind not in NUMBERS or key != key or key in (float("inf"), float("-inf")) or key != int(key):
        raise Fault(at, "wrong-type", f"the index of a list is a whole number, not {article(key_kind)}")
    if not 0 <= key < len(items):
        raise Fault(at, "missing-field", f"there is no item {int(key)} in a list of {len(items)}")
    return items[int(key)]


def missing_field(value: Any, name: str, at: int) -> Fault:
    """The fault for a field that is not there, with those that are."""
    known: Iterable[str] = value if isinstance(value, dict) else getattr(value, "field_names", tuple)()
    return Fault(at, "missing-field", f"there is no field '{shown(name)}'", name=name, known=known)


_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True


class Function(Struct, frozen=True):
    """A function; the target of a method counts as an argument."""

    arity: int
    call: Callable[..., Any]
    """Takes the run, the offset for errors, and the arguments."""


def size(run: Run, at: int, value: Any) -> int:
    """How many characters a string, items a list, fields a map has."""
    kind = kind_of(value)
    if kind not in ("string", "list", "map"):
        raise Fault(at, "wrong-type", f"'size' does not take {article(kind)}")
    return len(value)


def compiled(pattern: str, at: int) -> Any:
    """The regular expression in RE2, whose time is linear in the text."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise Fault(at, "bad-value", f"a regular expression has at most {MAX_PATTERN_CHARACTERS} characters")
    try:
        return re2.compile(pattern, _OPTIONS)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if isinstance(error, re2.error) and error.args else "it is no text"
        if isinstance(reason, bytes):
            reason = reason.decode("utf-8", "replace")
        raise Fault(at, "bad-value", f"bad regular expression: {reason}") from None


def is_match(run: Run, at: int, text: Any, pattern: Any) -> bool:
    """Whether the pattern is found in the text."""
    _want_strings("matches", at, text, pattern)
    run.spend(WORK_PER_PATTERN, at)
    return is_found(run, at, compiled(pattern, at), text)


def is_found(run: Run, at: int, pattern: Any, text: Any) -> bool:
    """Whether a compiled pattern is found in the text."""
    _want_strings("matches", at, text)
    run.spend(len(text), at)
    try:
        return pattern.search(text) is not None
    except UnicodeError:
        raise Fault(at, "bad-value", "'matches' does not take a string with half a character in it") from None


def _on_strings(name: str, method: Callable[[str, str], bool]) -> Function:
    def call(run: Run, at: int, text: Any, other: Any) -> bool:
        _want_strings(name, at, text, other)
        run.spend((len(text) + len(other)) // WORK_PER_ITEM, at)
        return method(text, other)

    return Function(2, call)


def _want_strings(name: str, at: int, *values: Any) -> None:
    for value in values:
        if kind_of(value) != "string":
            raise Fault(at, "wrong-type", f"'{name}' takes strings, not {article(kind_of(value))}")


METHODS = {
    "size": Function(1, size),
    "matches": Function(2, is_match),
    "contains": _on_strings("contains", str.__contains__),
    "startsWith": _on_strings("startsWith", str.startswith),
    "endsWith": _on_strings("endsWith", str.endswith),
}
"""`target.name(...)`."""

FUNCTIONS = ("has", "matches", "size")
"""`name(...)`: the methods that CEL has as functions too, and `has`, which is a form of its own."""
