"""Calls of templates and tools by name."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from weft.evaluator.compiler import Compiler
from weft.evaluator.context import ArgumentsEnv
from weft.evaluator.effects import Composite, ToolCall
from weft.evaluator.env import Env
from weft.evaluator.errors import ProgramError, TaskFailed
from weft.evaluator.functions import Code
from weft.evaluator.operators.overrides import replaced, settings_of_call
from weft.evaluator.operators.steps import ask, failed, mistake, run_composite, unfit
from weft.evaluator.operators.surroundings import inside, surroundings
from weft.evaluator.operators.task import as_input, as_task_result
from weft.evaluator.outputs import BadOutput, parse_output
from weft.evaluator.results import InvalidOutput, TaskResult, ValueResult
from weft.language.call_settings import CALL_SETTINGS
from weft.language.library import TaskDefinition, open_inputs
from weft.language.output_schemas import BadSchema, Shape, shape_of
from weft.language.problems import refuse
from weft.language.spans import NOWHERE, Span
from weft.language.suggestions import nearest, nearest_tool
from weft.language.tree import (
    Atomic,
    DirectorEvaluatorLoop,
    Node,
    Reduce,
    Script,
    Sequential,
)

STEPS = (Atomic, Script, Sequential, Reduce, DirectorEvaluatorLoop)
"""Bodies that are a step of their own: a call of such a template is that step, under the template's name."""


def call_template(
    compiler: Compiler,
    definition: TaskDefinition,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    span: Span,
    changes: Mapping[str, Any] | None = None,
    outer: Env | None = None,
) -> Any:
    """The result of a template; `changes` are fields of its body that a reference replaces.

    `outer` is around its arguments instead of the global environment: for a subtask that inherits.
    """
    compiler.machine.meter.count(1)
    bindings, settings = _bound(compiler, definition, arguments, keywords, span)
    env = ArgumentsEnv(bindings, compiler.global_env if outer is None else outer, definition.name)
    code = _body(compiler, definition, {**settings_of_call(settings, span), **(changes or {})}, span)
    is_step = isinstance(definition.ast_node, STEPS)
    with inside(surroundings().deeper(span, called_at=span if is_step else NOWHERE)):
        value = _run(compiler, definition, code, env, span)
    return _returned(compiler, definition, value, span)


def call_tool(
    compiler: Compiler, name: str, arguments: Sequence[Any], keywords: Mapping[str, Any], span: Span
) -> Any:
    """What a tool returns."""
    effects = compiler.machine.effects
    known = effects.tools()
    if known is not None and name not in known:
        raise _refused(f"there is no tool '{name}'{nearest_tool(name, sorted(known))}", "unbound-name", span)
    given = {key: as_input(key, value, span) for key, value in keywords.items()}
    positional = tuple(as_input(str(index), value, span) for index, value in enumerate(arguments, 1))
    return ask(compiler, ToolCall(tool=name, arguments=given, positional=positional), span, effects.call_tool)


def _run(compiler: Compiler, definition: TaskDefinition, code: Code, env: Env, span: Span) -> Any:
    """The value of the body; a body that is no step by itself becomes one."""
    if isinstance(definition.ast_node, STEPS):
        return code(env)
    inputs = {name: as_input(name, value, span) for name, value in env.items()}

    def body() -> TaskResult:
        value = code(env)
        result = as_task_result(value, span)
        return (
            result
            if isinstance(value, TaskResult)
            else ValueResult(result.content, result.status, parsed_content=result.parsed_content)
        )

    request = Composite(kind="call", name=definition.name, inputs=inputs)
    result = run_composite(compiler, request, span, body, around=surroundings())
    return result.value if isinstance(result, ValueResult) else result


def _body(compiler: Compiler, definition: TaskDefinition, changes: Mapping[str, Any], span: Span) -> Code:
    """The compiled body; one with other settings is compiled for this call alone."""
    if changes:
        return _compiled(compiler, definition, replaced(definition.ast_node, changes, span))
    known = compiler.bodies.get(definition.name)
    if known is None or known[0] is not definition:
        known = (definition, _compiled(compiler, definition, definition.ast_node))
        compiler.bodies[definition.name] = known
    return known[1]


def _compiled(compiler: Compiler, definition: TaskDefinition, body: Node) -> Code:
    with compiler.hiding(parameter.name for parameter in definition.parameters):
        return compiler.compile(body)


def _bound(
    compiler: Compiler,
    definition: TaskDefinition,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    span: Span,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments by name, and the settings among the keywords; raises ProgramError when they do not fit."""
    parameters = definition.parameters
    if len(arguments) > len(parameters):
        raise _refused(
            f"{definition.name} takes {len(parameters)} arguments; {len(arguments)} were given",
            "wrong-arity",
            span,
        )
    values = {parameter.name: value for parameter, value in zip(parameters, arguments, strict=False)}
    if not keywords:
        return _completed(compiler, definition, values, span), {}
    settings: dict[str, Any] = {}
    accepted = [*(parameter.name for parameter in parameters), *open_inputs(definition)]
    for name, value in keywords.items():
        if name in values:
            raise _refused(f"{definition.name} was given '{name}' twice", "duplicate-name", span)
        if name in accepted:
            values[name] = value
        elif name in CALL_SETTINGS:
            settings[name] = value
        else:
            hint = nearest(name, [*accepted, *CALL_SETTINGS])
            raise _refused(f"{definition.name} has no parameter '{name}'{hint}", "unknown-keyword", span)
    return _completed(compiler, definition, values, span), settings


def _completed(
    compiler: Compiler, definition: TaskDefinition, values: dict[str, Any], span: Span
) -> dict[str, Any]:
    """The arguments with defaults for those left out, each of its type."""
    missing = [one.name for one in definition.parameters if one.name not in values and one.default is UNSET]
    if missing:
        wanted = ", ".join(f"'{name}'" for name in missing)
        raise _refused(f"{definition.name} needs a value for {wanted}", "wrong-arity", span)
    for parameter in definition.parameters:
        value = values.setdefault(parameter.name, parameter.default)
        if parameter.type is None:
            continue
        shape = _shape(compiler, parameter.type, definition)
        found = shape.violations(as_input(parameter.name, value, span))
        if found:
            message = f"'{parameter.name}' of {definition.name} must be {parameter.type}: {found[0]}"
            raise mistake("wrong-type", message, span, path=parameter.name)
    return values


def _returned(compiler: Compiler, definition: TaskDefinition, value: Any, span: Span) -> Any:
    """The result of a call, which is what the template says it returns."""
    returns = definition.template.returns
    if returns is None:
        return value
    shape = _shape(compiler, returns, definition)
    if isinstance(value, TaskResult) and value.parsed_content is UNSET and returns != "string":
        try:
            return msgspec.structs.replace(value, parsed_content=parse_output(value.content, shape))
        except BadOutput as problem:
            raise unfit(compiler.machine, _invalid(definition, value.content, [str(problem)], span)) from None
    found = shape.violations(as_input("result", value, span))
    if found:
        content = value.content if isinstance(value, TaskResult) else None
        raise unfit(compiler.machine, _invalid(definition, content, [str(one) for one in found], span))
    return value


def _invalid(
    definition: TaskDefinition, content: str | None, violations: list[str], span: Span
) -> TaskFailed:
    message = f"{definition.name} must return {definition.template.returns}: {violations[0]}"
    return failed(InvalidOutput(message, content=content, violations=violations), span)


def _shape(compiler: Compiler, text: str, definition: TaskDefinition) -> Shape:
    place = definition.template.span
    try:
        return shape_of(text, lambda path: compiler.machine.effects.schema_text(path, place.source.name))
    except BadSchema as error:
        raise refuse(place, "bad-value", error.message) from None


def _refused(message: str, code: str, span: Span) -> ProgramError:
    return mistake(code, message, span)
