"""Values of a program as the result of its run."""

from weft.evaluator.conversion import as_result
from weft.evaluator.results import TaskResult


def test_results_inside_a_value_become_their_values_but_a_failed_one_keeps_its_error() -> None:
    failed = TaskResult(content="", status="FAILED", notes={"error": {"message": "boom"}})

    made = as_result({"good": TaskResult(content="yes", status="COMPLETE"), "caught": failed})

    assert made.value["good"] == "yes"
    assert made.value["caught"]["notes"] == {"error": {"message": "boom"}}
