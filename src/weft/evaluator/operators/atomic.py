"""The atomic task: one request to a model, and one more when its answer does not fit."""

import msgspec
from msgspec import UNSET

from weft.evaluator.branches import current_branch
from weft.evaluator.compiler import Compiler
from weft.evaluator.conversion import result_json_for_model
from weft.evaluator.effects import Continuation, Files, ModelCall, Repair, Step
from weft.evaluator.environment import Env
from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.functions import Code
from weft.evaluator.operators.context import record, seen, surroundings
from weft.evaluator.operators.director_loop import with_evaluation
from weft.evaluator.operators.steps import at, completed, failed, in_time, unfit
from weft.evaluator.operators.task import Entered, TaskCode
from weft.evaluator.operators.text import FilledText, fill_all
from weft.evaluator.output_parsing import BadOutput, format_failure
from weft.evaluator.replay_log import LimitReached
from weft.evaluator.results import TaskFailure, TaskResult
from weft.evaluator.subtasks.spawner import Spawner, spawner_of
from weft.evaluator.task_scope import mentioned_bindings
from weft.evaluator.tools import ASKS_PEOPLE
from weft.language.ast import Atomic, Text
from weft.language.diagnostics import refuse
from weft.language.library import EVALUATOR
from weft.language.task_fields import AIDER_SUBTYPES
from weft.language.traversal import SPAWN_TOOL

MAX_CONTINUATIONS = 20
"""How often one task may answer with CONTINUATION: as many as the turns that a session has."""

WAITING_TOOLS = frozenset({ASKS_PEOPLE, SPAWN_TOOL})
"""Those with which a session may come to wait for a person."""


def atomic(compiler: Compiler, node: Atomic, is_tail: bool) -> Code:
    """Compile an atomic task."""
    task = AtomicTask(compiler, node)

    def run(env: Env) -> TaskResult:
        entered = task.enter(env)
        return task.leave(entered, task.answer(entered, task.call(entered)))

    return run


class AtomicTask(TaskCode):
    """An atomic task, compiled."""

    node: Atomic

    def __init__(self, compiler: Compiler, node: Atomic) -> None:
        super().__init__(compiler, node, "atomic")
        if node.prompt is None:
            raise refuse(node.span, "missing-field", "an atomic task needs instructions or a description")
        files = node.file_paths
        if files is not None and files.source == "command" and _has_placeholders(files.text):
            message = "the command of file_paths has no placeholders: no value joins a command line"
            raise refuse(node.span, "bad-value", message)
        self._texts = [
            _compiled(compiler, text)
            for text in (
                node.prompt,
                node.description if node.instructions is not None else None,
                node.system,
                files.text if files is not None else None,
                *(files.paths if files is not None else ()),
            )
        ]

        prompt, _, system, *_ = self._texts
        self._mentioned = {name for text in (prompt, system) if text is not None for name in text.names}

    def call(self, entered: Entered) -> ModelCall:
        """The request, with every placeholder filled."""
        node, around = self.node, surroundings()
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
            template=entered.template,
            subtype=node.subtype,
            model=around.model if is_default else node.model,
            provider=node.provider or (around.provider if is_default else None),
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
            conversation=seen(node.history),
            timeout_seconds=node.timeout_seconds,
            # aider changes files: what it gave once is not what it would do now.
            reuse=False if node.reuse is None and node.subtype in AIDER_SUBTYPES else node.reuse,
        )

    def answer(self, entered: Entered, call: ModelCall) -> TaskResult:
        """The model's answer in the format that was asked for; it is asked once more when it does not fit.

        What the conversation keeps is the prompt and the answer that fits.
        """
        result = self._fitting(entered, call)
        record(self.node.history, call.prompt, result)
        return with_evaluation(result) if self.node.subtype == EVALUATOR else result

    def _fitting(self, entered: Entered, call: ModelCall) -> TaskResult:
        machine = self.compiler.machine
        result = self._ask(entered, call)
        try:
            return self.parsed(result)
        except BadOutput as problem:
            if self.node.disable_reparsing:
                raise unfit(machine, format_failure(problem, result.content, self.node.span)) from None
            repair = Repair(result.content, str(problem))
        branch = current_branch()
        first = branch.key_of(branch.steps)
        again = self._ask(entered, msgspec.structs.replace(call, repair=repair))
        try:
            return self.settled(again).with_notes(repaired=True)
        except TaskFailed as error:
            raise unfit(machine, error, first) from None

    def _ask(self, entered: Entered, call: ModelCall) -> TaskResult:
        """The answer. Who asks keeps to the time limit; but not while a person is waited for."""
        seconds = self.node.timeout_seconds
        if seconds is None or WAITING_TOOLS.isdisjoint(self.node.tools):
            return self._ask_on(entered, call)
        machine, span = self.compiler.machine, self.node.span
        return in_time(machine, seconds, span, lambda: self._ask_on(entered, call), is_bound_elsewhere=True)

    def _ask_on(self, entered: Entered, call: ModelCall) -> TaskResult:
        """The answer; one that asks for a subtask is asked for again, with the result of that."""
        machine, span = self.compiler.machine, self.node.span
        called_at = surroundings().called_at
        for _ in range(MAX_CONTINUATIONS):
            key = machine.next_key()
            spawner = spawner_of(self.compiler, self.node, entered, call, key)
            result, outcome = self._asked(Step(key, call, span, spawner, called_at=called_at), call, spawner)
            if outcome is None:
                with at(span, key):
                    return completed(result, span)
            call = msgspec.structs.replace(call, continuations=(*call.continuations, outcome))
        message = f"the task asks for subtasks again and again: {MAX_CONTINUATIONS} times"
        raise failed(TaskFailure("execution_halted", message, content=result.content), span)

    def _asked(
        self, step: Step, call: ModelCall, spawner: Spawner | None
    ) -> tuple[TaskResult, Continuation | None]:
        """The answer, and what came of the subtask that it asks for instead of ending; None: it ends."""
        machine = self.compiler.machine
        limit = f"{step.key}!0"
        known = machine.history.reached(limit)
        if known is not None:
            machine.history.pass_over(step.key)
            raise TaskFailed(known.error, span=step.span, code=known.code)
        try:
            with at(step.span, step.key):
                result = machine.wait(machine.effects.call_model(step, call))
                request = result.notes.get("subtask_request")
                if result.status != "CONTINUATION" or spawner is None or not isinstance(request, dict):
                    return result, None
                outcome = machine.wait(spawner.begin(request, 1).run())
        except BudgetExceeded as error:
            if spawner is None or not spawner.owns(error):
                raise
            failure = TaskFailed(error.error, span=error.span, code=error.problem.code)
            failure.step_key = limit
            machine.wait(machine.history.keep(limit, LimitReached(error.error, error.problem.code, 0)))
            raise failure from None
        return result, Continuation(result.content, request, result_json_for_model(outcome))


def _has_placeholders(text: Text | None) -> bool:
    return text is not None and any(not isinstance(part, str) for part in text.parts)


def _compiled(compiler: Compiler, text: Text | None) -> FilledText | None:
    return None if text is None else FilledText(compiler, text)
