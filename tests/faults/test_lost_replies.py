"""COMMITs that PostgreSQL performs and whose replies are lost: nothing fails, nothing is done twice."""

import json
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.command_line import weft
from tests.engine_bench import QUICK, Bench, task
from tests.faults.proxy import Proxy
from tests.model_server import ModelServer, says, write_settings
from tests.runs_bench import RunsBench
from weft.app.app import App
from weft.app.programs import load_program
from weft.app.wiring import open_store
from weft.clock import ManualClock
from weft.config.settings import Settings
from weft.engine.scheduler import Scheduler
from weft.executors.protocol import Work
from weft.ids import TaskId
from weft.store.protocol import EVERYONE, EventFilter, TaskFilter, TaskStore
from weft.tasks.record import Status

PROGRAM = """
(deftask ask (x) :instructions "{{x}}")
(template both (a b) (list (ask a) (ask b)))
(define begun (ask "one"))
(define many (map ask (list "m1" "m2" "m3")))
(define listed (script :argv ("echo" "listed")))
(cond ((= 1 1) (both "x" "y")) (else (ask "never")))
"""
WAITS = [("a", "root"), ("b", "root"), ("c", "a")]
PROMPTS = ["m1", "m2", "m3", "one", "x", "y"]


@pytest.fixture
async def store(proxy: Proxy) -> AsyncIterator[TaskStore]:
    opened = await open_store(Settings(db=proxy.url))
    yield opened
    await opened.close()


async def assert_run_completes_once(runs: RunsBench, where: object) -> None:
    runs.asked.clear()
    outcome = await runs.run(PROGRAM, reuse=False)

    assert outcome.status is Status.COMPLETED, (where, outcome)
    assert sorted(runs.asked.elements()) == PROMPTS, where
    assert {status for _, _, status in await runs.tree(outcome.root_id)} == {"completed"}, where


@pytest.mark.parametrize(
    "written",
    [b"answer to one", b'"prompt":"m2"', b'"argv"', b"answer to y"],
    ids=["a step's response", "a new step", "a script's row", "the last response"],
)
async def test_a_run_completes_and_asks_nothing_again_when_the_reply_to_a_commit_is_lost(
    proxy: Proxy, store: TaskStore, written: bytes
) -> None:
    proxy.lose_commits(containing=written)

    await assert_run_completes_once(RunsBench(store), written)

    assert proxy.lost_commits == 1


async def test_a_run_completes_whichever_commit_loses_its_reply(proxy: Proxy, store: TaskStore) -> None:
    runs = RunsBench(store)
    for number in range(12):
        proxy.lose_commits(after=number)
        await assert_run_completes_once(runs, number)
        proxy.heal()

    assert proxy.lost_commits >= 10


async def test_a_run_completes_when_several_replies_in_a_row_are_lost(proxy: Proxy, store: TaskStore) -> None:
    proxy.lose_commits(after=3, count=3)

    await assert_run_completes_once(RunsBench(store), "three in a row")

    assert proxy.lost_commits == 3


@pytest.mark.parametrize(
    "written", [b"answer to one", b"answer to y"], ids=["a step's response", "the last response"]
)
async def test_a_run_completes_when_the_server_commits_and_says_nothing_more(
    proxy: Proxy, impatient: TaskStore, written: bytes
) -> None:
    proxy.lose_commits(containing=written, then="silence")

    await assert_run_completes_once(RunsBench(impatient), written)

    assert proxy.lost_commits == 1


async def test_a_flow_performs_every_task_once_whichever_commit_loses_its_reply(
    proxy: Proxy, store: TaskStore
) -> None:
    performed: list[str] = []

    async def note(work: Work) -> str:
        performed.append(work.task.name)
        return "noted"

    bench = Bench(store)
    bench.executor("note", note)
    app = App(store, settings=Settings(db=proxy.url), limits=QUICK, executors=bench.executors)
    document = [task("root", "note"), *(task(name, "note", after) for name, after in WAITS)]
    for number in range(8):
        performed.clear()
        proxy.lose_commits(after=number)
        summary = await app.run(document)
        await app.stop()
        proxy.heal()

        assert summary.counts == {"completed": 4}, number
        assert sorted(performed) == ["a", "b", "c", "root"], number
        assert await endings(store, summary.root_id) == ["a", "b", "c", "root"], number

    assert proxy.lost_commits >= 6


async def endings(store: TaskStore, root_id: TaskId) -> list[str]:
    """Return the name of a task for each time that an attempt completed it."""
    names = {one.id: one.name for one in await store.flow_of(root_id, owner=EVERYONE)}
    events = await store.events(EventFilter(tree=root_id), owner=EVERYONE)
    return sorted(names[event.task_id] for event in events if event.type.value == "task.completed")


def test_a_submission_whose_reply_is_lost_is_stored_once(proxy: Proxy, direct_url: str) -> None:
    weft("flow", "submit", "-", db=direct_url, stdin='[{"name": "before"}]')
    proxy.lose_commits(containing=b"submitted once")
    document = [{"name": "submitted once", "id": "6f1c2a9e-6d0c-4c5e-9d77-0b9f0a2f7c11"}, {"name": "child"}]
    ran = weft("flow", "submit", "-", "--json", db=proxy.url, stdin=json.dumps(document))

    assert proxy.lost_commits == 1
    assert ran.code == 0, ran.err
    stored = weft("tasks", "list", "--json", db=direct_url).json["tasks"]
    assert [one["name"] for one in stored].count("submitted once") == 1
    assert ran.json["root_id"] in {one["id"] for one in stored}


def test_a_command_of_a_flow_is_run_once_when_the_reply_to_its_ending_is_lost(
    proxy: Proxy, tmp_path: Path
) -> None:
    noted = tmp_path / "noted"
    script = f"open({str(noted)!r}, 'a').write('x'); print('the ' + 'output')"
    document = [
        {"name": "root", "schemas": {"method": "command"}, "inputs": {"argv": [sys.executable, "-c", script]}}
    ]
    proxy.lose_commits(containing=b"the output")
    ran = weft("flow", "run", "-", "--json", db=proxy.url, stdin=json.dumps(document))

    assert proxy.lost_commits == 1
    assert (ran.code, ran.json["counts"]) == (0, {"completed": 1}), ran.err
    assert noted.read_text() == "x"
    assert "late result" not in ran.err, ran.err


def test_weft_run_pays_each_model_call_once_when_the_reply_to_its_commit_is_lost(
    proxy: Proxy, model_server: ModelServer, tmp_path: Path
) -> None:
    write_settings(tmp_path, model_server)
    program = '(deftask ask (x) :instructions "{{x}}") (list (ask "1") (ask "2") (ask "3"))'
    (tmp_path / "program.sexp").write_text(program)
    model_server.script(says("r1"), says("the second response"), says("r3"))
    proxy.lose_commits(containing=b"the second response")
    ran = weft("run", "program.sexp", "--json", db=proxy.url, cwd=tmp_path, SERVED_KEY="sk-test-0123456789")

    assert proxy.lost_commits == 1
    assert ran.code == 0, ran.err
    assert len(model_server.requests) == 3


async def test_a_copy_whose_reply_is_lost_is_made_once(proxy: Proxy, store: TaskStore) -> None:
    app = App(store, settings=Settings(db=proxy.url))
    source = await app.submit([{"name": "copied"}])
    proxy.lose_commits()
    copy = await app.copy(source.root.id)

    assert proxy.lost_commits == 1
    assert {one.id for one in (await app.list(TaskFilter())).tasks} == {source.root.id, copy.root.id}


async def test_an_answer_whose_reply_is_lost_is_given_once(
    proxy: Proxy, store: TaskStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = App(store, settings=Settings(db=proxy.url), limits=QUICK)
    text = '(list (system:request_user_input :question "a?") (system:request_user_input :question "b?"))'
    root_id = await app.begin_program(load_program(text), {}, name="asks")
    await app.wait(root_id)
    (question,) = await app.questions(root_id)
    await app.stop()
    proxy.lose_commits()
    answered = await app.answer(question.id, "yes")
    await app.run(root_id)
    await app.stop()

    assert proxy.lost_commits == 1
    assert not answered.is_repeated
    assert [one.name for one in await app.questions(root_id)] == ["b?"], "it answers no other question"


async def test_a_cancellation_whose_reply_is_lost_is_made_once(proxy: Proxy, store: TaskStore) -> None:
    app = App(store, settings=Settings(db=proxy.url))
    root_id = (await app.submit([{"name": "cancelled"}])).root.id
    proxy.lose_commits()

    assert await app.cancel(root_id) == (root_id,)
    assert proxy.lost_commits == 1
    events = await app.events(EventFilter(tree=root_id))
    assert [event.type.value for event in events].count("task.cancelled") == 1


async def test_a_schedule_fires_once_when_the_reply_to_that_is_lost(proxy: Proxy, store: TaskStore) -> None:
    app = App(store, settings=Settings(db=proxy.url))
    schedule = {"schedule_type": "interval", "schedule_expression": "3600", "schedule_enabled": True}
    await app.submit([{"name": "hourly", "schemas": {"method": "noop"}, **schedule}])
    clock = ManualClock(app.now() + timedelta(hours=1, seconds=1))
    proxy.lose_commits()
    firings = await Scheduler(store, clock).fire_due()

    assert proxy.lost_commits == 1
    assert [firing.run is not None for firing in firings] == [True]
    assert len((await app.list(TaskFilter(only_roots=True))).tasks) == 2, "the schedule and its run"
