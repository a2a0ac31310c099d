"""From the tree of a condition to closures."""

from collections.abc import Callable
from typing import Any

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
    Path,
    Step,
)
from weft.language.cel.tokens import shown
from weft.language.cel.values import (
    METHODS,
    Run,
    are_equal,
    arithmetic,
    article,
    compiled,
    has_field,
    in_order,
    is_found,
    is_in,
    is_true,
    kind_of,
    negative,
    part_of,
)

Closure = Callable[[Run], Any]


def compile_node(node: ConditionNode) -> Closure:
    """What computes the value of the node. Raises Fault for a constant pattern that is bad."""
    return _COMPILERS[type(node)](node)


def _constant(node: Constant) -> Closure:
    value = node.value
    return lambda run: value


def _name(node: Name) -> Closure:
    name, at = node.name, node.at

    def look_up(run: Run) -> Any:
        try:
            return run.lookup(name)
        except (KeyError, NameError):
            raise Fault(at, "unbound-name", f"name '{shown(name)}' is not bound") from None

    return look_up


def _path(node: Path) -> Closure:
    base = compile_node(node.base)
    steps = [(step.at, compile_node(step.key)) for step in node.steps]

    def follow(run: Run) -> Any:
        value = base(run)
        for at, key in steps:
            value = part_of(value, key(run), at)
        return value

    return follow


def _has(node: Has) -> Closure:
    base, field, at = compile_node(node.base), node.field, node.at

    def has(run: Run) -> bool:
        value = base(run)
        kind = kind_of(value)
        if kind == "map":
            return field in value
        if kind == "task result":
            return has_field(value, field)
        raise Fault(at, "wrong-type", f"{article(kind)} has no field '{shown(field)}'")

    return has


def _call(node: Call) -> Closure:
    match node:
        case Call(function="matches", args=(target, Constant(value=str() as pattern, at=pattern_at))):
            return _match(node.at, compile_node(target), compiled(pattern, pattern_at))
    call, at = METHODS[node.function].call, node.at
    args = [compile_node(arg) for arg in node.args]
    return lambda run: call(run, at, *[arg(run) for arg in args])


def _match(at: int, target: Closure, pattern: Any) -> Closure:
    return lambda run: is_found(run, at, pattern, target(run))


def _not(node: Not) -> Closure:
    operand, at = compile_node(node.operand), node.at
    return lambda run: not is_true(operand(run), at, "the operand of '!'")


def _negative(node: Negative) -> Closure:
    operand, at = compile_node(node.operand), node.at
    return lambda run: negative(operand(run), at)


def _chain(node: Chain) -> Closure:
    first = compile_node(node.first)
    rest = [(at, _operation(sign), compile_node(operand)) for at, sign, operand in node.rest]

    def compute(run: Run) -> Any:
        value = first(run)
        for at, operation, operand in rest:
            value = operation(value, operand(run), run, at)
        return value

    return compute


def _operation(sign: str) -> Callable[[Any, Any, Run, int], Any]:
    """What an operator does with two values."""
    match sign:
        case "==":
            return are_equal
        case "!=":
            return lambda left, right, run, at: not are_equal(left, right, run, at)
        case "in":
            return is_in
        case "<" | "<=" | ">" | ">=":
            return lambda left, right, run, at: in_order(sign, left, right, run, at)
    return lambda left, right, run, at: arithmetic(sign, left, right, run, at)


def _logic(node: Logic) -> Closure:
    """CEL's `&&` and `||`: an operand that decides makes up for errors in the others, on either side."""
    items = [(item.at, compile_node(item)) for item in node.items]
    decisive = node.operator == "||"
    where = f"an operand of '{node.operator}'"

    def decide(run: Run) -> bool:
        fault: Fault | None = None
        for at, item in items:
            try:
                if is_true(item(run), at, where) is decisive:
                    return decisive
            except TooMuchWork:
                raise
            except Fault as error:
                fault = fault or error
        if fault is not None:
            raise fault
        return not decisive

    return decide


def _choice(node: Choice) -> Closure:
    cases = [(test.at, compile_node(test), compile_node(then)) for test, then in node.cases]
    otherwise = compile_node(node.otherwise)

    def choose(run: Run) -> Any:
        for at, test, then in cases:
            if is_true(test(run), at, "what stands before '?'"):
                return then(run)
        return otherwise(run)

    return choose


def _list_of(node: ListOf) -> Closure:
    items = [compile_node(item) for item in node.items]
    return lambda run: [item(run) for item in items]


def _map_of(node: MapOf) -> Closure:
    entries = [(key.at, compile_node(key), compile_node(value)) for key, value in node.entries]

    def build(run: Run) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for at, key_of, value_of in entries:
            key = key_of(run)
            if kind_of(key) != "string":
                raise Fault(at, "wrong-type", f"the key of a map is a string, not {article(kind_of(key))}")
            if key in built:
                raise Fault(at, "duplicate-name", f"the key '{shown(key)}' is given twice")
            built[key] = value_of(run)
        return built

    return build


_COMPILERS: dict[type[ConditionNode], Callable[[Any], Closure]] = {
    Constant: _constant,
    Name: _name,
    Path: _path,
    Has: _has,
    Call: _call,
    Not: _not,
    Negative: _negative,
    Chain: _chain,
    Logic: _logic,
    Choice: _choice,
    ListOf: _list_of,
    MapOf: _map_of,
}


def paths_of(node: ConditionNode) -> tuple[tuple[str | int, ...], ...]:
    """The paths that are read, from a name on as far as their keys are constants; each once, in order.

    `has(output.errors)` reads `output` only: it asks whether there are errors.
    """
    found: dict[tuple[str | int, ...], None] = {}
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, Name):
            found[(current.name,)] = None
        elif isinstance(current, Path) and isinstance(current.base, Name):
            found[(current.base.name, *_constant_keys(current.steps))] = None
            stack.extend(reversed([step.key for step in current.steps]))
        else:
            stack.extend(reversed(_children(current)))
    return tuple(found)


def _constant_keys(steps: tuple[Step, ...]) -> list[str | int]:
    keys: list[str | int] = []
    for step in steps:
        if not isinstance(step.key, Constant) or type(step.key.value) not in (str, int):
            break
        keys.append(step.key.value)
    return keys


def _children(node: ConditionNode) -> list[ConditionNode]:
    """The nodes directly inside, as they were written."""
    match node:
        case Path(base=base, steps=steps):
            return [base, *(step.key for step in steps)]
        case Has(base=base):
            return [base]
        case Not(operand=operand) | Negative(operand=operand):
            return [operand]
        case Call(args=items) | Logic(items=items) | ListOf(items=items):
            return list(items)
        case Chain(first=first, rest=rest):
            return [first, *(operand for _, _, operand in rest)]
        case Choice(cases=cases, otherwise=otherwise):
            return [*(one for case in cases for one in case), otherwise]
        case MapOf(entries=entries):
            return [one for entry in entries for one in entry]
    return []
