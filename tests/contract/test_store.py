"""What every store does. One suite, every implementation."""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.builders import NOON, MoveTask, a_flow, completed, named, numbered_ids
from weft.app.wiring import open_store
from weft.config.settings import Settings, is_memory
from weft.ids import TaskId
from weft.store.errors import NotJson, StoreError, StoreNotFound, TaskExists
from weft.store.protocol import EVERYONE, Claim, EventFilter, Owner, TaskFilter, TaskStore
from weft.tasks.events import EventType
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.operations import CopyTasks, DeleteTasks, SubmitFlow, UpdateTask
from weft.tasks.parsing.problems import InvalidTasks
from weft.tasks.record import Status, evolve
from weft.tasks.states import (
    TRANSITIONS,
    Cancelled,
    Completed,
    Failed,
    InvalidResult,
    InvalidTransition,
    Move,
    Retried,
    Started,
)

LEASE = timedelta(seconds=30)
ANN, BEN = Owner("ann"), Owner("ben")


async def test_a_store_that_must_exist_is_not_made(store_url: str) -> None:
    for _ in range(2):  # the first has made nothing
        with pytest.raises(StoreNotFound, match="no store at "):
            await open_store(Settings(db=store_url), must_exist=True)

    made = await open_store(Settings(db=store_url))
    await (await open_store(Settings(db=store_url), must_exist=True)).close()
    await made.close()
    if not is_memory(store_url):
        await (await open_store(Settings(db=store_url), must_exist=True)).close()


async def submit(store: TaskStore, flow: Flow, owner: Owner = EVERYONE) -> Flow:
    return await store.operate(SubmitFlow(flow, NOON), owner=owner)


async def start(store: TaskStore, task_id: TaskId, worker: str = "w", owner: Owner = EVERYONE) -> Claim:
    return await store.start(task_id, worker=worker, now=NOON, owner=owner)


async def event_types(store: TaskStore, task_id: TaskId) -> list[EventType]:
    return [event.type for event in await store.events(EventFilter(task=task_id), owner=EVERYONE)]


async def test_a_stored_flow_reads_back_equal(store: TaskStore) -> None:
    flow = await submit(
        store,
        a_flow(
            {
                "name": "root",
                "inputs": {"text": "a\x00b \U0001f9f5", "n": 2**70, "f": 0.1, "z": None},
                "priority": 0,
            },
            {"name": "child", "dependencies": [{"name": "root", "required": False}], "params": {}},
            {"name": "s", "schedule_type": "interval", "schedule_expression": "60", "schedule_enabled": True},
        ),
    )

    read = await store.flow_of(flow.root.id, owner=EVERYONE)

    assert list(read) == list(flow)
    assert await store.get(named(flow, "child").id, owner=EVERYONE) == named(flow, "child")


async def test_the_first_and_the_last_possible_time_read_back_equal(store: TaskStore) -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    task = evolve(a_flow("root").root, schedule_start_at=first, schedule_end_at=last)
    await submit(store, Flow([task]))

    assert await store.get(task.id, owner=EVERYONE) == task


async def test_a_flow_keeps_the_order_in_which_its_tasks_were_given(store: TaskStore) -> None:
    names = [f"t{number}" for number in range(50)]
    flow = await submit(store, a_flow(*names))

    assert [task.name for task in await store.flow_of(flow.root.id, owner=EVERYONE)] == names


async def test_the_flow_of_a_child_is_the_whole_flow(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root", "child"))
    await submit(store, a_flow("other", prefix="b"))

    assert len(await store.flow_of(named(flow, "child").id, owner=EVERYONE)) == 2


async def test_an_unknown_task_is_not_found(store: TaskStore) -> None:
    missing = numbered_ids()()

    with pytest.raises(TaskNotFound):
        await store.get(missing, owner=EVERYONE)
    with pytest.raises(TaskNotFound):
        await store.flow_of(missing, owner=EVERYONE)
    with pytest.raises(TaskNotFound):
        await start(store, missing)


async def test_an_id_is_stored_once_and_a_refused_flow_leaves_nothing(store: TaskStore) -> None:
    await submit(store, a_flow("root"))

    with pytest.raises(TaskExists) as caught:
        await submit(store, a_flow("again", "and more"))

    assert caught.value.task_ids == (numbered_ids()(),)
    assert (await store.list(TaskFilter(), owner=EVERYONE)).total == 1


async def test_nobody_is_told_which_ids_are_other_owners(store: TaskStore) -> None:
    await submit(store, a_flow("root", "child", user_id="ann"), ANN)

    with pytest.raises(TaskExists) as own:
        await submit(store, a_flow("root", user_id="ann"), ANN)
    with pytest.raises(TaskExists) as others:
        await submit(store, a_flow("root", "child", user_id="bob"), Owner("bob"))
    with pytest.raises(TaskExists) as operator:
        await submit(store, a_flow("root", "child"))

    assert own.value.task_ids == (numbered_ids()(),)
    assert others.value.task_ids == ()
    assert numbered_ids()() not in others.value.message
    assert len(operator.value.task_ids) == 2


async def test_another_owners_task_does_not_exist(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root", "child", user_id="ann"), ANN)
    task_id = flow.root.id
    claim = await start(store, task_id, owner=ANN)

    for attempt in (
        store.get(task_id, owner=BEN),
        store.flow_of(task_id, owner=BEN),
        start(store, named(flow, "child").id, owner=BEN),
        store.operate(UpdateTask(task_id=task_id, fields={"priority": 0}, now=NOON), owner=BEN),
        store.operate(DeleteTasks(task_ids=(named(flow, "child").id,), now=NOON), owner=BEN),
        store.operate(CopyTasks(task_id=task_id, new_id=numbered_ids("b"), now=NOON), owner=BEN),
        store.operate(MoveTask(task_id, Cancelled(NOON)), owner=BEN),
        store.get(task_id, owner=Owner(None)),
    ):
        with pytest.raises(TaskNotFound):
            await attempt
    assert (await store.list(TaskFilter(), owner=BEN)).total == 0
    assert await store.events(EventFilter(), owner=BEN) == []
    assert await store.get_many([task_id], owner=BEN) == {}
    assert await store.finish(claim, Completed(NOON, {}))
    assert len(await store.events(EventFilter(), owner=ANN)) == 3


async def test_the_owner_none_sees_only_tasks_without_an_owner(store: TaskStore) -> None:
    await submit(store, a_flow("free"))
    await submit(store, a_flow("owned", prefix="b", user_id="ann"))

    page = await store.list(TaskFilter(), owner=Owner(None))

    assert [task.name for task in page.tasks] == ["free"]


async def test_a_task_is_started_and_completed(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root"))

    claim = await start(store, flow.root.id)
    running = await store.get(flow.root.id, owner=EVERYONE)
    assert await store.report(claim, progress=0.5, now=NOON)
    assert await store.finish(claim, Completed(NOON + LEASE, {"value": 1}))
    ended = await store.get(flow.root.id, owner=EVERYONE)

    assert claim.attempt == 1
    assert (running.status, running.started_at, running.progress) == (Status.IN_PROGRESS, NOON, 0.0)
    assert (ended.status, ended.result, ended.progress) == (Status.COMPLETED, {"value": 1}, 1.0)
    assert (ended.completed_at, ended.error) == (NOON + LEASE, None)
    assert await event_types(store, flow.root.id) == [
        EventType.FLOW_CREATED,
        EventType.TASK_STARTED,
        EventType.TASK_PROGRESSED,
        EventType.TASK_COMPLETED,
    ]


@pytest.mark.parametrize("outcome", [Failed(NOON, "no\x00pe \ud800"), Cancelled(NOON, "")])
async def test_an_error_is_kept_as_text_that_every_store_can_hold(
    store: TaskStore, outcome: Failed | Cancelled
) -> None:
    flow = await submit(store, a_flow("root"))

    assert await store.finish(await start(store, flow.root.id), outcome)

    ended = await store.get(flow.root.id, owner=EVERYONE)
    assert ended.status.value == outcome.verb
    assert ended.error
    assert "\x00" not in ended.error


async def test_one_of_many_starters_wins(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root"))

    outcomes = await asyncio.gather(
        *(start(store, flow.root.id, f"w{number}") for number in range(20)), return_exceptions=True
    )

    assert sum(isinstance(outcome, Claim) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, InvalidTransition) for outcome in outcomes) == 19


async def test_one_of_many_outcomes_wins(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root"))
    claim = await start(store, flow.root.id)

    won = await asyncio.gather(*(store.finish(claim, Completed(NOON, {"n": number})) for number in range(20)))

    assert sum(won) == 1
    assert (await store.get(flow.root.id, owner=EVERYONE)).result == {"n": won.index(True)}


async def test_a_late_attempt_can_neither_report_nor_finish(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root"))
    late = await start(store, flow.root.id)
    await store.operate(MoveTask(flow.root.id, Failed(NOON, "gave up")), owner=EVERYONE)
    await store.operate(MoveTask(flow.root.id, Retried(NOON)), owner=EVERYONE)
    current = await start(store, flow.root.id)

    assert current.attempt == 2
    assert not await store.report(late, progress=0.9, now=NOON)
    assert not await store.finish(late, Completed(NOON, {"value": "late"}))
    assert await store.finish(current, Completed(NOON, {"value": "good"}))
    assert (await store.get(flow.root.id, owner=EVERYONE)).result == {"value": "good"}


MOVES: list[Move] = [
    Started(NOON),
    Completed(NOON, {"v": 1}),
    Failed(NOON, "e"),
    Cancelled(NOON),
    Retried(NOON),
]


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.verb)
async def test_the_store_allows_exactly_the_moves_of_the_table(
    store: TaskStore, status: Status, move: Move
) -> None:
    ended = {"completed_at": NOON.isoformat()} if status.is_terminal else {}
    begun = {} if status is Status.PENDING else {"started_at": NOON.isoformat()}
    broken = {"error": "e"} if status in {Status.FAILED, Status.CANCELLED} else {}
    task = (
        await submit(store, a_flow({"name": "t", "status": status.value, **ended, **begun, **broken}))
    ).root
    is_allowed = (status, type(move)) in TRANSITIONS

    if is_allowed:
        await store.operate(MoveTask(task.id, move), owner=EVERYONE)
        assert (await store.get(task.id, owner=EVERYONE)).status is not status
    else:
        with pytest.raises(InvalidTransition):
            await store.operate(MoveTask(task.id, move), owner=EVERYONE)
        assert await store.get(task.id, owner=EVERYONE) == task


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PENDING])
async def test_only_a_pending_task_starts(store: TaskStore, status: Status) -> None:
    ended = {"completed_at": NOON.isoformat()} if status.is_terminal else {}
    broken = {"error": "e"} if status in {Status.FAILED, Status.CANCELLED} else {}
    fields = {"name": "t", "status": status.value, "started_at": NOON.isoformat(), **ended, **broken}
    task = (await submit(store, a_flow(fields))).root

    with pytest.raises(InvalidTransition, match=f"is {status}"):
        await start(store, task.id)


async def test_cancelling_a_running_task_ends_its_claim(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root"))
    claim = await start(store, flow.root.id)

    await store.operate(MoveTask(flow.root.id, Cancelled(NOON, "by ann")), owner=EVERYONE)

    assert not await store.finish(claim, Completed(NOON, {}))
    assert (await store.get(flow.root.id, owner=EVERYONE)).error == "by ann"


async def test_updating_a_running_task_keeps_its_claim(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root"))
    claim = await start(store, flow.root.id)

    await store.operate(UpdateTask(task_id=flow.root.id, fields={"priority": 0}, now=NOON), owner=EVERYONE)

    assert await store.finish(claim, Completed(NOON, {}))


async def test_a_failing_operation_does_not_touch_its_neighbours_in_the_group(store: TaskStore) -> None:
    first = await submit(store, a_flow("root"))

    outcomes = await asyncio.gather(
        submit(store, a_flow("b", prefix="b")),
        submit(store, a_flow("a again", "x", prefix="a")),
        store.operate(UpdateTask(task_id=first.root.id, fields={"id": "x"}, now=NOON), owner=EVERYONE),
        submit(store, a_flow("c", prefix="c")),
        return_exceptions=True,
    )

    assert [type(outcome) for outcome in outcomes] == [Flow, TaskExists, InvalidTasks, Flow]
    assert (await store.list(TaskFilter(), owner=EVERYONE)).total == 3


async def test_what_cannot_be_stored_is_refused_without_harm_to_its_neighbours(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root", "child"))
    bad, good = [await start(store, task.id) for task in flow]
    strange = evolve(a_flow("strange", prefix="b").root, inputs={"set": object()})
    huge = evolve(a_flow("huge", prefix="b").root, run_count=2**64)
    half = evolve(a_flow("half", prefix="b").root, name="\ud800")

    outcomes = await asyncio.gather(
        store.finish(bad, Completed(NOON, {"half a pair": "\ud800"})),
        submit(store, Flow([strange])),
        submit(store, Flow([huge])),
        submit(store, Flow([half])),
        store.finish(good, Completed(NOON, {})),
        submit(store, a_flow("c", prefix="c")),
        return_exceptions=True,
    )

    assert [type(outcome) for outcome in outcomes] == [
        InvalidResult,
        NotJson,
        StoreError,
        StoreError,
        bool,
        Flow,
    ]
    assert (await store.get(bad.task_id, owner=EVERYONE)).status is Status.IN_PROGRESS
    assert (await store.list(TaskFilter(), owner=EVERYONE)).total == 3


async def test_writes_of_one_group_about_one_task_take_effect_in_their_order(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root", "child"))
    claim, other = [await start(store, task.id) for task in flow]

    requests: list[Awaitable[Any]] = [
        store.report(claim, progress=0.2, now=NOON),
        store.report(claim, progress=0.4, now=NOON),
        store.finish(claim, Failed(NOON, "e")),
        store.report(other, progress=float("nan"), now=NOON),
        store.report(claim, progress=0.9, now=NOON),
        store.operate(MoveTask(claim.task_id, Retried(NOON)), owner=EVERYONE),
        start(store, claim.task_id),
        store.finish(other, Completed(NOON, {})),
    ]
    outcomes = await asyncio.gather(*requests)

    assert outcomes[:5] == [True, True, True, True, False]
    assert (outcomes[6].attempt, outcomes[7]) == (2, True)
    events = await store.events(EventFilter(limit=10), owner=EVERYONE)
    assert [(event.task_id, event.type) for event in events[3:]] == [
        (claim.task_id, EventType.TASK_PROGRESSED),
        (claim.task_id, EventType.TASK_PROGRESSED),
        (claim.task_id, EventType.TASK_FAILED),
        (other.task_id, EventType.TASK_PROGRESSED),
        (claim.task_id, EventType.TASK_RETRIED),
        (claim.task_id, EventType.TASK_STARTED),
        (other.task_id, EventType.TASK_COMPLETED),
    ]


async def test_operations_of_one_group_see_what_earlier_ones_did(store: TaskStore) -> None:
    first, second = a_flow("a", prefix="a"), a_flow("b", "child", prefix="b")
    child = named(second, "child").id

    requests: list[Awaitable[Any]] = [
        submit(store, first),
        store.operate(UpdateTask(task_id=first.root.id, fields={"priority": 0}, now=NOON), owner=EVERYONE),
        store.operate(UpdateTask(task_id=first.root.id, fields={"name": "new"}, now=NOON), owner=EVERYONE),
        submit(store, second),
        store.operate(CopyTasks(task_id=first.root.id, new_id=numbered_ids("c"), now=NOON), owner=EVERYONE),
        store.operate(DeleteTasks(task_ids=(child,), now=NOON), owner=EVERYONE),
        store.operate(MoveTask(child, Cancelled(NOON)), owner=EVERYONE),
    ]
    outcomes = await asyncio.gather(*requests, return_exceptions=True)

    assert isinstance(outcomes[6], TaskNotFound)
    task = await store.get(first.root.id, owner=EVERYONE)
    assert (task.name, task.priority, task.has_references) == ("new", 0, True)
    assert not (await store.get(second.root.id, owner=EVERYONE)).has_children
    assert (await store.list(TaskFilter(), owner=EVERYONE)).total == 3


async def test_an_owner_who_cannot_own_anything_finds_nothing(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root"))
    nobody = Owner("a\x00")

    outcomes = await asyncio.gather(
        start(store, flow.root.id, owner=nobody), start(store, flow.root.id), return_exceptions=True
    )

    assert [type(outcome) for outcome in outcomes] == [TaskNotFound, Claim]
    with pytest.raises(TaskNotFound):
        await store.flow_of(flow.root.id, owner=nobody)
    assert await store.get_many([flow.root.id], owner=nobody) == {}
    assert (await store.list(TaskFilter(), owner=nobody)).total == 0
    assert (await store.list(TaskFilter(name="a\x00"), owner=EVERYONE)).total == 0
    assert len(await store.events(EventFilter(), owner=nobody)) == 0


async def test_a_text_that_is_no_id_names_no_task(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root"))

    for text in ("", "x", "not-an-id\x00", flow.root.id.upper(), f"{{{flow.root.id}}}"):
        task_id = TaskId(text)
        for attempt in (
            store.get(task_id, owner=EVERYONE),
            store.flow_of(task_id, owner=EVERYONE),
            start(store, task_id),
            store.operate(MoveTask(task_id, Cancelled(NOON)), owner=EVERYONE),
            store.operate(DeleteTasks(task_ids=(task_id,), now=NOON), owner=EVERYONE),
        ):
            with pytest.raises(TaskNotFound):
                await attempt
        assert await store.get_many([flow.root.id, task_id], owner=EVERYONE) == {flow.root.id: flow.root}


async def test_lists_are_filtered_paged_and_counted_newest_first(store: TaskStore) -> None:
    flow = await submit(store, a_flow("Alpha", "beta", "gamma"))
    await submit(store, completed(a_flow("ALPHABET", prefix="b")))
    scheduled = {
        "name": "s",
        "schedule_type": "daily",
        "schedule_expression": "09:00",
        "schedule_enabled": True,
    }
    await submit(store, a_flow(scheduled, prefix="c"))

    async def names(**wanted: object) -> tuple[list[str], int]:
        page = await store.list(TaskFilter(**wanted), owner=EVERYONE)  # type: ignore[arg-type]
        return [task.name for task in page.tasks], page.total

    assert await names() == (["s", "ALPHABET", "gamma", "beta", "Alpha"], 5)
    assert await names(limit=2, offset=1) == (["ALPHABET", "gamma"], 5)
    assert await names(name="alpha") == (["ALPHABET", "Alpha"], 2)
    assert await names(name="%") == ([], 0)
    assert await names(status=Status.COMPLETED) == (["ALPHABET"], 1)
    assert await names(tree=flow.root.id) == (["gamma", "beta", "Alpha"], 3)
    assert await names(only_roots=True) == (["s", "ALPHABET", "Alpha"], 3)
    assert await names(only_scheduled=True) == (["s"], 1)


async def test_events_are_numbered_in_order_and_read_from_any_point(store: TaskStore) -> None:
    flow = await submit(store, a_flow("root", *(f"t{number}" for number in range(30))))
    claims = await asyncio.gather(*(start(store, task.id) for task in flow))
    await asyncio.gather(*(store.finish(claim, Completed(NOON, {})) for claim in claims))

    events = await store.events(EventFilter(tree=flow.root.id), owner=EVERYONE)
    rest = await store.events(EventFilter(tree=flow.root.id, after=events[9].seq, limit=5), owner=EVERYONE)

    assert len(events) == 1 + 31 * 2
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert list(rest) == list(events[10:15])
    assert events[1].facts == {"attempt": 1, "worker": "w"}
    assert events[0].facts == {"tasks": 31, "origin": "create"}


async def test_what_is_committed_is_there_after_opening_again(store: TaskStore, store_url: str) -> None:
    flow = await submit(store, a_flow("root", "child"))

    second = await open_store(Settings(db=store_url))
    try:
        assert list(await second.flow_of(flow.root.id, owner=EVERYONE)) == list(flow)
        assert (await second.describe()).tasks == 2
    finally:
        await second.close()


async def test_two_open_stores_share_the_claims(store: TaskStore, store_url: str) -> None:
    flow = await submit(store, a_flow("root", *(f"t{number}" for number in range(40))))
    second = await open_store(Settings(db=store_url))
    try:
        attempts = [
            start(one, task.id, worker) for task in flow for one, worker in ((store, "a"), (second, "b"))
        ]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    finally:
        await second.close()

    claims = [outcome for outcome in outcomes if isinstance(outcome, Claim)]
    assert sorted(claim.task_id for claim in claims) == sorted(task.id for task in flow)
    assert all(isinstance(outcome, Claim | InvalidTransition) for outcome in outcomes)


async def test_a_closed_store_refuses_and_closing_waits_for_writes_under_way(store_url: str) -> None:
    store = await open_store(Settings(db=store_url))
    writing = [asyncio.ensure_future(submit(store, a_flow("t", prefix=prefix))) for prefix in "abcdef"]
    await asyncio.sleep(0)
    await store.close()

    assert all(isinstance(flow, Flow) for flow in await asyncio.gather(*writing))
    with pytest.raises(StoreError):
        await submit(store, a_flow("late", prefix="9"))


async def test_the_store_describes_itself(store: TaskStore) -> None:
    await submit(store, a_flow("root", "child"))

    description = await store.describe()

    assert (description.tasks, description.events, description.problems) == (2, 1, ())
    assert description.schema_version >= 1


async def test_tasks_are_found_by_the_beginning_of_their_ids(store: TaskStore) -> None:
    flow = await submit(store, a_flow("a", "b", user_id="ann"), ANN)
    await submit(store, a_flow("c", prefix="c", user_id="ben"), BEN)
    first = flow.root.id

    async def found(prefix: str, owner: Owner = ANN, limit: int = 50) -> list[TaskId]:
        return [task.id for task in await store.find_by_prefix(prefix, owner=owner, limit=limit)]

    assert await found(first) == await found(first.upper()) == [first]
    assert set(await found(first[:8])) == {task.id for task in flow}
    assert await found(first[:8], limit=1) == [list(flow)[-1].id]
    assert await found("ffffffff") == await found("no id") == await found(first, BEN) == []
