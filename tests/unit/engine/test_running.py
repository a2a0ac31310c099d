"""An attempt ends once, whatever happens to it."""

import asyncio
from pathlib import Path

import pytest

from tests.builders import NOON
from weft.app.wiring import open_store
from weft.clock import SystemClock
from weft.config.settings import Settings
from weft.engine.attempt import Attempts
from weft.engine.limits import EngineLimits
from weft.engine.running import RunningAttempt
from weft.executors.builtin import built_in_registry
from weft.executors.protocol import ExecutionFailed
from weft.ids import TaskId
from weft.store.protocol import AttemptResult, Claim, Claimed, Suspension
from weft.tasks.record import Status, Task
from weft.tasks.states import Completed, Failed

TASK_ID = TaskId("aaaaaaaa-0000-4000-8000-000000000001")
CLAIMED = Claimed(
    Claim(TASK_ID, 1, "w", TASK_ID, None),
    Task(
        id=TASK_ID,
        name="a",
        schemas={"method": "noop"},
        status=Status.IN_PROGRESS,
        inputs={},
        started_at=NOON,
    ),
)


async def endings_of(
    tmp_path: Path, reasons: list[Exception | None]
) -> list[AttemptResult | Suspension | None]:
    """How an attempt ended that was called off for these reasons, before its first step."""
    endings: list[AttemptResult | Suspension | None] = []
    store = await open_store(Settings(db=str(tmp_path / "weft.db")))
    attempts = Attempts(
        store, built_in_registry(), clock=SystemClock(), chance=lambda: 0.5, limits=EngineLimits()
    )

    async def report(progress: float) -> None:
        raise AssertionError("nothing reports")

    attempt = RunningAttempt(CLAIMED, attempts, report, lambda _, ending: endings.append(ending))
    for reason in reasons:
        attempt.cancel_attempt(reason)
    async with asyncio.timeout(20):
        while not endings:  # noqa: ASYNC110 - a turn or two of the event loop
            await asyncio.sleep(0)
    attempt.cancel_attempt()  # too late
    await asyncio.sleep(0)
    await store.close()
    return endings


async def test_an_attempt_that_is_left_alone_completes(tmp_path: Path) -> None:
    (ending,) = await endings_of(tmp_path, [])

    assert isinstance(ending, AttemptResult)
    assert isinstance(ending.outcome, Completed)


async def test_an_attempt_that_is_called_off_before_its_first_step_has_no_ending(tmp_path: Path) -> None:
    assert await endings_of(tmp_path, [None]) == [None]


@pytest.mark.parametrize("further", [[], [None]])
async def test_the_first_reason_to_call_it_off_counts(
    tmp_path: Path, further: list[Exception | None]
) -> None:
    (ending,) = await endings_of(tmp_path, [ExecutionFailed("too late"), *further])

    assert isinstance(ending, AttemptResult)
    assert isinstance(ending.outcome, Failed)
    assert ending.outcome.error == "too late"
