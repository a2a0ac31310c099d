"""Subtasks that a model spawns: evaluated below its own step, with a context of their own."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.subtasks import PROGRAM, World, error_in, heard, spawn
from weft import testing
from weft.app.evaluation import evaluate_async
from weft.errors import InternalError
from weft.evaluator.effects import Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.results import ResourceExhaustion, TaskFailure, TaskResult
from weft.language.diagnostics import InvalidProgram
from weft.language.reading import read_text
from weft.llm.payload import UserMessage

CATS = {"topic": "cats"}


async def test_the_result_goes_back_into_the_session_which_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path, {"boss": [spawn(inputs=CATS), "Cats purr."], "explain": "They purr."})

    result = await world.run(f'{PROGRAM} (boss "purring")')

    assert result.content == "Cats purr."
    assert result.notes["tools"] == ["system:spawn_subtask"]
    told = json.loads(heard(world.model.payloads[-1])[-1].content)
    assert told == {"status": "COMPLETE", "content": "They purr."}, "what is measured is another in each run"
    assert world.statuses() == [("1/s2", "started"), ("1/s2", "completed")]


async def test_a_subtask_is_a_step_below_the_one_that_spawns_it(tmp_path: Path) -> None:
    both = (spawn(inputs=CATS), spawn(inputs={"topic": "dogs"}))
    world = World(tmp_path, {"boss": [both, spawn(inputs={"topic": "owls"}), "ok"], "explain": "x"})

    await world.run(f'{PROGRAM} (+ 1 2) (boss "a")')

    assert sorted(world.keys()) == ["1", "1/s2", "1/s2/1", "1/s3", "1/s3/1", "1/s5", "1/s5/1"]
    subtask = next(step for step in world.steps if step.key == "1/s3")
    assert subtask.request.kind == "subtask"  # type: ignore[union-attr]
    assert subtask.request.name == "explain"  # type: ignore[union-attr]
    assert subtask.request.inputs == {"topic": "dogs"}  # type: ignore[union-attr]


async def test_a_subtask_whose_result_is_known_is_not_done_again(tmp_path: Path) -> None:
    world = World(tmp_path, {"boss": [spawn(inputs=CATS), "ok"]})
    world.known = {"1/s2": TaskResult("kept", "COMPLETE")}

    await world.run(f'{PROGRAM} (boss "a")')

    assert [payload.metadata.template for payload in world.model.payloads] == ["boss", "boss"]
    assert "kept" in heard(world.model.payloads[-1])[-1].content


async def test_a_template_that_is_no_single_request_is_evaluated_whole(tmp_path: Path) -> None:
    program = f"""{PROGRAM}
    (template both (one other) (sequential (explain one) (explain other)))
    (boss "a")"""
    request = spawn("both", type="sequential", inputs={"one": "cats", "other": "dogs"})
    world = World(tmp_path, {"boss": [request, "ok"], "explain": ["about cats", "about dogs"]})

    await world.run(program)

    assert "Explain dogs." in world.model.prompts
    assert "about dogs" in heard(world.model.payloads[-1])[-1].content
    assert {"1/s2", "1/s2/1", "1/s2/1/1", "1/s2/1/2"} == set(world.keys()) - {"1"}


async def test_a_model_that_cannot_write_a_request_is_told_everything_at_once(tmp_path: Path) -> None:
    wrong = spawn(
        None,
        type="odd",
        inputs=[],
        max_depth=0,
        extra=1,
        context_management={"inherit_context": "full", "fresh_context": "enabled"},
    )
    world = World(tmp_path, {"boss": [wrong, "sorry"]})

    assert (await world.run(f'{PROGRAM} (boss "a")')).content == "sorry"
    error = error_in(world.model.payloads[-1])
    assert (error["type"], error["reason"]) == ("TASK_FAILURE", "subtask_failure")
    violations = error["details"]["violations"]
    assert len(violations) == 6
    for part in ("odd", "/inputs", "/max_depth", "extra", "name or a description", "context_management"):
        assert any(part in violation for violation in violations), part
    assert error["details"]["subtaskError"]["type"] == "VALIDATION_ERROR"
    assert len(world.refusals()) == 1
    assert world.statuses() == []


async def test_a_template_that_is_not_there_is_refused_with_the_candidates(tmp_path: Path) -> None:
    world = World(tmp_path, {"boss": [spawn("explian", inputs=CATS), "sorry"]})

    await world.run(f'{PROGRAM} (boss "a")')

    details = error_in(world.model.payloads[-1])["details"]
    assert details["subtaskRequest"]["name"] == "explian"
    assert details["subtaskError"]["reason"] == "template_not_found"
    assert "did you mean 'explain'" in details["subtaskError"]["message"]
    assert details["subtaskError"]["details"]["candidates"] == ["boss", "explain"]
    assert details["nestingDepth"] == 1


async def test_inputs_that_a_template_does_not_take_are_refused_together(tmp_path: Path) -> None:
    world = World(tmp_path, {"boss": [spawn(inputs={"subject": "cats", "model": "best:one"}), "sorry"]})

    await world.run(f'{PROGRAM} (boss "a")')

    assert error_in(world.model.payloads[-1])["details"]["violations"] == [
        "explain needs the input 'topic'",
        "explain has no input 'subject'",
        "explain has no input 'model'",
    ]


async def test_the_failure_of_a_subtask_is_told_with_what_there_is_of_its_answer(tmp_path: Path) -> None:
    program = PROGRAM.replace('"Explain {{topic}}."', '"Explain {{topic}}." :output "json" :schema "object"')
    world = World(tmp_path, {"boss": [spawn(inputs=CATS), "I did it myself."], "explain": "no json"})

    result = await world.run(f'{program} (boss "a")')

    assert result.content == "I did it myself."
    error = error_in(world.model.payloads[-1])
    assert error["message"].startswith("the subtask 'explain' failed: ")
    details = error["details"]
    assert details["subtaskRequest"]["inputs"] == CATS
    assert details["subtaskError"]["reason"] == "output_format_failure"
    assert (details["nestingDepth"], details["partialOutput"]) == (1, "no json")
    assert world.statuses() == [("1/s2", "started"), ("1/s2", "failed")]


async def test_a_subtask_inherits_nothing_and_fetches_its_own_context(tmp_path: Path) -> None:
    (tmp_path / "cats.txt").write_text("Cats purr when they are content.")
    world = World(tmp_path, {"boss": [spawn(inputs=CATS), "ok"], "explain": "x"})

    await world.run(f'{PROGRAM} (boss "purring")')

    child = world.model.payloads[1]
    assert child.context is not None
    assert "Cats purr" in child.context
    assert "purring" not in child.context
    assert world.model.payloads[0].context is None or "Cats purr" not in world.model.payloads[0].context


async def test_a_request_may_have_the_subtask_inherit(tmp_path: Path) -> None:
    (tmp_path / "cats.txt").write_text("Cats purr when they are content.")
    request = spawn(inputs=CATS, context_management={"inherit_context": "full"})
    world = World(tmp_path, {"boss": [request, "ok"], "explain": "x"})

    await world.run(f'{PROGRAM} (boss "purring")')

    child = world.model.payloads[1]
    assert child.context is not None
    assert "purring" in child.context
    assert "Cats purr" not in child.context


@pytest.mark.parametrize("fresh", ["enabled", "disabled"])
async def test_files_of_a_request_come_first_and_memory_only_fills_what_they_leave(
    tmp_path: Path, fresh: str
) -> None:
    (tmp_path / "cats.txt").write_text("Cats purr when they are content.")
    (tmp_path / "dogs.txt").write_text("Dogs bark.")
    settings = {"fresh_context": fresh, "inherit_context": "none"}
    paths = ["dogs.txt"]
    request = spawn(inputs=CATS, file_paths=paths, context_management=settings)
    world = World(tmp_path, {"boss": [request, "ok"], "explain": "x"})

    await world.run(f'{PROGRAM} (boss "a")')

    child = world.model.payloads[1]
    assert child.context is not None
    assert "Dogs bark." in child.context
    after = child.context.partition("Dogs bark.")[2]
    assert ("Cats purr" in after, "Cats purr" in child.context) == ((fresh == "enabled"),) * 2


async def test_a_file_of_a_request_that_cannot_be_read_fails_the_subtask(tmp_path: Path) -> None:
    request = spawn(inputs=CATS, file_paths=["../{{goal}}.txt"])
    world = World(tmp_path, {"boss": [request, "sorry"], "explain": "x"})

    await world.run(f'{PROGRAM} (boss "a")')

    error = error_in(world.model.payloads[-1])["details"]["subtaskError"]
    assert "'../{{goal}}.txt'" in error["message"]
    assert error["reason"] == "context_retrieval_failure"


async def test_a_template_that_is_wrong_itself_is_a_failure_of_the_subtask(tmp_path: Path) -> None:
    program = PROGRAM.replace('"Explain {{topic}}."', '"Explain {{topic}}." :schema "no-such-shape"')
    world = World(tmp_path, {"boss": [spawn(inputs=CATS), "sorry"]})

    with pytest.raises(InvalidProgram, match="no-such-shape"):
        await world.run(f'{program} (boss "a")')
    assert world.model.payloads == []
    evaluator = Evaluator(world)  # what nobody has checked before
    assert (await evaluator.evaluate(read_text(f'{program} (boss "a")', "<text>"))).content == "sorry"
    assert "no-such-shape" in error_in(world.model.payloads[-1])["details"]["subtaskError"]["message"]


async def test_a_mistake_of_ours_inside_a_subtask_is_told_to_nobody_as_a_failed_tool(tmp_path: Path) -> None:
    class Broken(World):
        async def around(self, step: Step, body: Any) -> TaskResult:
            raise ZeroDivisionError

    world = Broken(tmp_path, {"boss": [spawn("both", inputs={}), "sorry"]})
    program = f'{PROGRAM} (template both () (list (sequential (explain "x")))) (boss "a")'

    with pytest.raises(InternalError):
        await world.run(program)


async def test_a_request_may_show_the_conversation_and_adds_nothing_to_it(tmp_path: Path) -> None:
    program = f"""{PROGRAM}
    (deftask chat (text) :instructions "{{{{text}}}}" :history (:use true))
    (chat "Hello.") (boss "a") (chat "Bye.")"""
    request = spawn(inputs=CATS, history_config={"use_session_history": True})
    world = World(tmp_path, {"chat": ["Hi.", "See you."], "boss": [request, "ok"], "explain": "They purr."})

    await world.run(program)

    child = next(one for one in world.model.payloads if one.metadata.template == "explain")
    assert [message.content for message in child.messages] == ["Hello.", "Hi.", "Explain cats."]
    last = world.model.payloads[-1]
    assert [message.content for message in last.messages] == ["Hello.", "Hi.", "Bye."]


async def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "explanation" / "subtasks.md").read_text()
    program = page.split("```")[1]
    world = World(tmp_path, {"answer": [spawn(inputs={"topic": "purring"}), "They like it."], "explain": "x"})

    assert (await world.run(program)).content == "They like it."
    assert "Explain purring." in world.model.prompts


CONTINUATION = {"status": "CONTINUATION", "notes": {"subtask_request": spawn(inputs=CATS).arguments}}


async def test_a_model_may_say_continuation_instead_of_calling_the_tool(tmp_path: Path) -> None:
    world = World(tmp_path, {"boss": [CONTINUATION, "done"], "explain": "They purr."})

    assert (await world.run(f'{PROGRAM} (boss "a")')).content == "done"
    last = world.model.payloads[-1].messages[-1]
    assert isinstance(last, UserMessage)
    assert "The subtask is done." in last.content
    assert "They purr." in last.content
    assert world.keys() == ["1", "1/s2", "1/s2/1"]


async def test_a_continuation_without_a_request_is_told_what_is_wrong(tmp_path: Path) -> None:
    world = World(tmp_path, {"boss": [{"status": "CONTINUATION"}, "done"]})

    assert (await world.run(f'{PROGRAM} (boss "a")')).content == "done"
    assert "The subtask was not done." in world.model.payloads[-1].messages[-1].content
    assert len(world.refusals()) == 1


async def test_a_result_with_status_continuation_is_continued_by_the_evaluator() -> None:
    request = spawn(inputs=CATS).arguments
    asks = TaskResult("I need to know.", "CONTINUATION", notes={"subtask_request": request})
    effects = testing.effects({"boss": [asks, "done"], "explain": "They purr."})

    result = await evaluate_async(f'{PROGRAM} (boss "a")', effects=effects)

    assert result.content == "done"
    assert [step.key for step in effects.steps] == ["1", "1/s1", "1/s1/1", "2"]
    (said,) = effects.calls[-1].continuations
    assert (said.content, said.result["content"]) == ("I need to know.", "They purr.")


async def test_the_failure_of_such_a_subtask_is_that_of_the_task() -> None:
    request = spawn("none", inputs=CATS).arguments
    effects = testing.effects([TaskResult("", "CONTINUATION", notes={"subtask_request": request})])

    with pytest.raises(TaskFailed) as failed:
        await evaluate_async(f'{PROGRAM} (boss "a")', effects=effects)

    error = failed.value.error
    assert isinstance(error, TaskFailure)
    assert error.details is not None
    assert (error.reason, error.details["nestingDepth"]) == ("subtask_failure", 1)
    assert error.details["subtaskError"]["reason"] == "template_not_found"


async def test_a_task_that_only_ever_continues_is_ended() -> None:
    request = spawn(inputs=CATS).arguments

    def answer(call: Any) -> Any:
        if call.template == "explain":
            return "x"
        return TaskResult("", "CONTINUATION", notes={"subtask_request": request})

    with pytest.raises(TaskFailed, match="20 times in a row"):
        await evaluate_async(f'{PROGRAM} (boss "a")', effects=testing.effects(answer))


async def test_a_session_that_ends_without_turns_keeps_its_own_error(tmp_path: Path) -> None:
    world = World(tmp_path, {"boss": [spawn(inputs=CATS)] * 3, "explain": "x"}, max_turns=2)

    with pytest.raises(TaskFailed) as failed:
        await world.run(f'{PROGRAM} (boss "a")')

    assert isinstance(failed.value.error, ResourceExhaustion)
    assert failed.value.error.resource == "turns"
