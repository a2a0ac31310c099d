"""Evaluators of loops: what their results say, and which template is meant when only criteria are given."""

from collections.abc import Sequence
from typing import Any

from weft.evaluator.compiler import Compiler
from weft.evaluator.env import Env
from weft.evaluator.functions import Code
from weft.evaluator.operators.steps import failed
from weft.evaluator.operators.template_calls import call_template
from weft.evaluator.outputs import BadOutput, parse_output
from weft.evaluator.results import TaskFailure, TaskResult
from weft.language.library import TaskDefinition
from weft.language.spans import Span
from weft.language.template_words import best_evaluator, no_evaluator


def evaluation_of(result: TaskResult, span: Span) -> dict[str, Any]:
    """An evaluator's judgement: its parsed content, else its notes; TaskFailed when none has `success`."""
    for found in (result.value, result.notes, _read(result.content)):
        if isinstance(found, dict) and isinstance(found.get("success"), bool):
            return {**found, "feedback": "" if found.get("feedback") is None else found["feedback"]}
    message = 'an evaluation must be an object with a boolean "success"'
    notes = {"parseError": {"type": "schema_mismatch", "message": message, "location": "/success"}}
    failure = TaskFailure("output_format_failure", message, content=result.content, notes=notes)
    raise failed(failure, span)


def evaluation_notes(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return what the notes of an EvaluationResult say: `success`, `feedback`, `details`, `successScore`.

    A judgement without a `successScore` from 0 to 1 has the score 1 if it succeeded, else 0.
    """
    notes = {"success": evaluation["success"], "feedback": evaluation.get("feedback") or ""}
    if isinstance(evaluation.get("details"), dict):
        notes["details"] = evaluation["details"]
    return {**notes, "successScore": success_score(evaluation)}


def success_score(evaluation: dict[str, Any]) -> float:
    """Return how well an evaluation went, from 0 to 1."""
    score = evaluation.get("successScore")
    if isinstance(score, int | float) and not isinstance(score, bool) and 0 <= score <= 1:
        return float(score)
    return float(evaluation["success"])


def with_evaluation(result: TaskResult) -> TaskResult:
    """Return the result of a task that judges, with its judgement in the notes where it has one."""
    found = result.value
    if not isinstance(found, dict) or not isinstance(found.get("success"), bool):
        return result
    return result.with_notes(**{**evaluation_notes(found), **result.notes})


def chosen_evaluator(compiler: Compiler, criteria: str, names: Sequence[str], span: Span) -> Code:
    """Return a call of the template that matches the criteria best, with those of the names that it takes."""
    definition = _best_match(compiler, criteria, span)
    wanted = [parameter.name for parameter in definition.parameters if parameter.name in names]

    def run(env: Env) -> Any:
        return call_template(compiler, definition, (), {name: env[name] for name in wanted}, span)

    return run


def _best_match(compiler: Compiler, criteria: str, span: Span) -> TaskDefinition:
    found = best_evaluator(compiler.library, criteria)
    if found is None:
        raise failed(TaskFailure("template_not_found", no_evaluator(criteria)), span)
    return found


def _read(content: str) -> Any:
    try:
        return parse_output(content, None)
    except BadOutput:
        return None
