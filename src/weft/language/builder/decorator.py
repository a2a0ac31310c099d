"""`@weft.task`: a Python function as a template."""

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any, Unpack, overload

from msgspec import UNSET

from weft.language.ast import Atomic, FunctionCall, Node, Template, Variable
from weft.language.builder.nodes import as_keywords, as_nodes, definable, here
from weft.language.builder.options import shape_of_type, shape_text, task_fields
from weft.language.builder.tasks import json_default
from weft.language.diagnostics import invalid_program
from weft.language.fields import TaskOptions
from weft.language.library import TaskDefinition, definition_of
from weft.language.source import Source, Span
from weft.language.task_fields import Parameter


class TaskFunction:
    """A template written as a Python function. Calling it creates the node of a call, and runs nothing.

    The body of the function runs once, when the template is first needed, with a variable for each parameter.
    If it returns a node, the node is the body of the template. If it returns None or raises
    NotImplementedError (it has only a docstring), the docstring is the prompt for a model.
    """

    def __init__(
        self, function: Callable[..., Any], name: str | None, returns: Any, options: dict[str, Any]
    ) -> None:
        code = function.__code__
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__wrapped__ = function
        self._span = Span(Source(code.co_filename, ""), code.co_firstlineno, 0)
        self.name = definable(name or function.__name__, self._span)
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            message = f"the function of task '{self.name}' only builds a node: use def, not async def"
            raise invalid_program(self._span, "wrong-type", message)
        self._signature = _read_signature(function, self._span)
        self._options = options
        self.parameters = tuple(self._build_parameter(one) for one in self._signature.parameters.values())
        annotation = self._signature.return_annotation
        given = (
            returns if returns is not None else None if annotation is inspect.Signature.empty else annotation
        )
        self.returns = None if given is None else shape_text(given, self._span)

    def __call__(self, *arguments: Any, **keywords: Any) -> FunctionCall:
        """Create the node of a call; arguments are nodes or JSON."""
        return FunctionCall(
            span=here(), func_name=self.name, args=as_nodes(arguments), keywords=as_keywords(keywords)
        )

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def as_node(self) -> Variable:
        """Return a variable with the template's name, for use as a value: `map_(review, files)`."""
        return Variable(span=here(), name=self.name)

    @cached_property
    def template(self) -> Template:
        """Build the template, once; raise InvalidProgram with its problems."""
        return Template(
            span=self._span,
            name=self.name,
            parameters=self.parameters,
            body=self._build_body(),
            returns=self.returns,
        )

    @property
    def definition(self) -> TaskDefinition:
        """Return the definition for a task library: `library.register_task(review.definition)`."""
        return definition_of(self.template)

    def _build_body(self) -> Node:
        built = self._call_function()
        if isinstance(built, Node):
            if self._options:
                unused = ", ".join(self._options)
                message = f"task '{self.name}' returns its own node, so {unused} has no effect; remove it"
                raise invalid_program(self._span, "unknown-keyword", message)
            return built
        if built is not None:
            message = (
                f"the function of task '{self.name}' must return a node or None, not {type(built).__name__}"
            )
            raise invalid_program(self._span, "wrong-type", message)
        return self._build_prompt_task()

    def _call_function(self) -> Any:
        """Call the function with a variable for each parameter."""
        try:
            return self.__wrapped__(
                **{one.name: Variable(span=self._span, name=one.name) for one in self.parameters}
            )
        except NotImplementedError:  # means "no body"; type checkers accept it with any return type
            return None

    def _build_prompt_task(self) -> Atomic:
        """Build an atomic task: the docstring is the prompt, the return type gives the output format."""
        options = dict(self._options)
        prompt = inspect.cleandoc(self.__doc__ or "")
        if prompt:
            options.setdefault("instructions", prompt)
        if self.returns not in (None, "string") and "output" not in options:
            options["output"] = "json"
            options.setdefault("schema", self.returns)
        return Atomic(span=self._span, **task_fields(options, self._span))

    def _build_parameter(self, given: inspect.Parameter) -> Parameter:
        if given.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            message = f"a parameter of a task must be passed by name, and '{given}' cannot be"
            raise invalid_program(self._span, "bad-value", message)
        annotation = None if given.annotation is given.empty else given.annotation
        default = (
            UNSET if given.default is given.empty else json_default(given.name, given.default, self._span)
        )
        return Parameter(given.name, shape_of_type(annotation, self._span), default)


@overload
def task(function: Callable[..., Any], /) -> TaskFunction: ...


@overload
def task(
    *, name: str | None = None, returns: Any = None, **options: Unpack[TaskOptions]
) -> Callable[[Callable[..., Any]], TaskFunction]: ...


def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    returns: Any = None,
    **options: Unpack[TaskOptions],
) -> TaskFunction | Callable[[Callable[..., Any]], TaskFunction]:
    """Turn a function into a template: its signature gives the parameters, its docstring the prompt."""
    if function is not None:
        return TaskFunction(function, None, None, {})
    return lambda decorated: TaskFunction(decorated, name, returns, dict(options))


def _read_signature(function: Callable[..., Any], span: Span) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except (NameError, TypeError, ValueError, SyntaxError) as error:
        raise invalid_program(span, "bad-value", f"the signature cannot be read: {error}") from None
