"""Templates: definitions, calls by name, references, and settings that a call overrides."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from weft.evaluator.compiler import Compiler
from weft.evaluator.effects import Composite, ToolCall
from weft.evaluator.environment import Env
from weft.evaluator.errors import ProgramError, TaskFailed
from weft.evaluator.forms.bindings import check_definable, check_distinct
from weft.evaluator.functions import Code
from weft.evaluator.operators.context import inside, surroundings
from weft.evaluator.operators.steps import ask, failed, mistake, run_composite, unfit
from weft.evaluator.operators.task import Inputs, as_input, as_task_result
from weft.evaluator.output_parsing import BadOutput, parse_output
from weft.evaluator.results import InvalidOutput, TaskFailure, TaskResult, ValueResult
from weft.evaluator.task_scope import ArgumentsEnv
from weft.language.ast import (
    Atomic,
    DirectorEvaluatorLoop,
    Node,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskNode,
    Template,
)
from weft.language.diagnostics import nearest, nearest_tool, refuse
from weft.language.fields import CALL_SETTINGS, BadSetting, context_conflict, misplaced, read_setting
from weft.language.library import DuplicateTask, TaskDefinition, UnknownTask, definition_of, open_inputs
from weft.language.schemas import BadSchema, Shape, shape_of
from weft.language.source import NOWHERE, Span
from weft.language.task_fields import IMPLICIT_INPUT, ContextOverrides


def template(compiler: Compiler, node: Template, is_tail: bool) -> Code:
    """Compile a definition; its value is nil."""
    check_definable(node.name, node.span)
    check_distinct(tuple(parameter.name for parameter in node.parameters), node.span)

    def run(env: Env) -> None:
        known = compiler.library.tasks.get(node.name)
        if known is not None and known.template is node:
            return
        try:
            compiler.library.register_task(definition_of(node))
        except DuplicateTask as error:
            raise refuse(node.span, "duplicate-name", error.message) from None

    return run


_NOT_REPLACED = frozenset({"span", "inputs", "output_slot", "input_source", "ref"})
"""Fields that a reference has for itself."""


def settings_of_call(keywords: Mapping[str, Any], span: Span) -> dict[str, Any]:
    """The fields of a task that the keywords of a call replace; raises ProgramError for bad values."""
    try:
        return dict(read_setting(name, value, span) for name, value in keywords.items())
    except BadSetting as error:
        raise _refused(error.message, error.code, span) from None


def settings_of_reference(node: Reference) -> dict[str, Any]:
    """The fields that are written on a reference."""
    plain = Reference(ref=node.ref)
    names = [field.name for field in msgspec.structs.fields(TaskNode) if field.name not in _NOT_REPLACED]
    return {name: getattr(node, name) for name in names if getattr(node, name) != getattr(plain, name)}


def replaced(body: Node, changes: Mapping[str, Any], span: Span) -> Node:
    """The body of a template with other settings; raises ProgramError when it is no task."""
    if not changes:
        return body
    if not isinstance(body, TaskNode):
        raise _refused(
            "settings were given, but the body of the template is no single task", "bad-value", span
        )
    misfit = misplaced(body, changes)
    if misfit is not None:
        raise _refused(misfit, "bad-value", span)
    changes = dict(changes)
    if "context" in changes:
        changes["context"] = joined(body.context, changes["context"])
        problem = context_conflict(changes["context"], span)
        if problem is not None:
            raise _refused(problem.message, problem.code, span)
    return msgspec.structs.replace(body, **changes)


def joined(own: ContextOverrides, new: ContextOverrides) -> ContextOverrides:
    """Settings one by one: the new ones win, and an old one that would exclude a new one is dropped."""
    merged = {
        name: getattr(own, name) if getattr(new, name) is None else getattr(new, name)
        for name in ContextOverrides.__struct_fields__
    }
    if new.fresh_context == "enabled" and new.inherit_context is None:
        merged["inherit_context"] = None
    if new.inherit_context in ("full", "subset") and new.fresh_context is None:
        merged["fresh_context"] = None
    return ContextOverrides(**merged)


def _refused(message: str, code: str, span: Span) -> ProgramError:
    return mistake(code, message, span)


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


def reference(compiler: Compiler, node: Reference, is_tail: bool) -> Code:
    """Compile a reference. The template is looked up when it is called: it may be registered later."""
    inputs = Inputs(compiler, node)
    changes = settings_of_reference(node)
    explicit = {one.name for one in node.inputs}

    def run(env: Env) -> TaskResult:
        try:
            definition = compiler.library.get_task(node.ref)
        except UnknownTask as error:
            raise failed(TaskFailure("template_not_found", error.message), node.span) from None
        given = inputs.evaluate(env)
        if IMPLICIT_INPUT not in explicit and IMPLICIT_INPUT not in definition.metadata["parameters"]:
            given.pop(IMPLICIT_INPUT, None)
        value = call_template(compiler, definition, (), given, node.span, changes)
        result = as_task_result(value, node.span)
        if node.output_slot is not None:
            env[node.output_slot] = result
        return result

    return run
