"""What the operations on records do with runs and their steps, on every store."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.runs_bench import MortalStore, RunsBench
from weft.app.wiring import open_store
from weft.config.settings import Settings
from weft.effects.local import LocalEffects
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.ids import TaskId, new_task_id
from weft.llm.errors import ModelError
from weft.llm.payload import ModelReply, Usage
from weft.llm.protocol import StaticModels
from weft.runs import cancellation
from weft.store.protocol import EVERYONE, TaskFilter, TaskStore
from weft.tasks.flow import Flow, nested_json
from weft.tasks.operations.copy import IsStep
from weft.tasks.operations.fork import CannotFork, StepNotFound, UnknownInputs
from weft.tasks.operations.lifecycle import CannotDelete
from weft.tasks.program_params import in_folder
from weft.tasks.record import Origin, Status, Task
from weft.tasks.states import FrozenTask
from weft.tasks.steps import is_model_step, is_step, program_position, step_fields
from weft.testing.in_memory_effects import InMemoryEffects
from weft.testing.scripted_model import ScriptedModel

ASK = '(deftask ask (x) :instructions "{{x}}")'
PROGRAM = f"""{ASK}
(list (try (ask "bad") (catch e "caught"))
  (script :argv ("say" "{{day}}")) (ask "middle") (ask day) (ask "last"))
"""

NESTED = f"""{ASK} (template both () (list (ask "inner") (ask "outer")))
(list (ask "first") (both) (ask day))"""


def answer(prompt: str) -> str:
    if prompt == "bad":
        raise TaskFailed(TaskFailure("llm_error", "no such thing"))
    return f"answer to {prompt}"


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store, answer)


def steps_in(flow: Flow) -> list[Task]:
    return [task for task, _ in flow.walk() if is_step(task)]


def keyed(flow: Flow) -> dict[str, Task]:
    return {step_fields(task).key: task for task in steps_in(flow)}


async def test_the_copy_of_a_run_has_no_steps_until_it_is_evaluated(runs: RunsBench) -> None:
    first = await runs.run(PROGRAM, reuse=False, day="Monday")
    runs.asked.clear()
    copy = await runs.app().copy(first.root_id)
    assert [task.status for task in copy] == [Status.PENDING]
    assert not copy.root.has_children

    second = await runs.go_on(copy.root.id)

    assert second.result == first.result
    assert runs.asked == {"bad": 1, "middle": 1, "Monday": 1, "last": 1}
    assert await runs.tree(second.root_id) == await runs.tree(first.root_id)


async def test_a_step_is_not_copied_by_itself(runs: RunsBench) -> None:
    run = await runs.run(f'{ASK} (ask "one")')
    (step,) = steps_in(await runs.flow(run.root_id))

    with pytest.raises(IsStep, match=f"is a step of a run {run.root_id}"):
        await runs.app().copy(step.id)


async def test_the_link_of_a_run_is_its_result(runs: RunsBench) -> None:
    run = await runs.run(PROGRAM, day="Monday")
    link = await runs.app().link(run.root_id)

    assert len(link) == 1
    assert (link.root.origin_type, link.root.original_task_id) == (Origin.LINK, run.root_id)
    assert link.root.result == (await runs.flow(run.root_id)).root.result


async def test_the_link_of_a_step_is_no_step(runs: RunsBench) -> None:
    run = await runs.run(f'{ASK} (ask "one")')
    (step,) = steps_in(await runs.flow(run.root_id))
    link = await runs.app().link(step.id)

    assert link.root.result == step.result
    assert not is_step(link.root)


async def test_the_archive_of_a_run_has_everything_and_stays(runs: RunsBench) -> None:
    first = await runs.run(PROGRAM, day="Monday")
    last = steps_in(await runs.flow(first.root_id))[-1]
    run = await runs.go_on((await runs.app().fork(first.root_id, last.id)).root.id)
    flow = await runs.flow(run.root_id)
    failed, linked, *_ = steps_in(flow)
    assert (linked.origin_type, failed.status) == (Origin.LINK, Status.FAILED)
    archive = await runs.app().archive(run.root_id)

    assert archive.root.params is not None
    assert archive.root.params["program"]["main"]["text"] == PROGRAM
    assert archive.root.inputs == {"day": "Monday"}
    assert [(t.name, t.status, t.result, t.error, t.is_frozen) for t, _ in archive.walk()] == [
        (t.name, t.status, t.result, t.error, True) for t, _ in flow.walk()
    ]
    assert [(step.params or {}).get("prompt") for step in steps_in(archive)] == [
        (step.params or {}).get("prompt") for step in steps_in(flow)
    ]
    assert step_fields(steps_in(archive)[1]).link_of == linked.original_task_id
    with pytest.raises(FrozenTask):
        await runs.app().cancel(steps_in(archive)[0].id)
    assert await runs.app().begin(archive.root.id) == archive.root.id  # there is nothing to run
    assert await runs.store.end_flow(archive.root.id)


@pytest.mark.parametrize("operation", ["archive", "none"])
async def test_an_exported_run_can_be_read_in_another_store(runs: RunsBench, operation: str) -> None:
    run = await runs.run(PROGRAM, day="Monday")
    flow = await runs.flow(run.root_id)
    if operation == "archive":
        flow = await runs.app().archive(run.root_id)

    read = await runs.app().submit(_document(flow))

    assert [(task.name, task.status, task.result) for task, _ in read.walk()] == [
        (task.name, task.status, task.result) for task, _ in flow.walk()
    ]


async def test_an_exported_run_that_has_not_ended_begins_anew_where_it_is_read(runs: RunsBench) -> None:
    root_id = await runs.begin(PROGRAM, reuse=False, day="Monday")
    mortal, answer = MortalStore(runs.store), runs.answer

    def answer_and_die(prompt: str) -> Any:
        if prompt == "last":
            mortal.die()
        return answer(prompt)

    runs.answer = answer_and_die
    assert await runs.live(root_id, mortal)
    flow = await runs.flow(root_id)
    assert any(map(is_step, flow))
    runs.asked.clear()
    runs.answer = answer
    read = await runs.app().submit(_document(flow))
    assert len(read) == 1

    outcome = await runs.go_on(read.root.id)

    assert outcome.status is Status.COMPLETED
    assert runs.asked == {"bad": 1, "middle": 1, "Monday": 1, "last": 1}


@pytest.mark.parametrize("with_children", [True, False])
async def test_a_run_that_has_run_is_not_deleted_nor_are_its_steps(
    runs: RunsBench, with_children: bool
) -> None:
    app = runs.app()
    run = await runs.run(NESTED, day="Monday")
    flow = await runs.flow(run.root_id)
    for task in flow:
        with pytest.raises(CannotDelete, match="only pending tasks can be deleted"):
            await app.delete([task.id], with_children=with_children)

    assert [task.id for task in await runs.flow(run.root_id)] == [task.id for task in flow]


async def test_a_run_that_is_to_go_on_is_not_deleted_with_what_it_has_done(runs: RunsBench) -> None:
    app = runs.app()
    run = await runs.run(f'{ASK} (list (ask "first") (ask "bad"))')
    await app.retry(run.root_id)
    assert (await app.get(run.root_id)).status is Status.PENDING
    with pytest.raises(CannotDelete, match="has 2 child tasks"):
        await app.delete([run.root_id])
    with pytest.raises(CannotDelete, match="only pending tasks can be deleted"):
        await app.delete([run.root_id], with_children=True)

    assert len(await runs.flow(run.root_id)) == 3


async def test_a_step_that_another_run_links_to_says_so_and_stays(runs: RunsBench) -> None:
    runs.with_handler(lambda payload: answer(payload.messages[-1].content))
    first = await runs.run(NESTED, day="Monday")
    second = await runs.run(NESTED, day="Tuesday")
    linked = [task for task in steps_in(await runs.flow(second.root_id)) if task.origin_type is Origin.LINK]
    sources = [task.original_task_id for task in linked if task.original_task_id is not None]

    assert len(sources) == 3
    for source in sources:
        with pytest.raises(CannotDelete) as refused:
            await runs.app().delete([source])
        assert [problem.field for problem in refused.value.found] == ["status", "has_references"]
    assert {task.id for task in await runs.flow(first.root_id)} >= set(sources)


async def test_a_copy_of_a_run_that_was_never_run_can_be_deleted(runs: RunsBench) -> None:
    app = runs.app()
    run = await runs.run(NESTED, day="Monday")
    copy = await app.copy(run.root_id)
    assert (await app.get(run.root_id)).has_references
    await app.delete([copy.root.id], with_children=True)

    assert not (await app.get(run.root_id)).has_references


@pytest.fixture
async def elsewhere(tmp_path: Path) -> AsyncIterator[RunsBench]:
    """Yield runs on another, empty store."""
    store = await open_store(Settings(db=str(tmp_path / "elsewhere.db")), must_exist=False)
    yield RunsBench(store, answer)
    await store.close()


async def export_of(runs: RunsBench, root_id: TaskId) -> Any:
    return msgspec.json.decode(nested_json(await runs.app().export(root_id)))


async def test_a_run_that_was_read_from_an_export_can_be_forked(
    runs: RunsBench, elsewhere: RunsBench
) -> None:
    run = await runs.run(NESTED, day="Monday")
    await elsewhere.app().submit(await export_of(runs, run.root_id))
    last = max(steps_in(await elsewhere.flow(run.root_id)), key=program_position)
    fork = await elsewhere.app().fork(run.root_id, last.id, {"day": "Tuesday"}, reuse=False)
    outcome = await elsewhere.go_on(fork.root.id)

    assert outcome.status is Status.COMPLETED
    assert elsewhere.asked == {"Tuesday": 1}
    made = {task.inputs.get("x"): task.origin_type for task in steps_in(await elsewhere.flow(fork.root.id))}
    assert (made["inner"], made["first"], made["Tuesday"]) == (Origin.LINK, Origin.LINK, Origin.CREATE)


async def test_what_an_imported_run_has_asked_is_reused(runs: RunsBench, elsewhere: RunsBench) -> None:
    for bench in (runs, elsewhere):
        bench.with_handler(lambda payload: answer(payload.messages[-1].content))
    run = await runs.run(NESTED, day="Monday")
    await elsewhere.app().submit(await export_of(runs, run.root_id))
    outcome = await elsewhere.run(NESTED, day="Tuesday")

    assert outcome.status is Status.COMPLETED
    assert elsewhere.asked == {"Tuesday": 1}


async def test_an_imported_run_that_failed_goes_on_where_it_was(
    runs: RunsBench, elsewhere: RunsBench
) -> None:
    run = await runs.run(f'{ASK} (list (ask "first") (ask "bad"))')
    assert run.status is Status.FAILED
    await elsewhere.app().submit(await export_of(runs, run.root_id))
    elsewhere.answer = lambda prompt: "well"
    outcome = await elsewhere.go_on(run.root_id)

    assert outcome.status is Status.COMPLETED
    assert elsewhere.asked == {"bad": 1}


@pytest.mark.parametrize("change", ["none", "other version", "nonsense"])
async def test_an_export_without_digests_that_are_known_is_read_and_nothing_of_it_linked(
    runs: RunsBench, elsewhere: RunsBench, change: str
) -> None:
    run = await runs.run(NESTED, day="Monday")
    document = await export_of(runs, run.root_id)
    marks = [child["task"]["params"]["step"] for child in document["children"]]
    for mark in marks:
        if change == "none":
            del mark["digests"]
        elif change == "other version":
            mark["digests"]["version"] = 0
        else:
            mark["digests"] = {"version": 1, "asked": 7}
    await elsewhere.app().submit(document)
    last = max(steps_in(await elsewhere.flow(run.root_id)), key=program_position)
    fork = await elsewhere.app().fork(run.root_id, last.id)
    await elsewhere.go_on(fork.root.id)

    assert elsewhere.asked["first"] == 1


def _document(flow: Flow) -> Any:
    """Export a flow with other ids for its tasks, as if it came from another store."""
    text = nested_json(Flow(in_folder(task, None) for task in flow)).decode()
    for task in flow:
        text = text.replace(task.id, new_task_id())
    return msgspec.json.decode(text)


class TestFork:
    """A new run of the same program, from one step on."""

    async def test_what_came_before_is_linked_and_the_rest_performed(self, runs: RunsBench) -> None:
        run = await runs.run(PROGRAM, reuse=False, day="Monday")
        old = keyed(await runs.flow(run.root_id))
        middle = next(task for task in old.values() if task.inputs.get("x") == "middle")
        runs.asked.clear()

        fork = await runs.app().fork(run.root_id, step_fields(middle).key, {"day": "Tuesday"})
        assert (fork.root.origin_type, fork.root.original_task_id) == (Origin.COPY, run.root_id)
        outcome = await runs.go_on(fork.root.id)

        assert outcome.result is not None
        assert outcome.result.value[3] == "answer to Tuesday"
        # The script had another input, so it was performed; what was caught before is caught again.
        assert runs.asked == {"middle": 1, "Tuesday": 1, "last": 1}
        new = keyed(await runs.flow(fork.root.id))
        assert new.keys() == old.keys()
        assert [task.status for task in new.values()] == [task.status for task in old.values()]

    async def test_scripts_are_linked_too_when_nothing_before_them_changed(self, runs: RunsBench) -> None:
        text = f'{ASK} (list (script :argv ("say" "hello")) (ask day))'
        run = await runs.run(text, day="Monday")
        script, ask = steps_in(await runs.flow(run.root_id))

        fork = await runs.app().fork(run.root_id, ask.id, {"day": "Tuesday"})
        await runs.go_on(fork.root.id)
        again = await runs.app().fork(fork.root.id, step_fields(ask).key, {"day": "Sunday"})
        await runs.go_on(again.root.id)

        for root_id in (fork.root.id, again.root.id):
            linked, asked = steps_in(await runs.flow(root_id))
            assert (linked.origin_type, linked.original_task_id) == (Origin.LINK, script.id)
            assert asked.origin_type is Origin.CREATE
        assert runs.asked == {"Monday": 1, "Tuesday": 1, "Sunday": 1}

    async def test_answers_of_the_old_run_are_not_reused_from_there_on(self, runs: RunsBench) -> None:
        runs.with_handler(lambda payload: "answer")
        run = await runs.run(f'{ASK} (list (ask "a") (ask "b") (ask "c"))')
        steps = steps_in(await runs.flow(run.root_id))
        fork = await runs.app().fork(run.root_id, steps[1].id)
        await runs.go_on(fork.root.id)

        assert runs.asked == {"a": 1, "b": 2, "c": 2}

    @pytest.mark.parametrize(("reuse", "calls"), [(True, 1), (False, 2)])
    async def test_answers_of_other_runs_are_unless_that_is_off(
        self, runs: RunsBench, reuse: bool, calls: int
    ) -> None:
        runs.with_handler(lambda payload: "answer")
        await runs.run(f'{ASK} (ask "Tuesday")')
        run = await runs.run(f'{ASK} (list (ask "first") (ask day))', day="Monday")
        steps = steps_in(await runs.flow(run.root_id))
        fork = await runs.app().fork(run.root_id, steps[1].id, {"day": "Tuesday"}, reuse=reuse)
        await runs.go_on(fork.root.id)

        assert runs.asked == {"first": 1, "Monday": 1, "Tuesday": calls}

    async def test_the_run_of_another_owner_is_not_looked_at(self, runs: RunsBench) -> None:
        text = f'{ASK} (list (ask "a") (ask "b"))'
        run = await runs.run(text, reuse=False)
        steps = steps_in(await runs.flow(run.root_id))
        fork = await runs.app().fork(run.root_id, steps[1].id)
        stolen = {
            **(in_folder(fork.root, None).params or {}),
            "fork": {"of": run.root_id, "from": step_fields(steps[1]).key},
        }
        document = {"name": "x", "schemas": {"method": "template"}, "params": stolen, "user_id": "eve"}
        runs.asked.clear()
        await runs.go_on((await runs.app().submit([document])).root.id)

        assert runs.asked == {"a": 1, "b": 1}

    async def test_what_makes_no_sense_is_refused(self, runs: RunsBench) -> None:
        app = runs.app()
        run = await runs.run(f"{ASK} (ask day)", day="Monday")
        (step,) = steps_in(await runs.flow(run.root_id))
        pending = await runs.begin(f'{ASK} (ask "one")')
        plain = (await app.submit([{"name": "plain"}])).root.id
        archive = (await app.archive(run.root_id)).root.id

        with pytest.raises(StepNotFound, match="has no step '77'"):
            await app.fork(run.root_id, "77")
        with pytest.raises(IsStep):
            await app.fork(step.id, step.id)
        with pytest.raises(CannotFork, match="is pending; only a run that is over"):
            await app.fork(pending, "1")
        with pytest.raises(CannotFork, match="is pending"):
            await app.fork(plain, "1")
        with pytest.raises(CannotFork, match=f"fork the run it was made from: {run.root_id}"):
            await app.fork(archive, "1")
        with pytest.raises(UnknownInputs, match="no input called dya; it has day"):
            await app.fork(run.root_id, step.id, {"dya": "Tuesday"})


class Hanging(InMemoryEffects):
    """Takes for ever to answer one prompt; says when it was asked, and whether it was stopped."""

    def __init__(self) -> None:
        super().__init__(lambda call: call.prompt)
        self.is_asked = asyncio.Event()
        self.is_stopped = False

    async def call_model(self, step: Any, call: Any, account: Any = None) -> Any:
        if call.prompt == "slow":
            self.is_asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.is_stopped = True
        return await super().call_model(step, call)


async def stored_step(runs: RunsBench, root_id: TaskId, name: str) -> Task:
    while True:
        for task in await runs.flow(root_id):
            if task.name == name and task.status is Status.IN_PROGRESS:
                return task
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", ["ask", "whole"])
async def test_a_step_that_somebody_cancels_is_stopped_and_fails_for_the_program(
    runs: RunsBench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(cancellation, "LOOK_SECONDS", 0.01)
    effects = Hanging()
    runs.effects = lambda: effects
    whole = '(template whole () (begin (ask "quick") (ask "slow")))'
    reason = '(get-in e (list "notes" "error" "reason"))'
    text = f'{ASK} {whole} (list (try (whole) (catch e {reason})) (ask "after"))'
    root_id = await runs.begin(text)
    running = asyncio.create_task(runs.go_on(root_id))
    await asyncio.wait_for(effects.is_asked.wait(), 30)
    step = await asyncio.wait_for(stored_step(runs, root_id, name), 30)

    # As another process does it: not by way of the app whose engine runs it.
    assert step.id in await runs.app().cancel(step.id, reason="enough of that")
    outcome = await asyncio.wait_for(running, 30)

    assert effects.is_stopped
    assert outcome.result is not None
    assert outcome.result.value == ["execution_halted", "after"]
    stopped = (await runs.flow(root_id))[step.id]
    assert (stopped.status, stopped.error) == (Status.CANCELLED, "enough of that")


async def test_the_cancel_of_a_run_cancels_its_open_steps(runs: RunsBench) -> None:
    effects = Hanging()
    runs.effects = lambda: effects
    root_id = await runs.begin(f'{ASK} (list (ask "quick") (ask "slow"))')
    app = runs.app()
    await app.begin(root_id)
    running = asyncio.create_task(app.wait(root_id))
    await asyncio.wait_for(stored_step(runs, root_id, "ask"), 30)

    await app.cancel(root_id)
    await asyncio.wait_for(running, 30)
    await app.stop(grace_seconds=0)

    assert effects.is_stopped
    assert [status for _, _, status in await runs.tree(root_id)] == ["cancelled", "completed", "cancelled"]


async def test_steps_are_left_out_of_lists_on_request(runs: RunsBench) -> None:
    run = await runs.run(PROGRAM, day="Monday")
    archive = await runs.app().archive(run.root_id)

    page = await runs.store.list(TaskFilter(with_steps=False), owner=EVERYONE)

    assert {task.id for task in page.tasks} == {run.root_id, archive.root.id}
    assert page.total == 2
    assert (await runs.store.list(TaskFilter(), owner=EVERYONE)).total == 12


@pytest.mark.parametrize("is_failing", [False, True])
async def test_a_step_stores_where_its_prompt_came_from(runs: RunsBench, is_failing: bool) -> None:
    usage = Usage(input_tokens=9, output_tokens=1, cache_read_tokens=5)
    reply = ModelReply(text="ok", usage=usage, model="m", first_token_seconds=0.25)
    model = ScriptedModel([ModelError("llm_error", "it is down") if is_failing else reply])
    runs.effects = lambda: LocalEffects(models=StaticModels(model))

    run = await runs.run('(deftask ask (x) :instructions "Tell me about {{x}}.")\n(ask "cats")')

    (step,) = [task for task in steps_in(await runs.app().flow_of(run.root_id)) if is_model_step(task)]
    found = step_fields(step).request
    assert found is not None
    assert [(part.kind, part.source, part.start, part.length) for part in found.parts] == [
        ("instructions", "prompt", 0, 19),
        ("inputs", "x", 14, 4),
    ]
    expected = (0, None) if is_failing else (5, 0.25)
    assert (found.cache_read_tokens, found.first_token_seconds) == expected
