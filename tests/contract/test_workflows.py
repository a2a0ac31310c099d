"""Workflows on the real engine, on every store."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import weft
from tests.engine_bench import QUICK, Bench, fail
from tests.runs_bench import RunsBench
from weft.app.app import App
from weft.config.settings import Settings
from weft.executors.builtin import built_in_registry
from weft.executors.protocol import ExecutionFailed, Work
from weft.language.ast import Template
from weft.language.reading import read_text
from weft.store.protocol import TaskFilter
from weft.tasks.record import JsonObject, Status
from weft.workflows import InvalidWorkflow, StepNotCompleted, Workflow, WorkflowResult


@pytest.fixture
async def app(bench: Bench) -> AsyncIterator[App]:
    async def double(work: Work) -> JsonObject:
        return {"n": work.inputs["n"] * 2}

    bench.executor("double", double)
    bench.executor("fail", fail)
    made = App(bench.store, settings=Settings(db="unused"), limits=QUICK, executors=bench.executors)
    yield made
    await made.stop(grace_seconds=0)


DOUBLED = (
    Workflow("doubled")
    .step("double", output_name="second", dynamic_input_mappings={"n": "first.n"})
    .step("double", output_name="first", dynamic_input_mappings={"n": "start.numbers.1"})
)


async def test_results_come_by_output_name(app: App) -> None:
    found = await DOUBLED.arun(app, start={"numbers": [1, 5]})

    assert found["first"] == {"n": 10}
    assert found["second"] == {"n": 20}
    assert (found.status, found.errors, found.waiting) == (Status.COMPLETED, {}, ())
    root = await app.get(found.root_id)
    assert root.result == {"results": {"first": {"n": 10}, "second": {"n": 20}}, "count": 2}


async def test_a_failed_step_stops_what_needs_it_and_keeps_the_rest(app: App) -> None:
    workflow = (
        DOUBLED.step("fail", output_name="bad")
        .step("double", output_name="needs", dynamic_input_mappings={"n": "bad.n"})
        .step("double", output_name="needs too", dynamic_input_mappings={"n": "needs.n"})
    )

    found = await workflow.arun(app, start={"numbers": [0, 1]})

    assert found.results == {"first": {"n": 2}, "second": {"n": 4}}
    assert found.errors == {"bad": "it broke"}
    assert found.waiting == ("needs", "needs too")
    with pytest.raises(StepNotCompleted, match="it broke"):
        found["bad"]
    assert (await app.summary(found.root_id)).blocked == 3
    assert (await app.get(found.root_id)).status is Status.PENDING


async def test_a_workflow_that_is_wrong_stores_nothing(app: App) -> None:
    with pytest.raises(InvalidWorkflow, match="'start'"):
        await DOUBLED.arun(app)

    assert (await app.list(TaskFilter())).total == 0


async def test_a_mended_step_goes_on_with_the_rest(app: App, bench: Bench) -> None:
    is_mended = False

    async def flaky(work: Work) -> JsonObject:
        if not is_mended:
            raise ExecutionFailed("it broke")
        return {"n": 1}

    bench.executor("flaky", flaky)
    workflow = (
        Workflow("w")
        .step("flaky", output_name="a")
        .step("double", output_name="b", dynamic_input_mappings={"n": "a.n"})
    )
    first = await workflow.arun(app)
    is_mended = True
    await app.retry((await app.flow_of(first.root_id)).children[first.root_id][0])

    await app.run(first.root_id)

    again = WorkflowResult.of(await app.flow_of(first.root_id))
    assert first.waiting == ("b",)
    assert again.results == {"a": {"n": 1}, "b": {"n": 2}}


async def test_a_step_can_be_written_as_the_specification_does(app: App) -> None:
    first = {"task_name": "double", "static_inputs": {"n": 3}, "output_name": "first"}
    second = {
        "task_name": "double",
        "dynamic_input_mappings": {"n": "first.n"},
        "output_name": "second",
    }
    summary = await app.run(
        [
            {"name": "root"},
            {"name": "first", "schemas": {"method": "workflow_step"}, "inputs": first},
            {
                "name": "second",
                "schemas": {"method": "workflow_step"},
                "inputs": second,
                "dependencies": ["first"],
            },
        ]
    )

    found = WorkflowResult.of(await app.flow_of(summary.root_id))
    assert found.results == {"first": {"n": 6}, "second": {"n": 12}}


def test_a_script_runs_one_without_await(store_url: str) -> None:
    executors = built_in_registry()

    @executors.executor("double")
    def double(inputs: JsonObject) -> JsonObject:
        return {"n": inputs["n"] * 2}

    with weft.open(store_url, executors=executors) as app:
        found = DOUBLED.run(app, start={"numbers": [0, 2]})

    assert found.results == {"first": {"n": 4}, "second": {"n": 8}}


async def test_without_an_app_the_store_of_the_project_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEFT_DB", raising=False)
    workflow = Workflow("w").step("noop", output_name="a")

    first = await workflow.arun()
    second = workflow.run()

    async with await App.open(must_exist=True) as app:
        page = await app.list(TaskFilter(name="a"))
    assert (first["a"], second["a"]) == ({}, {})
    assert page.total == 2


REVIEW = """(deftask review (code)
  :instructions "{{code}}" :output "json"
  :schema "{\\"type\\": \\"object\\", \\"properties\\": {\\"verdict\\": {\\"type\\": \\"string\\"}},
            \\"additionalProperties\\": false}")"""


class Reviews(RunsBench):
    """Registers the template, twice: the second version takes another argument."""

    async def made(self) -> App:
        app = self.app()
        for text in (REVIEW, REVIEW.replace("code", "text")):
            forms = read_text(text, "x").forms
            await app.library.add([form for form in forms if isinstance(form, Template)])
        return app


@pytest.mark.parametrize("path", ["first.verdict", "first.parsedContent.verdikt", "first.content.text"])
async def test_a_field_that_the_result_of_a_template_never_has_is_refused_before_it_runs(
    bench: Bench, path: str
) -> None:
    reviews = Reviews(bench.store)
    app = await reviews.made()
    workflow = (
        Workflow("w")
        .step("review", output_name="first", static_inputs={"text": "a"})
        .step("review", output_name="second", dynamic_input_mappings={"text": path})
    )

    with pytest.raises(InvalidWorkflow, match=path.rpartition(".")[2]):
        await workflow.arun(app)

    assert not reviews.asked


async def test_a_step_may_name_a_version_of_a_template(bench: Bench) -> None:
    reviews = Reviews(bench.store, lambda prompt: json.dumps({"verdict": prompt}))
    app = await reviews.made()
    workflow = (
        Workflow("w")
        .step("review@1", output_name="first", static_inputs={"code": "a"})
        .step("review", output_name="second", dynamic_input_mappings={"text": "first.parsedContent.verdict"})
    )

    try:
        found = await workflow.arun(app)
    finally:
        await app.stop(grace_seconds=0)

    assert found["second"]["parsedContent"] == {"verdict": "a"}
    with pytest.raises(InvalidWorkflow, match="review@7"):
        await Workflow("w").step("review@7", output_name="first", static_inputs={"code": "a"}).arun(app)


async def test_steps_may_name_tools(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("tea")
    workflow = (
        Workflow("notes")
        .step("system:read_files", output_name="read", static_inputs={"paths": ["notes.txt"]})
        .step(
            "system:write_file",
            output_name="copy",
            static_inputs={"path": "copy.txt"},
            dynamic_input_mappings={"content": "read.parsedContent.files.0.content"},
        )
        .step("system:read_files", output_name="missing", static_inputs={"paths": ["nowhere.txt"]})
    )

    found = await workflow.arun(app)

    assert (tmp_path / "copy.txt").read_text() == "tea"
    assert found["copy"]["parsedContent"] == {"path": "copy.txt", "bytes": 3}
    assert found.errors == {
        "missing": "tool 'system:read_files': 'nowhere.txt': there is no such file or folder"
    }
    calls = [task for task in await app.flow_of(found.root_id) if task.name.startswith("system:")]
    assert len(calls) == 3, "each call is a step of its own, which is not repeated after a crash"
