"""The executor of programs: evaluates a program and stores its steps below the task."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import structs

from weft.clock import Clock
from weft.config.sections import ModelsSettings
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.conversion import as_result, result_json
from weft.evaluator.effects import Effects
from weft.evaluator.errors import ProgramError, TaskFailed, program_failure
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.results import TaskFailure
from weft.executors.protocol import ExecutionFailed, Work
from weft.ids import NewTaskId, TaskId
from weft.language.diagnostics import InvalidProgram
from weft.language.file_paths import find_required_files
from weft.runs.effects import DurableEffects
from weft.runs.errors import ReplayDiffers, RunLost, StepsLeft
from weft.runs.journal import Journal, run_of
from weft.runs.limit_log import RunHistory
from weft.runs.program import (
    LoadedProgram,
    StoredProgram,
    as_params,
    pin_model,
    program_of,
    resolve_workdir,
)
from weft.runs.questions import Questions
from weft.runs.reuse import Fork, may_reuse
from weft.runs.sessions import LeasedSlots
from weft.runs.step_records import FAILURE, stored_failure
from weft.runs.step_writer import StepWriter
from weft.runs.template_tasks import check_arguments, template_of
from weft.runs.templates import call_program, find_template
from weft.store.protocol import TaskStore
from weft.tasks.program_params import TEMPLATE
from weft.tasks.record import ExecutorType, JsonObject

MAX_CALLS = 1_000_000
"""Maximum number of requests of a run. High, because a durable run may be long."""

NewEffects = Callable[[StoredProgram], Effects]
"""Creates the effects of one evaluation (models, scripts, tools, memory), which the executor closes."""


class TemplateExecutor:
    """Evaluates the program of a task; a further attempt replays the recorded steps."""

    id = TEMPLATE
    type = ExecutorType.LOCAL
    summary = (
        "Evaluates a program (params.program) or a registered template (params.template) with the task's "
        "inputs; every step is a task below it."
    )
    input_schema: JsonObject | None = None
    uses_dependencies = False
    cancel_grace_seconds = 15.0
    """Longer than the time that a cancelled effect has to clean up."""

    def __init__(
        self,
        store: TaskStore,
        new_effects: NewEffects,
        *,
        clock: Clock,
        new_id: NewTaskId,
        concurrency: int,
        models: ModelsSettings | None = None,
    ) -> None:
        self._store = store
        self._new_effects = new_effects
        self._clock = clock
        self._new_id = new_id
        self._models = models or ModelsSettings()
        self._slots = asyncio.Semaphore(concurrency)
        """Limits concurrent effects over all programs."""
        self._writers: dict[TaskId, StepWriter] = {}
        """By task: the writer of the running attempt, or of a stopped attempt with unwritten steps."""

    async def execute(self, work: Work) -> Any:
        """Return the program's value as a task result."""
        try:
            loaded = await self._program(work)
        except InvalidProgram as error:
            raise _invalid_program_error(error) from error
        journal = await self._open_journal(work)
        program = resolve_workdir(loaded.stored, has_begun=bool(journal.past))
        fork = await Fork.open(self._store, work.task)
        questions = Questions(journal, self._store)
        inner = self._new_effects(program)
        inner.ask_through(questions.ask)
        effects = DurableEffects(
            inner,
            journal,
            self._store,
            slots=LeasedSlots(self._slots, work.has_lease),
            is_reusing=program.is_reusing and may_reuse(work.task) and (fork is None or fork.is_reusing),
            schema_text=program.schema_text,
            fork=fork,
        )
        evaluator = Evaluator(effects, limits=_limits(program), history=RunHistory(journal))
        is_first = not journal.past and fork is None
        files = inner if is_first else None
        try:
            value = await _evaluate(evaluator, loaded, work.inputs, files)
            await journal.end()
        except TaskFailed as error:
            await journal.end(error)
            if error.step_key is None:
                await self._store_failure(work, loaded.stored, error)
            raise ExecutionFailed(
                str(error),
                is_permanent=isinstance(error, ProgramError),
                details={"task_error": result_json(error.result())},
            ) from error
        except InvalidProgram as error:
            journal.stop()
            raise _invalid_program_error(error) from error
        except (ReplayDiffers, StepsLeft) as error:
            journal.stop()
            failed = TaskFailed(TaskFailure("unexpected_error", f"{error.code}: {error}"), code=error.code)
            await self._store_failure(work, loaded.stored, failed)
            raise ExecutionFailed(failed.error.message, is_permanent=True) from error
        except BaseException as error:
            journal.stop()
            if isinstance(error, asyncio.CancelledError):
                questions.raise_suspension()
            raise
        finally:
            effects.stop()
            questions.close()
            self._forget_writer(work.task.id, journal.writer)
            await inner.close()
        return result_json(as_result(value))

    async def _open_journal(self, work: Work) -> Journal:
        journal = await Journal.open(
            self._store,
            work.task,
            work.attempt,
            clock=self._clock,
            new_id=self._new_id,
            before=self._writers.get(work.task.id),
        )
        self._writers[work.task.id] = journal.writer
        return journal

    def _forget_writer(self, task_id: TaskId, writer: StepWriter) -> None:
        """Forget the writer, at once or when its write in progress succeeds, but keep unwritten changes."""
        if self._writers.get(task_id) is not writer:
            return
        if writer.has_unwritten:
            writer.on_idle = lambda: self._forget_writer(task_id, writer)
        else:
            del self._writers[task_id]

    async def _store_failure(self, work: Work, program: StoredProgram, error: TaskFailed) -> None:
        """Store a failure that no step caused in `params`: the record's `error` holds only its message."""
        failure = {FAILURE: msgspec.to_builtins(stored_failure(error))}
        await self._update_params(work, as_params(program) | failure)

    async def _program(self, work: Work) -> LoadedProgram:
        """Return the program of the task; raise InvalidProgram.

        For a task that names a template, the first attempt stores the program, and later attempts use it.
        """
        task = work.task
        name = template_of(task)
        if name is None:
            return LoadedProgram(program_of(task))
        template = await find_template(self._store, name, user_id=task.user_id)
        check_arguments(template, work.inputs, is_running=True)
        program = await call_program(self._store, template, work.inputs)
        program = program.replace(model=pin_model((task.schemas or {}).get("model"), self._models))
        # Before the first step: a resumed run must evaluate the same program, even if the template changed.
        if not await self._update_params(work, as_params(program.stored)):
            raise RunLost(task_id=task.id)
        return program

    async def _update_params(self, work: Work, changes: JsonObject) -> bool:
        params = {**(work.task.params or {}), **changes}
        run = run_of(work.task, work.attempt)
        return await self._store.update_params(run, params, now=self._clock.now())


class RegisteredExecutor:
    """The executor of tasks with a method that names a registered template, or one version of it."""

    type = ExecutorType.LOCAL
    input_schema: JsonObject | None = None
    """None, because templates of one name differ between owners; `execute` checks the inputs."""
    uses_dependencies = False
    cancel_grace_seconds = TemplateExecutor.cancel_grace_seconds

    def __init__(self, name: str, programs: TemplateExecutor) -> None:
        self.id = name
        self.summary = f"Evaluates the registered template '{name}'."
        self.execute = programs.execute


async def _evaluate(
    evaluator: Evaluator, program: LoadedProgram, inputs: JsonObject, files: Effects | None
) -> Any:
    """Return the value of a program; with `files`, check first that the files it names can be read."""
    main, bindings = program.call(inputs)
    if files is not None:
        await files.require_files(find_required_files(main.forms, program.library_forms, bindings))
    for library in program.libraries:
        await evaluator.evaluate(library)
    return await evaluator.evaluate(main, bindings)


def _invalid_program_error(error: InvalidProgram) -> ExecutionFailed:
    """Return the permanent failure of a task with an invalid program: every attempt has the same program."""
    failed = TaskFailed(program_failure(error))
    return ExecutionFailed(
        error.message, is_permanent=True, details={"task_error": result_json(failed.result())}
    )


def _limits(program: StoredProgram) -> EvaluationLimits:
    given = {"operations" if name == "steps" else name: most for name, most in program.limits.items()}
    return structs.replace(EvaluationLimits(calls=MAX_CALLS), **given)
