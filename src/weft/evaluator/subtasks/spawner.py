"""Subtasks: what a model asks for while it works on a task, evaluated below that task."""

from typing import Any

import msgspec

from weft.evaluator.branches import current_branch
from weft.evaluator.budget import Scope
from weft.evaluator.compiler import Compiler
from weft.evaluator.conversion import as_data
from weft.evaluator.effects import Composite, ModelCall, Step
from weft.evaluator.errors import BudgetExceeded, TaskFailed, program_failure
from weft.evaluator.operators.context import inside, surroundings
from weft.evaluator.operators.steps import completed
from weft.evaluator.operators.task import Entered, as_task_result
from weft.evaluator.operators.templates import call_template, joined
from weft.evaluator.results import ResourceExhaustion, TaskError, TaskFailure, TaskResult, ValidationFailure
from weft.evaluator.subtasks.chain import Chain, Link, chain_scope, depth_limit, link
from weft.evaluator.subtasks.request import BadRequest, SubtaskRequest, read_request, tool_definition
from weft.evaluator.subtasks.template_choice import chosen_template, misfits
from weft.evaluator.task_scope import arguments_of
from weft.evaluator.tools import ToolDefinition
from weft.language.ast import Atomic
from weft.language.diagnostics import InvalidProgram
from weft.language.fields import merged_context, read_setting
from weft.language.library import TaskDefinition
from weft.language.source import Span
from weft.language.task_fields import ContextOverrides
from weft.language.traversal import SPAWN_TOOL


def spawner_of(
    compiler: Compiler, node: Atomic, entered: Entered, call: ModelCall, key: str
) -> "Spawner | None":
    """What spawns the subtasks of a request; None: its template does not list the tool."""
    return Spawner(compiler, node, entered, call, key) if SPAWN_TOOL in call.tools else None


class Spawner:
    """Spawns the subtasks of one step. Made where the step is asked for: it keeps what is around that."""

    def __init__(self, compiler: Compiler, node: Atomic, entered: Entered, call: ModelCall, key: str) -> None:
        self.compiler = compiler
        self.span: Span = node.span
        self.key = key
        self.around = surroundings()
        self.conversation = current_branch().conversation
        self.inner = entered.inner
        self._max_depth = node.max_depth if node.max_depth is not None else self.around.max_depth
        self._outer_scope = current_branch().scope
        self._scope: Scope | None = None
        self._links = self._links_here(call.template, entered)

    def definition(self) -> ToolDefinition:
        """What the model is told of the tool."""
        return tool_definition(self.compiler.library)

    def begin(self, request: dict[str, Any], number: int) -> "SpawnedSubtask":
        """The subtask that the request asks for; raises TaskFailed, which says all that is wrong with it."""
        chain = self.around.chain
        depth = 1 if chain is None else chain.depth + 1
        refusal = Refusal(request, depth)
        read = refusal.read()
        limits = self.compiler.machine.limits
        limit = depth_limit(
            chain, default=limits.subtask_depth, of_author=self._max_depth, of_request=read.max_depth
        )
        if depth > limit:
            message = f"subtasks are nested deeper than {limit} levels"
            metrics = {"used": float(depth), "limit": float(limit)}
            raise refusal.of(ResourceExhaustion("depth", message, metrics=metrics))
        definition = refusal.chosen(self.compiler, read)
        own = _link_of(definition, read.inputs)
        refusal.check_cycle(self._links, own)
        scope = self._chain_scope()
        try:
            scope.spend("subtasks", 1)
        except BudgetExceeded as error:
            raise refusal.stopped(error, scope) from None
        inner = Chain(depth, limit, (*self._links, own), scope)
        return SpawnedSubtask(self, f"{self.key}/s{number}", read, definition, inner, refusal)

    def owns(self, error: BudgetExceeded) -> bool:
        """Whether the budget is that of the chain which begins here: around this task it is a failure."""
        return self._scope is not None and error.scope is self._scope

    def _chain_scope(self) -> Scope:
        """The scope of the chain; the first subtask of a task that nobody spawned begins one."""
        if self.around.chain is not None:
            return self.around.chain.scope
        if self._scope is None:
            machine = self.compiler.machine
            self._scope = chain_scope(machine.limits, self._outer_scope, machine.now())
        return self._scope

    def _links_here(self, template: str | None, entered: Entered) -> tuple[Link, ...]:
        """The chain so far; a task that is a template called by a program is a link too."""
        before = () if self.around.chain is None else self.around.chain.links
        if template is None:
            return before
        own = link(template, {name: as_data(one) for name, one in arguments_of(entered.outer).items()})
        return before if own in before else (*before, own)


class SpawnedSubtask:
    """A subtask that may begin."""

    def __init__(
        self,
        spawner: Spawner,
        key: str,
        request: SubtaskRequest,
        definition: TaskDefinition,
        chain: Chain,
        refusal: "Refusal",
    ) -> None:
        self.key = key
        self.template = definition.name
        self.depth = chain.depth
        self._spawner = spawner
        self._request = request
        self._definition = definition
        self._chain = chain
        self._refusal = refusal

    async def run(self) -> TaskResult:
        """The completed result; evaluated as a step below the one that spawns it."""
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
                raise self._refusal.stopped(error, scope) from None
            raise self._refusal.of(error.error, self.template).caused_by(error) from None
        except TaskFailed as error:
            raise self._refusal.of(error.error, self.template).caused_by(error) from None
        except InvalidProgram as error:  # the template itself is wrong
            raise self._refusal.of(program_failure(error), self.template) from None

    def _evaluate(self) -> TaskResult:
        """Call the template; in a branch of its own."""
        spawner = self._spawner
        current_branch().conversation = spawner.conversation
        around = spawner.around.deeper(spawner.span, history=None, max_depth=None, chain=self._chain)
        inherits = self._request.context_management.inherit_context == "full"
        with inside(around):
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
        """The fields of the template's body that the request, or being a subtask, replaces."""
        request, body, span = self._request, self._definition.ast_node, self._spawner.span
        changes: dict[str, Any] = {}
        if request.file_paths:
            changes |= [read_setting("files", list(request.file_paths), span)]
        if request.history_config is not None:
            changes["history"] = request.history_config
        context = request.context_management
        if isinstance(body, Atomic):
            merged = merged_context("subtask", joined(body.context, context), span)
            changes["context"] = ContextOverrides(**msgspec.structs.asdict(merged))
        elif context != ContextOverrides():
            changes["context"] = context
        return changes


class Refusal:
    """Makes the errors of one request, in the structure of the specification."""

    def __init__(self, request: dict[str, Any], depth: int) -> None:
        self._request = request
        self._depth = depth

    def read(self) -> SubtaskRequest:
        """The request, if it is valid."""
        try:
            return read_request(self._request)
        except BadRequest as error:
            raise self._invalid("the request is not valid", error.problems) from None

    def chosen(self, compiler: Compiler, request: SubtaskRequest) -> TaskDefinition:
        """The template of the request, which takes its inputs."""
        try:
            definition = chosen_template(compiler.library, request)
        except TaskFailed as error:
            raise self.of(error.error) from None
        problems = misfits(definition, request.inputs)
        if problems:
            raise self._invalid("the inputs do not fit", problems)
        return definition

    def check_cycle(self, links: tuple[Link, ...], own: Link) -> None:
        """Raise when the same work is under way further up in the chain: it would never end."""
        if own not in links:
            return
        names = [one.template for one in links[links.index(own) :]]
        way = " -> ".join((*names, own.template))
        message = f"'{own.template}' is at work on the same inputs already: {way}"
        raise self.of(TaskFailure("execution_halted", message, details={"cycle": [*names, own.template]}))

    def of(self, error: TaskError, template: str | None = None, **details: Any) -> TaskFailed:
        """The failure of a subtask by an error."""
        what = "the subtask was not run" if template is None else f"the subtask '{template}' failed"
        return TaskFailed(self._failure(error, what, **details))

    def stopped(self, error: BudgetExceeded, scope: Scope) -> BudgetExceeded:
        """The error for a budget that is used up: of the chain as the failure of a subtask, once.

        One that was set further out stays what it is: whoever set it must see it.
        """
        if error.scope is not scope or _is_told(error.error):
            return error
        told = BudgetExceeded(
            self._failure(error.error, "the chain of subtasks was stopped"), code=error.problem.code
        )
        told.scope = scope
        return told.caused_by(error)

    def _invalid(self, what: str, problems: list[str]) -> TaskFailed:
        return self.of(ValidationFailure(f"{what}: {'; '.join(problems)}"), violations=problems)

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


def _is_told(error: TaskError) -> bool:
    return isinstance(error, TaskFailure) and "subtaskRequest" in (error.details or {})


def _link_of(definition: TaskDefinition, inputs: dict[str, Any]) -> Link:
    defaults = {one.name: one.default for one in definition.parameters if not one.is_required}
    return link(definition.name, {**defaults, **inputs})
