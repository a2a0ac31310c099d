"""Compiles syntax trees to Python closures."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft.evaluator.environment import Env, GlobalEnv
from weft.evaluator.errors import program_error
from weft.evaluator.functions import BuiltIn, Closure, new_frame, run_tail_calls, wrong_arity
from weft.evaluator.functions import Code as Code
from weft.evaluator.machine import Machine
from weft.evaluator.values import kind_of
from weft.language.ast import Node
from weft.language.builtins import BUILT_IN_NAMES
from weft.language.diagnostics import invalid_program, nearest
from weft.language.library import TaskDefinition, TaskLibrary
from weft.language.source import NOWHERE, Span

Form = Callable[["Compiler", Any, bool], Code]
"""Compiles one kind of node: (compiler, node, whether it is in tail position) -> code."""


Call = Callable[["Compiler", Any, Sequence[Any], Mapping[str, Any], Span], Any]
"""Calls a template or a tool: (compiler, definition or name, arguments, keywords, location) -> value."""


class Compiler:
    """Compiles nodes for one evaluator; the compiled code runs on the evaluator's machine."""

    def __init__(
        self,
        machine: Machine,
        library: TaskLibrary,
        forms: Mapping[type[Node], Form],
        *,
        global_env: GlobalEnv,
        call_template: Call,
        call_tool: Call,
    ) -> None:
        self.machine = machine
        self.library = library
        self.global_env = global_env
        self.call_template = call_template
        self.call_tool = call_tool
        self.bodies: dict[str, tuple[TaskDefinition, Code]] = {}
        """Compiled bodies of templates by name, each with its definition."""
        self._forms = forms
        self._hidden: list[frozenset[str]] = [frozenset()]
        """The built-ins that local names hide, for each scope that is being compiled, the innermost last."""

    def compile(self, node: Node, *, is_tail: bool = False) -> Code:
        form = self._forms.get(type(node))
        if form is None:
            raise invalid_program(node.span, "bad-value", f"{type(node).__name__} cannot be evaluated here")
        return form(self, node, is_tail)

    @contextmanager
    def hiding(self, names: Iterable[str]) -> Iterator[None]:
        """Compile inside a scope that binds these names, which hide built-ins of the same name."""
        self._hidden.append(self._hidden[-1] | (BUILT_IN_NAMES.intersection(names)))
        try:
            yield
        finally:
            self._hidden.pop()

    def hides(self, name: str) -> bool:
        """Return whether a local name hides the built-in of that name here."""
        return name in self._hidden[-1]

    def invoke(
        self,
        function: Any,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any] | None = None,
        span: Span = NOWHERE,
    ) -> Any:
        """Call a function, built-in or template. Raise ProgramError, possibly without a location."""
        if function.__class__ is Closure:
            if keywords:
                arguments = order_arguments(function, arguments, keywords)
            self.machine.meter.count(1)
            return run_tail_calls(function.frame(arguments))
        if function.__class__ is BuiltIn:
            return self.invoke_built_in(function, arguments, keywords)
        if function.__class__ is TaskDefinition:
            return self.call_template(self, function, arguments, keywords or {}, span)
        raise program_error(
            "wrong-type", f"only functions and tasks can be called; this is {kind_of(function)}"
        )

    def make_caller(self, function: Any) -> Callable[[Any], Any]:
        """Return a faster `invoke` for many calls with one argument."""
        if function.__class__ is not Closure or function.arity != 1:
            return lambda value: self.invoke(function, (value,))
        meter, code, outer, parameter = (
            self.machine.meter,
            function.code,
            function.env,
            function.parameters[0],
        )

        def call(value: Any) -> Any:
            frame = new_frame(Env)
            frame[parameter] = value
            frame.outer = outer
            meter.left -= 1
            if meter.left < 0:
                meter.refill()
            return run_tail_calls(code(frame))

        return call

    def invoke_built_in(
        self, function: BuiltIn, arguments: Sequence[Any], keywords: Mapping[str, Any] | None = None
    ) -> Any:
        """Check the arguments of a built-in and call it."""
        if not function.takes(len(arguments)):
            signature = function.signature
            raise wrong_arity(function.name, signature.least, signature.most, len(arguments))
        if keywords and not function.takes_keywords:
            raise program_error(
                "unknown-keyword", f"{function.name} takes no keywords: :{next(iter(keywords))}"
            )
        if function.needs_compiler:
            return function.act(self, *arguments)
        if keywords:
            return function.act(*arguments, keywords=keywords)
        if not function.is_linear:
            return function.act(*arguments)
        self.machine.meter.count(count_work(arguments))
        value = function.act(*arguments)
        if value.__class__ in (list, str, dict):
            self.machine.meter.check_size(len(value))
        return value


def count_work(arguments: Sequence[Any]) -> int:
    """Return how many operations a traversal of the arguments counts as: 1 per 256 elements or characters."""
    return sum(len(one) for one in arguments if isinstance(one, list | str | dict)) >> 8


def order_arguments(function: Closure, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
    """Return all arguments in the order of the closure's parameters. Raise ProgramError for wrong ones."""
    name = function.name or "the function"
    values = dict(zip(function.parameters, arguments, strict=False))
    for keyword, value in keywords.items():
        if keyword not in function.parameters:
            raise program_error(
                "unknown-keyword",
                f"{name} has no parameter '{keyword}'{nearest(keyword, function.parameters)}",
            )
        if keyword in values:
            raise program_error("duplicate-name", f"{name} was given '{keyword}' twice")
        values[keyword] = value
    if len(arguments) + len(keywords) != function.arity:
        raise wrong_arity(name, function.arity, function.arity, len(arguments) + len(keywords))
    return [values[parameter] for parameter in function.parameters]
