"""`workflow_step`: a step as the specification writes it, in one record."""

import pytest

from tests.executor_work import run, work_of
from weft.executors import ExecutionFailed, ExecutorRegistry, UnknownExecutor
from weft.executors.builtin import built_in_registry
from weft.executors.invoke import grace_seconds_of, invoke_executor
from weft.ids import TaskId
from weft.tasks.parsing.inputs import MissingMapping
from weft.tasks.record import JsonObject

ONE, TWO = TaskId("one-id"), TaskId("two-id")
RESULTS: dict[TaskId, JsonObject] = {ONE: {"parsedContent": {"words": ["a", "b"]}}, TWO: {"n": 2}}
NAMES = {ONE: "plan", TWO: "other"}


@pytest.fixture
def registry() -> ExecutorRegistry:
    made = built_in_registry()
    schema = {"type": "object", "required": ["word"], "properties": {"word": {"type": "string"}}}

    @made.executor("shout", input_schema=schema)
    async def shout(inputs: JsonObject) -> str:
        return f"{inputs['word'].upper()}{inputs.get('end', '')}"

    return made


async def step(registry: ExecutorRegistry, inputs: JsonObject) -> JsonObject:
    return await run(registry.get("workflow_step"), inputs, dependencies=RESULTS, names=NAMES)


async def test_it_performs_the_task_with_static_and_mapped_inputs(registry: ExecutorRegistry) -> None:
    definition = {
        "task_name": "shout",
        "static_inputs": {"end": "!"},
        "dynamic_input_mappings": {"word": "plan.parsedContent.words.1"},
        "output_name": "a",
    }

    assert await step(registry, definition) == {"value": "B!"}


@pytest.mark.parametrize(
    ("inputs", "error", "reason"),
    [
        ({"task_name": "shuot"}, UnknownExecutor, "did you mean 'shout'?"),
        ({"task_name": "system:read_files"}, ExecutionFailed, "is not an executor; call a tool from"),
        ({"task_name": "shout"}, ExecutionFailed, '"word" is a required property'),
        ({"task_name": "shout", "output_name": "b"}, ExecutionFailed, "the name of the record is 'a'"),
        (
            {"task_name": "shout", "dynamic_input_mappings": {"word": "plna.x"}},
            ExecutionFailed,
            "did you mean 'plan'?",
        ),
        (
            {"task_name": "shout", "dynamic_input_mappings": {"word": "plan.x"}},
            MissingMapping,
            "there is no 'x'",
        ),
    ],
)
async def test_what_cannot_be_performed_says_why(
    registry: ExecutorRegistry, inputs: JsonObject, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error) as caught:
        await step(registry, inputs)

    assert reason in str(caught.value)


async def test_a_name_that_two_dependencies_have_is_refused(registry: ExecutorRegistry) -> None:
    inputs = {"task_name": "shout", "dynamic_input_mappings": {"word": "plan.x"}}
    work = work_of(inputs, dependencies=RESULTS, names={ONE: "plan", TWO: "plan"})

    with pytest.raises(ExecutionFailed, match="several completed dependencies have the name 'plan'"):
        await invoke_executor(registry.get("workflow_step"), work)


def test_it_lets_go_no_sooner_than_what_it_may_perform(registry: ExecutorRegistry) -> None:
    own = grace_seconds_of(registry.get("workflow_step"))

    assert own > max(
        grace_seconds_of(executor) for executor in registry.list() if executor.id != "workflow_step"
    )
