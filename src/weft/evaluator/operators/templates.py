"""Templates: definitions, calls by name, references, and settings that a call overrides."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from weft.evaluator.compiler import Compiler
from weft.evaluator.effects import Composite, ToolCall
from weft.evaluator.environment import Env
from weft.evaluator.errors import TaskFailed
from weft.evaluator.forms.bindings import check_definable, check_distinct
from weft.evaluator.functions import Code
from weft.evaluator.operators.context import current_context, use_context
from weft.evaluator.operators.steps import failed, perform, program_error_at, reject_output, run_composite
from weft.evaluator.operators.task import Inputs, as_input, as_task_result, declared_shape
from weft.evaluator.output_parsing import BadOutput, parse_output
from weft.evaluator.results import InvalidOutput, TaskFailure, TaskResult, ValueResult
from weft.evaluator.task_scope import ArgumentsEnv
from weft.language.ast import Node, Reference, TaskNode, Template
from weft.language.diagnostics import InvalidProgram, invalid_program, nearest, nearest_tool
from weft.language.fields import CALL_SETTINGS, TASK_KINDS, context_conflict, misplaced, replaced_fields
from weft.language.library import DuplicateTask, TaskDefinition, UnknownTask, definition_of, open_inputs
from weft.language.options import read_setting
from weft.language.source import NOWHERE, Span
from weft.language.task_fields import IMPLICIT_INPUT, ContextOverrides


def compile_template(compiler: Compiler, node: Template, is_tail: bool) -> Code:
    """Compile the definition of a template; its value is nil."""
    check_definable(node.name, node.span)
    check_distinct(tuple(parameter.name for parameter in node.parameters), node.span)

    def run(env: Env) -> None:
        known = compiler.library.tasks.get(node.name)
        if known is not None and known.template is node:
            return
        try:
            compiler.library.register_task(definition_of(node))
        except DuplicateTask as error:
            raise invalid_program(node.span, "duplicate-name", error.message) from None

    return run


def settings_of_call(keywords: Mapping[str, Any], span: Span) -> dict[str, Any]:
    """Return the task fields that the keywords of a call replace. Raise ProgramError for bad values."""
    try:
        return dict(read_setting(name, value, span) for name, value in keywords.items())
    except InvalidProgram as error:
        raise program_error_at(error.found[0].code, error.found[0].message, span) from None


def replace_settings(body: Node, changes: Mapping[str, Any], span: Span) -> Node:
    """Return the body of a template with changed settings. Raise ProgramError if it cannot have them."""
    if not changes:
        return body
    if not isinstance(body, TaskNode):
        message = "settings were given, but the body of the template is not a single task"
        raise program_error_at("bad-value", message, span)
    problem = misplaced(body, changes)
    if problem is not None:
        raise program_error_at("bad-value", problem, span)
    changes = dict(changes)
    if "context" in changes:
        changes["context"] = merge_overrides(body.context, changes["context"])
        conflict = context_conflict(changes["context"], span)
        if conflict is not None:
            raise program_error_at(conflict.code, conflict.message, span)
    return msgspec.structs.replace(body, **changes)


def merge_overrides(own: ContextOverrides, new: ContextOverrides) -> ContextOverrides:
    """Merge settings; new ones take precedence, and old ones that exclude a new one are dropped."""
    merged = {
        name: getattr(own, name) if getattr(new, name) is None else getattr(new, name)
        for name in ContextOverrides.__struct_fields__
    }
    if new.fresh_context == "enabled" and new.inherit_context is None:
        merged["inherit_context"] = None
    if new.inherit_context in ("full", "subset") and new.fresh_context is None:
        merged["fresh_context"] = None
    return ContextOverrides(**merged)


STEP_NODES = tuple(TASK_KINDS)
"""Bodies that are a step themselves; a call of such a template is that step, with the template's name."""


def call_template(
    compiler: Compiler,
    definition: TaskDefinition,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    span: Span,
    changes: Mapping[str, Any] | None = None,
    outer: Env | None = None,
) -> Any:
    """Call a template and return its result; `changes` are fields of its body that a reference replaces.

    `outer` replaces the global environment around the arguments, for a subtask that inherits bindings.
    """
    compiler.machine.meter.count(1)
    bindings, settings = _bind_arguments(compiler, definition, arguments, keywords, span)
    is_step = isinstance(definition.ast_node, STEP_NODES)
    around = compiler.global_env if outer is None else outer
    env = ArgumentsEnv(bindings, around, definition.name, is_step=is_step)
    code = _compile_body(compiler, definition, {**settings_of_call(settings, span), **(changes or {})}, span)
    with use_context(current_context().deeper(span, called_at=span if is_step else NOWHERE)):
        value = _run_body(compiler, definition, code, env, span)
    return _check_return(compiler, definition, value, span)


def call_tool(
    compiler: Compiler, name: str, arguments: Sequence[Any], keywords: Mapping[str, Any], span: Span
) -> Any:
    effects = compiler.machine.effects
    known = effects.tools()
    if known is not None and name not in known:
        message = f"there is no tool '{name}'{nearest_tool(name, sorted(known))}"
        raise program_error_at("unbound-name", message, span)
    given = {key: as_input(key, value, span) for key, value in keywords.items()}
    positional = tuple(as_input(str(index), value, span) for index, value in enumerate(arguments, 1))
    call = ToolCall(tool=name, arguments=given, positional=positional)
    return perform(compiler, call, span, effects.call_tool)


def _run_body(compiler: Compiler, definition: TaskDefinition, code: Code, env: Env, span: Span) -> Any:
    """Return the value of the body; a body that is not a step itself becomes a composite."""
    if isinstance(definition.ast_node, STEP_NODES):
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
    result = run_composite(compiler, request, span, body, context=current_context())
    return result.value if isinstance(result, ValueResult) else result


def _compile_body(
    compiler: Compiler, definition: TaskDefinition, changes: Mapping[str, Any], span: Span
) -> Code:
    """Return the compiled body; a body with `changes` is compiled for this call only."""
    if changes:
        return _compile(compiler, definition, replace_settings(definition.ast_node, changes, span))
    known = compiler.bodies.get(definition.name)
    if known is None or known[0] is not definition:
        known = (definition, _compile(compiler, definition, definition.ast_node))
        compiler.bodies[definition.name] = known
    return known[1]


def _compile(compiler: Compiler, definition: TaskDefinition, body: Node) -> Code:
    with compiler.hiding(parameter.name for parameter in definition.parameters):
        return compiler.compile(body)


def _bind_arguments(
    compiler: Compiler,
    definition: TaskDefinition,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    span: Span,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arguments by name, and the settings among the keywords. Raise ProgramError."""
    parameters = definition.parameters
    if len(arguments) > len(parameters):
        message = f"{definition.name} takes {len(parameters)} arguments; {len(arguments)} were given"
        raise program_error_at("wrong-arity", message, span)
    values = {parameter.name: value for parameter, value in zip(parameters, arguments, strict=False)}
    if not keywords:
        return _fill_defaults(compiler, definition, values, span), {}
    settings: dict[str, Any] = {}
    accepted = [*(parameter.name for parameter in parameters), *open_inputs(definition.template)]
    for name, value in keywords.items():
        if name in values:
            raise program_error_at("duplicate-name", f"{definition.name} was given '{name}' twice", span)
        if name in accepted:
            values[name] = value
        elif name in CALL_SETTINGS:
            settings[name] = value
        else:
            hint = nearest(name, [*accepted, *CALL_SETTINGS])
            message = f"{definition.name} has no parameter '{name}'{hint}"
            raise program_error_at("unknown-keyword", message, span)
    return _fill_defaults(compiler, definition, values, span), settings


def _fill_defaults(
    compiler: Compiler, definition: TaskDefinition, values: dict[str, Any], span: Span
) -> dict[str, Any]:
    """Return the arguments with defaults. Raise ProgramError if an argument is missing or of a wrong type."""
    missing = [one.name for one in definition.parameters if one.name not in values and one.default is UNSET]
    if missing:
        wanted = ", ".join(f"'{name}'" for name in missing)
        raise program_error_at("wrong-arity", f"{definition.name} needs a value for {wanted}", span)
    for parameter in definition.parameters:
        value = values.setdefault(parameter.name, parameter.default)
        if parameter.type is None:
            continue
        shape = declared_shape(compiler, parameter.type, definition.template.span)
        found = shape.violations(as_input(parameter.name, value, span))
        if found:
            message = f"'{parameter.name}' of {definition.name} must be {parameter.type}: {found[0]}"
            raise program_error_at("wrong-type", message, span, path=parameter.name)
    return values


def _check_return(compiler: Compiler, definition: TaskDefinition, value: Any, span: Span) -> Any:
    """Return the result of a call, parsed if it is text. Raise TaskFailed if it violates the return type."""
    returns = definition.template.returns
    if returns is None:
        return value
    shape = declared_shape(compiler, returns, definition.template.span)
    if isinstance(value, TaskResult) and value.parsed_content is UNSET and returns != "string":
        try:
            return msgspec.structs.replace(value, parsed_content=parse_output(value.content, shape))
        except BadOutput as problem:
            raise _invalid_output(compiler, definition, value.content, [str(problem)], span) from None
    found = shape.violations(as_input("result", value, span))
    if found:
        content = value.content if isinstance(value, TaskResult) else None
        raise _invalid_output(compiler, definition, content, [str(one) for one in found], span)
    return value


def _invalid_output(
    compiler: Compiler, definition: TaskDefinition, content: str | None, violations: list[str], span: Span
) -> TaskFailed:
    message = f"{definition.name} must return {definition.template.returns}: {violations[0]}"
    failure = failed(InvalidOutput(message, content=content, violations=violations), span)
    return reject_output(compiler.machine, failure)


def compile_reference(compiler: Compiler, node: Reference, is_tail: bool) -> Code:
    """Compile a reference. The template is looked up at each call, because it may be registered later."""
    inputs = Inputs(compiler, node)
    changes = replaced_fields(node)
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
