"""What models are told of results and errors: what was said, and nothing that differs between two runs."""

from typing import Any

from weft.evaluator.conversion import error_json_for_model, result_json_for_model
from weft.evaluator.results import TaskFailure, TaskResult

MEASURED: dict[str, Any] = {
    "usage": {"tokens": 17},
    "answered_at": "2026-01-01T00:00:00+00:00",
    "reused": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "context": {"given": [{"path": "a.py", "score": 0.31}]},
}


def test_a_result_is_told_without_notes_on_how_it_came_about() -> None:
    said = {"notes": {"usage": "of its own"}}
    result = TaskResult("x", "COMPLETE", parsed_content=said, notes={"steps": 2, **MEASURED})

    assert result_json_for_model(result) == {
        "content": "x",
        "status": "COMPLETE",
        "parsedContent": said,
        "notes": {"steps": 2},
    }


def test_so_is_an_error_with_those_that_it_comes_from() -> None:
    inner = {"type": "TASK_FAILURE", "message": "no", "notes": {"parseError": {}, **MEASURED}}
    done = {"content": "x", "status": "COMPLETE", "notes": MEASURED}
    details = {"subtaskError": inner, "partialResults": [done], "nestingDepth": 1}
    error = TaskFailure("subtask_failure", "it failed", notes=MEASURED, details=details)

    assert error_json_for_model(error) == {
        "type": "TASK_FAILURE",
        "reason": "subtask_failure",
        "message": "it failed",
        "notes": {},
        "details": {
            "subtaskError": {"type": "TASK_FAILURE", "message": "no", "notes": {"parseError": {}}},
            "partialResults": [{"content": "x", "status": "COMPLETE", "notes": {}}],
            "nestingDepth": 1,
        },
    }
    assert inner["notes"]["usage"] == {"tokens": 17}  # type: ignore[index]
