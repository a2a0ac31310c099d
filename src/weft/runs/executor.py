"""The executor of programs: evaluates one, with every step of it stored below the task."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import structs

from weft.clock import Clock
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.effects import Effects
from weft.evaluator.errors import ProgramError, TaskFailed
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.plain import as_result, result_json
from weft.executors.protocol import ExecutionFailed, Work
from weft.ids import NewTaskId
from weft.runs.effects import DurableEffects
from weft.runs.journal import Journal
from weft.runs.program import StoredProgram, program_of
from weft.store.protocol import TaskStore
from weft.tasks.record import ExecutorType, JsonObject

TEMPLATE = "template"

MAX_CALLS = 1_000_000
"""Requests of a run: its steps are stored, so it may be long."""

NewEffects = Callable[[StoredProgram], Effects]
"""What performs the steps of a program: models, scripts, tools, memory."""


class TemplateExecutor:
    """Evaluates the program that a task holds. An evaluation that was cut short goes on where it was."""

    id = TEMPLATE
    type = ExecutorType.LOCAL
    summary = "Evaluates a program (params.program) with the task's inputs; every step is a task below it."
    input_schema: JsonObject | None = None
    uses_dependencies = False
    let_go_seconds = 15.0
    """Longer than an effect has to clean up."""

    def __init__(
        self,
        store: TaskStore,
        new_effects: NewEffects,
        *,
        clock: Clock,
        new_id: NewTaskId,
        concurrency: int,
    ) -> None:
        self._store = store
        self._new_effects = new_effects
        self._clock = clock
        self._new_id = new_id
        self._slots = asyncio.Semaphore(concurrency)
        """Requests of all programs at the same time."""

    async def execute(self, work: Work) -> Any:
        """The program's value as a task result."""
        program = program_of(work.task)
        journal = await Journal.open(
            self._store, work.task, work.attempt, clock=self._clock, new_id=self._new_id
        )
        effects = DurableEffects(
            self._new_effects(program),
            journal,
            self._store,
            slots=self._slots,
            is_reusing=program.is_reusing,
            schema_text=program.schema_text,
        )
        evaluator = Evaluator(effects, limits=_limits(program))
        try:
            for library in program.libraries:
                await evaluator.evaluate(library.read())
            value = await evaluator.evaluate(program.main.read(), work.inputs)
        except TaskFailed as error:
            await journal.end(error)
            raise ExecutionFailed(
                str(error),
                is_permanent=isinstance(error, ProgramError),
                details={"task_error": failure_details(error)},
            ) from error
        except BaseException:
            journal.stop()
            raise
        await journal.end()
        return result_json(as_result(value))


def failure_details(error: TaskFailed) -> JsonObject:
    """The failed result of a run, as JSON."""
    return result_json(error.result())


def _limits(program: StoredProgram) -> EvaluationLimits:
    return structs.replace(EvaluationLimits(calls=MAX_CALLS), **program.limits)
