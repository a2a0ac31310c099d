"""Spawns the subtasks that a model requests and evaluates them below its task."""

from typing import Any

import msgspec

from weft.evaluator.branches import current_branch
from weft.evaluator.budget import Scope
from weft.evaluator.compiler import Compiler
from weft.evaluator.conversion import to_request_json
from weft.evaluator.effects import Composite, Step
from weft.evaluator.errors import BudgetExceeded, TaskFailed, program_failure
from weft.evaluator.operators.context import current_context, use_context
from weft.evaluator.operators.steps import completed
from weft.evaluator.operators.task import Entered, as_task_result
from weft.evaluator.operators.templates import call_template, merge_overrides
from weft.evaluator.results import ResourceExhaustion, TaskError, TaskFailure, TaskResult, ValidationFailure
from weft.evaluator.subtasks.chain import Chain, Link, chain_scope, depth_limit, make_link
from weft.evaluator.subtasks.request import BadRequest, SubtaskRequest, read_request, tool_definition
from weft.evaluator.subtasks.template_choice import choose_template, input_problems
from weft.evaluator.task_scope import arguments_of
from weft.evaluator.tools import ToolDefinition
from weft.language.ast import Atomic
from weft.language.diagnostics import InvalidProgram
from weft.language.fields import merge_context
from weft.language.library import TaskDefinition
from weft.language.options import read_setting
from weft.language.source import Span
from weft.language.task_fields import ContextOverrides


class Spawner:
    """Spawns the subtasks of one step. Created with the step, to capture the context of its task."""

    def __init__(self, compiler: Compiler, node: Atomic, entered: Entered, key: str) -> None:
        self.compiler = compiler
        self.span: Span = node.span
        self.key = key
        self.context = current_context()
        self.conversation = current_branch().conversation
        self.inner = entered.inner
        self._max_depth = node.max_depth if node.max_depth is not None else self.context.max_depth
        self._outer_scope = current_branch().scope
        self._scope: Scope | None = None
        self._links = self._links_here(entered)

    def definition(self) -> ToolDefinition:
        return tool_definition(self.compiler.library)

    def begin(self, request: dict[str, Any], number: int) -> "SpawnedSubtask":
        """Return the requested subtask. Raise TaskFailed, which lists everything that is wrong."""
        chain = self.context.chain
        depth = 1 if chain is None else chain.depth + 1
        errors = SubtaskErrors(request, depth)
        read = errors.parse_request()
        limits = self.compiler.machine.limits
        limit = depth_limit(
            chain, default=limits.subtask_depth, of_author=self._max_depth, of_request=read.max_depth
        )
        if depth > limit:
            message = f"subtasks are nested deeper than {limit} levels"
            metrics = {"used": float(depth), "limit": float(limit)}
            raise errors.failure(ResourceExhaustion("depth", message, metrics=metrics))
        definition = errors.choose_template(self.compiler, read)
        defaults = {one.name: one.default for one in definition.parameters if not one.is_required}
        own = make_link(definition.name, {**defaults, **read.inputs})
        errors.check_cycle(self._links, own)
        scope = self._chain_scope()
        try:
            scope.spend("subtasks", 1)
        except BudgetExceeded as error:
            raise errors.budget_failure(error, scope) from None
        inner = Chain(depth, limit, (*self._links, own), scope)
        return SpawnedSubtask(self, f"{self.key}/s{number}", read, definition, inner, errors)

    def owns(self, error: BudgetExceeded) -> bool:
        """Return whether the budget belongs to the chain that starts at this task, which then fails."""
        return self._scope is not None and error.scope is self._scope

    def _chain_scope(self) -> Scope:
        """Return the scope of the chain; the first subtask of a root task creates it."""
        if self.context.chain is not None:
            return self.context.chain.scope
        if self._scope is None:
            machine = self.compiler.machine
            self._scope = chain_scope(machine.limits, self._outer_scope, machine.now())
        return self._scope

    def _links_here(self, entered: Entered) -> tuple[Link, ...]:
        """Return the links of the chain so far, the template of this task included."""
        before = () if self.context.chain is None else self.context.chain.links
        if entered.template is None:
            return before
        arguments = arguments_of(entered.outer)
        own = make_link(entered.template, {name: to_request_json(one) for name, one in arguments.items()})
        return before if own in before else (*before, own)


class SpawnedSubtask:
    """A subtask that may start."""

    def __init__(
        self,
        spawner: Spawner,
        key: str,
        request: SubtaskRequest,
        definition: TaskDefinition,
        chain: Chain,
        errors: "SubtaskErrors",
    ) -> None:
        self.key = key
        self.template = definition.name
        self.depth = chain.depth
        self._spawner = spawner
        self._request = request
        self._definition = definition
        self._chain = chain
        self._errors = errors

    async def run(self) -> TaskResult:
        """Evaluate the subtask as a step below the spawning one and return its completed result."""
        spawner, scope = self._spawner, self._chain.scope
        machine = spawner.compiler.machine
        settings: dict[str, Any] = msgspec.to_builtins(self._request)
        inputs = settings.pop("inputs")
        request = Composite(kind="subtask", name=self.template, inputs=inputs, settings=settings)

        async def body() -> TaskResult:
            return await machine.run(self._evaluate, prefix=f"{self.key}/", scope=scope)

        try:
            result = await machine.effects.around(Step(self.key, request, spawner.span), body)
            return completed(result, spawner.span)
        except BudgetExceeded as error:
            if error.scope in scope.chain():
                raise self._errors.budget_failure(error, scope) from None
            raise self._errors.failure(error.error, self.template).caused_by(error) from None
        except TaskFailed as error:
            raise self._errors.failure(error.error, self.template).caused_by(error) from None
        except InvalidProgram as error:  # the template itself is invalid
            raise self._errors.failure(program_failure(error), self.template) from None

    def _evaluate(self) -> TaskResult:
        """Call the template; runs in a branch of its own."""
        spawner = self._spawner
        current_branch().conversation = spawner.conversation
        context = spawner.context.deeper(spawner.span, history=None, max_depth=None, chain=self._chain)
        inherits = self._request.context_management.inherit_context == "full"
        with use_context(context):
            value = call_template(
                spawner.compiler,
                self._definition,
                (),
                self._request.inputs,
                spawner.span,
                self._changes(),
                spawner.inner if inherits else None,
            )
            return as_task_result(value, spawner.span)

    def _changes(self) -> dict[str, Any]:
        """Return the fields of the template's body that the request replaces."""
        request, body, span = self._request, self._definition.ast_node, self._spawner.span
        changes: dict[str, Any] = {}
        if request.file_paths:
            changes |= [read_setting("files", list(request.file_paths), span)]
        if request.history_config is not None:
            changes["history"] = request.history_config
        context = request.context_management
        if isinstance(body, Atomic):
            merged = merge_context("subtask", merge_overrides(body.context, context))
            changes["context"] = ContextOverrides(**msgspec.structs.asdict(merged))
        elif context != ContextOverrides():
            changes["context"] = context
        return changes


class SubtaskErrors:
    """Creates the errors of one request, in the structure of the specification."""

    def __init__(self, request: dict[str, Any], depth: int) -> None:
        self._request = request
        self._depth = depth

    def parse_request(self) -> SubtaskRequest:
        """Parse the request. Raise TaskFailed if it is invalid."""
        try:
            return read_request(self._request)
        except BadRequest as error:
            raise self._invalid("the request is not valid", error.problems) from None

    def choose_template(self, compiler: Compiler, request: SubtaskRequest) -> TaskDefinition:
        """Return the template of the request. Raise TaskFailed if none matches or the inputs are wrong."""
        try:
            definition = choose_template(compiler.library, request)
        except TaskFailed as error:
            raise self.failure(error.error) from None
        problems = input_problems(definition, request.inputs)
        if problems:
            raise self._invalid("the inputs do not match the template", problems)
        return definition

    def check_cycle(self, links: tuple[Link, ...], own: Link) -> None:
        """Raise TaskFailed if the chain already has this template with these inputs: it would never end."""
        if own not in links:
            return
        names = [one.template for one in links[links.index(own) :]]
        path = " -> ".join((*names, own.template))
        message = f"'{own.template}' is already running with the same inputs: {path}"
        raise self.failure(
            TaskFailure("execution_halted", message, details={"cycle": [*names, own.template]})
        )

    def failure(self, error: TaskError, template: str | None = None, **details: Any) -> TaskFailed:
        """Return the failure that an error causes; without `template`, the subtask was not run."""
        what = "the subtask was not run" if template is None else f"the subtask '{template}' failed"
        return TaskFailed(self._failure(error, what, **details))

    def budget_failure(self, error: BudgetExceeded, scope: Scope) -> BudgetExceeded:
        """Return the error for a used-up budget; a budget of the chain is wrapped once as a subtask failure.

        The error for an enclosing scope is returned unchanged, so that the scope recognizes it.
        """
        is_wrapped = "subtaskRequest" in (getattr(error.error, "details", None) or {})
        if error.scope is not scope or is_wrapped:
            return error
        wrapped = BudgetExceeded(
            self._failure(error.error, "the chain of subtasks was stopped"), code=error.problem.code
        )
        wrapped.scope = scope
        return wrapped.caused_by(error)

    def _invalid(self, what: str, problems: list[str]) -> TaskFailed:
        return self.failure(ValidationFailure(f"{what}: {'; '.join(problems)}"), violations=problems)

    def _failure(self, error: TaskError, what: str, **details: Any) -> TaskFailure:
        facts: dict[str, Any] = {
            "subtaskRequest": self._request,
            "subtaskError": msgspec.to_builtins(error),
            "nestingDepth": self._depth,
            **details,
        }
        if error.content:
            facts["partialOutput"] = error.content
        return TaskFailure(
            "subtask_failure", f"{what}: {error.message}", content=error.content, details=facts
        )
