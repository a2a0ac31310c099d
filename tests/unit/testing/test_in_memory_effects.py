"""The effects that ship for tests of programs."""

import pytest

from tests.programs import evaluate, failure_of
from weft.evaluator.effects import ContextPayload, ModelCall, ScriptOutcome, Step
from weft.evaluator.results import TaskResult
from weft.language.task_fields import ContextManagement
from weft.testing.in_memory_effects import InMemoryEffects

TWO = '(deftask f (x) :instructions "say {{x}}") (list (content (f 1)) (content (f 2)))'


@pytest.mark.parametrize(
    "answers",
    [
        ["one", "two"],
        {"f": ["one", "two"]},
        {"say 1": "one", "say": "two"},
        lambda call: "one" if "1" in call.prompt else "two",
        [TaskResult("one", "COMPLETE"), "two"],
    ],
)
async def test_answers_may_be_a_list_a_mapping_or_a_function(answers: object) -> None:
    assert await evaluate(TWO, InMemoryEffects(answers)) == ["one", "two"]  # type: ignore[arg-type]


async def test_other_values_are_answered_as_json() -> None:
    assert await evaluate('(content (task :instructions "x"))', InMemoryEffects([{"a": [1]}])) == '{"a": [1]}'


async def test_an_exception_is_raised() -> None:
    with pytest.raises(OSError, match="down"):
        await InMemoryEffects([OSError("down")]).call_model(*_asked())


async def test_what_is_not_scripted_fails_the_task() -> None:
    error = await failure_of(TWO, InMemoryEffects(["one"]))

    assert error.error.message == "no response is scripted for: say 2"


async def test_scripts_are_answered_by_their_command() -> None:
    effects = InMemoryEffects(scripts={"ls": ScriptOutcome("a b", "", 0), "wc": "3"})
    program = '(list (content (script :argv ("wc" "-l"))) (content (script :shell "ls -a")))'

    assert await evaluate(program, effects) == ["3", "a b"]


async def test_context_is_empty_unless_scripted() -> None:
    program = '(get-in (get-context :query "cats") (list "context_summary"))'

    assert await evaluate(program, InMemoryEffects()) == ""
    assert await evaluate(program, InMemoryEffects(contexts={"cats": {"context_summary": "c"}})) == "c"


async def test_messages_are_kept() -> None:
    effects = InMemoryEffects()
    await evaluate('(log-message "hello")', effects)

    assert effects.messages == ["hello"]


async def test_a_schema_file_is_one_of_those_given() -> None:
    program = '(task :instructions "x" :schema "shapes/n.json" :disable-reparsing true)'
    effects = InMemoryEffects(["1"], files={"shapes/n.json": '{"type": "string"}'})

    assert "output does not match" in (await failure_of(program, effects)).message


def _asked() -> tuple[Step, ModelCall]:
    settings = ContextManagement("none", False, "notes_only", "disabled")
    call = ModelCall(prompt="x", context=ContextPayload(settings=settings))
    return Step("1", call), call
