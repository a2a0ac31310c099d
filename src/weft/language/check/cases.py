"""Cases that are never taken, and conditions on fields that an output cannot have."""

from collections.abc import Hashable, Sequence
from typing import Any

from weft.language.builtin_names import BUILT_IN_NAMES
from weft.language.check.constants import UNKNOWN, constant, known_shape
from weft.language.check.findings import Findings
from weft.language.check.scopes import Frame
from weft.language.expressions import ConditionError, ReadCondition
from weft.language.output_schemas import JsonSchema
from weft.language.spans import Span
from weft.language.tree import And, Clause, Condition, FunctionCall, Literal, Node, Or, Variable

OUTPUT = "output"
"""The name that conditions of cases know the output before them by."""

_OPEN = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas")
"""Where a schema has one of these, what fields there are is not read off `properties`."""


def check_clauses(
    clauses: Sequence[Clause], otherwise: Node | None, frame: Frame, findings: Findings
) -> None:
    """Note clauses of a `cond` that are never taken."""
    seen: set[Hashable] = set()
    is_decided = False
    for clause in clauses:
        key = _key(clause.test)
        if is_decided:
            _note(clause.test.span, "the test of a clause before it is always true", findings)
        elif key is not None and key in seen:
            _note(clause.test.span, "a clause before it has the same test", findings)
        seen.add(key)
        value = constant(clause.test, frame)
        is_decided = is_decided or (value is not UNKNOWN and bool(value))
    if is_decided and otherwise is not None:
        _note(otherwise.span, "the test of a clause before it is always true", findings)


def check_cases(cases: Sequence[tuple[Span, ReadCondition]], findings: Findings) -> None:
    """Note cases that are never taken."""
    seen: set[str] = set()
    is_decided = False
    for span, condition in cases:
        text = " ".join(condition.text.split())
        if is_decided:
            _note(span, "the condition of a case before it is always true", findings)
        elif text in seen:
            _note(span, "a case before it has the same condition", findings)
        seen.add(text)
        is_decided = is_decided or _is_always_true(condition)


def _note(span: Span, why: str, findings: Findings) -> None:
    findings.note(span, "unreachable-case", f"this case is never taken: {why}")


def _is_always_true(condition: ReadCondition) -> bool:
    if condition.names:
        return False
    try:
        return condition.evaluate(_nothing) is True
    except ConditionError:
        return False


def _nothing(name: str) -> Any:
    raise NameError(name)


def _key(node: Node) -> Hashable | None:
    """What tests have in common that certainly give the same one after the other; None: not certain."""
    if isinstance(node, Literal):
        return type(node.value).__name__, node.value
    if isinstance(node, Variable):
        return node.name, repr(node.path)
    if isinstance(node, Condition):
        return "condition", node.text
    if isinstance(node, And | Or):
        return _joined_key(type(node).__name__, node.items)
    if isinstance(node, FunctionCall) and node.func_name in BUILT_IN_NAMES and not node.keywords:
        return _joined_key(f"call {node.func_name}", node.args)
    return None


def _joined_key(word: str, nodes: Sequence[Node]) -> Hashable | None:
    keys = [_key(node) for node in nodes]
    return None if None in keys else (word, *keys)


# Fields of outputs


def check_paths(condition: ReadCondition, span: Span, shape: str | None, findings: Findings) -> None:
    """Note paths that the output before a condition certainly does not have."""
    known = known_shape(shape)
    if known is None:
        return
    for path in condition.paths:
        if path[0] == OUTPUT:
            reason = _misstep(path[1:], known.schema, findings)
            if reason is not None:
                shown = OUTPUT + "".join(
                    f"[{key}]" if isinstance(key, int) else f".{key}" for key in path[1:]
                )
                findings.note(span, "missing-field", f"the output before has no {shown}: {reason}")


def _misstep(path: Sequence[str | int], schema: JsonSchema, findings: Findings) -> str | None:
    """Why a value of the schema cannot have the path; None: it may."""
    for key in path:
        if not isinstance(schema, dict) or any(word in schema for word in _OPEN):
            return None
        wanted = "object" if isinstance(key, str) else "array"
        types = schema.get("type")
        if isinstance(types, str) and types != wanted:
            return f"its schema says {types}"
        if isinstance(key, int):
            schema = schema.get("items", True) if "prefixItems" not in schema else True
            continue
        properties = schema.get("properties")
        fields = properties if isinstance(properties, dict) else {}
        if key not in fields:
            if schema.get("additionalProperties") is not False:
                return None
            return f"its schema has no field '{key}'{findings.nearest(key, fields)}"
        schema = fields[key]
    return None
