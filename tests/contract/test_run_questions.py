"""Questions to people in durable programs, on every store: the run rests, and goes on with the answer."""

import asyncio
import inspect
from typing import Any

import pytest
from msgspec import structs

from tests.engine_bench import QUICK
from tests.invariants import check_over
from tests.runs_bench import MortalStore, RunsBench
from weft.app.app import App
from weft.effects.local import LocalEffects
from weft.evaluator.effects import ScriptOutcome, ScriptRun, Step
from weft.ids import TaskId
from weft.llm.payload import HandlerPayload, ToolMessage
from weft.runs.outcome import RunOutcome
from weft.store.protocol import EVERYONE, EventFilter, TaskStore
from weft.tasks.events import EventType
from weft.tasks.operations import AnswerTooLong, NoOpenQuestion
from weft.tasks.questions import SeveralQuestions
from weft.tasks.record import Dependency, Status, Task
from weft.tasks.steps import StepFields, step_fields
from weft.testing import models, tool_use

ASK = '(define (ask what) (get (system:request_user_input :question what) "answer"))'
MODEL = '(deftask think (x) :instructions "{{x}}")'
NAME = f'{ASK} {MODEL} (list (think "before") (ask "Your name?") (think "after"))'


@pytest.fixture
def runs(store: TaskStore, monkeypatch: pytest.MonkeyPatch) -> RunsBench:
    monkeypatch.setattr("weft.runs.questions.QUIET_SECONDS", 0.01)
    bench = RunsBench(store)
    bench.with_handler(lambda payload: f"answer to {payload.messages[-1].content}")
    return bench


async def open_ones(runs: RunsBench, root_id: TaskId) -> dict[str, Task]:
    return {task.name: task for task in await runs.app().questions(root_id)}


async def tell(runs: RunsBench, root_id: TaskId, question: str, text: str) -> Task:
    return (await runs.app().answer((await open_ones(runs, root_id))[question].id, text)).question


async def until_asked(app: App, root_id: TaskId) -> None:
    async for _ in app.watch(root_id):
        if await app.questions(root_id):
            return


def value(outcome: RunOutcome) -> Any:
    assert outcome.result is not None
    return outcome.result.value


async def test_a_run_that_waits_for_a_person_rests_and_goes_on_with_the_answer(runs: RunsBench) -> None:
    resting = await runs.run(NAME)

    assert (resting.status, resting.result) == (Status.PENDING, None)
    assert await runs.tree(resting.root_id) == [
        (0, "run", "pending"),
        (1, "think", "completed"),
        (1, "system:request_user_input", "in_progress"),
        (2, "Your name?", "in_progress"),
    ]
    root, _, _, question = await runs.flow(resting.root_id)
    assert question.inputs == {"question": "Your name?"}
    assert step_fields(question) == StepFields(key="2?1", kind="question")
    assert root.dependencies == (Dependency(question.id, required=False),)
    assert await runs.store.workers() == []
    assert await runs.store.running_flows(owner=EVERYONE) == []

    answered = await tell(runs, resting.root_id, "Your name?", "Ada")
    assert answered.result == {"answer": "Ada"}
    assert await runs.store.running_flows(owner=EVERYONE) == [resting.root_id]
    outcome = await runs.go_on(resting.root_id)

    assert value(outcome) == ["answer to before", "Ada", "answer to after"]
    assert {status for _, _, status in await runs.tree(resting.root_id)} == {"completed"}
    assert (await runs.flow(resting.root_id)).root.dependencies == ()
    assert set(runs.asked.values()) == {1}


async def test_a_run_without_an_answer_is_not_evaluated_again(runs: RunsBench) -> None:
    resting = await runs.run(NAME)
    again = await runs.go_on(resting.root_id)

    assert again.status is Status.PENDING
    events = await runs.store.events(EventFilter(tree=resting.root_id), owner=EVERYONE)
    assert [event.type for event in events if event.task_id == resting.root_id] == [
        EventType.FLOW_CREATED,
        EventType.TASK_STARTED,
        EventType.TASK_SUSPENDED,
    ]


async def test_one_of_several_answers_lets_go_on_what_follows_from_it(runs: RunsBench) -> None:
    text = f'{ASK} {MODEL} (map (lambda (x) (think (ask x))) (list "a" "b" "c"))'
    resting = await runs.run(text)
    assert set(await open_ones(runs, resting.root_id)) == {"a", "b", "c"}

    await tell(runs, resting.root_id, "b", "two")
    assert (await runs.go_on(resting.root_id)).status is Status.PENDING
    assert runs.asked == {"two": 1}
    await tell(runs, resting.root_id, "a", "one")
    await tell(runs, resting.root_id, "c", "three")
    outcome = await runs.go_on(resting.root_id)

    assert value(outcome) == ["answer to one", "answer to two", "answer to three"]
    assert runs.asked == {"one": 1, "two": 1, "three": 1}


async def test_an_answer_that_comes_while_other_steps_run_is_taken_at_once(runs: RunsBench) -> None:
    app = runs.app()
    is_told = asyncio.Event()

    def reply(payload: HandlerPayload) -> str:
        is_told.set()
        return "done"

    class Slow(LocalEffects):
        async def run_script(self, step: Step, run: ScriptRun) -> ScriptOutcome:
            await is_told.wait()
            return ScriptOutcome("", "", 0)

    runs.effects = lambda: Slow(models=models(reply))
    slow = '(script :argv ("slow"))'
    root_id = await runs.begin(f'{ASK} {MODEL} (parallel {slow} (think (ask "Go?")))', app=app)
    running = asyncio.create_task(app.wait(root_id))
    await until_asked(app, root_id)
    await tell(runs, root_id, "Go?", "quick")
    await running
    await app.stop(grace_seconds=0)

    assert (await app.get(root_id)).status is Status.COMPLETED
    events = await runs.store.events(EventFilter(task=root_id, tree=root_id), owner=EVERYONE)
    assert EventType.TASK_SUSPENDED not in [event.type for event in events]


async def test_an_answer_that_comes_in_the_moment_of_resting_is_not_lost(runs: RunsBench) -> None:
    class Quick(MortalStore):
        """Somebody answers just before the run is put to rest."""

        def __getattr__(self, method: str) -> Any:
            real = super().__getattr__(method)
            if not inspect.iscoroutinefunction(real):
                return real

            async def call(*arguments: Any, **named: Any) -> Any:
                if method == "advance" and arguments[0]:
                    for question in await runs.app().questions(root_id):
                        await runs.app().answer(question.id, "quick")
                return await real(*arguments, **named)

            return call

    root_id = await runs.begin(f'{ASK} (list (ask "a") (ask "b"))')
    outcome = await runs.go_on(root_id, Quick(runs.store).as_store)

    assert value(outcome) == ["quick", "quick"]


class Curious:
    """A model that asks a person twice before it answers."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, payload: HandlerPayload) -> Any:
        self.calls += 1
        given = [message.content for message in payload.messages if isinstance(message, ToolMessage)]
        if not given:
            return tool_use("system_request_user_input", question="Which file?")
        if len(given) == 1:
            return tool_use("system_request_user_input", question="Sure?")
        return " / ".join(given)


async def test_a_model_that_asks_goes_on_in_its_session_and_repeats_no_turn(runs: RunsBench) -> None:
    model = Curious()
    runs.with_handler(model)
    text = '(deftask look () :instructions "Look." :tools ("system:request_user_input")) (look)'
    resting = await runs.run(text)
    assert (resting.status, model.calls) == (Status.PENDING, 1)

    await tell(runs, resting.root_id, "Which file?", "a.py")
    assert (await runs.go_on(resting.root_id)).status is Status.PENDING
    assert model.calls == 2
    await tell(runs, resting.root_id, "Sure?", "")
    outcome = await runs.go_on(resting.root_id)

    assert value(outcome) == '{"answer": "a.py"} / {"answer": ""}'
    assert model.calls == 3
    asked = [(2, "system_request_user_input", "completed"), (3, "Which file?", "completed")]
    again = [(2, "system_request_user_input", "completed"), (3, "Sure?", "completed")]
    assert await runs.tree(resting.root_id) == [
        (0, "run", "completed"),
        (1, "look", "completed"),
        (2, "turn 1", "completed"),
        *asked,
        (2, "turn 3", "completed"),
        *again,
    ]


async def test_a_subtask_of_a_session_may_ask_too(runs: RunsBench) -> None:
    def reply(payload: HandlerPayload) -> Any:
        given = [message.content for message in payload.messages if isinstance(message, ToolMessage)]
        prompt = payload.messages[0].content
        if given:
            return f"{prompt} done"
        if prompt == "Part":
            return tool_use("system_request_user_input", question="Which?")
        plain = {"fresh_context": "disabled"}
        request = {"type": "atomic", "name": "part", "description": "a part", "inputs": {}}
        return tool_use("system_spawn_subtask", **request, context_management=plain)

    runs.with_handler(reply)
    resting = await runs.run("""(deftask part () :instructions "Part" :tools ("system:request_user_input"))
        (deftask whole () :instructions "Whole" :tools ("system:spawn_subtask")) (whole)""")
    assert resting.status is Status.PENDING
    await tell(runs, resting.root_id, "Which?", "this")
    outcome = await runs.go_on(resting.root_id)

    assert value(outcome) == "Whole done"
    assert sum(runs.asked.values()) == 4


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "not written"])
async def test_whatever_write_a_process_dies_at_no_answer_is_asked_for_twice(
    runs: RunsBench, is_written: bool
) -> None:
    text = f'{ASK} {MODEL} (list (think "before") (think (ask "who")) (ask "what"))'
    dies_at = 0
    while True:
        dies_at += 1 if runs.is_sqlite else 3
        runs.asked.clear()
        root_id = await runs.begin(text, reuse=False)
        is_dead = await runs.die(root_id, dies_at=dies_at, is_written=is_written)
        outcome, told = await runs.go_on(root_id), []
        while outcome.status is Status.PENDING:
            [question] = await runs.app().questions(root_id)
            told.append(question.name)
            await runs.app().answer(question.id, f"{question.name} it is")
            if is_dead:
                await runs.die(root_id, dies_at=dies_at, is_written=is_written)
            outcome = await runs.go_on(root_id)

        await check_over(runs.store, root_id)
        assert told == ["who", "what"], dies_at
        assert value(outcome) == ["answer to before", "answer to who it is", "what it is"], dies_at
        tree = await runs.tree(root_id)
        assert (len(tree), {status for _, _, status in tree}) == (7, {"completed"}), dies_at
        if not is_dead:
            break
    assert dies_at > 5, "the series ended before the run did"


async def test_a_cancelled_question_is_a_failure_for_who_asked(runs: RunsBench) -> None:
    resting = await runs.run(f'{ASK} (list (try (ask "a") (catch e "none")) (ask "b"))')
    question = (await open_ones(runs, resting.root_id))["a"]
    await runs.app().cancel(question.id, reason="nobody knows")
    assert (await runs.go_on(resting.root_id)).status is Status.PENDING
    await tell(runs, resting.root_id, "b", "yes")

    outcome = await runs.go_on(resting.root_id)

    assert value(outcome) == ["none", "yes"]
    failed = next(task for task in await runs.flow(resting.root_id) if task.status is Status.FAILED)
    assert "the question was not answered: nobody knows" in (failed.error or "")


async def test_a_run_that_rests_can_be_cancelled_with_its_questions(runs: RunsBench) -> None:
    resting = await runs.run(NAME)
    question = (await open_ones(runs, resting.root_id))["Your name?"]
    await runs.app().cancel(resting.root_id)

    assert await open_ones(runs, resting.root_id) == {}
    with pytest.raises(NoOpenQuestion, match="is cancelled"):
        await runs.app().answer(question.id, "late")


async def test_only_an_open_question_can_be_answered_and_only_once(runs: RunsBench) -> None:
    resting = await runs.run(NAME)
    question = (await open_ones(runs, resting.root_id))["Your name?"]
    with pytest.raises(NoOpenQuestion, match="is not a question"):
        await runs.app().answer(resting.root_id, "Ada")
    with pytest.raises(AnswerTooLong):
        await runs.app().answer(question.id, "x" * 1_048_577)
    await runs.app().answer(question.id, "x" * 1_048_576)
    with pytest.raises(NoOpenQuestion, match="already answered"):
        await runs.app().answer(question.id, "Bob")


async def test_an_answer_that_is_delivered_twice_is_recognised_and_answers_nothing_else(
    runs: RunsBench,
) -> None:
    resting = await runs.run(f'{ASK} (list (ask "first?") (ask "second?"))')
    app, root_id = runs.app(), resting.root_id
    first = await app.find_question(root_id)
    assert not (await app.answer(first.id, "yes")).is_repeated
    events = len(await app.events(EventFilter(tree=root_id)))

    again = await app.answer(first.id, "yes")

    assert again.is_repeated
    assert again.question == await app.get(first.id)
    assert len(await app.events(EventFilter(tree=root_id))) == events
    assert (await app.find_question(root_id)).id == first.id  # it has asked nothing else yet
    await runs.go_on(root_id)
    with pytest.raises(SeveralQuestions, match="give the id of the open one"):
        await app.find_question(root_id)
    assert (await app.find_question(root_id, is_shown=True)).name == "second?"
    assert (await app.answer(first.id, "yes")).is_repeated
    assert list(await open_ones(runs, root_id)) == ["second?"]


async def test_of_two_who_answer_at_the_same_time_one_is_told_that_he_was_late(runs: RunsBench) -> None:
    resting = await runs.run(NAME)
    question = (await open_ones(runs, resting.root_id))["Your name?"]
    told = await asyncio.gather(
        *(runs.app().answer(question.id, name) for name in ("Ada", "Bob")), return_exceptions=True
    )

    assert sorted(type(one).__name__ for one in told) == ["Answered", "NoOpenQuestion"]


async def test_somebody_elsewhere_may_be_quicker_than_who_is_here(runs: RunsBench) -> None:
    is_called_off = asyncio.Event()

    async def here(question: str) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            is_called_off.set()
        return "never"

    runs.effects = lambda: LocalEffects(ask_person=here)
    app: App = runs.app()
    root_id = await runs.begin(f'{ASK} (ask "Who?")', app=app)
    running = asyncio.create_task(app.wait(root_id))
    await until_asked(app, root_id)
    await tell(runs, root_id, "Who?", "me")
    await running
    await app.stop(grace_seconds=0)

    assert is_called_off.is_set()
    root = await app.get(root_id)
    assert root.result is not None
    assert root.result["content"] == "me"


async def test_the_answer_of_who_is_here_is_stored(runs: RunsBench) -> None:
    async def here(question: str) -> str:
        return f"{question} Me."

    runs.effects = lambda: LocalEffects(ask_person=here)
    outcome = await runs.run(f'{ASK} (ask "Who?")')

    assert value(outcome) == "Who? Me."
    question = next(task for task in await runs.flow(outcome.root_id) if task.name == "Who?")
    assert (question.status, question.result) == (Status.COMPLETED, {"answer": "Who? Me."})


async def test_a_question_holds_no_slot(runs: RunsBench) -> None:
    app = App(
        runs.store,
        settings=runs.app().settings,
        limits=structs.replace(QUICK, concurrency=1),
        new_effects=lambda _: runs.effects(),
    )
    root_id = await runs.begin(f'{ASK} {MODEL} (parallel (ask "Who?") (think "alone"))', app=app)
    await app.wait(root_id)
    await app.stop(grace_seconds=0)

    assert runs.asked == {"alone": 1}
    assert set(await open_ones(runs, root_id)) == {"Who?"}


async def test_a_fork_from_a_question_asks_it_again(runs: RunsBench) -> None:
    resting = await runs.run(NAME)
    question = await tell(runs, resting.root_id, "Your name?", "Ann")
    await runs.go_on(resting.root_id)

    fork = (await runs.app().fork(resting.root_id, question.id)).root.id
    assert (await runs.go_on(fork)).status is Status.PENDING
    await tell(runs, fork, "Your name?", "Bob")

    assert value(await runs.go_on(fork))[1] == "Bob"
    assert runs.asked["before"] == 1


async def test_a_run_does_not_rest_while_the_end_of_a_step_is_being_stored(runs: RunsBench) -> None:
    class Slow(MortalStore):
        """Takes longer for a write than a run that waits for people only goes on."""

        def __getattr__(self, method: str) -> Any:
            real = super().__getattr__(method)
            if not inspect.iscoroutinefunction(real):
                return real

            async def call(*arguments: Any, **named: Any) -> Any:
                if method == "write_steps":
                    await asyncio.sleep(0.05)
                return await real(*arguments, **named)

            return call

    root_id = await runs.begin(f'{ASK} {MODEL} (parallel (ask "Who?") (think (think "one")))')
    resting = await runs.go_on(root_id, Slow(runs.store).as_store)

    assert resting.status is Status.PENDING
    assert runs.asked == {"one": 1, "answer to one": 1}
