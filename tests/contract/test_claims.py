"""How every store hands out work: what is ready, in which order, to whom, and what becomes of it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from typing import Any, cast

import asyncpg
import pytest
from msgspec import Struct

from tests.builders import NOON, MoveTask, a_flow, named, numbered_ids
from tests.schedules import HOURLY
from weft.app.wiring import open_store
from weft.clock import ManualClock, SystemClock
from weft.config.settings import Settings
from weft.errors import InternalError, WeftError
from weft.ids import TaskId
from weft.store.protocol import (
    EVERYONE,
    AttemptResult,
    Claimed,
    ClaimRequest,
    ClaimResult,
    EventFilter,
    Owner,
    Suspension,
    TaskFilter,
    TaskStore,
)
from weft.store.sqlite.memory import open_memory
from weft.tasks.decisions import Decision, ReadSet, Snapshot, WriteSet
from weft.tasks.events import EventType
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.operations import CopyTasks, DeleteTasks, SubmitFlow, UpdateTask
from weft.tasks.record import Dependency, Status, Task
from weft.tasks.states import Cancelled, Completed, Failed, InvalidResult, Outcome, Retried
from weft.tasks.summary import summarize

SECOND = timedelta(seconds=1)
NOTHING = ClaimRequest(flows=[], worker="w-a", slots=0)
DONE = Completed(NOON, {"value": 1})
FAILED = Failed(NOON, "no")


async def submit(store: TaskStore, *tasks: dict[str, Any] | str, prefix: str = "a") -> Flow:
    flow = await store.operate(SubmitFlow(a_flow(*tasks, prefix=prefix), NOON), owner=EVERYONE)
    await store.run_flow(flow.root.id, owner=EVERYONE)
    await store.add_worker(f"w-{prefix}", lease_seconds=1)
    return flow


async def claim(
    store: TaskStore, flow: Flow, slots: int = 100, worker: str = "w-a", **wanted: Any
) -> ClaimResult:
    now = wanted.pop("now", NOON)
    request = ClaimRequest(flows=[flow.root.id], worker=worker, slots=slots, **wanted)
    with at(store, now):
        if now > NOON:
            await store.renew_worker(worker, lease_seconds=1)
        _, outlook = await store.advance([], request)
    return outlook_of(outlook)


async def recover(store: TaskStore, now: datetime, *, dead: Sequence[str] = ()) -> int:
    return await store.recover(dead=dead, expired_at=now)


@contextmanager
def at(store: TaskStore, now: datetime) -> Iterator[None]:
    """Let the store's clock tell another time than noon."""
    clock = cast(ManualClock, store.clock)
    clock.set(now)
    yield
    clock.set(NOON)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[TaskStore]:
    """Yield an empty store whose clock says noon."""
    opened = await open_store(Settings(db=store_url), clock=ManualClock(NOON))
    yield opened
    await opened.close()


def outlook_of(answer: ClaimResult | WeftError) -> ClaimResult:
    """Return what was claimed, or raise the error that prevented it."""
    if isinstance(answer, WeftError):
        raise answer
    return answer


def names(answer: ClaimResult | WeftError) -> list[str]:
    return [claimed.task.name for claimed in outlook_of(answer).claimed]


async def end(store: TaskStore, claimed: Claimed, outcome: Outcome = DONE) -> bool:
    ((held,), _) = await store.advance([AttemptResult(claimed.claim, outcome)], NOTHING)
    assert isinstance(held, bool)
    return held


async def test_the_ready_tasks_are_claimed_by_priority_then_in_creation_order(store: TaskStore) -> None:
    flow = await submit(
        store,
        {"name": "root", "dependencies": ["d"]},
        {"name": "a", "priority": 3},
        {"name": "b", "schemas": {"method": "x"}},
        {"name": "c", "priority": 0},
        {"name": "d"},
        {"name": "e", "priority": 0, "schemas": {"method": "y"}},
    )

    first = await claim(store, flow, slots=3)
    rest = await claim(store, flow)

    assert names(first) == ["c", "e", "b"]
    assert names(rest) == ["d", "a"]
    assert all(claimed.task.status is Status.IN_PROGRESS for claimed in first.claimed)
    stored = await store.get(first.claimed[0].task.id, owner=EVERYONE)
    assert stored == first.claimed[0].task
    assert [claimed.claim.attempt for claimed in rest.claimed] == [1, 1]


@pytest.mark.parametrize(
    ("required", "outcome", "may_start"),
    [
        (True, DONE, True),
        (True, FAILED, False),
        (True, Cancelled(NOON), False),
        (False, DONE, True),
        (False, FAILED, True),
        (False, Cancelled(NOON), True),
    ],
)
async def test_a_dependency_lets_its_dependents_start_as_the_protocol_says(
    store: TaskStore, required: bool, outcome: Outcome, may_start: bool
) -> None:
    flow = await submit(
        store, "root", {"name": "b", "dependencies": [{"name": "root", "required": required}]}
    )
    (first,) = (await claim(store, flow)).claimed
    assert names(await claim(store, flow)) == []

    assert await end(store, first, outcome)

    assert names(await claim(store, flow)) == (["b"] if may_start else [])


async def test_ending_and_claiming_the_next_is_one_write(store: TaskStore) -> None:
    flow = await submit(
        store, "a", {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["b", "a"]}
    )
    (a,) = (await claim(store, flow)).claimed
    wanted = ClaimRequest(flows=[flow.root.id], worker="w-a", slots=5)

    (held,), outlook = await store.advance([AttemptResult(a.claim, DONE)], wanted)
    (b,) = outlook_of(outlook).claimed
    _, last = await store.advance([AttemptResult(b.claim, DONE)], wanted)

    assert held is True
    assert (b.task.name, names(last)) == ("b", ["c"])


async def test_dependencies_that_end_together_let_their_one_dependent_start(store: TaskStore) -> None:
    flow = await submit(store, "a", "b", {"name": "c", "dependencies": ["a", "b"]})
    endings = [AttemptResult(claimed.claim, DONE) for claimed in (await claim(store, flow)).claimed]

    wanted = ClaimRequest(flows=[flow.root.id], worker="w-a", slots=5)
    _, outlook = await store.advance(endings, wanted)

    assert names(outlook) == ["c"]


async def test_a_request_sees_what_all_before_it_in_its_group_did(store: TaskStore) -> None:
    flow = await submit(store, "a", {"name": "b", "dependencies": ["a"]}, "c")
    root, other = flow.root.id, named(flow, "c").id
    (a, c) = (await claim(store, flow)).claimed
    await store.add_worker("w2", lease_seconds=1)

    requests: list[Awaitable[Any]] = [
        store.run_flow(root, owner=EVERYONE),
        store.end_flow(root),
        store.finish(a.claim, DONE),
        claim(store, flow),
        store.release(c.claim, now=NOON),
        claim(store, flow, worker="w2"),
        store.recover(dead=["w2"]),
        store.finish(c.claim, DONE),
        store.operate(MoveTask(other, Cancelled(NOON)), owner=EVERYONE),
        store.remove_worker("w-a", now=NOON),
        store.operate(MoveTask(named(flow, "b").id, Cancelled(NOON)), owner=EVERYONE),
        store.end_flow(root),
    ]
    outcomes = await asyncio.gather(*requests)

    assert (outcomes[1], names(outcomes[3]), names(outcomes[5])) == (False, ["b"], ["c"])
    assert (outcomes[6], outcomes[7]) == (1, False), "w2 is dead; c is no longer w-a's"
    assert (outcomes[9], outcomes[11]) == (1, True)


async def test_a_claim_is_given_to_one_worker_only(store: TaskStore, store_url: str) -> None:
    flow = await submit(store, "root", *(f"t{number}" for number in range(60)))
    second = await open_store(Settings(db=store_url), clock=store.clock)
    try:
        for worker in ("w1", "w2"):
            await store.add_worker(worker, lease_seconds=1)
        asked = [
            claim(one, flow, 3, worker) for _ in range(12) for one, worker in ((store, "w1"), (second, "w2"))
        ]
        outlooks = await asyncio.gather(*asked)
    finally:
        await second.close()

    claimed = [task.task.id for outlook in outlooks for task in outlook.claimed]
    assert len(claimed) == 61
    assert len(set(claimed)) == 61


async def test_a_method_with_no_free_slot_is_passed_over(store: TaskStore) -> None:
    slow = [{"name": f"s{number}", "priority": 0, "schemas": {"method": "slow"}} for number in range(5)]
    flow = await submit(store, "root", *slow, {"name": "q", "schemas": {"method": "quick"}})

    assert names(await claim(store, flow, free={"slow": 2})) == ["s0", "s1", "root", "q"]
    assert names(await claim(store, flow, free={"slow": 0})) == []
    assert names(await claim(store, flow, free={"slow": 1})) == ["s2"]


async def test_a_task_that_was_given_back_needs_a_free_slot_of_its_method(store: TaskStore) -> None:
    slow = [{"name": f"s{number}", "schemas": {"method": "slow"}} for number in range(5)]
    flow = await submit(store, "root", *slow)
    for claimed in (await claim(store, flow, slots=4)).claimed:
        await store.release(claimed.claim, now=NOON)

    assert names(await claim(store, flow, free={"slow": 0})) == ["root"]
    assert names(await claim(store, flow, free={"slow": 2})) == ["s0", "s1"]
    assert names(await claim(store, flow, free={"slow": 2})) == ["s2", "s3"]
    assert names(await claim(store, flow, slots=0)) == []
    assert names(await claim(store, flow, free={"slow": 9})) == ["s4"]


async def test_without_slots_nothing_is_claimed(store: TaskStore) -> None:
    flow = await submit(store, "root", "a")

    assert (await claim(store, flow, slots=0)).claimed == ()


async def test_a_task_of_an_unknown_method_is_left_to_another_worker_that_lives(store: TaskStore) -> None:
    flow = await submit(
        store, {"name": "x", "schemas": {"method": "x"}}, {"name": "y", "schemas": {"method": "y"}}
    )
    await store.add_worker("w-b", lease_seconds=9)

    mine = await claim(store, flow, methods={"x"})
    again = await claim(store, flow, methods={"x"})
    (theirs,) = (await claim(store, flow, worker="w-b", methods={"y"})).claimed
    await store.release(theirs.claim, now=NOON)
    given_back = await claim(store, flow, methods={"x"})

    assert (names(mine), mine.unknown_methods) == (["x"], frozenset("y"))
    assert (names(again), again.unknown_methods) == ([], frozenset("y"))
    assert theirs.task.name == "y"
    assert (names(given_back), given_back.unknown_methods) == ([], frozenset("y"))


@pytest.mark.parametrize("is_given_back", [False, True])
async def test_a_task_whose_method_no_worker_knows_is_left_to_nobody(
    store: TaskStore, is_given_back: bool
) -> None:
    flow = await submit(store, {"name": "y", "schemas": {"method": "y"}})
    if is_given_back:
        (first,) = (await claim(store, flow)).claimed
        await store.release(first.claim, now=NOON)
    await store.add_worker("w-b", lease_seconds=9, methods={"y", "z"})

    beside_one_that_knows = await claim(store, flow, methods={"x"})
    await store.add_worker("w-b", lease_seconds=9, methods={"z"})
    beside_one_that_does_not = await claim(store, flow, methods={"x"})

    assert (names(beside_one_that_knows), beside_one_that_knows.unknown_methods) == ([], frozenset("y"))
    assert (names(beside_one_that_does_not), beside_one_that_does_not.unknown_methods) == (["y"], frozenset())


@pytest.mark.parametrize("is_given_back", [False, True])
async def test_a_task_of_an_unknown_method_is_claimed_by_who_is_alone(
    store: TaskStore, is_given_back: bool
) -> None:
    flow = await submit(store, {"name": "y", "schemas": {"method": "y"}})
    if is_given_back:
        (first,) = (await claim(store, flow)).claimed
        await store.release(first.claim, now=NOON)
    await store.add_worker("w-b", lease_seconds=1)

    beside_another = await claim(store, flow, methods={"x"}, now=NOON + SECOND)
    after_it_died = await claim(store, flow, methods={"x"}, now=NOON + 2 * SECOND)

    assert names(beside_another) == []
    assert (names(after_it_died), after_it_died.unknown_methods) == (["y"], frozenset())


async def test_several_flows_share_the_slots_in_one_order_of_priority_and_age(store: TaskStore) -> None:
    quick = {"schemas": {"method": "quick"}}
    first = await submit(
        store, {"name": "a", "priority": 3}, {"name": "b", **quick}, {"name": "c", "priority": 0}
    )
    second = await submit(store, {"name": "d", "priority": 1}, {"name": "e", **quick}, prefix="b")
    await submit(store, {"name": "not asked for", "priority": 0}, prefix="c")

    wanted = ClaimRequest(flows=[first.root.id, second.root.id], worker="w-a", slots=4, free={"quick": 1})
    _, outlook = await store.advance([], wanted)

    assert names(outlook) == ["c", "d", "b", "a"]


async def test_the_definition_of_a_schedule_is_never_claimed(store: TaskStore) -> None:
    daily = {"schedule_type": "daily", "schedule_expression": "09:00", "schedule_enabled": True}
    flow = await submit(store, {"name": "root", **daily}, "a")

    assert names(await claim(store, flow)) == ["a"]


async def test_a_failed_attempt_is_retried_from_its_time_on(store: TaskStore) -> None:
    flow = await submit(store, "root", {"name": "b", "dependencies": [{"name": "root", "required": False}]})
    (first,) = (await claim(store, flow)).claimed
    retry_at = NOON + 5 * SECOND

    (held,), _ = await store.advance([AttemptResult(first.claim, FAILED, 5 * SECOND)], NOTHING)
    early = await claim(store, flow, now=NOON + 4 * SECOND)
    late = await claim(store, flow, now=retry_at)

    assert held is True
    assert (early.claimed, early.next_ready_at) == ((), retry_at)
    assert [claimed.claim.attempt for claimed in late.claimed] == [2]
    assert late.next_ready_at is None
    types = [event.type for event in await store.events(EventFilter(task=flow.root.id), owner=EVERYONE)]
    assert types[-3:] == [EventType.TASK_FAILED, EventType.TASK_RETRIED, EventType.TASK_STARTED]


async def test_the_outlook_names_a_time_to_come_of_a_flow_that_this_worker_may_run(store: TaskStore) -> None:
    """Anything else would wake the engine at once, again and again."""
    flow = await submit(store, "root", "b")
    first, second = (await claim(store, flow)).claimed
    retries = [
        AttemptResult(first.claim, FAILED, 5 * SECOND),
        AttemptResult(second.claim, FAILED, 9 * SECOND),
    ]
    await store.advance(retries, NOTHING)

    between = await claim(store, flow, slots=0, now=NOON + 6 * SECOND)
    past = await claim(store, flow, slots=0, now=NOON + 10 * SECOND)
    unknown_worker = await claim(store, flow, worker="nobody")
    await store.stop_flow(flow.root.id, owner=EVERYONE)
    stopped = await claim(store, flow)

    assert (between.claimed, between.next_ready_at) == ((), NOON + 9 * SECOND)
    assert past == unknown_worker == stopped == ClaimResult()


async def test_changing_a_task_leaves_the_time_of_its_retry(store: TaskStore) -> None:
    flow = await submit(store, "root")
    (first,) = (await claim(store, flow)).claimed
    await store.advance([AttemptResult(first.claim, FAILED, SECOND)], NOTHING)

    change = UpdateTask(task_id=flow.root.id, fields={"name": "new"}, now=NOON)
    await store.operate(change, owner=EVERYONE)

    assert (await claim(store, flow)).next_ready_at == NOON + SECOND
    assert names(await claim(store, flow, now=NOON + SECOND)) == ["new"]


async def test_a_task_that_was_given_back_is_claimed_again_before_others(store: TaskStore) -> None:
    flow = await submit(store, {"name": "root", "priority": 3}, {"name": "a", "priority": 0})
    _, root = (await claim(store, flow)).claimed

    assert await store.release(root.claim, now=NOON)
    assert not await store.release(root.claim, now=NOON)
    assert not await end(store, root)
    (again,) = (await claim(store, flow)).claimed

    assert (again.task.id, again.claim.attempt) == (root.task.id, 2)
    assert await end(store, again)


async def test_the_tasks_of_a_dead_worker_are_given_back_and_its_late_result_is_refused(
    store: TaskStore,
) -> None:
    flow = await submit(store, "root", "a")
    first, second = (await claim(store, flow)).claimed
    await store.add_worker("w2", lease_seconds=9)

    assert await recover(store, NOON + SECOND) == 0
    assert await recover(store, NOON + 2 * SECOND) == 2
    assert await recover(store, NOON + 2 * SECOND) == 0
    taken = (await claim(store, flow, worker="w2")).claimed

    assert [claimed.claim.attempt for claimed in taken] == [2, 2]
    assert not await end(store, first)
    assert not await store.report(second.claim, progress=0.5, now=NOON)
    assert await store.renew_worker("w-a", lease_seconds=9) is None
    assert [await end(store, claimed) for claimed in taken] == [True, True]


async def test_a_renewed_worker_lives_and_learns_what_it_still_holds(store: TaskStore) -> None:
    flow = await submit(store, "root", "a")
    first, second = (await claim(store, flow)).claimed

    held = await store.renew_worker("w-a", lease_seconds=9)
    await store.operate(MoveTask(second.task.id, Cancelled(NOON)), owner=EVERYONE)

    assert held == frozenset({first.claim, second.claim})
    assert await recover(store, NOON + 2 * SECOND) == 0
    assert await store.renew_worker("w-a", lease_seconds=9) == frozenset({first.claim})


async def test_what_an_unknown_worker_started_is_given_back_too(store: TaskStore) -> None:
    flow = await submit(store, "root")
    late = await store.start(flow.root.id, worker="unknown", now=NOON, owner=EVERYONE)

    assert await recover(store, NOON) == 1
    assert not await store.finish(late, DONE)


async def test_a_worker_may_be_added_again(store: TaskStore) -> None:
    flow = await submit(store, "root")
    await claim(store, flow)

    await store.add_worker("w-a", lease_seconds=9)

    assert await recover(store, NOON + 2 * SECOND) == 0


async def test_a_worker_that_leaves_gives_back_what_it_holds(store: TaskStore) -> None:
    flow = await submit(store, "root", "a")
    await claim(store, flow)

    await store.add_worker("w2", lease_seconds=1)

    assert await store.remove_worker("w-a", now=NOON) == 2
    assert (await claim(store, flow)).claimed == (), "it is not known any more"
    assert await store.renew_worker("w-a", lease_seconds=0) is None
    assert len((await claim(store, flow, worker="w2")).claimed) == 2


async def test_an_outcome_that_is_no_json_is_refused_alone(store: TaskStore) -> None:
    flow = await submit(store, "root", "a")
    first, second = (await claim(store, flow)).claimed

    held, _ = await store.advance(
        [AttemptResult(first.claim, Completed(NOON, {"x": object()})), AttemptResult(second.claim, DONE)],
        NOTHING,
    )

    assert isinstance(held[0], InvalidResult)
    assert held[1] is True
    assert (await store.get(first.task.id, owner=EVERYONE)).status is Status.IN_PROGRESS


class Broken(Struct):
    """An operation with a mistake in it."""

    decide_wrongly: Callable[[], Decision[None]]

    def needs(self) -> ReadSet:
        return ReadSet()

    def decide(self, found: Snapshot) -> Decision[None]:
        return self.decide_wrongly()


def look_up_nothing() -> Decision[None]:
    raise KeyError("nothing")


def go_in_circles() -> Decision[None]:
    return go_in_circles()


def write_half() -> Decision[None]:
    half = WriteSet(added=tuple(a_flow("half", prefix="b")), updated=(cast(Task, object()),))
    return Decision(half, None)


@pytest.mark.parametrize("decide", [look_up_nothing, go_in_circles, write_half])
async def test_a_mistake_of_ours_in_one_request_fails_that_one_alone(
    store: TaskStore, decide: Callable[[], Decision[None]], caplog: pytest.LogCaptureFixture
) -> None:
    together: list[Awaitable[Any]] = [
        submit(store, "root", "a"),
        store.operate(Broken(decide), owner=EVERYONE),
        store.operate(SubmitFlow(a_flow("c", prefix="c"), NOON), owner=EVERYONE),
    ]
    before, broken, after = await asyncio.gather(*together, return_exceptions=True)

    assert isinstance(broken, InternalError)
    assert isinstance(before, Flow)
    assert isinstance(after, Flow)
    assert (await store.list(TaskFilter(), owner=EVERYONE)).total == 3
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_an_ending_that_breaks_us_leaves_the_others_of_its_group(store: TaskStore) -> None:
    flow = await submit(store, "root", "a", {"name": "b", "dependencies": ["a"]})
    first, second = (await claim(store, flow)).claimed
    wrong = Failed(NOON, cast(str, {"status": 500}))

    wanted = ClaimRequest(flows=[flow.root.id], worker="w-a", slots=9)
    held, outlook = await store.advance(
        [AttemptResult(first.claim, wrong), AttemptResult(second.claim, DONE)], wanted
    )

    assert isinstance(held[0], InternalError)
    assert held[1] is True
    assert names(outlook) == ["b"]
    assert (await store.get(first.task.id, owner=EVERYONE)).status is Status.IN_PROGRESS


async def test_a_claim_that_breaks_us_leaves_the_endings_of_its_group(
    store: TaskStore, store_url: str
) -> None:
    flow = await submit(store, "root", {"name": "a", "dependencies": ["root"]})
    (first,) = (await claim(store, flow)).claimed
    await spoil(store_url, named(flow, "a").id)
    wanted = ClaimRequest(flows=[flow.root.id], worker="w-a", slots=9)

    held, outlook = await store.advance([AttemptResult(first.claim, DONE)], wanted)

    assert held == [True]
    assert isinstance(outlook, WeftError)
    assert (await store.get(flow.root.id, owner=EVERYONE)).status is Status.COMPLETED


async def test_cancelling_or_retrying_by_hand_counts_anew_who_waits(store: TaskStore) -> None:
    flow = await submit(
        store,
        "root",
        {"name": "optional", "dependencies": [{"name": "root", "required": False}]},
        {"name": "required", "dependencies": ["root"]},
    )
    (root,) = (await claim(store, flow)).claimed
    await end(store, root, FAILED)
    await store.operate(MoveTask(root.task.id, Retried(NOON)), owner=EVERYONE)

    (again,) = (await claim(store, flow)).claimed
    assert again.task.name == "root"
    await end(store, again)

    assert names(await claim(store, flow)) == ["optional", "required"]


async def test_new_dependencies_are_waited_for_and_old_ones_are_not(store: TaskStore) -> None:
    flow = await submit(store, "root", "a", {"name": "b", "dependencies": ["root"]})
    b, a = named(flow, "b"), named(flow, "a")
    fields = {"dependencies": [{"id": a.id}]}
    await store.operate(UpdateTask(task_id=b.id, fields=fields, now=NOON), owner=EVERYONE)
    first = {claimed.task.name: claimed for claimed in (await claim(store, flow)).claimed}

    await end(store, first["root"])
    assert names(await claim(store, flow)) == []
    await end(store, first["a"])

    assert names(await claim(store, flow)) == ["b"]


async def test_a_copy_waits_for_copies_and_a_deleted_task_for_nobody(store: TaskStore) -> None:
    source = await submit(
        store, "root", {"name": "a", "dependencies": ["root"]}, {"name": "b", "dependencies": ["a"]}
    )
    copy = CopyTasks(task_id=source.root.id, new_id=numbered_ids("c"), now=NOON)
    flow = await store.operate(copy, owner=EVERYONE)
    await store.run_flow(flow.root.id, owner=EVERYONE)
    await store.operate(DeleteTasks(task_ids=(named(flow, "b").id,), now=NOON), owner=EVERYONE)

    (root,) = (await claim(store, flow)).claimed
    await end(store, root)
    (a,) = (await claim(store, flow)).claimed
    await end(store, a)

    assert names(await claim(store, flow)) == []


@pytest.mark.parametrize("method", ["a\x00b", "".join(map(chr, range(32, 5000)))])
async def test_a_method_of_any_name_can_be_stored_and_claimed(store: TaskStore, method: str) -> None:
    flow = await submit(store, {"name": "root", "schemas": {"method": method}})

    assert names(await claim(store, flow)) == ["root"]


async def test_what_names_no_flow_or_worker_harms_nobody(store: TaskStore) -> None:
    flow = await submit(store, "root")
    nowhere = ClaimRequest(flows=[TaskId("no\x00where")], worker="w-a", slots=5)

    requests: list[Awaitable[Any]] = [
        store.advance([], nowhere),
        store.end_flow(nowhere.flows[0]),
        store.renew_worker("nobody", lease_seconds=0),
        store.remove_worker("nobody", now=NOON),
        claim(store, flow),
    ]
    outcomes = await asyncio.gather(*requests)

    assert outcomes[0] == ([], ClaimResult())
    assert outcomes[1:4] == [True, None, 0]
    assert names(outcomes[4]) == ["root"]


async def test_flows_run_when_asked_and_until_nothing_goes_on_by_itself(store: TaskStore) -> None:
    flow = await submit(store, "root", {"name": "b", "dependencies": ["root"]})
    assert list(await store.running_flows(owner=EVERYONE)) == [flow.root.id]
    assert list(await store.running_flows(owner=Owner("ann"))) == []
    assert not await store.end_flow(flow.root.id), "the root is ready"
    (root,) = (await claim(store, flow)).claimed
    assert not await store.end_flow(flow.root.id), "the root is in progress"
    await end(store, root, FAILED)

    assert await store.end_flow(flow.root.id), "what is left is blocked"
    assert await store.running_flows(owner=EVERYONE) == []


async def test_a_flow_whose_rest_waits_for_a_schedule_is_over_and_its_summary_says_so(
    store: TaskStore,
) -> None:
    flow = await submit(
        store,
        "root",
        {"name": "hourly", **HOURLY},
        {"name": "after", "dependencies": ["hourly"]},
        {"name": "blocked", "dependencies": ["root", "hourly"]},
    )
    (claimed,) = (await claim(store, flow)).claimed
    before = await store.summary(flow.root.id, owner=EVERYONE)
    await end(store, claimed, FAILED)

    summary = await store.summary(flow.root.id, owner=EVERYONE)

    assert not before.is_over
    assert (summary.blocked, summary.scheduled, summary.is_over) == (1, 2, True)
    assert summary == summarize(await store.flow_of(flow.root.id, owner=EVERYONE))
    assert await store.end_flow(flow.root.id)


async def test_a_flow_can_be_stopped_and_only_a_root_can_be_run(store: TaskStore) -> None:
    flow = await submit(store, "root", "child")
    await store.stop_flow(flow.root.id, owner=EVERYONE)

    assert await store.running_flows(owner=EVERYONE) == []
    assert (await claim(store, flow)).claimed == ()
    assert await store.end_flow(flow.root.id), "it is over already"
    for wrong in (named(flow, "child").id, TaskId("00000000-0000-4000-8000-000000000000")):
        with pytest.raises(TaskNotFound):
            await store.run_flow(wrong, owner=EVERYONE)
    with pytest.raises(TaskNotFound):
        await store.run_flow(flow.root.id, owner=Owner("ann"))


async def test_a_task_stored_in_progress_without_a_worker_is_taken_on(store: TaskStore) -> None:
    fields = {"name": "root", "status": "in_progress", "started_at": NOON.isoformat()}
    flow = await submit(store, fields)

    assert names(await claim(store, flow)) == ["root"]


async def test_failures_and_losses_are_counted_apart(store: TaskStore) -> None:
    flow = await submit(store, "a")
    root = flow.root.id

    def counts(outlook: ClaimResult) -> tuple[int, int, int, str | None]:
        (claimed,) = outlook.claimed
        return claimed.claim.attempt, claimed.failures, claimed.losses, claimed.last_error

    async def retry_after(outlook: ClaimResult, error: str) -> None:
        ending = AttemptResult(outlook.claimed[0].claim, Failed(NOON, error), retry_after=timedelta())
        assert await store.advance([ending], NOTHING) == ([True], ClaimResult())

    first = await claim(store, flow)
    await retry_after(first, "one")
    second = await claim(store, flow)
    assert await recover(store, NOON + 2 * SECOND) == 1  # its lease ran out
    await store.add_worker("w-a", lease_seconds=9)
    third = await claim(store, flow)
    assert await recover(store, NOON, dead=["w-a"]) == 1  # it is known to be dead
    await store.add_worker("w-a", lease_seconds=9)
    fourth = await claim(store, flow)
    assert await store.remove_worker("w-a", now=NOON) == 1  # it left in good order
    await store.add_worker("w-a", lease_seconds=9)
    fifth = await claim(store, flow)
    assert await store.release(fifth.claimed[0].claim, now=NOON)
    sixth = await claim(store, flow)
    await retry_after(sixth, "two")
    seventh = await claim(store, flow)
    assert await end(store, seventh.claimed[0], FAILED)
    await store.operate(MoveTask(root, Retried(NOON)), owner=EVERYONE)
    eighth = await claim(store, flow)

    assert [counts(outlook) for outlook in (first, second, third, fourth, fifth, sixth, seventh, eighth)] == [
        (1, 0, 0, None),
        (2, 1, 0, "one"),
        (3, 1, 1, "one"),
        (4, 1, 2, "one"),
        (5, 1, 2, "one"),
        (6, 1, 2, "one"),
        (7, 2, 0, "two"),
        (8, 0, 0, None),
    ]


async def test_a_change_of_other_fields_does_not_reset_the_counts(store: TaskStore) -> None:
    flow = await submit(store, "a")
    (first,) = (await claim(store, flow)).claimed
    await store.advance([AttemptResult(first.claim, FAILED, retry_after=timedelta())], NOTHING)
    await store.operate(UpdateTask(task_id=flow.root.id, fields={"name": "b"}, now=NOON), owner=EVERYONE)

    (second,) = (await claim(store, flow)).claimed

    assert (second.failures, second.last_error) == (1, "no")


async def test_a_record_that_cannot_be_read_leaves_nothing_claimed(store: TaskStore, store_url: str) -> None:
    flow = await submit(store, "a", "b", "c")
    await spoil(store_url, named(flow, "b").id)

    with pytest.raises(WeftError):
        await claim(store, flow)
    held = await store.renew_worker("w-a", lease_seconds=9)

    assert held == frozenset(), "of the others nobody would know"


async def spoil(store_url: str, task_id: TaskId) -> None:
    """Write what is no JSON over a task's inputs."""
    statement = f"UPDATE tasks SET inputs = '{{' WHERE id = '{task_id}'"  # noqa: S608 - an id of our own
    if store_url.startswith("postgresql"):
        connection = await asyncpg.connect(store_url)
        await connection.execute(statement)
        await connection.close()
    elif store_url.startswith(":memory:"):
        access = open_memory(store_url, SystemClock(), must_exist=True)
        access.read_now(lambda database: database.execute(statement))
        await access.close()
    else:
        with closing(sqlite3.connect(store_url)) as file:
            file.execute(statement)
            file.commit()


async def test_a_task_that_rests_is_claimed_again_when_one_of_those_it_waits_for_has_ended(
    store: TaskStore,
) -> None:
    flow = await submit(store, "root", "a", "b", "c")
    held = {one.task.name: one.claim for one in (await claim(store, flow)).claimed}
    until = (named(flow, "a").id, named(flow, "b").id)
    told, _ = await store.advance([Suspension(held["c"], NOON, until)], NOTHING)

    assert list(told) == [True]
    resting = await store.get(held["c"].task_id, owner=EVERYONE)
    assert (resting.status, resting.started_at) == (Status.PENDING, None)
    assert resting.dependencies == tuple(Dependency(task_id, required=False) for task_id in until)
    assert names(await claim(store, flow)) == []
    await store.finish(held["a"], FAILED)
    assert names(await claim(store, flow)) == []  # for them both, unless who ends one says otherwise
    await store.finish(held["b"], DONE)
    again = await claim(store, flow)
    assert names(again) == ["c"]
    assert (again.claimed[0].claim.attempt, again.claimed[0].losses) == (2, 0)
    events = await store.events(EventFilter(task=resting.id), owner=EVERYONE)
    rested = next(event for event in events if event.type is EventType.TASK_SUSPENDED)
    assert rested.facts == {"attempt": 1, "worker": "w-a", "until": list(until)}


async def test_a_task_cannot_rest_for_what_has_ended_and_keeps_its_dependencies(store: TaskStore) -> None:
    flow = await submit(store, "root", "a", "b", {"name": "c", "dependencies": ["a"]})
    held = {one.task.name: one.claim for one in (await claim(store, flow)).claimed}
    await store.finish(held["a"], DONE)
    [claimed] = (await claim(store, flow)).claimed
    await store.finish(held["b"], DONE)
    rest = Suspension(claimed.claim, NOON, (held["b"].task_id,), claimed.task.dependencies)
    told, _ = await store.advance([rest], NOTHING)

    assert list(told) == [True]
    [again] = (await claim(store, flow)).claimed
    assert (again.task.name, again.task.dependencies) == ("c", claimed.task.dependencies)
    assert list((await store.advance([rest], NOTHING))[0]) == [False]  # of an attempt that is over
