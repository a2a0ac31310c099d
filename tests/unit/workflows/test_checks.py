"""What is wrong with a workflow is said before anything runs."""

from typing import Any

import pytest

from tests.batches import batched
from weft.executors.builtin import built_in_registry
from weft.workflows import ExecutorTasks, InvalidWorkflow, TaskInterface, Workflow, WorkflowStepDefinition

TASKS = ExecutorTasks(built_in_registry())

ECHO = {"argv": ["echo", "x"]}
LOG: dict[str, Any] = {"task_name": "command", "output_name": "log", "static_inputs": ECHO}


def using(source: str, parameter: str = "stdin", **fields: Any) -> dict[str, Any]:
    """Return a step that takes an input from a source."""
    return {
        "task_name": "command",
        "output_name": "user",
        "static_inputs": ECHO,
        "dynamic_input_mappings": {parameter: source},
        **fields,
    }


def problems_of(*steps: dict[str, Any], name: str = "w", **context: Any) -> list[tuple[str, str]]:
    workflow = Workflow(name, [WorkflowStepDefinition(**step) for step in steps])
    with pytest.raises(InvalidWorkflow) as caught:
        workflow.compile(TASKS, **context)
    return [(problem.path, problem.reason) for problem in caught.value.found]


@batched(
    ("steps", "path", "reason"),
    [
        ([LOG, using("lgo.stdout")], "steps[1].dynamic_input_mappings.stdin", "did you mean 'log'?"),
        ([LOG, using("log.stdot")], "steps[1].dynamic_input_mappings.stdin", "did you mean 'stdout'?"),
        ([LOG, using("log.stdout.x")], "steps[1].dynamic_input_mappings.stdin", "a value of type string"),
        (
            [LOG, using("log.exit_code")],
            "steps[1].dynamic_input_mappings.stdin",
            "'log.exit_code' is integer",
        ),
        ([LOG, using("log.")], "steps[1].dynamic_input_mappings.stdin", "has an empty part"),
        ([LOG, using("log.stdout", "stdn")], "steps[1].inputs", "'stdn' was unexpected"),
        ([LOG, using("log.stdout", "argv")], "steps[1].dynamic_input_mappings.argv", "also a static input"),
        ([LOG, using("log.stdout", static_inputs={})], "steps[1].inputs", '"argv" is a required property'),
        ([LOG, LOG], "steps[1].output_name", "is also the output name of steps[0]"),
        ([LOG | {"output_name": "w"}], "steps[0].output_name", "is also the name of the workflow"),
        ([LOG | {"output_name": "topic"}], "steps[0].output_name", "is also a name in the initial context"),
        ([LOG | {"output_name": "a.b"}], "steps[0].output_name", "contains a dot"),
        ([LOG | {"output_name": ""}], "steps[0].output_name", "must not be empty"),
        ([LOG | {"task_name": "comand"}], "steps[0].task_name", "did you mean 'command'?"),
        ([LOG | {"static_inputs": {"argv": ["a", 1]}}], "steps[0].inputs.argv[1]", 'is not of type "string"'),
        ([LOG | {"static_inputs": {"argv": {1}}}], "steps[0].inputs", "JSON"),
        ([LOG | {"static_inputs": []}], "steps[0]", "Expected `object`"),
        ([LOG | {"dynamic_input_mappings": {"stdin": 1}}], "steps[0]", "Expected `str`"),
        ([LOG | {"params": {"retry": {"attempts": 0}}}], "steps[0].params.retry", "Expected `int` >= 1"),
        ([LOG | {"params": {"input_mappings": {}}}], "steps[0].params", "made from dynamic_input_mappings"),
        ([using("user.stdout")], "steps[0].dynamic_input_mappings", "in a cycle: user -> user"),
        ([using("topic.name.0")], "steps[0].dynamic_input_mappings.stdin", "there is no '0' in a scalar"),
        ([using("topic")], "steps[0].inputs.stdin", "is not valid under any"),
        ([], "steps", "a workflow needs a step"),
    ],
)
def test_a_mistake_is_refused_where_it_is(steps: list[dict[str, Any]], path: str, reason: str) -> None:
    ((found_path, found_reason),) = problems_of(*steps, topic={"name": "x"})

    assert found_path == path
    assert reason in found_reason


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = problems_of(
        LOG | {"output_name": "a", "task_name": "comand"},
        using("c.stdout", output_name="b", static_inputs={"argv": [1]}),
        using("b.stdout", output_name="c", params={"retry": 1}),
        using("nothing", output_name="c"),
        context={1},
    )

    assert [path for path, _ in found] == [
        "context.context",
        "steps[0].task_name",
        "steps[3].output_name",
        "steps[1].inputs.argv[0]",
        "steps[2].params.retry",
        "steps[3].dynamic_input_mappings.stdin",
        "steps[1].dynamic_input_mappings",
    ]
    assert found[-1][1] == "steps use each other in a cycle: b -> c -> b"


@pytest.mark.parametrize("name", ["", "x" * 300, "a\x00b"])
def test_the_name_of_a_workflow_is_one_of_a_record(name: str) -> None:
    assert [path for path, _ in problems_of(LOG, name=name)] == ["name"]


def test_a_name_of_the_context_has_no_dot() -> None:
    context: dict[str, Any] = {"a.b": 1}

    assert [path for path, _ in problems_of(LOG, **context)] == ["context.a.b"]


def test_what_only_a_run_can_tell_is_not_refused() -> None:
    tasks = ExecutorTasks(built_in_registry())
    workflow = (
        Workflow("w")
        .step("python", output_name="call", static_inputs={"function": "m:f"})
        .step("http", output_name="page", static_inputs={"url": "https://example.com"})
        .step("command", output_name="a", dynamic_input_mappings={"argv": "call.some.words"})
        .step(
            "command", output_name="b", static_inputs=ECHO, dynamic_input_mappings={"stdin": "page.json.0.x"}
        )
    )

    assert [record["name"] for record in workflow.compile(tasks)] == ["w", "call", "page", "a", "b"]


def test_a_secret_may_be_named_in_the_context() -> None:
    workflow = Workflow("w").step(
        "command", output_name="a", static_inputs=ECHO, dynamic_input_mappings={"stdin": "token"}
    )

    _, record = workflow.compile(TASKS, token={"$secret": "TOKEN"})

    assert record["inputs"]["stdin"] == {"$secret": "TOKEN"}


def test_tasks_are_found_through_one_protocol_whatever_they_are() -> None:
    class Templates:
        def interface_of(self, name: str) -> TaskInterface:
            fields = {"type": "object", "required": ["code"], "properties": {"code": {"type": "string"}}}
            output = {"type": "object", "properties": {"content": {"type": "string"}}}
            return TaskInterface(method=f"user:{name}", input_schema=fields, output_schema=output)

    workflow = (
        Workflow("w")
        .step("write", output_name="draft", dynamic_input_mappings={"code": "code"})
        .step("review", output_name="verdict", dynamic_input_mappings={"code": "draft.content"})
    )

    records = workflow.compile(Templates(), code="x = 1")

    assert [record["schemas"]["method"] for record in records[1:]] == ["user:write", "user:review"]
    with pytest.raises(InvalidWorkflow, match="is not of type"):
        workflow.compile(Templates(), code=1)
