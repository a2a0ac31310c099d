"""The walk over a program: each node in the order of evaluation, with the names that are bound there."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from weft.language.ast import Apply, Condition, FunctionCall, Lambda, Literal, Node, Template, Text, Variable
from weft.language.builtins import TASK_LIBRARY
from weft.language.cel import ConditionError, ReadCondition, read_condition
from weft.language.check.calls import CallChecks, check_built_in_call, function_argument, note_arity, takes
from weft.language.check.outputs import made_cell
from weft.language.check.scopes import (
    Call,
    Cell,
    Frame,
    Names,
    Routine,
    WriteSet,
    call_of,
    calls_with,
    is_built_in,
)
from weft.language.diagnostics import Findings, InvalidProgram
from weft.language.schemas import ReadSchema
from weft.language.source import Span

Visitor = Callable[["Walk", Any, Frame], None]
"""Looks at one kind of node."""


class Walk:
    """One walk: what it knows, and how it goes from node to node."""

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
        self.outside: Frame | None = None
        """Set inside a task or call that is a form of the program: its free names are inputs, see `Need`."""
        self.criteria: list[tuple[str, Sequence[str], Span, Frame]] = []
        """Criteria that an evaluator is to be found by, and the names that it is called with."""
        self._visitors = visitors

    def visit(self, node: Node, frame: Frame) -> None:
        """Look at a node in a frame."""
        visitor = self._visitors.get(type(node))
        if visitor is None:
            message = f"{type(node).__name__} cannot be evaluated"
            self.findings.note(node.span, "bad-value", message)
        else:
            visitor(self, node, frame)

    def visit_all(self, nodes: Sequence[Node | None], frame: Frame) -> None:
        """Look at nodes that are evaluated one after the other."""
        for node in nodes:
            if node is not None:
                self.visit(node, frame)

    # Branches

    def branch(self, nodes: Sequence[Node | None], frame: Frame) -> WriteSet:
        """Look at nodes that are evaluated perhaps; gives what they bind, which is taken back."""
        functions = frame.routine.functions
        mark, since = self.names.bindings.mark(), len(functions)
        self.visit_all(nodes, frame)
        if len(functions) > since:
            self.names.close(frame.routine, since)
        return self.names.bindings.undo(mark, frame)

    def one_of(self, branches: Sequence[Sequence[Node | None]], frame: Frame) -> None:
        """Look at sequences of nodes of which one is evaluated."""
        found = [self.branch(nodes, frame) for nodes in branches]
        if any(found):
            self.names.bindings.join(found)

    def each_of(self, nodes: Sequence[Node | None], frame: Frame) -> None:
        """Look at nodes that are all evaluated, in no certain order."""
        found = [self.branch([node], frame) for node in nodes]
        if any(found):
            self.names.bindings.unite(found)

    # Names

    def use(self, name: str, span: Span, frame: Frame, call: Call | None = None) -> None:
        """A name is read or called in a frame; what a bare task or call reads may be passed to it."""
        self.names.use(frame, name, span, call, outside=self.outside if call is None else None)

    def bind(self, name: str, span: Span, frame: Frame, cell: Cell | None = None) -> None:
        """A name is bound in a frame."""
        self.names.bind(frame, name, cell or Cell())

    def distinct(self, names: Sequence[str], span: Span, what: str) -> None:
        """Note names that are bound twice where all are bound together."""
        if len(set(names)) != len(names):
            for name, count in Counter(names).items():
                if count > 1:
                    self.findings.note(span, "duplicate-name", f"{what} '{name}' is there {count} times")

    def condition(self, node: Condition, frame: Frame) -> ReadCondition | None:
        """Look at a condition; gives it as it was read."""
        try:
            condition = read_condition(node.text, node.span)
        except InvalidProgram as error:
            self.findings.add(error.found)
            return None
        for name in condition.names:
            self.use(name, node.span, frame)
        if not condition.names:
            self._check_constant(condition)
        return condition

    def _check_constant(self, condition: ReadCondition) -> None:
        """Note a condition without names that fails or is no boolean: it always does and is."""
        try:
            condition.holds(_nothing)
        except ConditionError as error:
            self.findings.add([error.problem])

    def text(self, text: Text, frame: Frame) -> None:
        """Look at the placeholders of a text."""
        for part in text.parts:
            if isinstance(part, Variable):  # nobody wants the text of a built-in
                self.names.use_binding(frame, part.name, part.span, outside=self.outside)
            elif not isinstance(part, str):
                self.visit(part, frame)

    # Functions

    def closure(self, node: Lambda, frame: Frame, routine: Routine) -> None:
        """Look at a closure whose code runs as part of a routine."""
        self.distinct(node.parameters, node.span, "the parameter")
        inner = Frame(frame, routine)
        for name in node.parameters:
            self.bind(name, node.span, inner)
        self.visit(node.body, inner)

    def value(self, node: Node, frame: Frame) -> Cell:
        """Look at the value of a binding; gives what is known of it."""
        if isinstance(node, Lambda):
            cell, routine = Cell(node), Routine()
            self.closure(node, frame, routine)
            self.names.close(routine)
            cell.needs = routine.needs
            return cell
        self.visit(node, frame)
        return Cell(node) if isinstance(node, Literal) else made_cell(node, frame)

    def called(self, node: Node, count: int, frame: Frame) -> None:
        """Look at a function that is an argument and is called with so many arguments."""
        if isinstance(node, Lambda):
            self.calls.of_closure(node, calls_with(count, node.span))
        if not isinstance(node, Variable) or node.path:
            self.visit(node, frame)
        elif not is_built_in(node.name, frame):
            self.names.use(frame, node.name, node.span, calls_with(count, node.span))
        elif node.name != TASK_LIBRARY and not takes(node.name, count):
            note_arity(node.name, count, node.span, self.findings)


def visit_call(walk: Walk, node: FunctionCall, frame: Frame) -> None:
    """A call by name."""
    name = node.func_name
    function: Node | None = None
    if is_built_in(name, frame):
        check_built_in_call(node, frame, walk.findings)
        found = function_argument(node, frame)
        if found is not None:
            function = found[0]
            walk.called(function, found[1], frame)
    else:  # a name with a namespace that nothing binds is a tool's
        walk.use(name, node.span, frame, call_of(node, frame))
        if ":" not in name or frame.find(name) is not None:
            _check_model(walk, node.keywords)
    for argument in node.args:
        if argument is not function:
            walk.visit(argument, frame)
    for _, value in node.keywords:
        walk.visit(value, frame)


def visit_apply(walk: Walk, node: Apply, frame: Frame) -> None:
    """A call of what an expression gives."""
    if isinstance(node.function, Lambda):
        walk.calls.of_closure(node.function, call_of(node, frame))
    elif isinstance(node.function, Literal):
        message = "only functions and tasks can be called; this is a constant"
        walk.findings.note(node.span, "wrong-type", message)
    walk.visit(node.function, frame)
    walk.visit_all([*node.args, *(value for _, value in node.keywords)], frame)


def _nothing(name: str) -> Any:
    raise NameError(name)


def check_tool(walk: Walk, name: str, span: Span) -> None:
    """Note a tool that is not there, if it is known which are; perhaps a template was meant."""
    if walk.tools is not None and name not in walk.tools:
        templates = (one for one in walk.names.templates if ":" in one)
        hint = walk.findings.nearest(name, sorted({*walk.tools, *templates}))
        walk.findings.note(span, "unknown-tool", f"there is no tool '{name}'{hint}")


def check_model(walk: Walk, model: str, span: Span) -> None:
    """Note a model that is not known, if it can be told."""
    reason = walk.models(model) if walk.models is not None else None
    if reason is not None:
        walk.findings.note(span, "unknown-model", reason)


def _check_model(walk: Walk, keywords: Sequence[tuple[str, Node]]) -> None:
    for name, value in keywords:
        if name == "model" and isinstance(value, Literal) and isinstance(value.value, str):
            check_model(walk, value.value, value.span)
