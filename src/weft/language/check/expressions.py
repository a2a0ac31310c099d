"""Checks of expressions and of unreachable cases."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from weft.language import ast
from weft.language.builtins import BUILT_IN_NAMES
from weft.language.cel import CompiledCondition, ConditionError
from weft.language.check.inference import UNKNOWN, constant, kind_of, known_shape
from weft.language.check.scopes import Frame, is_built_in
from weft.language.check.walker import Visitor, Walk, visit_apply, visit_call
from weft.language.diagnostics import Findings
from weft.language.schemas import JsonSchema
from weft.language.source import Span
from weft.language.task_fields import BUDGETS, NO_CONTEXT_QUERY, QUESTIONS, validate_context_keyword

OUTPUT = "output"
"""The name of the previous output in the conditions of cases."""

_OPEN = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas")
"""Keywords that leave a schema open: they can allow fields that `properties` does not list."""


def check_clauses(
    clauses: Sequence[ast.Clause], otherwise: ast.Node | None, frame: Frame, findings: Findings
) -> None:
    """Note clauses of a `cond` that are unreachable."""
    seen: set[Hashable] = set()
    is_decided = False
    for clause in clauses:
        key = _test_key(clause.test)
        if is_decided:
            _note_unreachable(clause.test.span, "the test of a clause before it is always true", findings)
        elif key is not None and key in seen:
            _note_unreachable(clause.test.span, "a clause before it has the same test", findings)
        seen.add(key)
        value = constant(clause.test, frame)
        is_decided = is_decided or (value is not UNKNOWN and bool(value))
    if is_decided and otherwise is not None:
        _note_unreachable(otherwise.span, "the test of a clause before it is always true", findings)


def check_cases(cases: Sequence[tuple[Span, CompiledCondition]], findings: Findings) -> None:
    """Note cases that are unreachable."""
    seen: set[str] = set()
    is_decided = False
    for span, condition in cases:
        text = " ".join(condition.text.split())
        if is_decided:
            _note_unreachable(span, "the condition of a case before it is always true", findings)
        elif text in seen:
            _note_unreachable(span, "a case before it has the same condition", findings)
        seen.add(text)
        is_decided = is_decided or _is_always_true(condition)


def _note_unreachable(span: Span, why: str, findings: Findings) -> None:
    findings.note(span, "unreachable-case", f"this case is never taken: {why}")


def _is_always_true(condition: CompiledCondition) -> bool:
    if condition.names:
        return False
    try:
        return condition.evaluate(_reject_name) is True
    except ConditionError:
        return False


def _reject_name(name: str) -> Any:
    raise NameError(name)


def _test_key(node: ast.Node) -> Hashable | None:
    """Return a key; tests with equal keys certainly have the same value. None: nothing is certain."""
    if isinstance(node, ast.Literal):
        return type(node.value).__name__, node.value
    if isinstance(node, ast.Variable):
        return node.name, repr(node.path)
    if isinstance(node, ast.Condition):
        return "condition", node.text
    if isinstance(node, ast.And | ast.Or):
        return _joined_test_key(type(node).__name__, node.items)
    if isinstance(node, ast.FunctionCall) and node.func_name in BUILT_IN_NAMES and not node.keywords:
        return _joined_test_key(f"call {node.func_name}", node.args)
    return None


def _joined_test_key(word: str, nodes: Sequence[ast.Node]) -> Hashable | None:
    keys = [_test_key(node) for node in nodes]
    return None if None in keys else (word, *keys)


# Fields of outputs


def check_paths(condition: CompiledCondition, span: Span, shape: str | None, findings: Findings) -> None:
    """Note paths in a condition that the previous output certainly does not have."""
    known = known_shape(shape)
    if known is None:
        return
    for path in condition.paths:
        if path[0] == OUTPUT:
            reason = _explain_missing_path(path[1:], known.schema, findings)
            if reason is not None:
                shown = OUTPUT + "".join(
                    f"[{key}]" if isinstance(key, int) else f".{key}" for key in path[1:]
                )
                findings.note(span, "missing-field", f"the output before has no {shown}: {reason}")


def _explain_missing_path(path: Sequence[str | int], schema: JsonSchema, findings: Findings) -> str | None:
    """Explain why a value of the schema cannot have the path; None: it may have it."""
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


MAX_LET_FRAMES = 100
"""How many bindings of a `let*` get a frame each; limited because a lookup visits every frame."""


# Branches


def _visit_if(walk: Walk, node: ast.If, frame: Frame) -> None:
    walk.visit(node.test, frame)
    walk.visit_alternatives([[node.then], [node.otherwise]], frame)


def _visit_cond(walk: Walk, node: ast.Cond, frame: Frame) -> None:
    check_clauses(node.clauses, node.otherwise, frame, walk.findings)
    if node.clauses:
        walk.visit(node.clauses[0].test, frame)
    for clause in node.clauses[1:]:
        walk.visit_alternatives([[clause.test], []], frame)
    walk.visit_alternatives([*([clause.body] for clause in node.clauses), [node.otherwise]], frame)


def _visit_and_or(walk: Walk, node: ast.And | ast.Or, frame: Frame) -> None:
    """Visit the items; only the first one is always evaluated."""
    walk.visit_all(node.items[:1], frame)
    for item in node.items[1:]:
        walk.visit_alternatives([[item], []], frame)


def _visit_try(walk: Walk, node: ast.Try, frame: Frame) -> None:
    changes = walk.visit_branch([node.body], frame)
    inner = Frame(frame, frame.routine)
    walk.bind(node.name, node.span, inner)
    walk.visit(node.handler, inner)
    if changes:
        walk.names.bindings.join([changes, {}])


# Names


def _visit_let(walk: Walk, node: ast.Let, frame: Frame) -> None:
    if node.is_sequential:
        inner = Frame(frame, frame.routine)
        for index, (name, value) in enumerate(node.bindings):
            cell = walk.visit_value(value, inner)
            if index < MAX_LET_FRAMES:
                inner = Frame(inner, frame.routine)
            walk.bind(name, node.span, inner, cell)
    else:
        walk.check_distinct([name for name, _ in node.bindings], node.span, "the name")
        cells = [(name, walk.visit_value(value, frame)) for name, value in node.bindings]
        inner = Frame(frame, frame.routine)
        for name, cell in cells:
            walk.bind(name, node.span, inner, cell)
    walk.visit(node.body, inner)


def _visit_define(walk: Walk, node: ast.Define, frame: Frame) -> None:
    if walk.names.note_reserved(node.name, node.span):
        return
    walk.bind(node.name, node.span, frame, walk.visit_value(node.value, frame))


def _visit_assign(walk: Walk, node: ast.Assign, frame: Frame) -> None:
    walk.visit(node.value, frame)
    walk.calls.changed.add(node.name)
    cell = frame.find(node.name)
    if is_built_in(node.name, frame):
        message = f"'{node.name}' is built in and cannot be changed"
        walk.findings.note(node.span, "reserved-name", message)
    elif cell is not None and isinstance(cell.value, ast.Template):
        walk.findings.note(node.span, "unbound-name", f"'{node.name}' is a template and cannot be changed")
    else:
        walk.names.use(frame, node.name, node.span)


def _visit_lambda(walk: Walk, node: ast.Lambda, frame: Frame) -> None:
    """Visit a lambda without a name as part of the enclosing routine, since it may be called at once."""
    walk.visit_closure(node, frame, frame.routine)


# Control


def _visit_loop(walk: Walk, node: ast.Loop, frame: Frame) -> None:
    walk.visit(node.count, frame)
    if isinstance(node.count, ast.Literal) and not _is_count(node.count.value):
        message = "the count of a loop is a whole number from 0"
        walk.findings.note(node.count.span, "wrong-type", message)
    walk.visit_alternatives([[node.body], []], frame)


def _visit_iterative_loop(walk: Walk, node: ast.IterativeLoop, frame: Frame) -> None:
    if isinstance(node.max_iterations, ast.Literal) and not _is_count(node.max_iterations.value):
        message = ":max-iterations is a whole number from 0"
        walk.findings.note(node.max_iterations.span, "wrong-type", message)
    walk.visit_all([node.max_iterations, node.initial], frame)
    for name, part, count in (
        ("executor", node.executor, 2),
        ("controller", node.controller, 3),
        ("validator", node.validator, 2),
    ):
        if part is None:
            continue
        kind = kind_of(part, frame)
        if kind not in (None, "a function"):
            walk.findings.note(part.span, "wrong-type", f":{name} is a function; this is {kind}")
        walk.visit_called(part, count, frame)


def _visit_with_timeout(walk: Walk, node: ast.WithTimeout, frame: Frame) -> None:
    if isinstance(node.seconds, ast.Literal) and not _is_amount(node.seconds.value):
        walk.findings.note(node.seconds.span, "wrong-type", "with-timeout takes a number of seconds")
    walk.visit_all([node.seconds, node.body], frame)


def _visit_with_budget(walk: Walk, node: ast.WithBudget, frame: Frame) -> None:
    for name, value in node.limits:
        if name not in BUDGETS:
            hint = walk.findings.nearest(name, BUDGETS)
            walk.findings.note(node.span, "unknown-keyword", f"with-budget has no ':{name}'{hint}")
        if isinstance(value, ast.Literal) and not _is_amount(value.value):
            walk.findings.note(value.span, "wrong-type", f"the budget :{name} is a number from 0")
        walk.visit(value, frame)
    walk.visit(node.body, frame)


def _visit_get_context(walk: Walk, node: ast.GetContext, frame: Frame) -> None:
    for name, value in node.keywords:
        if name not in QUESTIONS:
            hint = walk.findings.nearest(name, QUESTIONS)
            walk.findings.note(node.span, "unknown-keyword", f"get-context has no ':{name}'{hint}")
        kind = kind_of(value, frame) if name == "inputs" else None
        if kind not in (None, "a dict", "a task result"):
            walk.findings.note(value.span, "wrong-type", f":inputs is a dict; this is {kind}")
        if (
            isinstance(value, ast.Literal)
            and (problem := validate_context_keyword(name, value.value)) is not None
        ):
            code = "bad-value" if isinstance(value.value, str) else "wrong-type"
            walk.findings.note(value.span, code, problem)
        walk.visit(value, frame)
    if not node.keywords:
        walk.findings.note(node.span, "missing-field", NO_CONTEXT_QUERY)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


FORMS: Mapping[type[ast.Node], Visitor] = {
    ast.Literal: lambda walk, node, frame: None,
    ast.Quote: lambda walk, node, frame: None,
    ast.Variable: lambda walk, node, frame: walk.use(node.name, node.span, frame),
    ast.Text: Walk.visit_text,
    ast.Condition: Walk.visit_condition,
    ast.If: _visit_if,
    ast.Cond: _visit_cond,
    ast.And: _visit_and_or,
    ast.Or: _visit_and_or,
    ast.Let: _visit_let,
    ast.Define: _visit_define,
    ast.Assign: _visit_assign,
    ast.Lambda: _visit_lambda,
    ast.Begin: lambda walk, node, frame: walk.visit_all(node.items, frame),
    ast.FunctionCall: visit_call,
    ast.Apply: visit_apply,
    ast.Try: _visit_try,
    ast.Loop: _visit_loop,
    ast.IterativeLoop: _visit_iterative_loop,
    ast.Parallel: lambda walk, node, frame: walk.visit_unordered(node.items, frame),
    ast.WithTimeout: _visit_with_timeout,
    ast.WithBudget: _visit_with_budget,
    ast.GetContext: _visit_get_context,
}
