"""The tree of a condition. `at` is the offset that an error points to.

Runs of operators, fields and cases are flat, so that depth comes from brackets and calls alone.
"""

from typing import Any

from msgspec import Struct


class ConditionNode(Struct, frozen=True):
    """A part of a condition that has a value."""

    at: int


class Constant(ConditionNode, frozen=True):
    """null, true, false, a number or a string."""

    value: Any


class Name(ConditionNode, frozen=True):
    """What the lookup says of a name."""

    name: str


class Step(Struct, frozen=True):
    """`.field` (whose key is a constant) or `[key]`."""

    at: int
    key: ConditionNode
    is_field: bool


class Path(ConditionNode, frozen=True):
    """`base.field[key]`..."""

    base: ConditionNode
    steps: tuple[Step, ...]


class Has(ConditionNode, frozen=True):
    """`has(base.field)`."""

    base: ConditionNode
    field: str


class Call(ConditionNode, frozen=True):
    """A function; the target of a method is its first argument."""

    function: str
    args: tuple[ConditionNode, ...]


class Not(ConditionNode, frozen=True):
    """`!operand`."""

    operand: ConditionNode


class Negative(ConditionNode, frozen=True):
    """`-operand`."""

    operand: ConditionNode


class Chain(ConditionNode, frozen=True):
    """Operators of one rank, from left to right: `first op b op c`."""

    first: ConditionNode
    rest: tuple[tuple[int, str, ConditionNode], ...]
    """Offset, operator, operand."""


class Logic(ConditionNode, frozen=True):
    """`a && b && c`, or with `||`."""

    operator: str
    items: tuple[ConditionNode, ...]


class Choice(ConditionNode, frozen=True):
    """`test ? value : test ? value : otherwise`."""

    cases: tuple[tuple[ConditionNode, ConditionNode], ...]
    otherwise: ConditionNode


class ListOf(ConditionNode, frozen=True):
    """`[a, b]`."""

    items: tuple[ConditionNode, ...]


class MapOf(ConditionNode, frozen=True):
    """`{"key": value}`."""

    entries: tuple[tuple[ConditionNode, ConditionNode], ...]
