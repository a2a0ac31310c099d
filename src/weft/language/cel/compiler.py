"""Compiler of conditions into closures, which are evaluated with a function that looks up names."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from weft.language.cel.errors import Fault, TooMuchWork
from weft.language.cel.parser import (
    Call,
    Chain,
    Choice,
    ConditionNode,
    Constant,
    Has,
    ListOf,
    Logic,
    MapOf,
    Name,
    Negative,
    Not,
    Parser,
    Path,
    Step,
)
from weft.language.cel.tokens import CONDITION, MAX_CONDITION_CHARACTERS, Locations, Tokens, shorten
from weft.language.cel.values import (
    METHODS,
    EvalState,
    are_equal,
    arithmetic,
    compile_pattern,
    describe,
    get_part,
    is_found,
    is_in,
    is_ordered,
    kind_of,
    negate,
    require_bool,
)
from weft.language.diagnostics import InvalidProgram, invalid_program
from weft.language.source import Span
from weft.language.traversal import raise_recursion_limit

Closure = Callable[[EvalState], Any]


def compile_node(node: ConditionNode) -> Closure:
    """Compile a node into a closure that computes its value. Raise Fault for an invalid constant pattern."""
    return _COMPILERS[type(node)](node)


def _compile_constant(node: Constant) -> Closure:
    value = node.value
    return lambda state: value


def _compile_name(node: Name) -> Closure:
    name, at = node.name, node.at

    def look_up(state: EvalState) -> Any:
        try:
            return state.lookup(name)
        except (KeyError, NameError):
            raise Fault(at, "unbound-name", f"name '{shorten(name)}' is not bound") from None

    return look_up


def _compile_path(node: Path) -> Closure:
    base = compile_node(node.base)
    steps = [(step.at, compile_node(step.key)) for step in node.steps]

    def follow(state: EvalState) -> Any:
        value = base(state)
        for at, key in steps:
            value = get_part(value, key(state), at)
        return value

    return follow


def _compile_has(node: Has) -> Closure:
    base, field, at = compile_node(node.base), node.field, node.at

    def has(state: EvalState) -> bool:
        value = base(state)
        kind = kind_of(value)
        if kind != "map":
            raise Fault(at, "wrong-type", f"{describe(kind)} has no field '{shorten(field)}'")
        return field in value

    return has


def _compile_call(node: Call) -> Closure:
    match node:
        case Call(function="matches", args=(target, Constant(value=str() as pattern, at=pattern_at))):
            text, compiled = compile_node(target), compile_pattern(pattern, pattern_at)
            return lambda state: is_found(state, node.at, compiled, text(state))
    call, at = METHODS[node.function].call, node.at
    args = [compile_node(arg) for arg in node.args]
    return lambda state: call(state, at, *[arg(state) for arg in args])


def _compile_not(node: Not) -> Closure:
    operand, at = compile_node(node.operand), node.at
    return lambda state: not require_bool(operand(state), at, "the operand of '!'")


def _compile_negative(node: Negative) -> Closure:
    operand, at = compile_node(node.operand), node.at
    return lambda state: negate(operand(state), at)


def _compile_chain(node: Chain) -> Closure:
    first = compile_node(node.first)
    operations = [(at, _find_operation(op), compile_node(operand)) for at, op, operand in node.operations]

    def compute(state: EvalState) -> Any:
        value = first(state)
        for at, operation, operand in operations:
            value = operation(value, operand(state), state, at)
        return value

    return compute


def _find_operation(op: str) -> Callable[[Any, Any, EvalState, int], Any]:
    """Return the function that applies an operator to two values."""
    match op:
        case "==":
            return are_equal
        case "!=":
            return lambda left, right, state, at: not are_equal(left, right, state, at)
        case "in":
            return is_in
        case "<" | "<=" | ">" | ">=":
            return lambda left, right, state, at: is_ordered(op, left, right, state, at)
    return lambda left, right, state, at: arithmetic(op, left, right, state, at)


def _compile_logic(node: Logic) -> Closure:
    """Compile `&&` or `||`. As in CEL, an operand that decides the result hides errors of all others."""
    items = [(item.at, compile_node(item)) for item in node.items]
    decisive = node.operator == "||"
    where = f"an operand of '{node.operator}'"

    def decide(state: EvalState) -> bool:
        fault: Fault | None = None
        for at, item in items:
            try:
                if require_bool(item(state), at, where) is decisive:
                    return decisive
            except TooMuchWork:
                raise
            except Fault as error:
                fault = fault or error
        if fault is not None:
            raise fault
        return not decisive

    return decide


def _compile_choice(node: Choice) -> Closure:
    cases = [(test.at, compile_node(test), compile_node(then)) for test, then in node.cases]
    otherwise = compile_node(node.otherwise)

    def choose(state: EvalState) -> Any:
        for at, test, then in cases:
            if require_bool(test(state), at, "the condition before '?'"):
                return then(state)
        return otherwise(state)

    return choose


def _compile_list_of(node: ListOf) -> Closure:
    items = [compile_node(item) for item in node.items]
    return lambda state: [item(state) for item in items]


def _compile_map_of(node: MapOf) -> Closure:
    entries = [(key.at, compile_node(key), compile_node(value)) for key, value in node.entries]

    def build(state: EvalState) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for at, key_of, value_of in entries:
            key = key_of(state)
            if kind_of(key) != "string":
                raise Fault(at, "wrong-type", f"the key of a map is a string, not {describe(kind_of(key))}")
            if key in built:
                raise Fault(at, "duplicate-name", f"the key '{shorten(key)}' is given twice")
            built[key] = value_of(state)
        return built

    return build


_COMPILERS: dict[type[ConditionNode], Callable[[Any], Closure]] = {
    Constant: _compile_constant,
    Name: _compile_name,
    Path: _compile_path,
    Has: _compile_has,
    Call: _compile_call,
    Not: _compile_not,
    Negative: _compile_negative,
    Chain: _compile_chain,
    Logic: _compile_logic,
    Choice: _compile_choice,
    ListOf: _compile_list_of,
    MapOf: _compile_map_of,
}


def paths_of(node: ConditionNode) -> tuple[tuple[str | int, ...], ...]:
    """Return the distinct paths that a condition reads, in order; each ends before its first computed key.

    `has(output.errors)` only reads `output`: it tests whether the field exists.
    """
    found: dict[tuple[str | int, ...], None] = {}
    stack: list[Any] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, Name):
            found[(current.name,)] = None
        elif isinstance(current, Path) and isinstance(current.base, Name):
            found[(current.base.name, *_constant_keys(current.steps))] = None
            stack.append(current.steps)
        elif isinstance(current, tuple):
            stack.extend(reversed(current))
        elif isinstance(current, Struct):
            stack.extend(getattr(current, name) for name in reversed(current.__struct_fields__))
    return tuple(found)


def _constant_keys(steps: tuple[Step, ...]) -> list[str | int]:
    keys: list[str | int] = []
    for step in steps:
        if not isinstance(step.key, Constant) or type(step.key.value) not in (str, int):
            break
        keys.append(step.key.value)
    return keys


Lookup = Callable[[str], Any]
"""Returns the value of a name. Raises KeyError or NameError if it is not bound."""


class CompiledCondition:
    """A compiled condition. It can be evaluated repeatedly and from several threads."""

    __slots__ = ("_locations", "_value", "names", "paths", "text")

    def __init__(
        self, locations: Locations, value: Closure, paths: tuple[tuple[str | int, ...], ...]
    ) -> None:
        self._locations = locations
        self._value = value
        self.text = locations.text
        self.paths = paths
        """The paths that it reads: `output.items[0] == x` reads ("output", "items", 0) and ("x",)."""
        self.names = tuple(dict.fromkeys(str(path[0]) for path in paths))
        """The distinct names that it reads, in the order of the text."""

    def evaluate(self, lookup: Lookup) -> Any:
        """Evaluate the condition and return its value, of any kind. Raise ConditionError."""
        try:
            return self._value(EvalState(lookup))
        except Fault as fault:
            raise fault.error(self._locations) from None

    def holds(self, lookup: Lookup) -> bool:
        """Return whether the condition is true. Raise ConditionError, also if its value is not a boolean."""
        value = self.evaluate(lookup)
        try:
            return require_bool(value, 0, "a condition")
        except Fault as fault:
            raise fault.error(self._locations) from None


def parse_condition(text: str, span: Span) -> CompiledCondition:
    """Parse and compile a condition; `span` is the location of its first character. Raise InvalidProgram."""
    if len(text) > MAX_CONDITION_CHARACTERS:
        message = f"a condition has at most {MAX_CONDITION_CHARACTERS} characters, this one has {len(text)}"
        raise invalid_program(span, "program-too-long", message)
    locations = Locations(text, span)
    with raise_recursion_limit():
        node = Parser(Tokens(locations, CONDITION)).condition()
        try:
            return CompiledCondition(locations, compile_node(node), paths_of(node))
        except Fault as fault:
            raise InvalidProgram([fault.error(locations).problem]) from None
