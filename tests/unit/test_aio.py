"""Synchronous calls share one event loop."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from weft import aio
from weft.aio import run_sync


async def the_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_calls_of_all_threads_run_in_one_loop() -> None:
    with ThreadPoolExecutor(4) as threads:
        loops = set(threads.map(lambda _: run_sync(the_loop), range(8)))

    assert loops == {run_sync(the_loop)}


async def test_a_call_inside_a_running_loop_runs_in_the_same_one() -> None:
    assert run_sync(the_loop) is not asyncio.get_running_loop()
    assert run_sync(the_loop) is await asyncio.to_thread(run_sync, the_loop)


def test_a_callback_of_the_loop_may_call_again() -> None:
    async def outer() -> bool:
        return run_sync(the_loop) is not asyncio.get_running_loop()

    assert run_sync(outer)


@pytest.mark.parametrize("error", [ValueError("wrong"), SystemExit(3), KeyboardInterrupt()])
def test_errors_reach_the_caller_and_the_loop_survives_them(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    before = run_sync(the_loop)
    with pytest.raises(type(error)):
        run_sync(fail)

    assert run_sync(the_loop) is before


class Interrupted:
    """Stands for the future that a call waits for; the person presses Ctrl-C as soon as the work runs."""

    def __init__(self, future: object, is_running: threading.Event) -> None:
        self._future = future
        self._is_running = is_running
        self.cancel = future.cancel  # type: ignore[attr-defined]

    def result(self) -> None:
        assert self._is_running.wait(20)
        raise KeyboardInterrupt


def interrupt(monkeypatch: pytest.MonkeyPatch, is_running: threading.Event) -> None:
    send = asyncio.run_coroutine_threadsafe
    monkeypatch.setattr(
        asyncio, "run_coroutine_threadsafe", lambda work, loop: Interrupted(send(work, loop), is_running)
    )


def test_an_interrupt_cancels_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    is_running, is_cancelled = threading.Event(), threading.Event()

    async def wait() -> None:
        is_running.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_cancelled.set()

    before = run_sync(the_loop)
    with monkeypatch.context() as patch:
        interrupt(patch, is_running)
        with pytest.raises(KeyboardInterrupt):
            run_sync(wait)

    assert is_cancelled.is_set()
    assert run_sync(the_loop) is before


def test_work_that_does_not_notice_its_interrupt_does_not_block_later_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aio, "CANCEL_SECONDS", 0.0)
    is_running, may_end = threading.Event(), threading.Event()

    async def never_yields() -> None:
        is_running.set()
        may_end.wait(20)

    before = run_sync(the_loop)
    with monkeypatch.context() as patch:
        interrupt(patch, is_running)
        with pytest.raises(KeyboardInterrupt):
            run_sync(never_yields)

    assert run_sync(the_loop) is not before
    may_end.set()
