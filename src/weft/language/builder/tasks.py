"""Builders of tasks, templates and programs. The default `...` means that an argument is omitted."""

from collections.abc import Sequence
from typing import Any, Protocol, Unpack, runtime_checkable

import msgspec
from msgspec import UNSET

from weft.language import ast
from weft.language.builder.nodes import as_body, as_condition, as_node, as_nodes, as_text, definable, here
from weft.language.builder.options import shape_of_type, shape_text, task_fields
from weft.language.diagnostics import invalid_program
from weft.language.fields import TaskOptions
from weft.language.source import Span
from weft.language.task_fields import Parameter


def task(instructions: str | ast.Text | None = None, /, **options: Unpack[TaskOptions]) -> ast.Atomic:
    """Build `(task :instructions "..." ...)`: a task for a model."""
    span = here()
    if instructions is not None:
        options["instructions"] = instructions
    return ast.Atomic(span=span, **task_fields(options, span))


def ref(name: str, **options: Unpack[TaskOptions]) -> ast.Reference:
    """Build `(task :ref "name" ...)`: a call of a template from the library, with inputs as arguments."""
    span = here()
    return ast.Reference(span=span, ref=name, **task_fields(options, span))


def script(
    *, argv: Sequence[str | ast.Text] = (), shell: str | None = None, **options: Unpack[TaskOptions]
) -> ast.Script:
    """Build `(script :argv (...) ...)` or `(script :shell "..." ...)`.

    With neither, the script runs its input `command`.
    """
    span = here()
    if isinstance(argv, str):
        raise invalid_program(span, "wrong-type", "argv must be a list: the executable and its arguments")
    line = None if shell is None else as_text(shell, span, "shell")
    words = tuple(as_text(word, span, "argv") for word in argv)
    return ast.Script(span=span, argv=words, shell=line, **task_fields(options, span))


def sequential(*steps: Any, parallel: bool = False, **options: Unpack[TaskOptions]) -> ast.Sequential:
    """Build `(sequential step...)`: tasks in order, or concurrently if `parallel`."""
    span = here()
    return ast.Sequential(
        span=span, steps=as_nodes(steps), is_parallel=parallel, **task_fields(options, span)
    )


def reduce_task(
    *, inner: Any, reduction: Any, initial: Any = ..., **options: Unpack[TaskOptions]
) -> ast.Reduce:
    """Build `(reduce-task :initial e :inner e :reduction e :inputs (...) ...)`."""
    span = here()
    return ast.Reduce(
        span=span,
        initial_value=None if initial is ... else as_node(initial),
        inner_task=as_node(inner),
        reduction_task=as_node(reduction),
        **task_fields(options, span),
    )


def director_evaluator_loop(
    *,
    director: Any,
    evaluator: Any = ...,
    script: ast.Script | None = None,
    condition: str | ast.Condition | None = None,
    max_iterations: int | None = None,
    **options: Unpack[TaskOptions],
) -> ast.DirectorEvaluatorLoop:
    """Build `(director-evaluator-loop :director e :evaluator e ...)`.

    Without an evaluator, one is chosen by the option `criteria`.
    """
    span = here()
    if script is not None and not isinstance(script, ast.Script):
        raise invalid_program(span, "wrong-type", "script must be built with weft.build.script")
    return ast.DirectorEvaluatorLoop(
        span=span,
        max_iterations=max_iterations,
        director=as_node(director),
        evaluator=None if evaluator is ... else as_node(evaluator),
        script=script,
        termination_condition=None if condition is None else as_condition(condition, span),
        **task_fields(options, span),
    )


def task_cond(*cases: Sequence[Any], criteria: str | None = None) -> ast.TaskCond:
    """Build `(task-cond ("condition" e...) ...)`: run the first case whose condition is true of `output`.

    With `criteria` an evaluator judges the output first; conditions see its `evaluation`.
    """
    span = here()
    made = (ast.TaskCase(as_condition(test, span), as_body(body), span) for test, *body in cases)
    return ast.TaskCond(span=span, cases=tuple(made), criteria=criteria)


# Templates


def parameter(name: str, type: Any = None, default: Any = ...) -> Parameter:  # noqa: A002 - the word of the language
    """Build a parameter of a template; its type is a shape or a Python type, its default a JSON value."""
    span = here()
    shape = shape_text(type, span) if isinstance(type, str | dict) else shape_of_type(type, span)
    return Parameter(name, shape, UNSET if default is ... else json_default(name, default, span))


def template(
    name: str, parameters: Sequence[str | Parameter], *body: Any, returns: Any = None
) -> ast.Template:
    """Build `(template name (parameter...) :returns "..." e...)`: a named task with any body."""
    span = here()
    taken = tuple(one if isinstance(one, Parameter) else Parameter(one) for one in parameters)
    shape = None if returns is None else shape_text(returns, span)
    return ast.Template(
        span=span, name=definable(name, span), parameters=taken, body=as_body(body), returns=shape
    )


def deftask(
    name: str,
    parameters: Sequence[str | Parameter],
    instructions: str | ast.Text | None = None,
    /,
    *,
    returns: Any = None,
    **options: Unpack[TaskOptions],
) -> ast.Template:
    """Build `(deftask name (parameter...) :instructions "..." ...)`: a template for a model task."""
    return template(name, parameters, task(instructions, **options), returns=returns)


def json_default(name: str, value: Any, span: Span) -> Any:
    """Convert a default to a JSON value; raise InvalidProgram if that is not possible."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        message = f"the default of parameter '{name}' is not JSON: {error}"
        raise invalid_program(span, "bad-value", message) from None


# Programs


@runtime_checkable
class HasTemplate(Protocol):
    """An object that provides a template, such as a task function."""

    @property
    def template(self) -> ast.Template: ...


def program(*forms: Any) -> ast.Program:
    """Build a program of templates, task functions and expressions; its value is that of the last form."""
    return ast.Program(tuple(one.template if isinstance(one, HasTemplate) else as_node(one) for one in forms))
