"""What all kinds of task share: inputs, scope, context, output format, output slot."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from weft.evaluator.compiler import Compiler
from weft.evaluator.conversion import as_result, as_text, to_request_json
from weft.evaluator.effects import Composite, ContextPayload
from weft.evaluator.environment import Env
from weft.evaluator.errors import ProgramError
from weft.evaluator.functions import Code
from weft.evaluator.operators.context import TaskContext, current_context
from weft.evaluator.operators.steps import error_location, program_error_at, run_composite
from weft.evaluator.operators.text import FilledText, require_bound
from weft.evaluator.output_parsing import BadOutput, format_failure, parse_output
from weft.evaluator.results import ResourceExhaustion, TaskResult
from weft.evaluator.task_scope import (
    ArgumentsEnv,
    arguments_of,
    inherited_bindings,
    inner_env,
    passed_value,
    relevant_inputs,
)
from weft.evaluator.values import follow
from weft.language.ast import FunctionCall, Literal, Node, Reference, TaskNode, Text, Variable
from weft.language.check.rules import require_valid_task
from weft.language.diagnostics import invalid_program
from weft.language.fields import ContextKind, merge_context
from weft.language.schemas import BadSchema, CompiledSchema, parse_shape
from weft.language.source import Span
from weft.language.task_fields import IMPLICIT_INPUT
from weft.secrets.registry import redact


class Inputs:
    """The compiled inputs of a task."""

    def __init__(self, compiler: Compiler, node: TaskNode) -> None:
        self._compiler = compiler
        self._source = node.input_source
        self._span = node.span
        self._inputs = [
            (one, None if one.value is None else _compile_value(compiler, one.value)) for one in node.inputs
        ]

    def evaluate(self, env: Env) -> dict[str, Any]:
        """Return the values by name, in the order of the source."""
        if not self._inputs and self._source is None:
            return {}
        found: dict[str, Any] = {}
        open_inputs: list[tuple[str, Code | None, Node | None]] = []
        for one, code in self._inputs:
            is_passed, value = passed_value(env, one.name) if one.is_open else (False, None)
            found[one.name] = value
            if not is_passed:
                open_inputs.append((one.name, code, one.value))
        self._require_names(env, open_inputs)
        found.update(self._values(env, open_inputs))
        if self._source is not None and IMPLICIT_INPUT not in found:
            source = env[self._source]
            found[IMPLICIT_INPUT] = source.content if isinstance(source, TaskResult) else source
        return found

    def _require_names(self, env: Env, wanted: list[tuple[str, Code | None, Node | None]]) -> None:
        """Raise one error that lists all unbound names that inputs refer to."""
        names: dict[str, Span] = {}
        for name, code, node in wanted:
            if code is None:
                names[name] = self._span
            elif isinstance(node, Variable):
                names[node.name] = node.span
        if self._source is not None:
            names[self._source] = self._span
        require_bound(names, env, self._compiler.library)

    def _values(self, env: Env, wanted: list[tuple[str, Code | None, Node | None]]) -> dict[str, Any]:
        """Return the values; those that may wait are evaluated concurrently."""
        found: dict[str, Any] = {}
        waiting: list[tuple[str, Code]] = []
        for name, code, node in wanted:
            if code is None:
                found[name] = env[name]
            elif node is None or _is_immediate(node):
                found[name] = code(env)
            else:
                waiting.append((name, code))
        if len(waiting) == 1:
            found[waiting[0][0]] = waiting[0][1](env)
        elif waiting:
            with error_location(self._span):
                values = self._compiler.machine.each(len(waiting), lambda index: waiting[index][1](env))
            found.update(zip((name for name, _ in waiting), values, strict=True))
        return found


def _compile_value(compiler: Compiler, node: Node) -> Code:
    if isinstance(node, Text):
        return FilledText(compiler, node).fill
    return compiler.compile(node)


def _is_immediate(node: Node) -> bool:
    """Return whether the node can be evaluated without waiting."""
    if isinstance(node, Text):
        return not any(isinstance(part, FunctionCall) for part in node.parts)
    return isinstance(node, Literal | Variable)


TITLE_CHARACTERS = 60
"""Most characters of a description that are used as the title of a step."""

_NO_NAMES: frozenset[str] = frozenset()


class Entered(Struct, frozen=True):
    """A started task with evaluated inputs."""

    outer: Env
    """The environment around the task."""
    inner: Env
    """The environment for names inside the task."""
    inputs: dict[str, Any]
    """The arguments of the template, if the task is the body of one, then the inputs of the task itself."""
    own: dict[str, Any]
    """The inputs of the task itself."""
    template: str | None
    """The template whose body contains the task directly; None if there is no such template."""

    @property
    def name(self) -> str | None:
        """Return the name of the template, if the task is its whole body."""
        return self.template if isinstance(self.outer, ArgumentsEnv) and self.outer.is_step else None


class TaskCode:
    """The part of a compiled task that all kinds share."""

    def __init__(self, compiler: Compiler, node: TaskNode, kind: ContextKind) -> None:
        self.compiler = compiler
        self.node = node
        self.kind = kind
        require_valid_task(node)
        self.settings = merge_context(kind, node.context)
        schema = None if node.output_format is None else node.output_format.schema
        self.shape = None if schema is None else declared_shape(compiler, schema, node.span)
        self._inputs = Inputs(compiler, node)

    def enter(self, env: Env) -> Entered:
        """Evaluate the inputs in the environment around the task, and open its scope."""
        own = self._inputs.evaluate(env)
        inputs = {**arguments_of(env), **own}
        template = env.template if isinstance(env, ArgumentsEnv) else None
        inner = inner_env(env, self.settings, own, self.withheld(inputs, own))
        return Entered(env, inner, inputs, own, template)

    def withheld(self, inputs: Mapping[str, Any], own: Mapping[str, Any]) -> frozenset[str]:
        """Return the inputs that inner tasks do not inherit: the irrelevant ones, for a subset."""
        if self.settings.inherit_context != "subset":
            return _NO_NAMES
        return frozenset(inputs).difference(relevant_inputs(self.node, inputs))

    def leave(self, entered: Entered, result: TaskResult) -> TaskResult:
        """Return the finished result, and bind the output slot in the environment around the task."""
        if self.node.criteria is not None and result.criteria is None:
            result = msgspec.structs.replace(result, criteria=self.node.criteria)
        if self.node.output_slot is not None:
            entered.outer[self.node.output_slot] = result
        return result

    def payload(self, entered: Entered) -> ContextPayload:
        """Return the context of a request of this task."""
        history = current_context().history
        relevant = relevant_inputs(self.node, entered.inputs)
        return ContextPayload(
            settings=self.settings,
            inherited=inherited_bindings(self.settings, entered.outer, entered.inputs, relevant),
            previous_outputs=None if history is None else history.text(),
            wants_fresh=self.settings.fresh_context == "enabled",
            relevant_inputs=relevant,
            assembly=self.node.context_assembly,
        )

    def parsed(self, result: TaskResult) -> TaskResult:
        """Return the result with its content parsed by the output format. Raise BadOutput."""
        output = self.node.output_format
        if output is None or output.type != "json":
            return result
        return msgspec.structs.replace(result, parsed_content=parse_output(result.content, self.shape))

    def parse_or_fail(self, result: TaskResult) -> TaskResult:
        """Return the parsed result. Raise TaskFailed if the content does not match the output format."""
        try:
            return self.parsed(result)
        except BadOutput as problem:
            raise format_failure(problem, result.content, self.node.span) from None

    def compose(self, entered: Entered, body: Callable[[], TaskResult], **changes: Any) -> TaskResult:
        """Run a composite task; `changes` apply to the context inside it."""
        node = self.node
        request = Composite(
            kind=self.kind,
            name=entered.name or title_of(node, entered.inner),
            inputs=self.data(entered.inputs),
        )
        result = run_composite(
            self.compiler,
            request,
            node.span,
            body,
            context=self._inner_context(changes),
            timeout_seconds=node.timeout_seconds,
        )
        return self.leave(entered, self.parse_or_fail(result))

    def data(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: as_input(name, value, self.node.span) for name, value in inputs.items()}

    def _inner_context(self, changes: dict[str, Any]) -> TaskContext:
        if self.node.model is not None:
            changes |= {"model": self.node.model, "provider": self.node.provider}
        elif self.node.provider is not None:
            changes |= {"provider": self.node.provider}
        if self.node.max_depth is not None:
            changes |= {"max_depth": self.node.max_depth}
        return current_context().deeper(self.node.span, **{"history": None, **changes})


def as_input(name: str, value: Any, span: Span) -> Any:
    """Return a value as JSON. Raise a ProgramError that names the input if it cannot be converted."""
    try:
        return to_request_json(value)
    except ProgramError as error:
        if isinstance(error.error, ResourceExhaustion):
            raise error.at(span) from None
        raise program_error_at("wrong-type", f"'{name}': {error.error.message}", span, path=name) from None


def as_task_result(value: Any, span: Span) -> TaskResult:
    """Return the value of a part of a task as a result; failures get the location."""
    with error_location(span):
        return as_result(value)


def declared_shape(compiler: Compiler, text: str, span: Span) -> CompiledSchema:
    """Return the schema of a shape that the program declares. Raise InvalidProgram if it is invalid."""
    try:
        return parse_shape(text, lambda path: compiler.machine.effects.schema_text(path, span.source.name))
    except BadSchema as error:
        raise invalid_program(span, "bad-value", error.message) from None


def title_of(node: Node, env: Env) -> str:
    """Return a short title of a step for notes and records; placeholders are filled in."""
    if isinstance(node, FunctionCall):
        return node.func_name
    if isinstance(node, TaskNode):
        named = node.output_slot or (node.ref if isinstance(node, Reference) else None)
        prompt = node.description or node.instructions
        found = named or ("" if prompt is None else _short_prompt(prompt, node, env))
        if found:
            return found
    return type(node).__name__.lower()


def _short_prompt(prompt: Text, node: TaskNode, env: Env) -> str:
    own = {one.name: one.value for one in node.inputs if one.value is not None}
    parts = [part if isinstance(part, str) else _shown_part(part, own, env) for part in prompt.parts]
    words = redact(" ".join("".join(parts).split()))  # titles are sent to models and stored in notes
    return words[: TITLE_CHARACTERS - 3] + "..." if len(words) > TITLE_CHARACTERS else words


def _shown_part(part: Node, own: Mapping[str, Node], env: Env) -> str:
    """Return the text of a placeholder, or "..." if it is not known before the task runs."""
    part = own.get(part.name, part) if isinstance(part, Variable) and not part.path else part
    if isinstance(part, Literal):
        return as_text(part.value)
    if isinstance(part, Text) and all(isinstance(one, str) for one in part.parts):
        return part.raw
    try:
        found = follow(env[part.name], part.path, part.name) if isinstance(part, Variable) else None
        return "..." if found is None else as_text(found)
    except (NameError, ProgramError):
        return "..."
