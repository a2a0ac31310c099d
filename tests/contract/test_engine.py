"""The engine, on every store: order, limits, retries, timeouts, cancellation, recovery."""

import asyncio
import logging
from typing import Any

import pytest

from tests.builders import NOON, MoveTask, named
from tests.engine_bench import Bench, actions, fail, statuses, task
from weft.engine.limits import EngineLimits
from weft.executors.protocol import ExecutionFailed, Work
from weft.store.protocol import EVERYONE, EventFilter
from weft.tasks.operations import CancelTasks, RetryTasks
from weft.tasks.record import JsonObject, Status
from weft.tasks.states import Cancelled
from weft.tasks.summary import summarize


async def test_a_flow_runs_in_the_order_of_its_dependencies(bench: Bench) -> None:
    order: list[str] = []

    async def note(work: Work) -> None:
        order.append(work.task.name)

    bench.executor("note", note)
    flow = await bench.run(
        task("d", "note", "b", "c"), task("a", "note"), task("b", "note", "a"), task("c", "note", "a")
    )

    assert set(statuses(flow).values()) == {"completed"}
    assert order[0] == "a"
    assert order[-1] == "d"
    assert all(one.result == {"value": None} for one in flow)


async def test_a_failure_blocks_what_requires_it_and_nothing_else(bench: Bench) -> None:
    bench.executor("fail", fail)
    flow = await bench.run(
        "root",
        task("bad", "fail"),
        task("needs", "noop", "bad"),
        task("needs too", "noop", "needs"),
        task("may do without", "noop", {"name": "bad", "required": False}),
        task("free", "noop"),
    )

    assert statuses(flow) == {
        "root": "completed",
        "bad": "failed",
        "needs": "pending",
        "needs too": "pending",
        "may do without": "completed",
        "free": "completed",
    }
    assert named(flow, "bad").error == "it broke"
    assert named(flow, "needs").error is None
    assert summarize(flow).blocked == 2
    assert await bench.store.summary(flow.root.id, owner=EVERYONE) == summarize(flow)


async def test_an_unknown_method_fails_the_task_with_its_name(bench: Bench) -> None:
    flow = await bench.run(task("a", "web_crawlr"))

    assert flow.root.status is Status.FAILED
    assert "'web_crawlr'" in (flow.root.error or "")


async def test_inputs_are_mapped_from_results_and_then_checked(bench: Bench) -> None:
    seen: list[Work] = []

    async def give(work: Work) -> JsonObject:
        return {"page": {"links": ["x", "y"]}, "n": 3}

    async def see(work: Work) -> None:
        seen.append(work)

    bench.executor("give", give)
    bench.executor("see", see)
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 2}}}
    flow = await bench.run(
        task("root", "give"),
        task("ok", "see", "root", params={"input_mappings": {"link": "root.page.links.1"}}, inputs={"k": 1}),
        task("missing", "see", "root", params={"input_mappings": {"link": "root.page.nothing"}}),
        {
            "name": "wrong",
            "schemas": {"method": "see", "input_schema": schema},
            "dependencies": ["root"],
            "params": {"input_mappings": {"n": "root.n"}},
        },
    )

    assert [work.inputs for work in seen] == [{"k": 1, "link": "y"}]
    assert list(seen[0].dependencies.values()) == [{"page": {"links": ["x", "y"]}, "n": 3}]
    assert "there is no 'nothing'" in (named(flow, "missing").error or "")
    assert "3 is greater than the maximum of 2" in (named(flow, "wrong").error or "")
    assert named(flow, "ok").inputs == {"k": 1}, "never merged into the record"


@pytest.mark.parametrize(
    ("returned", "stored"),
    [({"a": 1}, {"a": 1}), ("text", {"value": "text"}), (None, {"value": None}), ([1], {"value": [1]})],
)
async def test_a_result_is_always_an_object(bench: Bench, returned: Any, stored: JsonObject) -> None:
    async def give(work: Work) -> Any:
        return returned

    bench.executor("give", give)

    assert (await bench.run(task("a", "give"))).root.result == stored


async def test_a_result_that_is_no_json_fails_the_task(bench: Bench) -> None:
    async def give(work: Work) -> Any:
        return {"x": object()}

    bench.executor("give", give)
    flow = await bench.run(task("a", "give"), task("b", "noop"))

    assert statuses(flow) == {"a": "failed", "b": "completed"}


async def test_no_more_run_at_once_than_the_limits_allow(bench: Bench) -> None:
    running: dict[str, int] = {"slow": 0, "other": 0}
    most: dict[str, int] = {"slow": 0, "other": 0, "all": 0}

    async def work_on(work: Work) -> None:
        method = (work.task.schemas or {})["method"]
        running[method] += 1
        most[method] = max(most[method], running[method])
        most["all"] = max(most["all"], sum(running.values()))
        for _ in range(5):
            await asyncio.sleep(0)
        running[method] -= 1

    bench.executor("slow", work_on)
    bench.executor("other", work_on)
    limits = EngineLimits(concurrency=6, per_executor={"slow": 2}, poll_seconds=0.02)
    tasks = [task(f"t{number}", "slow" if number % 2 else "other") for number in range(40)]
    flow = await bench.run("root", *tasks, limits=limits)

    assert set(statuses(flow).values()) == {"completed"}
    assert most["slow"] == 2
    assert 2 < most["all"] <= 6


async def test_the_urgent_go_first(bench: Bench) -> None:
    order: list[str] = []

    async def note(work: Work) -> None:
        order.append(work.task.name)

    bench.executor("note", note)
    tasks = [
        task(f"p{priority}-{number}", "note", priority=priority)
        for number in range(3)
        for priority in (3, 1, 0)
    ]
    await bench.run(
        task("first", "note", priority=0), *tasks, limits=EngineLimits(concurrency=1, poll_seconds=0.02)
    )

    assert order == ["first", *sorted(order[1:])]


async def test_a_retry_policy_is_followed(bench: Bench) -> None:
    attempts: list[int] = []

    async def third_time(work: Work) -> JsonObject:
        attempts.append(work.attempt)
        if work.attempt < 3:
            raise ExecutionFailed("not yet")
        return {"attempt": work.attempt}

    bench.executor("third", third_time)
    flow = await bench.run(task("a", "third", params={"retry": {"attempts": 3, "delay": 0.01}}))

    assert attempts == [1, 2, 3]
    assert flow.root.result == {"attempt": 3}


async def test_a_permanent_error_is_not_retried_and_attempts_run_out(bench: Bench) -> None:
    count = 0

    async def always(work: Work) -> None:
        nonlocal count
        count += 1
        raise ValueError("again")

    async def never(work: Work) -> None:
        raise ExecutionFailed("no use", is_permanent=True)

    bench.executor("always", always)
    bench.executor("never", never)
    retry = {"retry": {"attempts": 4, "delay": 0.0}}
    flow = await bench.run(task("a", "always", params=retry), task("b", "never", params=retry))

    assert count == 4
    assert named(flow, "a").error == "ValueError: again"
    events = await bench.store.events(EventFilter(task=named(flow, "b").id), owner=EVERYONE)
    assert [event.type.value for event in events].count("task.started") == 1


async def test_an_attempt_that_takes_too_long_fails(bench: Bench) -> None:
    async def forever(work: Work) -> None:
        await asyncio.Event().wait()

    bench.executor("forever", forever)
    flow = await bench.run(task("a", "forever", params={"timeout_seconds": 0.05}))

    assert flow.root.error == "timed out after 0.05 s"


async def test_progress_is_stored_while_a_task_runs(bench: Bench) -> None:
    async def half(work: Work) -> None:
        await work.report(0.5)

    bench.executor("half", half)
    flow = await bench.run(task("a", "half"))

    events = await bench.store.events(EventFilter(tree=flow.root.id), owner=EVERYONE)
    assert [event.facts for event in events if event.type.value == "task.progressed"] == [{"progress": 0.5}]


async def test_cancelling_from_elsewhere_stops_the_running_attempt(bench: Bench) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def hang(work: Work) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    bench.executor("hang", hang)
    flow = await bench.submit(task("a", "hang"), task("b", "noop", "a"))
    running = asyncio.create_task((await bench.engine()).run(flow.root.id))
    async with asyncio.timeout(20):
        await started.wait()
        # Through the store only, as another process would: the heartbeat notices.
        cancel = CancelTasks(task_id=flow.root.id, reason="enough", now=NOON)
        cancelled = await bench.store.operate(cancel, owner=EVERYONE)
        assert len(cancelled) == 2
        await stopped.wait()
        await running

    flow = await bench.read(flow)
    assert statuses(flow) == {"a": "cancelled", "b": "cancelled"}
    assert flow.root.error == "enough"


async def test_of_a_finish_and_a_cancel_one_wins(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def cancel_myself(work: Work) -> JsonObject:
        await bench.store.operate(MoveTask(work.task.id, Cancelled(NOON, "first")), owner=EVERYONE)
        return {"late": True}

    bench.executor("cancel", cancel_myself)
    with caplog.at_level(logging.WARNING):
        flow = await bench.run(task("a", "cancel"))

    assert (flow.root.status, flow.root.error, flow.root.result) == (Status.CANCELLED, "first", None)
    assert "finish_lost_claim" in {getattr(record, "action", "") for record in caplog.records}


async def test_a_worker_taken_for_dead_loses_its_tasks_and_goes_on_as_another(bench: Bench) -> None:
    started = asyncio.Event()
    attempts: list[int] = []

    async def hang_once(work: Work) -> None:
        attempts.append(work.attempt)
        started.set()
        if work.attempt == 1:
            await asyncio.Event().wait()

    bench.executor("hang", hang_once)
    flow = await bench.submit(task("a", "hang"))
    running = asyncio.create_task((await bench.engine()).run(flow.root.id))
    async with asyncio.timeout(20):
        await started.wait()
        # As another engine would, long after: the process was stopped, or its machine slept.
        assert await bench.store.recover(dead=await bench.store.workers()) == 1
        await running

    assert attempts == [1, 2]
    assert (await bench.read(flow)).root.status is Status.COMPLETED


async def test_two_engines_share_a_flow_and_each_task_runs_once(bench: Bench) -> None:
    ran: list[str] = []

    async def note(work: Work) -> None:
        ran.append(work.task.name)
        await asyncio.sleep(0)

    bench.executor("note", note)
    tasks = [task(f"t{number}", "note", *([f"t{number - 5}"] if number >= 5 else [])) for number in range(60)]
    flow = await bench.submit("root", *tasks)
    limits = EngineLimits(concurrency=3, poll_seconds=0.005)
    engines = [await bench.engine(limits), await bench.engine(limits)]
    async with asyncio.timeout(30):
        await asyncio.gather(*(engine.run(flow.root.id) for engine in engines))

    assert sorted(ran) == sorted(f"t{number}" for number in range(60))
    assert set(statuses(await bench.read(flow)).values()) == {"completed"}


async def test_a_serving_engine_runs_what_others_ask_for(bench: Bench) -> None:
    engine = await bench.engine()
    serving = asyncio.create_task(engine.serve())
    flow = await bench.submit("root", task("a", "noop", "root"))

    async with asyncio.timeout(20):
        while await bench.store.running_flows(owner=EVERYONE):  # noqa: ASYNC110 - the store has no event
            await asyncio.sleep(0.01)
        await engine.stop()
        await serving

    assert set(statuses(await bench.read(flow)).values()) == {"completed"}


async def test_a_retried_task_runs_again_with_what_it_blocked(bench: Bench) -> None:
    is_broken = True

    async def maybe(work: Work) -> None:
        if is_broken:
            raise ExecutionFailed("broken")

    bench.executor("maybe", maybe)
    flow = await bench.run("root", task("a", "maybe"), task("b", "noop", "a"))
    assert statuses(flow) == {"root": "completed", "a": "failed", "b": "pending"}
    is_broken = False
    retried = await bench.store.operate(RetryTasks(task_id=flow.root.id, now=NOON), owner=EVERYONE)
    assert len(retried) == 1

    await (await bench.engine()).run(flow.root.id)

    assert set(statuses(await bench.read(flow)).values()) == {"completed"}


async def test_a_task_that_only_another_process_can_do_is_left_to_it(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    flow = await bench.submit(task("a", "sleep", inputs={"seconds": 0.0}), task("b", "greet", "a"))
    knowing = Bench(bench.store)
    knowing.executor("greet", lambda work: asyncio.sleep(0, {"text": "hello"}))
    async with asyncio.timeout(20):
        with caplog.at_level(logging.WARNING):
            other = await knowing.engine()
            engine = await bench.engine()
            await engine.join(flow.root.id)
            while "left_to_others" not in actions(caplog.records):  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.01)
            await other.run(flow.root.id)
            await engine.follow(flow.root.id)
        await knowing.close()

    assert named(await bench.read(flow), "b").result == {"text": "hello"}
    assert actions(caplog.records) == ["left_to_others"], "once"


async def test_a_typo_in_an_executors_name_fails_at_once_while_other_processes_run(bench: Bench) -> None:
    flow = await bench.submit(task("a", "sleeep"))
    serving = asyncio.create_task((await bench.engine()).serve())
    async with asyncio.timeout(20):
        await (await bench.engine()).run(flow.root.id)
    serving.cancel()

    error = (await bench.read(flow)).root.error or ""
    assert "there is no executor 'sleeep'" in error
    assert "did you mean 'sleep'" in error


async def test_a_task_that_nobody_can_do_fails_when_the_last_other_process_has_gone(bench: Bench) -> None:
    flow = await bench.submit(task("a", "greet"))
    await bench.store.add_worker("of-an-older-version", lease_seconds=3600)
    async with asyncio.timeout(20):
        running = asyncio.create_task((await bench.engine()).run(flow.root.id))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(running), timeout=0.1)
        await bench.store.remove_worker("of-an-older-version", now=bench.store.clock.now())
        await running

    assert "there is no executor 'greet'" in ((await bench.read(flow)).root.error or "")
