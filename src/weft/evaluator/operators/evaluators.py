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
from weft.evaluator.template_words import words, words_of
from weft.language.library import TaskDefinition
from weft.language.spans import Span
from weft.language.tree import DirectorEvaluatorLoop

EVALUATOR = "evaluator"
"""The subtype of templates that judge."""


def evaluation_of(result: TaskResult, span: Span) -> dict[str, Any]:
    """An evaluator's judgement: its parsed content, else its notes; TaskFailed when none has `success`."""
    for found in (result.value, result.notes, _read(result.content)):
        if isinstance(found, dict) and isinstance(found.get("success"), bool):
            return {"feedback": None, **found}
    message = 'an evaluation must be an object with a boolean "success"'
    notes = {"parseError": {"type": "schema_mismatch", "message": message, "location": "/success"}}
    failure = TaskFailure("output_format_failure", message, content=result.content, notes=notes)
    raise failed(failure, span)


def chosen_evaluator(compiler: Compiler, node: DirectorEvaluatorLoop, names: Sequence[str]) -> Code:
    """The template whose words have most in common with the criteria, called with those names it takes."""
    definition = _best_match(compiler, node)
    wanted = [parameter.name for parameter in definition.parameters if parameter.name in names]

    def run(env: Env) -> Any:
        return call_template(compiler, definition, (), {name: env[name] for name in wanted}, node.span)

    return run


def _best_match(compiler: Compiler, node: DirectorEvaluatorLoop) -> TaskDefinition:
    wanted = words(node.criteria or "")
    scored = [
        (-len(wanted & words_of(definition)), definition.name)
        for definition in compiler.library
        if definition.subtype == EVALUATOR
    ]
    score, name = min(scored, default=(0, ""))
    if not score:
        message = (
            f"no evaluator is named, and no template of subtype evaluator matches '{node.criteria or ''}'"
        )
        raise failed(TaskFailure("template_not_found", message), node.span)
    return compiler.library.get_task(name)


def _read(content: str) -> Any:
    try:
        return parse_output(content, None)
    except BadOutput:
        return None
