"""One attempt at one task: inputs, executor, time limit, outcome."""

import asyncio
from collections.abc import Callable
from datetime import datetime

from weft.clock import Clock
from weft.errors import RequestError, WeftError
from weft.executors.performing import perform
from weft.executors.protocol import ExecutionFailed, Report, Work, uses_dependencies
from weft.executors.registry import ExecutorRegistry
from weft.ids import TaskId
from weft.store.protocol import EVERYONE, Claimed, Ending, TaskStore
from weft.tasks.input_checks import input_problems
from weft.tasks.input_mappings import has_mappings, mapped_inputs
from weft.tasks.problems import InvalidTasks
from weft.tasks.record import JsonObject, Status, Task, evolve
from weft.tasks.retries import retry_policy
from weft.tasks.states import Completed, Failed
from weft.tasks.time_limits import timeout_seconds

MAX_ERROR_CHARACTERS = 20_000
"""How much of an error's text is kept: a page, not a log file."""


class Attempts:
    """What every attempt needs."""

    def __init__(
        self,
        store: TaskStore,
        executors: ExecutorRegistry,
        *,
        clock: Clock,
        chance: Callable[[], float],
        max_attempts: int,
    ) -> None:
        self._store = store
        self._executors = executors
        self._clock = clock
        self._chance = chance
        self._max_attempts = max_attempts

    async def perform(self, claimed: Claimed, report: Report) -> Ending:
        """How the attempt ended. Raises only CancelledError: then it has no ending of its own."""
        claim = claimed.claim
        try:
            if claim.attempt > self._max_attempts:
                reason = f"given up: begun {claim.attempt - 1} times and never ended"
                raise ExecutionFailed(reason, is_permanent=True)
            result = await self._result(claimed, report)
        except Exception as error:
            return self._failure(claimed, error)
        return Ending(claim, Completed(self._clock.now(), result))

    def refused(self, ending: Ending, error: WeftError) -> Ending:
        """The ending instead of one whose result the store cannot keep."""
        return Ending(ending.claim, Failed(self._clock.now(), f"{error.code}: {error.message}"))

    async def _result(self, claimed: Claimed, report: Report) -> JsonObject:
        task = claimed.task
        method = (task.schemas or {}).get("method")
        if method is None:
            return {}  # a task without an executor only holds others together
        executor = self._executors.get(method)
        work = await self._work(claimed, report, wants_dependencies=uses_dependencies(executor))
        if (task.schemas or {}).get("input_schema") is not None:
            problems = input_problems(evolve(task, inputs=work.inputs))
            if problems:
                raise InvalidTasks(problems)
        limit = timeout_seconds(task)
        if limit is None:
            return await perform(executor, work)
        try:
            async with asyncio.timeout(limit) as deadline:
                return await perform(executor, work)
        except TimeoutError:
            if not deadline.expired():
                raise  # the executor's own
            raise ExecutionFailed(f"timed out after {limit:g} s") from None

    async def _work(self, claimed: Claimed, report: Report, *, wants_dependencies: bool) -> Work:
        task = claimed.task
        is_needed = task.dependencies and (wants_dependencies or has_mappings(task))
        ended = await self._ended_dependencies(task) if is_needed else {}
        results = {task_id: found.result or {} for task_id, found in ended.items()}
        return Work(
            task=task,
            attempt=claimed.claim.attempt,
            inputs=mapped_inputs(task, results),
            dependencies=results,
            dependency_names={task_id: found.name for task_id, found in ended.items()},
            report=report,
        )

    async def _ended_dependencies(self, task: Task) -> dict[TaskId, Task]:
        """The completed ones; of others there is no result."""
        found = await self._store.get_many(
            [dependency.id for dependency in task.dependencies], owner=EVERYONE
        )
        return {task_id: one for task_id, one in found.items() if one.status is Status.COMPLETED}

    def _failure(self, claimed: Claimed, error: Exception) -> Ending:
        now = self._clock.now()
        failed = Failed(now, error_message(error))
        return Ending(claimed.claim, failed, self._retry_at(claimed, error, now))

    def _retry_at(self, claimed: Claimed, error: Exception, now: datetime) -> datetime | None:
        if is_permanent(error):
            return None
        delay = retry_policy(claimed.task).delay_after(claimed.claim.attempt, self._chance())
        return None if delay is None else now + delay


def is_permanent(error: Exception) -> bool:
    """Whether a further attempt would end the same way."""
    if isinstance(error, ExecutionFailed):
        return error.is_permanent
    return isinstance(error, RequestError)


def error_message(error: Exception) -> str:
    """What is stored of an error: our own as they are, others with their type."""
    text = error.message if isinstance(error, WeftError) else f"{type(error).__name__}: {error}".rstrip(": ")
    return text if len(text) <= MAX_ERROR_CHARACTERS else f"{text[:MAX_ERROR_CHARACTERS]} ... (cut)"
