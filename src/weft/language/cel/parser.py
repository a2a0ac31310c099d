"""Parser of conditions: the grammar of the CEL subset and its syntax tree.

A sequence of operators, fields or cases is one flat node, so that only brackets and calls nest nodes.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from weft.language.cel.tokens import Token, Tokens
from weft.language.cel.values import FUNCTIONS, MAX_INT, METHODS, MIN_INT
from weft.language.diagnostics import InvalidProgram, nearest


class ConditionNode(Struct, frozen=True):
    """Base class of the nodes of a condition."""

    at: int
    """Offset in the source text."""


class Constant(ConditionNode, frozen=True):
    """null, true, false, a number or a string."""

    value: Any


class Name(ConditionNode, frozen=True):
    """A name; its value is looked up at each evaluation."""

    name: str


class Step(Struct, frozen=True):
    """`.field` (with a constant key) or `[key]`."""

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
    """A function call; the target of a method is the first argument."""

    function: str
    args: tuple[ConditionNode, ...]


class Not(ConditionNode, frozen=True):
    """`!operand`."""

    operand: ConditionNode


class Negative(ConditionNode, frozen=True):
    """`-operand`."""

    operand: ConditionNode


class Chain(ConditionNode, frozen=True):
    """Operators of equal precedence, applied from left to right: `first op b op c`."""

    first: ConditionNode
    operations: tuple[tuple[int, str, ConditionNode], ...]
    """Offset, operator, operand."""


class Logic(ConditionNode, frozen=True):
    """`a && b && c`, or the same with `||`."""

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


_LOGIC = ("||", "&&")
_OPERATORS = (("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
"""Binary operators by rank: those of a higher index bind more tightly."""
_WORDS = {"true": True, "false": False, "null": None}
_CORRECTIONS = {
    "=": "==",
    "===": "==",
    "!==": "!=",
    "&": "&&",
    "|": "||",
    "and": "&&",
    "or": "||",
    "not": "!",
}
_SUPPORTED = f"supported functions: {', '.join(FUNCTIONS)}; methods: {', '.join(sorted(METHODS))}"


class Parser:
    """Recursive descent parser of one condition; each method parses the construct that it is named after."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    def condition(self) -> ConditionNode:
        """Parse the whole text. Raise InvalidProgram."""
        node = self._expression()
        if self.tokens.next.kind != "end":
            raise self._unexpected(self.tokens.next, "an operator or the end")
        return node

    def _expression(self) -> ConditionNode:
        at = self.tokens.next.start
        cases: list[tuple[ConditionNode, ConditionNode]] = []
        otherwise = self._logic(0)
        while self.tokens.accept("?"):
            then = self._logic(0)
            self.tokens.expect(":", "of '?'")
            cases.append((otherwise, then))
            otherwise = self._logic(0)
        return Choice(at, tuple(cases), otherwise) if cases else otherwise

    def _logic(self, rank: int) -> ConditionNode:
        if rank == len(_LOGIC):
            return self._chain(0)
        at = self.tokens.next.start
        items = [self._logic(rank + 1)]
        while self.tokens.accept(_LOGIC[rank]):
            items.append(self._logic(rank + 1))
        return items[0] if len(items) == 1 else Logic(at, _LOGIC[rank], tuple(items))

    def _chain(self, rank: int) -> ConditionNode:
        if rank == len(_OPERATORS):
            return self._unary()
        at = self.tokens.next.start
        first = self._chain(rank + 1)
        operations: list[tuple[int, str, ConditionNode]] = []
        while self.tokens.next.kind in ("operator", "name") and self.tokens.next.text in _OPERATORS[rank]:
            operator = self.tokens.take()
            operations.append((operator.start, operator.text, self._chain(rank + 1)))
        return Chain(at, first, tuple(operations)) if operations else first

    def _unary(self) -> ConditionNode:
        """Parse any number of the same sign, `!` or `-`; two of them cancel out, as in CEL."""
        sign = self.tokens.accept("!", "-")
        if sign is None:
            return self._member()
        is_odd = True
        while self.tokens.accept(sign.text):
            is_odd = not is_odd
        if sign.text == "-" and is_odd and self.tokens.next.kind == "number":
            return self._members_of(self._number(self.tokens.take(), sign=-1))
        operand = self._member()
        if not is_odd:
            return operand
        return Not(sign.start, operand) if sign.text == "!" else Negative(sign.start, operand)

    def _member(self) -> ConditionNode:
        return self._members_of(self._primary())

    def _members_of(self, node: ConditionNode) -> ConditionNode:
        """Parse the fields, indexes and method calls that follow an operand."""
        levels = 0
        steps: list[Step] = []
        while opening := self.tokens.accept(".", "["):
            if opening.text == "[":
                key = self._enclosed(opening, "]", "after the index")
                steps.append(Step(opening.start, key, is_field=False))
                continue
            field = self._field()
            if not self.tokens.accept("("):
                steps.append(Step(field.start, Constant(field.start, field.text), is_field=True))
                continue
            self.tokens.enter(field)
            levels += 1
            node = self._method(field, _path(node, steps))
            steps = []
        for _ in range(levels):
            self.tokens.leave()
        return _path(node, steps)

    def _field(self) -> Token:
        field = self.tokens.take()
        if field.kind != "name":
            raise self.tokens.error(
                field,
                f"expected the name of a field after '.', found {field}; other names are written [\"...\"]",
            )
        return field

    def _method(self, name: Token, target: ConditionNode) -> ConditionNode:
        args = (target, *self._arguments(name))
        if name.text not in METHODS:
            hint = nearest(name.text, METHODS)
            raise self.tokens.error(name, f"not part of the subset: method {name}; {_SUPPORTED}{hint}")
        return self._call(name, args, targets=1)

    def _function(self, name: Token) -> ConditionNode:
        args = self._arguments(name)
        if name.text not in FUNCTIONS:
            hint = nearest(name.text, [*FUNCTIONS, *METHODS])
            raise self.tokens.error(name, f"not part of the subset: function {name}; {_SUPPORTED}{hint}")
        return self._has(name, args) if name.text == "has" else self._call(name, args)

    def _has(self, name: Token, args: tuple[ConditionNode, ...]) -> Has:
        match args:
            case [
                Path(
                    base=base, steps=[*first, Step(is_field=True, key=Constant(value=str() as field), at=at)]
                )
            ]:
                return Has(at, _path(base, first), field)
        raise self.tokens.error(name, "has() takes one field, as in has(output.errors)", code="wrong-type")

    def _call(self, name: Token, args: tuple[ConditionNode, ...], targets: int = 0) -> Call:
        expected = METHODS[name.text].arity
        if len(args) != expected:
            count = {0: "no argument", 1: "1 argument"}.get(
                expected - targets, f"{expected - targets} arguments"
            )
            raise self.tokens.error(
                name, f"{name} takes {count}, not {len(args) - targets}", code="wrong-arity"
            )
        return Call(name.start, name.text, args)

    def _arguments(self, name: Token) -> tuple[ConditionNode, ...]:
        self.tokens.enter(name)
        args: list[ConditionNode] = []
        if not self.tokens.accept(")"):
            args.append(self._expression())
            while self.tokens.accept(","):
                args.append(self._expression())
            self.tokens.expect(")", f"after the arguments of {name}")
        self.tokens.leave()
        return tuple(args)

    def _enclosed(self, opening: Token, closing: str, purpose: str) -> ConditionNode:
        self.tokens.enter(opening)
        node = self._expression()
        self.tokens.expect(closing, purpose)
        self.tokens.leave()
        return node

    def _primary(self) -> ConditionNode:
        token = self.tokens.take()
        match token.kind, token.text:
            case "number", _:
                return self._number(token)
            case "string", _:
                return Constant(token.start, token.value)
            case "name", ("true" | "false" | "null") as word:
                return Constant(token.start, _WORDS[word])
            case "name", name if name != "in":
                return self._name(token)
            case "operator", "(":
                return self._enclosed(token, ")", "to close a parenthesis")
            case "operator", "[":
                return ListOf(token.start, self._items(token))
            case "operator", "{":
                return MapOf(token.start, self._entries(token))
        raise self._unexpected(token, "a value")

    def _number(self, token: Token, sign: int = 1) -> Constant:
        value = token.value * sign
        if isinstance(value, int) and not MIN_INT <= value <= MAX_INT:
            raise self.tokens.error(token, "this whole number does not fit in 64 bits", code="bad-value")
        return Constant(token.start, value)

    def _name(self, token: Token) -> ConditionNode:
        following = self.tokens.next
        if following.kind == "string" and following.start == token.end:
            raise self.tokens.error(token, f"not part of the subset: strings with the prefix '{token.text}'")
        if self.tokens.accept("("):
            return self._function(token)
        return Name(token.start, token.text)

    def _items(self, opening: Token) -> tuple[ConditionNode, ...]:
        self.tokens.enter(opening)
        items: list[ConditionNode] = []
        while not self.tokens.accept("]"):
            items.append(self._expression())
            self._separator("]")
        self.tokens.leave()
        return tuple(items)

    def _entries(self, opening: Token) -> tuple[tuple[ConditionNode, ConditionNode], ...]:
        if self.tokens.next.text == "{":
            raise self.tokens.error(opening, "a condition has names without braces: output, not {{output}}")
        self.tokens.enter(opening)
        entries: list[tuple[ConditionNode, ConditionNode]] = []
        while not self.tokens.accept("}"):
            key = self._expression()
            self.tokens.expect(":", "after a key")
            entries.append((key, self._expression()))
            self._separator("}")
        self.tokens.leave()
        return tuple(entries)

    def _separator(self, closing: str) -> None:
        """Parse a comma, which is optional before the closing bracket."""
        is_closed = self.tokens.next.kind == "operator" and self.tokens.next.text == closing
        if not self.tokens.accept(",") and not is_closed:
            raise self._unexpected(self.tokens.next, f"',' or '{closing}'")

    def _unexpected(self, token: Token, expected: str) -> InvalidProgram:
        correction = _CORRECTIONS.get(token.text)
        hint = f"; did you mean '{correction}'?" if correction else ""
        return self.tokens.error(token, f"expected {expected}, found {token}{hint}")


def _path(base: ConditionNode, steps: Sequence[Step]) -> ConditionNode:
    """Return the path from the base along the steps; without steps, the base itself."""
    return Path(base.at, base, tuple(steps)) if steps else base
