"""The atomic task: a request to a model, repeated once if the response does not match the output format."""

import msgspec
from msgspec import UNSET

from weft.evaluator.branches import current_branch
from weft.evaluator.compiler import Compiler
from weft.evaluator.conversion import result_json_for_model
from weft.evaluator.effects import Continuation, Files, ModelCall, Repair, Step
from weft.evaluator.environment import Env
from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.operators.context import current_context, record_turn, visible_turns
from weft.evaluator.operators.director_loop import with_evaluation
from weft.evaluator.operators.steps import completed, error_location, failed, reject_output, run_with_timeout
from weft.evaluator.operators.task import Entered, TaskCode
from weft.evaluator.operators.text import compile_texts, fill_all
from weft.evaluator.output_parsing import BadOutput, format_failure
from weft.evaluator.replay_log import LimitReached
from weft.evaluator.results import TaskFailure, TaskResult
from weft.evaluator.subtasks.spawner import Spawner
from weft.evaluator.task_scope import mentioned_bindings
from weft.evaluator.tools import USER_INPUT_TOOL
from weft.language.ast import Atomic
from weft.language.library import EVALUATOR
from weft.language.task_fields import AIDER_SUBTYPES
from weft.language.traversal import SPAWN_TOOL

MAX_CONTINUATIONS = 20
"""Most responses of one task with status CONTINUATION; the same number as the default of `max_turns`."""

WAITING_TOOLS = frozenset({USER_INPUT_TOOL, SPAWN_TOOL})
"""Tools with which a session may have to wait for a person."""


class AtomicTask(TaskCode):
    """A compiled atomic task."""

    node: Atomic

    def __init__(self, compiler: Compiler, node: Atomic) -> None:
        super().__init__(compiler, node, "atomic")
        files = node.file_paths
        description = node.description if node.instructions is not None else None
        listed = (files.text, *files.paths) if files is not None else (None,)
        self._texts = compile_texts(compiler, (node.prompt, description, node.system, *listed))
        prompt, _, system, *_ = self._texts
        self._mentioned = {name for text in (prompt, system) if text is not None for name in text.names}

    def run(self, env: Env) -> TaskResult:
        entered = self.enter(env)
        return self.leave(entered, self.respond(entered, self.call(entered)))

    def call(self, entered: Entered) -> ModelCall:
        """Return the request with all placeholders filled in."""
        node, inherited = self.node, current_context()
        prompt, description, system, query, *paths = fill_all(
            self._texts, entered.inner, self.compiler.library
        )
        files = node.file_paths
        is_default = node.model is None
        context = self.payload(entered)
        return ModelCall(
            prompt=prompt or "",
            system=system,
            description=description if node.instructions is not None else prompt,
            template=entered.name,
            subtype=node.subtype,
            model=inherited.model if is_default else node.model,
            provider=node.provider or (inherited.provider if is_default else None),
            criteria=node.criteria,
            inputs=self.data(entered.inputs),
            unmentioned=tuple(name for name in context.relevant_inputs if name not in self._mentioned),
            mentioned=mentioned_bindings(context.inherited, entered.inner, self._mentioned),
            output_format=node.output_format,
            output_schema=self.shape.schema if self.shape is not None else None,
            context=context,
            files=None
            if files is None
            else Files(files.source, tuple(path or "" for path in paths), query, files.optional or UNSET),
            tools=node.tools,
            history=node.history,
            conversation=visible_turns(node.history),
            timeout_seconds=node.timeout_seconds,
            # aider changes files, so its earlier results must not be reused.
            reuse=False if node.reuse is None and node.subtype in AIDER_SUBTYPES else node.reuse,
        )

    def respond(self, entered: Entered, call: ModelCall) -> TaskResult:
        """Return the model's response in the output format; request it once more if it does not match.

        The conversation records the prompt and the matching response.
        """
        result = self._parsed_response(entered, call)
        record_turn(self.node.history, call.prompt, result)
        return with_evaluation(result) if self.node.subtype == EVALUATOR else result

    def _parsed_response(self, entered: Entered, call: ModelCall) -> TaskResult:
        machine = self.compiler.machine
        result = self._request(entered, call)
        try:
            return self.parsed(result)
        except BadOutput as problem:
            if self.node.disable_reparsing:
                failure = format_failure(problem, result.content, self.node.span)
                raise reject_output(machine, failure) from None
            repair = Repair(result.content, str(problem))
        branch = current_branch()
        first = branch.key_of(branch.steps)
        again = self._request(entered, msgspec.structs.replace(call, repair=repair))
        try:
            return self.parse_or_fail(again).with_notes(repaired=True)
        except TaskFailed as error:
            raise reject_output(machine, error, first) from None

    def _request(self, entered: Entered, call: ModelCall) -> TaskResult:
        """Return the response. The effect enforces the time limit until the task has waited for a person."""
        seconds = self.node.timeout_seconds
        if seconds is None or WAITING_TOOLS.isdisjoint(self.node.tools):
            return self._complete(entered, call)
        machine, span = self.compiler.machine, self.node.span
        return run_with_timeout(
            machine, seconds, span, lambda: self._complete(entered, call), is_enforced_elsewhere=True
        )

    def _complete(self, entered: Entered, call: ModelCall) -> TaskResult:
        """Return the final response; after one that requests a subtask, repeat with the subtask's result."""
        machine, span = self.compiler.machine, self.node.span
        called_at = current_context().called_at
        for _ in range(MAX_CONTINUATIONS):
            key = machine.next_key()
            can_spawn = SPAWN_TOOL in call.tools
            spawner = Spawner(self.compiler, self.node, entered, key) if can_spawn else None
            step = Step(key, call, span, spawner, called_at=called_at)
            result, continuation = self._request_once(step, call, spawner)
            if continuation is None:
                with error_location(span, key):
                    return completed(result, span)
            call = msgspec.structs.replace(call, continuations=(*call.continuations, continuation))
        message = f"the task requested a subtask {MAX_CONTINUATIONS} times in a row"
        raise failed(TaskFailure("execution_halted", message, content=result.content), span)

    def _request_once(
        self, step: Step, call: ModelCall, spawner: Spawner | None
    ) -> tuple[TaskResult, Continuation | None]:
        """Return the response, and a Continuation if it requests a subtask, else None."""
        machine = self.compiler.machine
        limit_key = f"{step.key}!0"  # records that the chain of this step used up its budget
        recorded = machine.history.reached(limit_key)
        if recorded is not None:
            machine.history.pass_over(step.key)
            raise TaskFailed(recorded.error, span=step.span, code=recorded.code)
        try:
            with error_location(step.span, step.key):
                result = machine.wait(machine.effects.call_model(step, call))
                request = result.notes.get("subtask_request")
                if result.status != "CONTINUATION" or spawner is None or not isinstance(request, dict):
                    return result, None
                outcome = machine.wait(spawner.begin(request, 1).run())
        except BudgetExceeded as error:
            if spawner is None or not spawner.owns(error):
                raise
            failure = TaskFailed(error.error, span=error.span, code=error.problem.code)
            failure.step_key = limit_key
            machine.wait(machine.history.keep(limit_key, LimitReached(error.error, error.problem.code, 0)))
            raise failure from None
        return result, Continuation(result.content, request, result_json_for_model(outcome))
