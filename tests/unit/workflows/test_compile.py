"""A workflow becomes the document of a flow."""

from pathlib import Path

import msgspec
import pytest

from weft.app.app import read_document
from weft.executors.builtin import built_in_registry
from weft.tasks.parsing.problems import decode
from weft.workflows import ExecutorTasks, InvalidWorkflow, Workflow, WorkflowStepDefinition

TASKS = ExecutorTasks(built_in_registry())

NOTES = (
    Workflow("notes")
    .step(
        "command",
        output_name="count",
        static_inputs={"argv": ["wc", "-l"]},
        dynamic_input_mappings={"stdin": "log.stdout", "cwd": "project.folder"},
        params={"timeout_seconds": 5},
    )
    .step("command", output_name="log", static_inputs={"argv": ["git", "log"]})
)


def test_steps_become_records_and_mappings_become_dependencies() -> None:
    assert NOTES.compile(TASKS, project={"folder": "/tmp"}) == [  # noqa: S108 - only a text here
        {
            "name": "notes",
            "schemas": {"method": "aggregate_results"},
            "inputs": {"key_by": "name"},
            "dependencies": ["count", "log"],
        },
        {
            "name": "count",
            "schemas": {"method": "command"},
            "inputs": {"argv": ["wc", "-l"], "cwd": "/tmp"},  # noqa: S108
            "params": {"timeout_seconds": 5, "input_mappings": {"stdin": "log.stdout"}},
            "dependencies": ["log"],
        },
        {
            "name": "log",
            "schemas": {"method": "command"},
            "inputs": {"argv": ["git", "log"]},
            "dependencies": [],
        },
    ]


def test_the_document_is_one_that_can_be_submitted_as_json() -> None:
    text = msgspec.json.encode(NOTES.compile(TASKS, project={"folder": "/tmp"}))  # noqa: S108

    flow = read_document(decode(text))

    assert [task.name for task, _ in flow.walk()] == ["notes", "count", "log"]
    assert len(flow.dependencies[flow.root.id]) == 2


def test_a_step_is_read_from_the_json_of_the_specification() -> None:
    text = b'{"task_name": "noop", "static_inputs": {"a": 1}, "output_name": "x"}'
    step = msgspec.json.decode(text, type=WorkflowStepDefinition)

    assert Workflow("w", [step]) == Workflow("w", [WorkflowStepDefinition(**msgspec.json.decode(text))])
    assert Workflow("w", [step]).compile(TASKS)[1]["inputs"] == {"a": 1}


def test_a_source_that_is_used_twice_is_one_dependency() -> None:
    mappings = {"stdin": "log.stdout", "cwd": "log.stderr"}
    workflow = NOTES.step(
        "command", output_name="c", static_inputs={"argv": ["x"]}, dynamic_input_mappings=mappings
    )

    assert workflow.compile(TASKS, project={"folder": ""})[-1]["dependencies"] == ["log"]


def test_step_leaves_the_workflow_it_is_called_on_as_it_is() -> None:
    NOTES.step("noop", output_name="more")

    assert [step.output_name for step in NOTES.steps] == ["count", "log"]


def test_long_chains_are_compiled() -> None:
    first = WorkflowStepDefinition(task_name="noop", output_name="s0")
    rest = [
        WorkflowStepDefinition(
            task_name="noop", output_name=f"s{number}", dynamic_input_mappings={"x": f"s{number - 1}"}
        )
        for number in range(1, 2_000)
    ]

    assert Workflow("long", [first, *rest]).compile(TASKS)[-1]["dependencies"] == ["s1998"]


def test_a_step_that_names_a_tool_becomes_a_program_that_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    workflow = Workflow("w").step("system:read_files", output_name="x", static_inputs={"paths": ["a"]})

    _, record = workflow.compile()

    assert record["schemas"] == {"method": "template"}
    assert record["inputs"] == {"paths": ["a"]}
    assert record["params"]["program"]["entry"] == "system:read_files"


def test_tools_that_are_not_there_and_arguments_that_they_do_not_take_are_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    workflow = (
        Workflow("w")
        .step("system:read_file", output_name="a")
        .step("system:read_files", output_name="b", static_inputs={"path": "x"})
        .step("shop:find_order", output_name="c")
        .step("mcp:nobody:tool", output_name="d")
    )

    with pytest.raises(InvalidWorkflow) as caught:
        workflow.compile()

    told = [str(problem) for problem in caught.value.found]
    assert told[0] == (
        "steps[0].task_name: there is no tool 'system:read_file'; did you mean 'system:read_files'?"
    )
    assert [one for one in told if one.startswith("steps[1].inputs")]
    assert "steps[2].task_name: there is no tool 'shop:find_order'" in told
    assert "steps[3].task_name: there is no tool 'mcp:nobody:tool'" in told
