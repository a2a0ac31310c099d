"""The walk over a program: visits each node in evaluation order, with the names that are bound there."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from weft.language.ast import Apply, Condition, FunctionCall, Lambda, Literal, Node, Template, Text, Variable
from weft.language.builtins import TASK_LIBRARY
from weft.language.cel import CompiledCondition, ConditionError, parse_condition
from weft.language.check.calls import CallChecks, check_arity, check_built_in_call, function_argument
from weft.language.check.outputs import result_cell
from weft.language.check.scopes import Call, Cell, Frame, Names, Need, Routine, WriteSet, is_built_in
from weft.language.diagnostics import Findings, InvalidProgram
from weft.language.schemas import ReadSchema
from weft.language.source import Span

Visitor = Callable[["Walk", Any, Frame], object]
"""Checks one kind of node; what it returns is not used."""


class Walk:
    """State of one walk, with methods that visit nodes, branches, names and functions."""

    def __init__(
        self,
        visitors: Mapping[type[Node], Visitor],
        templates: Mapping[str, Template],
        *,
        tools: Collection[str] | None,
        models: Callable[[str], str | None] | None,
        schemas: ReadSchema | None,
    ) -> None:
        self.findings = Findings()
        self.calls = CallChecks(self.findings)
        self.names = Names(
            self.findings, templates, self.calls.check, lambda name, span: check_tool(self, name, span)
        )
        self.tools = tools
        self.models = models
        self.schemas = schemas
        self.boundary: Frame | None = None
        """Set inside a top-level task or call, where free names are inputs of the program; see `Need`."""
        self.criteria: list[tuple[str, Sequence[str], Span, Frame]] = []
        """Criteria by which an evaluator is chosen: criteria, names of its arguments, location, frame."""
        self._visitors = visitors

    def visit(self, node: Node, frame: Frame) -> None:
        visitor = self._visitors.get(type(node))
        if visitor is None:
            message = f"{type(node).__name__} cannot be evaluated"
            self.findings.note(node.span, "bad-value", message)
        else:
            visitor(self, node, frame)

    def visit_all(self, nodes: Sequence[Node | None], frame: Frame) -> None:
        """Visit nodes that are evaluated in sequence."""
        for node in nodes:
            if node is not None:
                self.visit(node, frame)

    # Branches

    def visit_branch(self, nodes: Sequence[Node | None], frame: Frame) -> WriteSet:
        """Visit nodes that only some evaluations reach; undo and return the bindings that they make."""
        functions = frame.routine.functions
        mark, since = self.names.bindings.mark(), len(functions)
        self.visit_all(nodes, frame)
        if len(functions) > since:
            self.names.close(frame.routine, since)
        return self.names.bindings.undo(mark, frame)

    def visit_alternatives(self, branches: Sequence[Sequence[Node | None]], frame: Frame) -> None:
        """Visit sequences of nodes of which exactly one is evaluated."""
        found = [self.visit_branch(nodes, frame) for nodes in branches]
        if any(found):
            self.names.bindings.join(found)

    def visit_unordered(self, nodes: Sequence[Node | None], frame: Frame) -> None:
        """Visit nodes that are all evaluated, in no certain order."""
        found = [self.visit_branch([node], frame) for node in nodes]
        if any(found):
            self.names.bindings.unite(found)

    # Names

    def use(self, name: str, span: Span, frame: Frame, call: Call | None = None) -> None:
        """Resolve a name that is read or called; only a name that is read can be an input."""
        self.names.use(frame, name, span, call, boundary=self.boundary if call is None else None)

    def check_distinct(self, names: Sequence[str], span: Span, noun: str) -> None:
        """Note duplicates among names that are bound together; `noun` names their kind in the message."""
        if len(set(names)) != len(names):
            for name, count in Counter(names).items():
                if count > 1:
                    self.findings.note(span, "duplicate-name", f"{noun} '{name}' occurs {count} times")

    def visit_condition(self, node: Condition, frame: Frame) -> CompiledCondition | None:
        """Parse and check a condition; return None if it is invalid."""
        try:
            condition = parse_condition(node.text, node.span)
        except InvalidProgram as error:
            self.findings.add(error.found)
            return None
        for name in condition.names:
            self.use(name, node.span, frame)
        if not condition.names:  # it is constant: note if it fails or is not a boolean
            try:
                condition.holds(reject_name)
            except ConditionError as error:
                self.findings.add([error.problem])
        return condition

    def visit_text(self, text: Text, frame: Frame) -> None:
        """Visit the placeholders of a text."""
        for part in text.parts:
            if isinstance(part, Variable):  # not `use`: a placeholder never refers to a built-in
                need = Need(frame, frame, part.name, part.span, boundary=self.boundary)
                self.names.use_binding(need, frame.routine)
            elif not isinstance(part, str):
                self.visit(part, frame)

    # Functions

    def visit_closure(self, node: Lambda, frame: Frame, routine: Routine) -> None:
        """Visit a lambda; names that its body uses from around it are needs of `routine`."""
        self.check_distinct(node.parameters, node.span, "the parameter")
        inner = Frame(frame, routine)
        for name in node.parameters:
            self.names.bind(inner, name)
        self.visit(node.body, inner)

    def visit_value(self, node: Node, frame: Frame) -> Cell:
        """Visit the value of a binding and return its cell. The body of a lambda is a routine of its own."""
        if isinstance(node, Lambda):
            routine = Routine()
            self.visit_closure(node, frame, routine)
            self.names.close(routine)
            return Cell(node, needs=routine.needs)
        self.visit(node, frame)
        return Cell(node) if isinstance(node, Literal) else result_cell(node, frame)

    def visit_called(self, node: Node, count: int, frame: Frame) -> None:
        """Visit a function that a built-in or loop will call with `count` arguments."""
        call = Call(node.span, (None,) * count)
        if isinstance(node, Lambda):
            self.calls.check_closure_call(node, call)
        if not isinstance(node, Variable) or node.path:
            self.visit(node, frame)
        elif not is_built_in(node.name, frame):
            self.names.use(frame, node.name, node.span, call)
        elif node.name != TASK_LIBRARY:
            check_arity(node.name, count, node.span, self.findings)


def visit_call(walk: Walk, node: FunctionCall, frame: Frame) -> None:
    name = node.func_name
    function: Node | None = None
    if is_built_in(name, frame):
        check_built_in_call(node, frame, walk.findings)
        found = function_argument(node, frame)
        if found is not None:
            function = found[0]
            walk.visit_called(function, found[1], frame)
    else:  # an unbound name with a namespace is a tool
        walk.use(name, node.span, frame, Call(node.span, node.args, node.keywords, frame))
        if ":" not in name or frame.find(name) is not None:
            for keyword, value in node.keywords:
                if keyword == "model" and isinstance(value, Literal) and isinstance(value.value, str):
                    check_model(walk, value.value, value.span)
    for argument in node.args:
        if argument is not function:
            walk.visit(argument, frame)
    for _, value in node.keywords:
        walk.visit(value, frame)


def visit_apply(walk: Walk, node: Apply, frame: Frame) -> None:
    if isinstance(node.function, Lambda):
        walk.calls.check_closure_call(node.function, Call(node.span, node.args, node.keywords, frame))
    elif isinstance(node.function, Literal):
        message = "only functions and tasks can be called; this is a constant"
        walk.findings.note(node.span, "wrong-type", message)
    walk.visit(node.function, frame)
    walk.visit_all([*node.args, *(value for _, value in node.keywords)], frame)


def reject_name(name: str) -> Any:
    """Look up a name in a condition that has none."""
    raise NameError(name)


def check_tool(walk: Walk, name: str, span: Span) -> None:
    """Note an unknown tool, unless `walk.tools` is None. The hint may suggest a template with a namespace."""
    if walk.tools is not None and name not in walk.tools:
        templates = (one for one in walk.names.templates if ":" in one)
        hint = walk.findings.nearest(name, sorted({*walk.tools, *templates}))
        walk.findings.note(span, "unknown-tool", f"there is no tool '{name}'{hint}")


def check_model(walk: Walk, model: str, span: Span) -> None:
    """Note the reason that `walk.models` returns for a model that it rejects."""
    reason = walk.models(model) if walk.models is not None else None
    if reason is not None:
        walk.findings.note(span, "unknown-model", reason)
