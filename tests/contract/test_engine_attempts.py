"""How attempts end, on every store: whatever an executor does, and however attempts are lost."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.builders import NOON, named
from tests.engine_bench import QUICK, Bench, Stubborn, actions, statuses, task
from weft.engine.limits import EngineLimits
from weft.errors import WeftError
from weft.executors.protocol import ExecutionFailed, Work
from weft.ids import TaskId
from weft.store.protocol import EVERYONE, EventFilter
from weft.tasks.events import EventType
from weft.tasks.operations import CancelTasks, RetryTasks
from weft.tasks.record import JsonObject, Status

ONE_AT_A_TIME = msgspec.structs.replace(QUICK, concurrency=1)
ONE_LOSS = msgspec.structs.replace(QUICK, max_losses=1)


async def lose_attempt(bench: Bench, task_id: TaskId) -> None:
    """Begin the task as a process that then dies."""
    await bench.store.add_worker("doomed", lease_seconds=-1)
    await bench.store.start(task_id, worker="doomed", now=NOON, owner=EVERYONE)
    assert await bench.store.recover(dead=["doomed"]) == 1


async def has_been_retried(bench: Bench, task_id: TaskId) -> bool:
    events = await bench.store.events(EventFilter(task=task_id), owner=EVERYONE)
    return EventType.TASK_RETRIED in {event.type for event in events}


async def raise_cancelled(work: Work) -> None:
    raise asyncio.CancelledError


async def await_what_was_cancelled(work: Work) -> None:
    other = asyncio.ensure_future(asyncio.Event().wait())
    other.cancel()
    await other


async def cancel_its_own_task(work: Work) -> None:
    own = asyncio.current_task()
    assert own is not None
    own.cancel()
    await asyncio.sleep(0)


@pytest.mark.parametrize("body", [raise_cancelled, await_what_was_cancelled, cancel_its_own_task])
async def test_an_executor_cancelled_from_inside_fails_and_is_retried(bench: Bench, body: Any) -> None:
    count = 0

    async def run(work: Work) -> None:
        nonlocal count
        count += 1
        await body(work)

    bench.executor("run", run)
    flow = await bench.run(task("a", "run", params={"retry": {"attempts": 2, "delay": 0.0}}))

    assert (flow.root.error or "").startswith("the executor was cancelled from inside")
    assert count == 2


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
    ],
    ids=["SystemExit", "KeyboardInterrupt", "GeneratorExit"],
)
async def test_an_executor_cannot_end_the_process(bench: Bench, error: BaseException, text: str) -> None:
    async def leave(work: Work) -> None:
        raise error

    def leave_a_thread(inputs: JsonObject) -> None:
        raise error

    class Leaving:
        async def execute(self, inputs: JsonObject) -> None:
            await asyncio.sleep(0)
            raise error

        async def cancel(self, work: Work) -> None:
            raise AssertionError("nobody cancels it")

    bench.executor("leave", leave)
    bench.executors.executor("thread")(leave_a_thread)
    bench.executors.executor("class")(Leaving)
    flow = await bench.run("root", task("a", "leave"), task("b", "thread"), task("c", "class"))

    assert named(flow, "a").error == text
    assert text in (named(flow, "b").error or "")
    assert named(flow, "c").error == text


class Unspeakable(Exception):
    """An error that cannot be put into words."""

    def __str__(self) -> str:
        raise ValueError("no words")


class SaysNothing(Exception):
    """An error whose text is none."""

    def __str__(self) -> str:
        return None  # type: ignore[return-value] # noqa: PLE0307 - that is its fault


def without_message() -> WeftError:
    """Return an error without a message, as a class that does not call our constructor has it."""
    error = WeftError("forgotten")
    del error.message
    return error


class Undecided:
    """What is neither true nor false, as an array of numbers is."""

    def __bool__(self) -> bool:
        raise ValueError("undecided")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ExecutionFailed(None), "None"),  # type: ignore[arg-type]
        (lambda: ExecutionFailed(404), "404"),  # type: ignore[arg-type]
        (lambda: ExecutionFailed({"status": 500}), "{'status': 500}"),  # type: ignore[arg-type]
        (lambda: ExecutionFailed(ValueError("no")), "ValueError: no"),  # type: ignore[arg-type]
        (lambda: ExecutionFailed(Unspeakable()), "Unspeakable"),  # type: ignore[arg-type]
        (lambda: ExecutionFailed("\ud800 half"), "\ufffd half"),
        (lambda: WeftError(404), "404"),  # type: ignore[arg-type]
        (Unspeakable, "Unspeakable"),
        (SaysNothing, "SaysNothing"),
        (without_message, "WeftError: forgotten"),
    ],
)
async def test_an_error_that_cannot_be_put_into_words_fails_the_task_and_is_retried(
    bench: Bench, make: Callable[[], Exception], text: str
) -> None:
    count = 0

    async def run(work: Work) -> None:
        nonlocal count
        count += 1
        raise make()

    bench.executor("run", run)
    flow = await bench.run(task("a", "run", params={"retry": {"attempts": 2, "delay": 0.0}}))

    assert (flow.root.status, flow.root.error) == (Status.FAILED, text)
    assert count == 2


async def test_an_error_that_the_engine_cannot_judge_fails_the_task_for_good(bench: Bench) -> None:
    count = 0

    async def run(work: Work) -> None:
        nonlocal count
        count += 1
        raise ExecutionFailed("odd", is_permanent=Undecided())  # type: ignore[arg-type]

    bench.executor("run", run)
    flow = await bench.run(task("a", "run", params={"retry": {"attempts": 2, "delay": 0.0}}))

    assert (flow.root.status, flow.root.error) == (Status.FAILED, "odd")
    assert count == 1


async def test_an_executor_that_ignores_its_time_limit_is_abandoned(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn = Stubborn()
    stubborn.register(bench)
    with caplog.at_level(logging.WARNING):
        flow = await bench.run(
            task("a", "stubborn", params={"timeout_seconds": 0.05}), task("b", "noop"), limits=ONE_AT_A_TIME
        )
    stubborn.is_released.set()

    assert statuses(flow) == {"a": "failed", "b": "completed"}, "its slot was free again"
    assert flow.root.error == "timed out after 0.05 s"
    assert actions(caplog.records) == ["attempt_abandoned"]


async def test_an_executor_that_ignores_its_cancellation_is_abandoned(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn = Stubborn()
    stubborn.register(bench)
    flow = await bench.submit(
        "root", task("a", "stubborn"), task("b", "noop", {"name": "a", "required": False})
    )
    running = asyncio.create_task((await bench.engine(ONE_AT_A_TIME)).run(flow.root.id))
    async with asyncio.timeout(20):
        await stubborn.began.wait()
        cancel = CancelTasks(task_id=named(flow, "a").id, reason="enough", now=NOON)
        with caplog.at_level(logging.WARNING):
            await bench.store.operate(cancel, owner=EVERYONE)
            await running
    stubborn.is_released.set()

    assert statuses(await bench.read(flow)) == {"root": "completed", "a": "cancelled", "b": "completed"}
    assert actions(caplog.records) == ["attempt_abandoned"]


async def test_what_an_executor_returns_after_its_time_limit_does_not_count(bench: Bench) -> None:
    async def late(work: Work) -> JsonObject:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"late": True}
        return {}

    bench.executor("late", late)
    flow = await bench.run(task("a", "late", params={"timeout_seconds": 0.05}))

    assert (flow.root.status, flow.root.error) == (Status.FAILED, "timed out after 0.05 s")


async def test_a_retry_policy_may_ask_for_more_attempts_than_may_be_lost(bench: Bench) -> None:
    count = 0

    async def always(work: Work) -> None:
        nonlocal count
        count += 1
        raise ExecutionFailed(f"failure {count}")

    bench.executor("always", always)
    flow = await bench.run(task("a", "always", params={"retry": {"attempts": 60, "delay": 0.0}}))

    assert (count, flow.root.error) == (60, "failure 60")


async def test_a_lost_attempt_does_not_count_for_the_retry_policy(bench: Bench) -> None:
    attempts: list[int] = []

    async def always(work: Work) -> None:
        attempts.append(work.attempt)
        raise ExecutionFailed("no")

    bench.executor("always", always)
    flow = await bench.submit(task("a", "always", params={"retry": {"attempts": 2, "delay": 0.0}}))
    await lose_attempt(bench, flow.root.id)
    async with asyncio.timeout(20):
        await (await bench.engine()).run(flow.root.id)

    assert attempts == [2, 3]


async def test_a_task_whose_attempts_are_lost_is_given_up_and_retried_by_hand(bench: Bench) -> None:
    flow = await bench.submit(task("a", "noop"))
    await lose_attempt(bench, flow.root.id)
    engine = await bench.engine(ONE_LOSS)
    async with asyncio.timeout(20):
        await engine.run(flow.root.id)
        given_up = await bench.read(flow)
        await bench.store.operate(RetryTasks(task_id=flow.root.id, now=NOON), owner=EVERYONE)
        await engine.run(flow.root.id)

    assert given_up.root.error == (
        "failed after 1 lost attempts in a row: the worker died or its lease expired"
    )
    assert (await bench.read(flow)).root.status is Status.COMPLETED


async def test_who_is_given_up_says_what_failed_before(bench: Bench) -> None:
    async def no(work: Work) -> None:
        raise ExecutionFailed("no such luck")

    bench.executor("no", no)
    flow = await bench.submit(task("a", "no", params={"retry": {"attempts": 9, "delay": 600}}))
    engine = await bench.engine(EngineLimits(max_losses=1, poll_seconds=0.02, grace_seconds=0))
    running = asyncio.create_task(engine.run(flow.root.id))
    async with asyncio.timeout(20):
        while not await has_been_retried(bench, flow.root.id):  # noqa: ASYNC110 - the store has no event
            await asyncio.sleep(0.01)
        await lose_attempt(bench, flow.root.id)
        await running

    error = (await bench.read(flow)).root.error or ""
    assert error.startswith("failed after 1 lost attempts in a row")
    assert error.endswith("; last error: no such luck")


async def test_an_attempt_given_back_in_good_order_is_not_lost(bench: Bench) -> None:
    started = asyncio.Event()

    async def hang_once(work: Work) -> None:
        started.set()
        if work.attempt == 1:
            await asyncio.Event().wait()

    bench.executor("hang", hang_once)
    flow = await bench.submit(task("a", "hang"))
    engine = await bench.engine()
    running = asyncio.create_task(engine.run(flow.root.id))
    async with asyncio.timeout(20):
        await started.wait()
        await engine.stop(grace_seconds=0)
        await running
        await (await bench.engine(ONE_LOSS)).run(flow.root.id)

    assert (await bench.read(flow)).root.status is Status.COMPLETED
