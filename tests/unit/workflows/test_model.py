"""Results by output name."""

import pytest

from tests.builders import NOON, a_flow, named, with_task
from weft.tasks.record import Status, evolve
from weft.workflows import StepNotCompleted, WorkflowResult


def a_result() -> WorkflowResult:
    flow = a_flow(
        {"name": "w", "dependencies": ["a", "b", "c"]}, "a", "b", {"name": "c", "dependencies": ["b"]}
    )
    done = {"started_at": NOON, "completed_at": NOON}
    completed = evolve(named(flow, "a"), status=Status.COMPLETED, result={"n": 1}, progress=1.0, **done)
    failed = evolve(named(flow, "b"), status=Status.FAILED, error="it broke", **done)
    return WorkflowResult.of(with_task(with_task(flow, completed), failed))


def test_it_has_results_errors_and_what_waits() -> None:
    found = a_result()

    assert found["a"] == {"n": 1}
    assert (found.results, found.errors, found.waiting) == ({"a": {"n": 1}}, {"b": "it broke"}, ("c",))
    assert found.status is Status.FAILED


@pytest.mark.parametrize(
    ("name", "reason"),
    [("b", "it broke"), ("c", "it waits for"), ("aa", "no such step; did you mean 'a'?")],
)
def test_a_result_that_is_not_there_is_an_error_that_says_why(name: str, reason: str) -> None:
    with pytest.raises(StepNotCompleted) as caught:
        a_result()[name]

    assert caught.value.message.startswith(f"step '{name}' has no result: ")
    assert reason in caught.value.message
