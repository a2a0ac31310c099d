"""One attempt through an executor: inputs checked before, `cancel` called, the result made JSON."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import isfinite
from typing import Any

import jsonschema_rs
import msgspec
from msgspec import Struct, structs

from weft.aio import abandon
from weft.executors.protocol import LET_GO_SECONDS, ExecutionFailed, Executor, Work, let_go_seconds
from weft.tasks.parsing.inputs import problems_of, validator_for
from weft.tasks.parsing.problems import Problem
from weft.tasks.record import JsonObject

CANCEL_SECONDS = 5.0
"""How long an executor's `cancel` may take: a request over a network fits, a hanging one does not."""

Cancel = Callable[[Work], Awaitable[None]]

log = logging.getLogger(__name__)


async def perform(executor: Executor, work: Work) -> JsonObject:
    """The result of the attempt, as the JSON object that is stored; raises what `execute` raises."""
    problems = executor_input_problems(executor, work.inputs)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ExecutionFailed(
            f"executor '{executor.id}' refuses its inputs: {problems[0]}{more}",
            is_permanent=True,
            details={"problems": [msgspec.to_builtins(problem) for problem in problems]},
        )
    cancel: Cancel | None = getattr(executor, "cancel", None)  # `Cancellable`; isinstance of it takes 8 us.
    if cancel is not None:
        return as_result(executor, await _execute_cancellably(executor, cancel, work))
    return as_result(executor, await executor.execute(work))


def seconds_to_let_go(executor: Executor | None) -> float:
    """How long to wait for `perform` once it is cancelled; then something does not heed it."""
    if executor is None:
        return LET_GO_SECONDS
    own = let_go_seconds(executor)
    # A little more than both waits of a `cancel`: it abandons what it began by itself.
    return own if getattr(executor, "cancel", None) is None else CANCEL_SECONDS + own + LET_GO_SECONDS


def executor_input_problems(executor: Executor, inputs: JsonObject) -> Sequence[Problem]:
    """Every way in which the inputs break the executor's own schema."""
    if executor.input_schema is None:
        return []
    try:
        validator = validator_for(msgspec.json.encode(executor.input_schema))
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise ExecutionFailed(
            f"executor '{executor.id}' has an input_schema that is no JSON Schema: {error}", is_permanent=True
        ) from error
    return [] if validator.is_valid(inputs) else list(problems_of(validator, inputs, "inputs"))


def as_result(executor: Executor, value: Any) -> JsonObject:
    """The value as it will be read back from the store; what is no object is wrapped as `{"value": ...}`."""
    try:
        text = msgspec.json.encode(value)
        if b"null" in text and (number := _no_number(value)) is not None:
            raise ValueError(f"{number} is no number that JSON has")
        plain = msgspec.json.decode(text)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ExecutionFailed(
            f"executor '{executor.id}' returned what is no JSON: {error}", is_permanent=True
        ) from error
    return plain if isinstance(plain, dict) else {"value": plain}


def _no_number(value: Any) -> float | None:
    """A NaN or an infinity in the value, which would be stored as null; None: there is none."""
    level = [value]
    while level:
        for one in level:
            if isinstance(one, float) and not isfinite(one):
                return one
        level = [part for one in level for part in _parts(one)]
    return None


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    return structs.astuple(value) if isinstance(value, Struct) else ()


async def _execute_cancellably(executor: Executor, cancel: Cancel, work: Work) -> Any:
    """The value of `execute`; when we are cancelled, `cancel` is called while it still runs."""
    running = asyncio.create_task(_contained(executor.execute(work)))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        try:
            if not running.done():
                await _call_cancel(executor.id, cancel, work)
        finally:
            # Also when we are cancelled a second time, while `cancel` is at work.
            await _end(running, executor, work)
        raise


async def _contained(body: Awaitable[Any]) -> Any:
    """What the body returns; SystemExit and the like, which would end the event loop, become a failure."""
    try:
        return await body
    except (SystemExit, KeyboardInterrupt) as error:
        raise ExecutionFailed(f"{type(error).__name__}: {error}".rstrip(": ")) from error


async def _end(running: asyncio.Task[Any], executor: Executor, work: Work) -> None:
    running.cancel()
    try:
        await asyncio.wait([running], timeout=let_go_seconds(executor))
    finally:
        if not running.done():
            log.warning(
                "executor '%s' does not end when it is cancelled; it is abandoned",
                executor.id,
                extra={"action": "execute_abandoned", "executor_id": executor.id, "task_id": work.task.id},
            )
            abandon(running)


async def _call_cancel(executor_id: str, cancel: Cancel, work: Work) -> None:
    try:
        async with asyncio.timeout(CANCEL_SECONDS):
            await cancel(work)
    except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        # Including TimeoutError: the attempt is cancelled whatever `cancel` makes of it.
        log.warning(
            "cancel failed: %s: %s: %s",
            executor_id,
            type(error).__name__,
            error,
            extra={"action": "cancel_failed", "executor_id": executor_id, "task_id": work.task.id},
        )
