"""Checks of expressions and of unreachable cases."""

from collections.abc import Hashable, Mapping, Sequence

from weft.language import ast
from weft.language.builtins import BUILT_IN_NAMES
from weft.language.cel import CompiledCondition, ConditionError
from weft.language.check.inference import UNKNOWN, constant, kind_of, known_shape
from weft.language.check.scopes import Frame, is_built_in
from weft.language.check.walker import Visitor, Walk, reject_name, visit_apply, visit_call
from weft.language.diagnostics import Findings
from weft.language.schemas import JsonSchema
from weft.language.source import Span
from weft.language.task_fields import BUDGETS, NO_CONTEXT_QUERY, QUESTIONS, validate_context_keyword

OUTPUT = "output"
"""The name of the previous output in the conditions of cases."""

_OPEN = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas")
"""Keywords that leave a schema open: they can allow fields that `properties` does not list."""


_Test = tuple[Span, Hashable | None, bool]
"""The location of a case, a key that equal tests share (None: unknown), and whether it is always taken."""


def check_clauses(
    clauses: Sequence[ast.Clause], otherwise: ast.Node | None, frame: Frame, findings: Findings
) -> None:
    """Note clauses of a `cond` that are unreachable."""
    tests: list[_Test] = []
    for clause in clauses:
        value = constant(clause.test, frame)
        is_true = value is not UNKNOWN and bool(value)
        tests.append((clause.test.span, _test_key(clause.test), is_true))
    if otherwise is not None:
        tests.append((otherwise.span, None, False))
    _check_reachable(tests, "clause", "test", findings)


def check_cases(cases: Sequence[tuple[Span, CompiledCondition]], findings: Findings) -> None:
    """Note cases that are unreachable."""
    tests: list[_Test] = [
        (span, " ".join(condition.text.split()), _is_always_true(condition)) for span, condition in cases
    ]
    _check_reachable(tests, "case", "condition", findings)


def _check_reachable(tests: Sequence[_Test], noun: str, test: str, findings: Findings) -> None:
    seen: set[Hashable] = set()
    is_decided = False
    for span, key, is_true in tests:
        if is_decided or (key is not None and key in seen):
            reason = f"the {test} of a {noun} before it is always true"
            why = reason if is_decided else f"a {noun} before it has the same {test}"
            findings.note(span, "unreachable-case", f"this case is never taken: {why}")
        seen.add(key)
        is_decided = is_decided or is_true


def _is_always_true(condition: CompiledCondition) -> bool:
    if condition.names:
        return False
    try:
        return condition.evaluate(reject_name) is True
    except ConditionError:
        return False


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
    walk.names.bind(inner, node.name)
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
            walk.names.bind(inner, name, cell)
    else:
        walk.check_distinct([name for name, _ in node.bindings], node.span, "the name")
        cells = [(name, walk.visit_value(value, frame)) for name, value in node.bindings]
        inner = Frame(frame, frame.routine)
        for name, cell in cells:
            walk.names.bind(inner, name, cell)
    walk.visit(node.body, inner)


def _visit_define(walk: Walk, node: ast.Define, frame: Frame) -> None:
    if walk.names.note_reserved(node.name, node.span):
        return
    walk.names.bind(frame, node.name, walk.visit_value(node.value, frame))


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


# Control


def _visit_loop(walk: Walk, node: ast.Loop, frame: Frame) -> None:
    walk.visit(node.count, frame)
    _check_number(walk, node.count, "the count of a loop is a whole number from 0", is_count=True)
    walk.visit_alternatives([[node.body], []], frame)


def _visit_iterative_loop(walk: Walk, node: ast.IterativeLoop, frame: Frame) -> None:
    _check_number(walk, node.max_iterations, ":max-iterations is a whole number from 0", is_count=True)
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
    _check_number(walk, node.seconds, "with-timeout takes a number of seconds")
    walk.visit_all([node.seconds, node.body], frame)


def _visit_with_budget(walk: Walk, node: ast.WithBudget, frame: Frame) -> None:
    for name, value in node.limits:
        if name not in BUDGETS:
            hint = walk.findings.nearest(name, BUDGETS)
            walk.findings.note(node.span, "unknown-keyword", f"with-budget has no ':{name}'{hint}")
        _check_number(walk, value, f"the budget :{name} is a number from 0")
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


def _check_number(walk: Walk, node: ast.Node, message: str, *, is_count: bool = False) -> None:
    """Note a literal that is not a number from 0; a count is a whole number."""
    if isinstance(node, ast.Literal):
        value = node.value
        if not (type(value) in ((int,) if is_count else (int, float)) and value >= 0):  # type: ignore[operator]
            walk.findings.note(node.span, "wrong-type", message)


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
    # A lambda without a name is part of the enclosing routine, since it may be called at once.
    ast.Lambda: lambda walk, node, frame: walk.visit_closure(node, frame, frame.routine),
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
