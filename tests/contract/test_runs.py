"""Durable programs, on every store: steps, replay, failures, reuse."""

import asyncio
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.builders import a_flow
from tests.invariants import check_over
from tests.runs_bench import MortalStore, RunsBench
from weft.app.programs import load_program
from weft.app.wiring import open_store
from weft.config.settings import Settings
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.ids import TaskId
from weft.runs.program import as_params
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.record import Origin, Status
from weft.tasks.steps import StepFields, step_fields
from weft.testing.in_memory_effects import InMemoryEffects

ASK = '(deftask ask (x) :instructions "{{x}}")'

PROGRAM = f"""{ASK}
(template both (a b) (list (ask a) (ask b)))
(define one (ask "first"))
(define many (map ask (list "1" "2" "3" "4" "5" "6" "7" "8")))
(define caught (try (ask "bad") (catch e "caught")))
(define looped (loop 3 (ask "again")))
(define raced (try (parallel (ask "r1") (list (ask "r2") (ask "bad") (ask "r3"))) (catch e "raced")))
(define spent (try (with-budget (:calls 2) (list (ask "s1") (ask "s2") (ask "s3"))) (catch e "spent")))
(cond ((= caught "caught") (both "x" "y")) (else (ask "never")))
"""


def answer(prompt: str) -> str:
    if prompt == "bad":
        raise TaskFailed(TaskFailure("llm_error", "no such thing"))
    return f"answer to {prompt}"


class Racing(InMemoryEffects):
    """Answers at once, but for one prompt: that takes as long as others are under way."""

    def __init__(self, late: str, mortal: MortalStore) -> None:
        super().__init__(lambda call: call.prompt)
        self._late = late
        self._mortal = mortal

    async def call_model(self, step: Any, call: Any, account: Any = None) -> Any:
        if call.prompt == self._late:
            await asyncio.sleep(0.05)
        if call.prompt == "end":
            self._mortal.die()
        return await super().call_model(step, call)


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store, answer)


async def test_every_task_of_a_program_is_a_record_below_the_run(runs: RunsBench) -> None:
    outcome = await runs.run(PROGRAM)

    assert outcome.status is Status.COMPLETED
    assert outcome.result is not None
    assert outcome.result.value == ["answer to x", "answer to y"]
    asked = [(1, "ask", "completed")]
    assert await runs.tree(outcome.root_id) == [
        (0, "run", "completed"),
        *asked * 9,
        (1, "ask", "failed"),
        *asked * 3,
        (1, "limit", "failed"),
        *asked * 2,
        (1, "ask", "failed"),
        (1, "limit", "failed"),
        *asked * 2,
        (1, "both", "completed"),
        (2, "ask", "completed"),
        (2, "ask", "completed"),
    ]


async def test_a_record_says_what_was_asked_and_where_in_the_program(runs: RunsBench) -> None:
    outcome = await runs.run(f'{ASK} (ask "one")')

    _, step = await runs.flow(outcome.root_id)
    assert step.inputs == {"x": "one"}
    assert step.params == {"step": {"key": "1", "kind": "atomic"}, "prompt": {"prompt": "one"}}
    assert step.result == {"content": "answer to one", "status": "COMPLETE"}


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "not written"])
async def test_whatever_write_a_process_dies_at_the_run_goes_on_and_pays_nothing_twice(
    runs: RunsBench, is_written: bool
) -> None:
    whole = await runs.run(PROGRAM, reuse=False)
    expected = sorted(await runs.tree(whole.root_id))
    dies_at = 0
    while True:
        dies_at += 1 if runs.is_sqlite else 7
        runs.asked.clear()
        root_id = await runs.begin(PROGRAM, reuse=False)
        if not await runs.die(root_id, dies_at=dies_at, is_written=is_written):
            break
        stored = {
            task.inputs["x"]
            for task in await runs.flow(root_id)
            if task.name == "ask" and task.status is Status.COMPLETED
        }
        before = runs.asked.copy()
        outcome = await runs.go_on(root_id)

        assert outcome.result == whole.result, dies_at
        assert sorted(await runs.tree(root_id)) == expected, dies_at
        await check_over(runs.store, root_id)
        again = runs.asked - before
        assert not {prompt for prompt in stored if again[prompt]} - {"again"}, dies_at
        assert runs.asked["again"] <= 4, dies_at
    assert dies_at > 10, "the series ended before the run did"


async def test_a_run_that_failed_is_tried_again_from_the_step_that_failed(runs: RunsBench) -> None:
    is_down = True

    def answer(prompt: str) -> str:
        if prompt == "second" and is_down:
            raise TaskFailed(TaskFailure("connection_error", "nobody answers"))
        return prompt

    runs.answer = answer
    whole = '(list (ask "first") (try (ask "second") (catch e 1)) (ask "second"))'
    text = f"{ASK} (template whole () {whole}) (whole)"
    failed = await runs.run(text)
    assert failed.status is Status.FAILED
    assert failed.result is not None
    assert failed.result.notes["error"]["reason"] == "connection_error"

    is_down = False
    outcome = await runs.go_on(failed.root_id)

    assert outcome.status is Status.COMPLETED
    assert outcome.result is not None
    assert outcome.result.value == ["first", 1, "second"]  # what was caught then stays as it was
    assert runs.asked == {"first": 1, "second": 3}


async def test_a_failure_stops_concurrent_steps_and_all_of_them_are_tried_again(runs: RunsBench) -> None:
    is_down = True
    begun: list[str] = []
    all_begun = asyncio.Event()

    class Effects(InMemoryEffects):
        async def call_model(self, step: Any, call: Any, account: Any = None) -> Any:
            begun.append(call.prompt)
            if len(begun) == 3:
                all_begun.set()
            if is_down and call.prompt == "bad":
                await all_begun.wait()
                raise TaskFailed(TaskFailure("llm_error", "no"))
            if is_down:
                await asyncio.Event().wait()
            return await super().call_model(step, call)

    runs.effects = lambda: Effects(lambda call: call.prompt)
    failed = await runs.run(f'{ASK} (map ask (list "a" "bad" "c"))')
    assert [status for _, _, status in await runs.tree(failed.root_id)] == [
        "failed", "cancelled", "failed", "cancelled",
    ]  # fmt: skip

    is_down = False
    outcome = await runs.go_on(failed.root_id)

    assert outcome.result is not None
    assert outcome.result.value == ["a", "bad", "c"]
    assert [status for _, _, status in await runs.tree(failed.root_id)] == [
        "completed", "cancelled", "completed", "completed", "cancelled", "completed",
    ]  # fmt: skip


async def test_a_step_that_ran_out_of_time_does_so_again_when_the_program_went_on(runs: RunsBench) -> None:
    is_slow = True

    class Effects(InMemoryEffects):
        async def call_model(self, step: Any, call: Any, account: Any = None) -> Any:
            if is_slow and call.prompt == "slow":
                await asyncio.Event().wait()
            if is_slow and call.prompt == "last":
                mortal.die()
            return await super().call_model(step, call)

    runs.effects = lambda: Effects(lambda call: call.prompt)
    text = f'{ASK} (list (try (with-timeout 0.1 (ask "slow")) (catch e "late")) (ask "after") (ask "last"))'
    root_id, mortal = await runs.begin(text), MortalStore(runs.store)
    assert await runs.live(root_id, mortal)
    assert "cancelled" in {status for _, _, status in await runs.tree(root_id)}

    is_slow = False
    outcome = await runs.go_on(root_id)

    assert outcome.result is not None
    assert outcome.result.value == ["late", "after", "last"]


async def test_what_another_run_has_asked_is_linked(runs: RunsBench) -> None:
    runs.with_handler(lambda payload: f"answer to {payload.messages[-1].content}")
    first = await runs.run(f'{ASK} (list (ask "a") (ask "b"))')
    runs.asked.clear()
    second = await runs.run(f'{ASK} (list (ask "b") (ask "c"))')

    assert runs.asked == {"c": 1}
    assert second.result is not None
    assert second.result.value == ["answer to b", "answer to c"]
    source = (await runs.flow(first.root_id)).walk()
    ids = {task.inputs.get("x"): task for task, _ in source}
    linked = next(task for task in await runs.flow(second.root_id) if task.inputs.get("x") == "b")
    assert (linked.origin_type, linked.original_task_id) == (Origin.LINK, ids["b"].id)
    assert linked.result == ids["b"].result
    assert (await runs.store.get(ids["b"].id, owner=EVERYONE)).has_references


@pytest.mark.parametrize(
    ("task", "reuse"),
    [('(deftask ask (x) :instructions "{{x}}" :reuse false)', True), (ASK, False)],
    ids=["the task says so", "the run says so"],
)
async def test_nothing_is_linked_when_reuse_is_off(runs: RunsBench, task: str, reuse: bool) -> None:
    runs.with_handler(lambda payload: "answer")
    await runs.run(f'{task} (ask "a")', reuse=reuse)
    await runs.run(f'{task} (ask "a")', reuse=reuse)

    assert runs.asked == {"a": 2}


async def test_another_system_prompt_or_output_format_makes_another_question(runs: RunsBench) -> None:
    runs.with_handler(lambda payload: '{"a": 1}')
    for fields in (
        ':instructions "{{x}}"',
        ':instructions "{{x}}" :system "be brief"',
        ':instructions "{{x}}" :output "json"',
        ':instructions "{{x}}"',
    ):
        await runs.run(f'(deftask ask (x) {fields}) (ask "a")')

    assert runs.asked == {"a": 3}


async def test_the_same_owner_only_is_given_what_was_asked_before(runs: RunsBench) -> None:
    runs.with_handler(lambda payload: "answer")
    outcome = await runs.run(f'{ASK} (ask "a")')
    step = next(task for task in await runs.flow(outcome.root_id) if task.inputs)
    reuse_hash = (await runs.store.digests_of(outcome.root_id))[step.id].reuse
    assert reuse_hash is not None
    other = await runs.begin("1")
    for user_id, found in ((None, [step.id]), ("somebody", [])):
        assert await runs.store.reusable_steps(reuse_hash, user_id=user_id, besides=other) == found


async def test_a_program_that_asks_for_something_else_on_replay_is_refused(runs: RunsBench) -> None:
    # Whoever of two concurrent branches sets a name last is a matter of time.
    text = f"""{ASK} (define latest "") (define (note x) (begin (ask x) (set! latest x)))
        (begin (map note (list "slow" "quick")) (ask latest) (ask "end"))"""
    root_id, mortal = await runs.begin(text), MortalStore(runs.store)
    runs.effects = lambda: Racing("slow", mortal)
    assert await runs.live(root_id, mortal)
    outcome = await runs.go_on(root_id)

    assert outcome.status is Status.FAILED
    task = await runs.store.get(root_id, owner=EVERYONE)
    assert task.error is not None
    assert "step 2 at <text>:" in task.error
    assert "recorded 'ask' with other inputs, now 'ask'" in task.error


def test_marks_of_other_records_are_empty() -> None:
    assert step_fields(a_flow("root").root) == StepFields()


FORTY = """
(deftask read (x) :instructions "Read part {{x}}.")
(deftask shorten (text) :instructions "Sum up: {{text}}")
(deftask join (texts) :instructions "Join: {{texts}}")
(deftask title (text) :instructions "A title for: {{text}}")
(define parts (map (lambda (n) (shorten (get (read n) "content"))) (range 18)))
(define joined (join (map (lambda (part) (get part "content")) parts)))
(define (polish n text) (if (= n 0) text (polish (- n 1) (get (title text) "content"))))
(polish 3 (get joined "content"))
"""


async def test_an_edit_of_one_prompt_asks_for_what_comes_after_it_and_nothing_else(runs: RunsBench) -> None:
    runs.with_handler(lambda payload: str(zlib.crc32(payload.messages[-1].content.encode())))
    first = await runs.run(FORTY)
    assert len(await runs.flow(first.root_id)) == 41
    asked = dict(runs.asked)
    assert sum(asked.values()) == 40

    runs.asked.clear()
    second = await runs.run(FORTY.replace("Join: ", "Put together: "))
    assert second.status is Status.COMPLETED
    assert {prompt.split(" ")[0] for prompt in runs.asked} == {"Put", "A"}
    assert sum(runs.asked.values()) == 4  # the join, and three titles that depend on it

    runs.asked.clear()
    await runs.run(FORTY.replace("Join: ", "Put together: "))
    assert not runs.asked


async def test_the_records_of_a_run_are_the_same_whatever_keeps_them(runs: RunsBench, tmp_path: Path) -> None:
    here = await runs.run(PROGRAM)
    elsewhere = await open_store(Settings(db=str(tmp_path / "other.db")))
    try:
        there = RunsBench(elsewhere, answer)
        other = await there.run(PROGRAM)

        assert other.result == here.result
        assert await records(there, other.root_id) == await records(runs, here.root_id)
    finally:
        await elsewhere.close()


async def records(runs: RunsBench, root_id: TaskId) -> list[Any]:
    """Every record in the order of the tree, without ids and times."""
    found = []
    for task, depth in (await runs.flow(root_id)).walk():
        fields = msgspec.to_builtins(task)
        for name in (
            "id",
            "parent_id",
            "task_tree_id",
            "created_at",
            "started_at",
            "updated_at",
            "completed_at",
        ):
            fields.pop(name, None)
        found.append((depth, fields))
    return found


async def test_a_replay_that_leaves_steps_out_is_refused_and_keeps_what_was_done(runs: RunsBench) -> None:
    caught = '(try (ask "bad") (catch e "caught"))'
    run = await runs.run(f'{ASK} (list (ask "first") (ask "second") {caught} (ask "third") (ask "bad"))')
    assert run.status is Status.FAILED
    before = [(task.id, task.status) for task in await runs.flow(run.root_id)][1:]
    # What a program does that depends on more than its inputs: it takes another way the second time.
    await runs.app().retry(run.root_id)
    params = as_params(load_program(f'{ASK} (ask "first")').stored)
    await runs.app().update(run.root_id, {"params": params})
    runs.asked.clear()
    for _ in range(2):
        outcome = await runs.go_on(run.root_id)
        error = str((await runs.flow(run.root_id)).root.error)
        assert outcome.status is Status.FAILED
        assert error.startswith("steps-left: step 2 (ask) and 2 more: recorded before")

    assert runs.asked == {}
    assert [(task.id, task.status) for task in await runs.flow(run.root_id)][1:] == before


async def test_steps_that_came_to_nothing_may_be_left_out(runs: RunsBench) -> None:
    run = await runs.run(f'{ASK} (list (ask "first") (ask "bad"))')
    await runs.app().retry(run.root_id)
    await runs.app().update(run.root_id, {"params": as_params(load_program(f'{ASK} (ask "first")').stored)})
    outcome = await runs.go_on(run.root_id)

    assert outcome.result is not None
    assert outcome.result.value == "answer to first"


async def test_steps_inside_a_composite_template_have_their_own_names(runs: RunsBench) -> None:
    text = """
        (template page (x)
          (let* ((head (script :description "heading" :argv ("echo" "{{x}}")))
                 (words (script :description "words" :argv ("echo" "2"))))
            (list head words)))
        (page "one")
    """
    outcome = await runs.run(text)

    names = [(depth, name) for depth, name, _ in await runs.tree(outcome.root_id)]
    assert names == [(0, "run"), (1, "page"), (2, "heading"), (2, "words")]
