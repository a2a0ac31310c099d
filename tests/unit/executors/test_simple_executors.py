"""noop, sleep, system_info, aggregate_results; and what all built-in executors have in common."""

import asyncio
import os
import subprocess
import sys

import jsonschema_rs
import msgspec
import pytest

from tests.executor_work import Reports, run
from weft.executors import ExecutionFailed, Executor
from weft.executors.builtin import built_in_registry
from weft.executors.protocol import output_schema_of
from weft.executors.simple import AggregateResults, Noop, Sleep, SystemInfo
from weft.ids import TaskId
from weft.tasks.record import JsonObject

ALL = built_in_registry().list()
STRICT = [executor for executor in ALL if executor.id != "noop"]

ONE, TWO = TaskId("one-id"), TaskId("two-id")
RESULTS = {ONE: {"n": 1}, TWO: {"n": 2}}
NAMES = {ONE: "one", TWO: "two"}


def ids(executor: Executor) -> str:
    return executor.id


@pytest.mark.parametrize("executor", ALL, ids=ids)
def test_a_built_in_executor_has_a_summary_and_a_valid_schema(executor: Executor) -> None:
    assert executor.summary.endswith(".")
    jsonschema_rs.Draft7Validator(executor.input_schema or {})


@pytest.mark.parametrize(
    ("executor_id", "inputs"),
    [
        ("aggregate_results", {}),
        ("command", {"argv": ["true"]}),
        ("noop", {}),
        ("sleep", {"seconds": 0}),
        ("system_info", {}),
    ],
)
async def test_a_result_has_the_fields_that_the_executor_says(executor_id: str, inputs: JsonObject) -> None:
    executor = built_in_registry().get(executor_id)
    schema = output_schema_of(executor)
    result = await run(executor, inputs)

    assert schema is not None
    assert jsonschema_rs.Draft7Validator(schema).is_valid(result)
    assert schema["properties"].keys() == result.keys()


@pytest.mark.parametrize("executor", STRICT, ids=ids)
async def test_an_input_that_is_not_known_is_refused(executor: Executor) -> None:
    with pytest.raises(ExecutionFailed, match="nonsense") as caught:
        await run(executor, {"nonsense": 1})

    assert caught.value.is_permanent


async def test_noop_takes_anything_and_gives_nothing() -> None:
    assert await run(Noop(), {"any": [1, {"thing": None}]}) == {}


async def test_sleep_waits_as_long_as_it_is_told() -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()

    assert await run(Sleep(), {"seconds": 0.05}) == {"seconds": 0.05}
    assert loop.time() - before >= 0.05


async def test_a_long_sleep_reports_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.executors.simple.SHORTEST_STEP_SECONDS", 0.01)
    reports = Reports()

    await run(Sleep(), {"seconds": 0.2}, report=reports)

    assert len(reports) > 5
    assert reports == sorted(reports)
    assert all(0 < fraction <= 1 for fraction in reports)


@pytest.mark.parametrize("seconds", [-1, "5", None])
async def test_sleep_refuses_what_is_no_time(seconds: object) -> None:
    with pytest.raises(ExecutionFailed) as caught:
        await run(Sleep(), {"seconds": seconds})

    assert caught.value.is_permanent


async def test_system_info_describes_the_machine() -> None:
    found = await run(SystemInfo())

    assert found["cpu"]["count"] == os.cpu_count()
    assert found["memory"]["total_bytes"] >= found["memory"]["available_bytes"] > 0
    assert found["disk"]["total_bytes"] > 0
    assert found["platform"]["python"].startswith("3.")


async def test_system_info_gives_only_what_was_asked_for() -> None:
    assert list(await run(SystemInfo(), {"parts": ["cpu"]})) == ["cpu"]


async def test_system_info_tells_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "very-secret-value")

    assert b"very-secret-value" not in msgspec.json.encode(await run(SystemInfo()))


async def test_results_are_gathered_by_id() -> None:
    assert await run(AggregateResults(), dependencies=RESULTS) == {"results": RESULTS, "count": 2}


async def test_results_are_gathered_by_name() -> None:
    found = await run(AggregateResults(), {"key_by": "name"}, dependencies=RESULTS, names=NAMES)

    assert found == {"results": {"one": {"n": 1}, "two": {"n": 2}}, "count": 2}


@pytest.mark.parametrize("word", [TWO, "two"])
async def test_only_the_wanted_results_are_gathered(word: str) -> None:
    found = await run(AggregateResults(), {"only": [word]}, dependencies=RESULTS, names=NAMES)

    assert found == {"results": {TWO: {"n": 2}}, "count": 1}


async def test_a_wanted_result_that_is_not_there_is_named() -> None:
    with pytest.raises(ExecutionFailed, match=r"'tow'; did you mean 'two'\?"):
        await run(AggregateResults(), {"only": ["tow"]}, dependencies=RESULTS, names=NAMES)


async def test_two_results_of_one_name_cannot_be_keyed_by_it() -> None:
    with pytest.raises(ExecutionFailed, match="several dependencies have the name 'same'"):
        await run(
            AggregateResults(), {"key_by": "name"}, dependencies=RESULTS, names={ONE: "same", TWO: "same"}
        )


def test_the_registry_is_imported_without_the_http_client() -> None:
    program = (
        "import sys, weft.executors.registry, weft.executors.builtin as b; b.default_registry();"
        "print([m for m in sys.modules if m.startswith(('httpx', 'httpcore', 'anyio'))])"
    )

    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"
