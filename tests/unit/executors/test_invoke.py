"""Executors that do not heed their cancellation."""

import asyncio
import contextlib
import logging
import threading
from typing import Any

import pytest

from tests.executor_work import work_of
from weft.aio import abandon
from weft.executors.invoke import grace_seconds_of, invoke_executor
from weft.executors.registry import ExecutorRegistry
from weft.executors.simple import Noop


async def ignore_cancellation() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)


def test_a_process_ends_though_an_abandoned_task_goes_on() -> None:
    async def main() -> None:
        task = asyncio.create_task(ignore_cancellation())
        await asyncio.sleep(0)
        task.cancel()
        abandon(task)

    running = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    running.start()
    running.join(20)

    assert not running.is_alive()


async def test_an_execute_that_goes_on_after_cancel_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    began = asyncio.Event()
    log: list[str] = []

    class Deaf:
        cancel_grace_seconds = 0.01

        async def execute(self, inputs: dict[str, Any]) -> None:
            began.set()
            await ignore_cancellation()

        async def cancel(self, inputs: dict[str, Any]) -> None:
            log.append("cancel")
            raise SystemExit(1)

    registry = ExecutorRegistry()
    registry.executor("deaf")(Deaf)
    attempt = asyncio.create_task(invoke_executor(registry.get("deaf"), work_of()))
    await began.wait()
    attempt.cancel()
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(20):
            with pytest.raises(asyncio.CancelledError):
                await attempt

    assert log == ["cancel"]
    assert [getattr(record, "action", "") for record in caplog.records] == [
        "cancel_failed",
        "execute_abandoned",
    ]


def test_an_executor_says_how_long_it_needs_to_let_go() -> None:
    registry = ExecutorRegistry()
    registry.executor("function")(lambda inputs: None)
    registry.executor("slow")(
        type("Slow", (), {"cancel_grace_seconds": 7.0, "execute": lambda self, inputs: None})
    )

    assert grace_seconds_of(None) == 1.0
    assert grace_seconds_of(registry.get("function")) == 1.0
    assert grace_seconds_of(registry.get("slow")) == 7.0


@pytest.mark.parametrize("is_registered_as_class", [True, False])
def test_the_earlier_name_of_the_time_to_let_go_still_counts(is_registered_as_class: bool) -> None:
    class Slow(Noop):
        id = "slow"
        let_go_seconds = 7.0

    registry = ExecutorRegistry()
    if is_registered_as_class:
        registry.executor("slow")(Slow)
    else:
        registry.register(Slow())

    assert grace_seconds_of(registry.get("slow")) == 7.0
