"""Invokes an executor for one attempt: validates inputs, calls `cancel`, converts the result to JSON."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import jsonschema_rs
import msgspec

from weft.aio import abandon
from weft.executors.protocol import (
    DEFAULT_CANCEL_GRACE_SECONDS,
    ExecutionFailed,
    Executor,
    Work,
    cancel_grace_seconds,
    permanent_failure,
)
from weft.tasks.parsing.inputs import problems_of, validator_for
from weft.tasks.parsing.problems import Problem, plain_json
from weft.tasks.record import JsonObject

CANCEL_SECONDS = 5.0
"""Time limit of an executor's `cancel`: enough for a network request."""

Cancel = Callable[[Work], Awaitable[None]]

log = logging.getLogger(__name__)


async def invoke_executor(executor: Executor, work: Work) -> JsonObject:
    """Return the result of the attempt as the JSON object to store. Exceptions of `execute` propagate."""
    problems = executor_input_problems(executor, work.inputs)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ExecutionFailed(
            f"executor '{executor.id}' refuses its inputs: {problems[0]}{more}",
            is_permanent=True,
            details={"problems": [msgspec.to_builtins(problem) for problem in problems]},
        )
    cancel: Cancel | None = getattr(executor, "cancel", None)  # None if not Cancellable
    if cancel is not None:
        return as_result(executor, await _execute_cancellably(executor, cancel, work))
    return as_result(executor, await executor.execute(work))


def grace_seconds_of(executor: Executor | None) -> float:
    """Return how long a cancelled `invoke_executor` may take to end. `executor` is None if it is unknown."""
    if executor is None:
        return DEFAULT_CANCEL_GRACE_SECONDS
    own = cancel_grace_seconds(executor)
    # More than `cancel` and `execute` may take together, so that there is time to abandon `execute`.
    return (
        own
        if getattr(executor, "cancel", None) is None
        else CANCEL_SECONDS + own + DEFAULT_CANCEL_GRACE_SECONDS
    )


def executor_input_problems(executor: Executor, inputs: JsonObject) -> Sequence[Problem]:
    if executor.input_schema is None:
        return []
    try:
        validator = validator_for(msgspec.json.encode(executor.input_schema))
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise permanent_failure(f"executor '{executor.id}' has an invalid input_schema: {error}") from error
    return [] if validator.is_valid(inputs) else list(problems_of(validator, inputs, "inputs"))


def as_result(executor: Executor, value: Any) -> JsonObject:
    """Convert a value to JSON as the store will return it; wrap a non-object as `{"value": ...}`."""
    try:
        plain = plain_json(value)
    except ValueError as error:
        raise permanent_failure(
            f"executor '{executor.id}' returned a value that is not JSON: {error}"
        ) from error
    return plain if isinstance(plain, dict) else {"value": plain}


async def _execute_cancellably(executor: Executor, cancel: Cancel, work: Work) -> Any:
    """Return the value of `execute`; on cancellation call `cancel` while `execute` still runs."""
    running = asyncio.create_task(_contain(executor.execute(work)))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        try:
            if not running.done():
                await _call_cancel(executor.id, cancel, work)
        finally:
            # Also if a second cancellation interrupts `cancel`.
            await _end(running, executor, work)
        raise


async def _contain(body: Awaitable[Any]) -> Any:
    """Await the body; convert SystemExit and KeyboardInterrupt, which would end the event loop."""
    try:
        return await body
    except (SystemExit, KeyboardInterrupt) as error:
        raise ExecutionFailed(f"{type(error).__name__}: {error}".rstrip(": ")) from error


async def _end(running: asyncio.Task[Any], executor: Executor, work: Work) -> None:
    """Cancel `execute`; abandon it if it has not ended after its grace period."""
    running.cancel()
    try:
        await asyncio.wait([running], timeout=cancel_grace_seconds(executor))
    finally:
        if not running.done():
            log.warning(
                "executor '%s' ignores its cancellation; abandoning it",
                executor.id,
                extra={"action": "execute_abandoned", "executor_id": executor.id, "task_id": work.task.id},
            )
            abandon(running)


async def _call_cancel(executor_id: str, cancel: Cancel, work: Work) -> None:
    try:
        async with asyncio.timeout(CANCEL_SECONDS):
            await cancel(work)
    except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        # Including TimeoutError: the attempt is cancelled even if `cancel` fails.
        log.warning(
            "cancel failed: %s: %s: %s",
            executor_id,
            type(error).__name__,
            error,
            extra={"action": "cancel_failed", "executor_id": executor_id, "task_id": work.task.id},
        )
