"""Open steps as a store alone sees them: they end with their run, and what must hold of every store."""

import sqlite3
from contextlib import closing
from typing import Any

import asyncpg
import pytest

from tests.builders import NOON, MoveTask, a_flow, completed
from tests.invariants import check_flow, event_problems
from tests.runs_bench import RunsBench
from weft.clock import SystemClock
from weft.config.settings import is_memory
from weft.ids import new_task_id
from weft.store.models import Run, StepChange
from weft.store.protocol import EVERYONE, Claim, ClaimRequest, EventFilter, TaskStore
from weft.store.sql import load_migrations
from weft.store.sqlite.memory import open_memory
from weft.tasks.events import Event, EventType
from weft.tasks.flow import Flow
from weft.tasks.record import Status, Task, evolve
from weft.tasks.states import Cancelled, Completed, Failed, Outcome
from weft.tasks.steps import ENDED_WITH_RUN, ENDED_WITH_STEP


async def claimed_run(store: TaskStore, *documents: dict[str, Any]) -> tuple[Flow, dict[str, Claim]]:
    """Submit a flow of tasks without an executor, and claim all that can start."""
    app = RunsBench(store).app()
    flow = await app.submit(list(documents))
    await store.add_worker("w", lease_seconds=3600)
    await store.run_flow(flow.root.id, owner=EVERYONE)
    wanted = ClaimRequest(flows=[flow.root.id], worker="w", slots=10)
    _, outlook = await store.advance([], wanted)
    assert not isinstance(outlook, Exception)
    return flow, {one.task.name: one.claim for one in outlook.claimed}


async def write_steps(store: TaskStore, claim: Claim, *keys: str) -> dict[str, Task]:
    """Open steps with these keys below a task."""
    run = Run(claim.task_id, claim.attempt, claim.task_tree_id, claim.user_id)
    steps: dict[str, Task] = {}
    for key in keys:
        steps[key] = Task(
            id=new_task_id(),
            parent_id=claim.task_id,
            name=key,
            status=Status.IN_PROGRESS,
            params={"step": {"key": key, "kind": "sequential"}},
            created_at=NOON,
            started_at=NOON,
            updated_at=NOON,
            task_tree_id=claim.task_tree_id,
        )
    changes = [StepChange(step, key, "hash", is_first_child=True) for key, step in steps.items()]
    assert await store.write_steps(run, changes) == frozenset()
    return steps


OUTCOMES = [Completed(NOON, {}), Failed(NOON, "no"), Cancelled(NOON)]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.verb)
async def test_the_steps_of_a_task_end_in_the_transaction_that_ends_it(
    store: TaskStore, outcome: Outcome
) -> None:
    flow, claims = await claimed_run(store, {"name": "all"}, {"name": "other", "parent_id": "all"})
    steps = await write_steps(store, claims["all"], "1", "1/2", "1/2?1", "3#1")
    others = await write_steps(store, claims["other"], "1")
    assert await store.finish(claims["all"], outcome)

    left = await store.flow_of(flow.root.id, owner=EVERYONE)
    await check_flow(store, flow.root.id)
    assert {left[step.id].status for step in steps.values()} == {Status.CANCELLED}
    assert {left[step.id].completed_at for step in steps.values()} == {NOON}
    assert left[others["1"].id].status is Status.IN_PROGRESS
    assert left[claims["other"].task_id].status is Status.IN_PROGRESS, "a child of a plain task is not ended"
    assert await store.steps_of(claims["all"].task_id) == []
    ended = await store.events(EventFilter(tree=flow.root.id), owner=EVERYONE)
    assert [event.task_id for event in ended[-5:]] == [*(step.id for step in steps.values()), flow.root.id]


async def test_the_steps_of_a_task_stay_open_when_it_is_released_or_lost(store: TaskStore) -> None:
    flow, claims = await claimed_run(store, {"name": "all"})
    [step] = (await write_steps(store, claims["all"], "1")).values()
    await store.release(claims["all"], now=NOON)
    await store.recover(dead=["w"])

    assert (await store.get(step.id, owner=EVERYONE)).status is Status.IN_PROGRESS
    await check_flow(store, flow.root.id)


async def test_a_step_ends_what_is_open_below_it_and_nothing_beside_it(store: TaskStore) -> None:
    flow, claims = await claimed_run(store, {"name": "all"})
    below = ("2/1", "2/1/5", "2#1", "2?1", "2/10")
    beside = ("1", "20", "20/1", "2x", "3/2/1", "!2")
    steps = await write_steps(store, claims["all"], "2", *below, *beside)
    claim = claims["all"]
    run = Run(claim.task_id, claim.attempt, claim.task_tree_id, claim.user_id)
    ended = evolve(steps["2"], status=Status.COMPLETED, result={}, progress=1.0, completed_at=NOON)
    change = StepChange(ended, "2", "hash", is_new=False, is_continued=True, has_steps=True)
    assert await store.write_steps(run, [change]) == frozenset()

    left = await store.flow_of(flow.root.id, owner=EVERYONE)
    await check_flow(store, flow.root.id)
    assert {left[steps[key].id].error for key in below} == {ENDED_WITH_STEP}
    assert {left[steps[key].id].status for key in beside} == {Status.IN_PROGRESS}
    late = evolve(steps["2/1"], status=Status.COMPLETED, result={}, progress=1.0, completed_at=NOON)
    refused = await store.write_steps(run, [StepChange(late, "2/1", "hash", is_new=False, is_continued=True)])
    assert refused == frozenset({late.id})
    await check_flow(store, flow.root.id)


async def execute_script(store_url: str, script: str) -> None:
    """Execute statements on the database of a store."""
    if store_url.startswith("postgresql"):
        connection = await asyncpg.connect(store_url)
        await connection.execute(script)
        await connection.close()
    elif is_memory(store_url):
        access = open_memory(store_url, SystemClock(), must_exist=True)
        access.read_now(lambda database: database.executescript(script))
        await access.close()
    else:
        with closing(sqlite3.connect(store_url)) as file:
            file.executescript(script)


async def test_steps_that_an_earlier_version_left_open_end_when_the_store_is_brought_up_to_date(
    store: TaskStore, store_url: str
) -> None:
    flow, claims = await claimed_run(store, {"name": "all"}, {"name": "other", "parent_id": "all"})
    steps = await write_steps(store, claims["all"], "1", "1/2")
    others = await write_steps(store, claims["other"], "1")
    await store.operate(MoveTask(flow.root.id, Failed(NOON, "timed out")), owner=EVERYONE)
    with pytest.raises(AssertionError, match="is in_progress below 'all'"):
        await check_flow(store, flow.root.id)
    dialect = "postgresql" if store_url.startswith("postgresql") else "sqlite"
    [script] = [text for text in load_migrations(dialect) if "CREATE INDEX open_steps" in text]
    script = f"DROP INDEX open_steps; {script}"
    await execute_script(store_url, script)

    await check_flow(store, flow.root.id)
    left = await store.flow_of(flow.root.id, owner=EVERYONE)
    assert {left[step.id].error for step in steps.values()} == {ENDED_WITH_RUN}
    assert left[others["1"].id].status is Status.IN_PROGRESS


async def test_names_of_an_earlier_version_are_read_as_todays(store: TaskStore, store_url: str) -> None:
    flow, claims = await claimed_run(store, {"name": "all"})
    await write_steps(store, claims["all"], "1")
    same = "task_id, task_tree_id, user_id, at, facts FROM events WHERE type = 'flow.created'"
    old = f"""
        INSERT INTO events (type, task_id, task_tree_id, user_id, at, facts) SELECT 'task.rested', {same};
        INSERT INTO events (type, task_id, task_tree_id, user_id, at, facts) SELECT 'task.given_back', {same};
        UPDATE tasks SET params = '{{"step": {{"key": "1", "kind": "atomic"}}, "asked": {{"prompt": "one"}}}}'
        WHERE parent_id IS NOT NULL;
    """  # noqa: S608 - a text of this test
    await execute_script(store_url, old)

    events = await store.events(EventFilter(tree=flow.root.id), owner=EVERYONE)
    assert [event.type for event in events[-2:]] == [EventType.TASK_SUSPENDED, EventType.TASK_RELEASED]
    [step] = await store.steps_of(flow.root.id)
    assert step.task.params == {"step": {"key": "1", "kind": "atomic"}, "prompt": {"prompt": "one"}}


STARTED, DONE = EventType.TASK_STARTED, EventType.TASK_COMPLETED
FAILED, RETRIED = EventType.TASK_FAILED, EventType.TASK_RETRIED
RELEASED, RESTED = EventType.TASK_RELEASED, EventType.TASK_SUSPENDED


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ([(STARTED, 1), (DONE, 1)], None),
        ([(STARTED, 1), (FAILED, 1), (RETRIED, None), (STARTED, 2), (DONE, 2)], None),
        ([(STARTED, 1), (RELEASED, 1), (STARTED, 2), (RESTED, 2), (STARTED, 3), (DONE, 3)], None),
        ([(DONE, 1)], "task.completed, although it was pending"),
        ([(STARTED, 1), (DONE, 1), (DONE, 1)], "task.completed, although it was completed"),
        ([(STARTED, 1), (STARTED, 2), (DONE, 2)], "task.started, although it was in_progress"),
        ([(STARTED, 1), (RELEASED, 1), (DONE, 1)], "task.completed, although it was in_progress"),
        ([(STARTED, 2), (RELEASED, 2), (STARTED, 2), (DONE, 2)], "as attempt 2 after attempt 2"),
        ([(STARTED, 1), (DONE, 2)], "of attempt 2, and the last one that began is 1"),
        ([(STARTED, 1)], "is completed, and its events end with in_progress"),
    ],
)
def test_a_log_that_is_incomplete_or_out_of_order_is_found(
    log: list[tuple[EventType, int | None]], problem: str | None
) -> None:
    flow = completed(a_flow("only"))
    root = flow.root
    events = [
        Event(
            seq=seq,
            type=kind,
            task_id=root.id,
            task_tree_id=root.id,
            user_id=None,
            at=NOON,
            facts={} if attempt is None else {"attempt": attempt},
        )
        for seq, (kind, attempt) in enumerate(log)
    ]
    found = list(event_problems(flow, events))

    assert (problem is None) == (not found)
    assert problem is None or any(problem in one for one in found), found
