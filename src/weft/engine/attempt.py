"""One attempt at one task: inputs, executor, progress, outcome."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

import msgspec

from weft.aio import run_blocking
from weft.clock import Clock
from weft.engine.limits import EngineLimits, StoreTolerance
from weft.errors import RequestError, WeftError, text_of
from weft.executors.invoke import grace_seconds_of, invoke_executor
from weft.executors.protocol import ExecutionFailed, Executor, Report, Suspend, Work, uses_dependencies
from weft.executors.registry import ExecutorRegistry
from weft.ids import TaskId
from weft.secrets.references import SecretSettings, resolved
from weft.secrets.registry import has_secrets, redact_json
from weft.secrets.truncation import cut
from weft.store.errors import StoreUnusable
from weft.store.protocol import EVERYONE, AttemptResult, Claim, Claimed, Suspension, TaskStore
from weft.tasks.parsing.inputs import has_mappings, input_problems, mapped_inputs
from weft.tasks.parsing.problems import InvalidTasks
from weft.tasks.policies import retry_policy
from weft.tasks.record import JsonObject, Status, Task, evolve, method_of
from weft.tasks.states import Completed, Failed
from weft.telemetry.spans import Span, span

log = logging.getLogger(__name__)

MAX_ERROR_CHARACTERS = 20_000
"""Maximum length of a stored error: a page, not a log file."""

MAX_BYTES_ON_THE_LOOP = 64 * 1024
"""Results up to this size are searched for secrets on the event loop: it takes a millisecond or two."""


class Attempts:
    """Performs attempts, and turns their ends into results for the store; one object per engine."""

    def __init__(
        self,
        store: TaskStore,
        executors: ExecutorRegistry,
        *,
        clock: Clock,
        chance: Callable[[], float],
        limits: EngineLimits,
        secrets: SecretSettings | None = None,
        has_lease: Callable[[], bool] = lambda: True,
        on_store_unusable: Callable[[StoreUnusable], None] = lambda error: None,
    ) -> None:
        """Create the object; `chance` returns a random number from 0 to 1, for the jitter of retry delays."""
        self._has_lease = has_lease
        self.on_store_unusable = on_store_unusable
        self._store = store
        self._executors = executors
        self._clock = clock
        self._chance = chance
        self._limits = limits
        self._secrets = secrets or SecretSettings()
        self._not_found: set[str] = set()
        """Methods for which no executor appeared within `lookup_seconds`; their tasks do not wait again."""

    def completed(self, claimed: Claimed, result: JsonObject) -> AttemptResult:
        return AttemptResult(claimed.claim, Completed(self._clock.now(), result))

    def failed(self, claimed: Claimed, error: BaseException) -> AttemptResult:
        """Return the result of a failed attempt, with the delay of a retry if the policy allows one."""
        now = self._clock.now()
        outcome = Failed(now, error_message(error))
        try:
            return AttemptResult(claimed.claim, outcome, self._retry_after(claimed, error))
        except Exception:
            # Reading an executor's own exception may raise. Without a result the task would be run for ever.
            log.exception(
                "cannot decide whether to retry task %s; it fails permanently",
                claimed.claim.task_id,
                extra={"action": "retry_undecided", "task_id": claimed.claim.task_id},
            )
            return AttemptResult(claimed.claim, outcome)

    def suspended(self, claimed: Claimed, suspension: Suspend) -> Suspension:
        """Return the suspension of an attempt that waits for other records and holds nothing meanwhile."""
        return Suspension(
            claimed.claim, self._clock.now(), suspension.until, suspension.dependencies, suspension.wake_at
        )

    def refused(self, ending: AttemptResult | Suspension, error: WeftError) -> AttemptResult:
        """Return the failed result that replaces one that the store has rejected with `error`."""
        return AttemptResult(ending.claim, Failed(self._clock.now(), f"{error.code}: {error.message}"))

    def cancel_grace_seconds(self, task: Task) -> float:
        """Return how long the task's executor may take to end after its cancellation."""
        found = self._executors.find(method_of(task))
        return grace_seconds_of(found.executor if found else None)

    async def result(self, claimed: Claimed, report: Report) -> JsonObject:
        """Perform the attempt and return its result, with secrets redacted; raise the error that fails it."""
        task = claimed.task
        if claimed.losses >= self._limits.max_losses:
            raise too_many_losses(claimed)
        method = (task.schemas or {}).get("method")
        if method is None:
            return {}  # a task without an executor only groups others
        with _task_span(claimed, method):
            return await redacted(await self._perform(claimed, method, report))

    async def _perform(self, claimed: Claimed, method: str, report: Report) -> JsonObject:
        task = claimed.task
        executor = await self._executor(method)
        work = await self._work(claimed, report, wants_dependencies=uses_dependencies(executor))
        if (task.schemas or {}).get("input_schema") is not None:
            problems = input_problems(evolve(task, inputs=work.inputs))
            if problems:
                raise InvalidTasks(problems)
        return await invoke_executor(executor, work)

    async def _executor(self, method: str) -> Executor:
        """Return the executor of a method, even if it was registered after this process started."""
        if self._executors.find(method) is None:
            await self._wait_for_executor(method)
        return self._executors.get(method)

    async def _wait_for_executor(self, method: str) -> None:
        """Poll for the executor of a method until it appears, or `lookup_seconds` have passed."""
        loop = asyncio.get_running_loop()
        may_appear = self._executors.can_learn and method not in self._not_found
        end = loop.time() + (self._limits.lookup_seconds if may_appear else 0.0)
        while self._executors.find(method) is None:
            with StoreTolerance(f"executor {method}"):
                if not await self._executors.learn([method]) and loop.time() >= end:
                    self._not_found.add(method)
                    return
            await asyncio.sleep(self._limits.poll_seconds)

    async def _work(self, claimed: Claimed, report: Report, *, wants_dependencies: bool) -> Work:
        task = claimed.task
        is_needed = task.dependencies and (wants_dependencies or has_mappings(task))
        ended = await self._completed_dependencies(task) if is_needed else {}
        results = {task_id: found.result or {} for task_id, found in ended.items()}
        return Work(
            task=task,
            attempt=claimed.claim.attempt,
            inputs=mapped_inputs(self._with_secrets(task), results),
            dependencies=results,
            dependency_names={task_id: found.name for task_id, found in ended.items()},
            report=report,
            has_lease=self._has_lease,
        )

    def _with_secrets(self, task: Task) -> Task:
        """Resolve the secrets that the task's own inputs refer to.

        Results of dependencies are not searched for references: somebody else wrote them.
        """
        inputs = resolved(task.inputs, self._secrets)
        return task if inputs is task.inputs else evolve(task, inputs=inputs)

    async def _completed_dependencies(self, task: Task) -> dict[TaskId, Task]:
        """Return the completed dependencies; others have no result."""
        wanted = [dependency.id for dependency in task.dependencies]
        while True:
            # A busy store must not fail the task; the task's time limit keeps running.
            with StoreTolerance(f"dependencies of task {task.id}"):
                found = await self._store.get_many(wanted, owner=EVERYONE)
                return {task_id: one for task_id, one in found.items() if one.status is Status.COMPLETED}
            await asyncio.sleep(self._limits.poll_seconds)

    def _retry_after(self, claimed: Claimed, error: BaseException) -> timedelta | None:
        if is_permanent(error):
            return None
        policy, failures = retry_policy(claimed.task), claimed.failures + 1
        if failures >= policy.attempts:
            return None
        return timedelta(seconds=policy.delay_after(failures, self._chance()))


async def redacted(result: JsonObject) -> JsonObject:
    """Redact secrets from a result; use a thread for a large result, not to block the event loop."""
    if not has_secrets():
        return result
    try:
        size = len(msgspec.json.encode(result))
    except (TypeError, ValueError, OverflowError, RecursionError):  # the store will report the problem
        size = 0
    if size <= MAX_BYTES_ON_THE_LOOP:
        found: JsonObject = redact_json(result)
        return found
    return await run_blocking(lambda: redact_json(result), name="weft-redaction")


def _task_span(claimed: Claimed, method: str) -> Span:
    task, claim = claimed.task, claimed.claim

    def attributes() -> JsonObject:
        return {
            "weft.task.id": task.id,
            "weft.task.name": task.name,
            "weft.task.attempt": claim.attempt,
            "weft.executor": method,
            "weft.flow.id": claim.task_tree_id,
        }

    return span(f"execute_task {task.name}", "internal", attributes)


def too_many_losses(claimed: Claimed) -> ExecutionFailed:
    """Return the failure of a task with too many lost attempts: the task may be what kills the workers."""
    last = f"; last error: {claimed.last_error}" if claimed.last_error else ""
    return ExecutionFailed(
        f"failed after {claimed.losses} lost attempts in a row: the worker died or its lease expired{last}",
        is_permanent=True,
    )


def is_permanent(error: BaseException) -> bool:
    """Return whether a further attempt would fail the same way."""
    if isinstance(error, ExecutionFailed):
        return error.is_permanent
    return isinstance(error, RequestError)


def error_message(error: BaseException) -> str:
    """Return the error's text for storage, truncated; errors that are not weft's include their type."""
    own = getattr(error, "message", None) if isinstance(error, WeftError) else None
    return cut(text_of(error if own is None else own), MAX_ERROR_CHARACTERS, " ... (cut)")


MIN_SECONDS_BETWEEN = 0.2
"""Minimum interval between stored progress reports: an executor may report after every line of a file."""


def new_report(store: TaskStore, claim: Claim) -> Report:
    """Return the rate-limited function with which the executor of an attempt reports its progress."""
    last = float("-inf")

    async def report(progress: float) -> None:
        nonlocal last
        now = asyncio.get_running_loop().time()
        if now - last >= MIN_SECONDS_BETWEEN:
            last = now
            # Progress is optional: the task must not fail without it.
            with StoreTolerance(f"progress of task {claim.task_id}"):
                await store.report(claim, progress=progress, now=store.clock.now())

    return report
