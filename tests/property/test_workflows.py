"""Whatever steps a workflow has: it runs in the order of its mappings and gives what Python would give."""

import asyncio
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from tests.engine_bench import QUICK
from weft.app.app import App
from weft.app.wiring import open_store
from weft.config.settings import Settings
from weft.executors.builtin import built_in_registry
from weft.executors.protocol import ExecutionFailed, Work
from weft.executors.registry import ExecutorRegistry
from weft.tasks.record import JsonObject
from weft.workflows import Workflow, WorkflowResult, WorkflowStepDefinition

CONTEXT = {"seven": 7, "nested": {"numbers": [3, 5]}}
FROM_CONTEXT = {"seven": 7, "nested.numbers.0": 3, "nested.numbers.1": 5}


class Drawn(Struct):
    """A workflow whose steps fail or not, and what it must give."""

    steps: list[WorkflowStepDefinition]
    failing: set[str]

    def expected(self) -> tuple[dict[str, JsonObject], set[str], set[str]]:
        """Evaluate the steps as they were drawn: the results, what fails and what waits."""
        results: dict[str, JsonObject] = {}
        failed: set[str] = set()
        for step in self.steps:
            sources = set(sources_of(step))
            if not sources <= results.keys():
                continue
            if step.output_name in self.failing:
                failed.add(step.output_name)
                continue
            values = dict(step.static_inputs)
            for parameter, text in step.dynamic_input_mappings.items():
                values[parameter] = FROM_CONTEXT[text] if text in FROM_CONTEXT else read(results, text)
            results[step.output_name] = give(step.task_name, values)
        waiting = {step.output_name for step in self.steps} - results.keys() - failed
        return results, failed, waiting


def give(task_name: str, inputs: JsonObject) -> JsonObject:
    """Return the result of a task, as it is stored."""
    pair = [inputs["a"], inputs["b"]]
    return (
        {"total": sum(pair), "pair": {"both": pair}} if task_name == "add" else {"value": pair[0] - pair[1]}
    )


def read(results: dict[str, JsonObject], text: str) -> Any:
    value: Any = results
    for part in text.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def sources_of(step: WorkflowStepDefinition) -> list[str]:
    texts = step.dynamic_input_mappings.values()
    return [text.partition(".")[0] for text in texts if text not in FROM_CONTEXT]


@st.composite
def workflows(draw: st.DrawFn) -> Drawn:
    steps: list[WorkflowStepDefinition] = []
    places = list(FROM_CONTEXT)
    for number in range(draw(st.integers(1, 7))):
        task_name = draw(st.sampled_from(["add", "subtract"]))
        static: JsonObject = {}
        mapped: dict[str, str] = {}
        for parameter in "ab":
            place = draw(st.none() | st.sampled_from(places))
            if place is None:
                static[parameter] = draw(st.integers(-9, 9))
            else:
                mapped[parameter] = place
        name = f"s{number}"
        steps.append(
            WorkflowStepDefinition(
                task_name=task_name, output_name=name, static_inputs=static, dynamic_input_mappings=mapped
            )
        )
        places += [f"{name}.total", f"{name}.pair.both.1"] if task_name == "add" else [f"{name}.value"]
    names = [step.output_name for step in steps]
    return Drawn(steps, draw(st.sets(st.sampled_from(names), max_size=2)))


def executors_for(drawn: Drawn, log: list[tuple[str, str]]) -> ExecutorRegistry:
    registry = built_in_registry()
    schema = {
        "type": "object",
        "required": ["a", "b"],
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "additionalProperties": False,
    }

    def register(task_name: str) -> None:
        @registry.executor(task_name, input_schema=schema)
        async def perform(inputs: JsonObject, work: Work) -> Any:
            log.append(("began", work.task.name))
            await asyncio.sleep(0)
            if work.task.name in drawn.failing:
                raise ExecutionFailed("drawn to fail")
            log.append(("ended", work.task.name))
            given = give(task_name, inputs)
            return given.get("value", given)  # what is no object is stored as {"value": ...}

    register("add")
    register("subtract")
    return registry


async def run(drawn: Drawn, order: random.Random, url: str) -> tuple[WorkflowResult, list[tuple[str, str]]]:
    log: list[tuple[str, str]] = []
    steps = order.sample(drawn.steps, len(drawn.steps))
    store = await open_store(Settings(db=url))
    app = App(store, settings=Settings(db=url), limits=QUICK, executors=executors_for(drawn, log))
    async with app, asyncio.timeout(60):
        return await Workflow("drawn", steps).arun(app, **CONTEXT), log


@settings(
    deadline=None,
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(drawn=workflows(), order=st.randoms(use_true_random=False))
def test_a_workflow_gives_what_evaluating_its_steps_gives(
    store_url: str, drawn: Drawn, order: random.Random
) -> None:
    found, log = asyncio.run(run(drawn, order, store_url))

    results, failed, waiting = drawn.expected()
    assert found.results == results
    assert set(found.errors) == failed
    assert set(found.waiting) == waiting
    for step in drawn.steps:
        if ("began", step.output_name) in log:
            began = log.index(("began", step.output_name))
            assert all(log.index(("ended", source)) < began for source in sources_of(step))
