"""Time limits of durable programs that wait for a person, on every store: the wait counts."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.runs_bench import RunsBench
from weft.clock import ManualClock
from weft.engine.scheduler import Scheduler
from weft.ids import TaskId
from weft.llm.payload import HandlerPayload, ToolMessage
from weft.runs.outcome import RunOutcome
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.operations import NoOpenQuestion
from weft.tasks.questions import due_at
from weft.tasks.record import Status, Task
from weft.testing import tool_use

HOUR = timedelta(hours=1)
ASK = '(define (ask what) (get (system:request_user_input :question what) "answer"))'
MODEL = '(deftask think (x) :instructions "{{x}}")'
CAUGHT = f"""{ASK} {MODEL}
(define told (try (with-timeout 7200 (ask "Who?")) (catch e "nobody")))
(define more (ask "More?"))
(list told more (think told))"""


class Ticking(ManualClock):
    """Nothing happens at the same time as something else."""

    def now(self) -> datetime:
        self.advance(timedelta(microseconds=1))
        return super().now()


@pytest.fixture
def clock() -> ManualClock:
    return Ticking()


@pytest.fixture
def runs(store: TaskStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> RunsBench:
    monkeypatch.setattr("weft.runs.questions.QUIET_SECONDS", 0.01)
    bench = RunsBench(store)
    bench.clock = clock
    bench.with_handler(lambda payload: f"answer to {payload.messages[-1].content}")
    return bench


async def question_of(runs: RunsBench, root_id: TaskId) -> Task:
    [question] = await runs.app().questions(root_id)
    return question


async def tell(runs: RunsBench, root_id: TaskId, text: str) -> None:
    await runs.app().answer((await question_of(runs, root_id)).id, text)


def value(outcome: RunOutcome) -> Any:
    assert outcome.result is not None
    return outcome.result.value


async def test_a_question_says_until_when_it_can_be_answered(runs: RunsBench, clock: ManualClock) -> None:
    asked_at = clock.now()
    resting = await runs.run(CAUGHT)
    due = due_at(await question_of(runs, resting.root_id))

    assert due is not None
    assert abs(due - (asked_at + 2 * HOUR)) < timedelta(minutes=5)  # seconds of the event loop are real ones


async def test_a_question_that_is_open_longer_than_the_time_limit_times_out_when_the_run_goes_on(
    runs: RunsBench, clock: ManualClock
) -> None:
    resting = await runs.run(CAUGHT)
    clock.advance(3 * HOUR)
    with pytest.raises(NoOpenQuestion, match="time limit"):
        await tell(runs, resting.root_id, "me")
    assert (await runs.go_on(resting.root_id)).status is Status.PENDING
    assert (await question_of(runs, resting.root_id)).name == "More?"
    await tell(runs, resting.root_id, "no")
    outcome = await runs.go_on(resting.root_id)

    assert value(outcome) == ["nobody", "no", "answer to nobody"]
    assert runs.asked == {"nobody": 1}


async def test_an_answer_in_time_counts_whenever_the_run_goes_on(runs: RunsBench, clock: ManualClock) -> None:
    resting = await runs.run(CAUGHT)
    clock.advance(HOUR)
    await tell(runs, resting.root_id, "me")
    clock.advance(24 * HOUR)
    assert (await runs.go_on(resting.root_id)).status is Status.PENDING
    clock.advance(24 * HOUR)
    await tell(runs, resting.root_id, "no")
    outcome = await runs.go_on(resting.root_id)

    assert value(outcome) == ["me", "no", "answer to me"]


async def test_questions_of_one_time_limit_share_its_time(runs: RunsBench, clock: ManualClock) -> None:
    resting = await runs.run(f'{ASK} (with-timeout 7200 (list (ask "a") (ask "b")))')
    clock.advance(1.5 * HOUR)
    await tell(runs, resting.root_id, "one")
    assert (await runs.go_on(resting.root_id)).status is Status.PENDING
    due = due_at(await question_of(runs, resting.root_id))
    assert due is not None
    assert due - clock.now() < 0.6 * HOUR
    clock.advance(HOUR)
    outcome = await runs.go_on(resting.root_id)

    assert outcome.status is Status.FAILED
    assert "timed out after 7200 seconds" in str((await runs.flow(resting.root_id)).root.error)


async def test_questions_that_wait_at_the_same_time_count_once(runs: RunsBench, clock: ManualClock) -> None:
    text = f'{ASK} (with-timeout 7200 (list (parallel (ask "a") (ask "b") (ask "c")) (ask "d")))'
    resting = await runs.run(text)
    clock.advance(1.5 * HOUR)
    for question in await runs.app().questions(resting.root_id):
        await runs.app().answer(question.id, question.name)
    assert (await runs.go_on(resting.root_id)).status is Status.PENDING
    await tell(runs, resting.root_id, "in time")
    outcome = await runs.go_on(resting.root_id)

    assert value(outcome) == [["a", "b", "c"], "in time"]


async def test_a_run_that_timed_out_and_is_tried_again_asks_anew(runs: RunsBench, clock: ManualClock) -> None:
    resting = await runs.run(f'{ASK} (with-timeout 7200 (ask "a"))')
    clock.advance(3 * HOUR)
    assert (await runs.go_on(resting.root_id)).status is Status.FAILED
    assert (await runs.go_on(resting.root_id)).status is Status.PENDING
    clock.advance(HOUR)
    await tell(runs, resting.root_id, "late, but well")

    assert value(await runs.go_on(resting.root_id)) == "late, but well"


def asks_once(payload: HandlerPayload) -> Any:
    given = [message.content for message in payload.messages if isinstance(message, ToolMessage)]
    return given[0] if given else tool_use("system_request_user_input", question="Which?")


@pytest.mark.parametrize("hours", [1, 3])
async def test_the_timeout_of_a_task_counts_while_its_model_waits_for_a_person(
    runs: RunsBench, clock: ManualClock, hours: int
) -> None:
    runs.with_handler(asks_once)
    resting = await runs.run("""
        (deftask look () :instructions "Look." :timeout 7200 :tools ("system:request_user_input"))
        (try (look) (catch e (get-in e (list "notes" "error" "reason"))))""")
    clock.advance(hours * HOUR)
    if hours == 1:
        await tell(runs, resting.root_id, "this")
    outcome = await runs.go_on(resting.root_id)

    assert value(outcome) == ('{"answer": "this"}' if hours == 1 else "execution_timeout")


async def test_the_timeout_of_a_task_made_of_others_counts_too(runs: RunsBench, clock: ManualClock) -> None:
    resting = await runs.run(f"""{ASK} (template inner () (ask "a"))
        (try (sequential :timeout 7200 (inner)) (catch e "too late"))""")
    clock.advance(3 * HOUR)

    assert value(await runs.go_on(resting.root_id)) == "too late"


async def test_a_process_that_serves_the_store_wakes_a_run_whose_time_limit_is_reached(
    runs: RunsBench, clock: ManualClock
) -> None:
    resting = await runs.run(f'{ASK} (try (with-timeout 7200 (ask "a")) (catch e "nobody"))')
    scheduler = Scheduler(runs.store, clock)
    clock.advance(HOUR)
    await scheduler.wake_overdue()
    assert await runs.store.running_flows(owner=EVERYONE) == []
    clock.advance(2 * HOUR)
    await scheduler.wake_overdue()
    assert await runs.store.running_flows(owner=EVERYONE) == [resting.root_id]
    app = runs.app()
    await app.wait(resting.root_id)
    await app.stop(grace_seconds=0)

    root = (await runs.flow(resting.root_id)).root
    assert (root.status, (root.result or {}).get("content")) == (Status.COMPLETED, "nobody")
    assert await runs.store.overdue_suspensions(now=clock.now() + HOUR, limit=10) == []
