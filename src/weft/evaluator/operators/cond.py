"""`<cond>` of tasks: runs the first case with a condition that holds for the last output."""

from typing import Any

from weft.evaluator.compiler import Compiler
from weft.evaluator.environment import Env
from weft.evaluator.errors import TaskFailed
from weft.evaluator.functions import Code
from weft.evaluator.operators.director_loop import choose_evaluator, read_evaluation, success_score
from weft.evaluator.operators.task import as_task_result
from weft.evaluator.output_parsing import BadOutput, format_failure, parse_output
from weft.evaluator.results import TaskResult
from weft.language.ast import EVALUATION, JUDGED_NAMES, TaskCond
from weft.language.source import Span


def compile_task_cond(compiler: Compiler, node: TaskCond, is_tail: bool) -> Code:
    cases = [
        (compiler.compile(case.test), compiler.compile(case.body), case.body.span) for case in node.cases
    ]

    def run(env: Env) -> TaskResult:
        notes: dict[str, Any] = {}
        if node.criteria is None:
            output = _output(env, node.span)
        else:
            output, notes = _evaluate_output(compiler, env, node.criteria, node.span)
        scope = env.child(output=output)
        for index, (test, body, span) in enumerate(cases):
            if test(scope):
                return as_task_result(body(env), span).with_notes(matched_case=index, **notes)
        return TaskResult(content="", status="COMPLETE", notes={"matched_case": None, **notes})

    return run


def _evaluate_output(compiler: Compiler, env: Env, criteria: str, span: Span) -> tuple[Any, dict[str, Any]]:
    """Evaluate the last output by the criteria; return the output and the notes of the evaluation.

    The evaluation is also bound to the name EVALUATION. An output that is not JSON is used as text, because
    the cases can test the evaluation alone.
    """
    last = _last_output(env)
    try:
        output = _output(env, span)
    except TaskFailed:
        output = last
    names = dict(zip(JUDGED_NAMES, (last, last, output), strict=True))
    evaluator = choose_evaluator(compiler, criteria, JUDGED_NAMES, span)
    result = as_task_result(evaluator(env.child(**names)), span)
    evaluation = env[EVALUATION] = read_evaluation(result, span)
    return output, {"evaluation": evaluation, "successScore": success_score(evaluation)}


def _output(env: Env, span: Span) -> Any:
    """Return the JSON value of `last_output`; an empty object if nothing ran before."""
    content = _last_output(env)
    if content is None:
        return {}
    if not isinstance(content, str):
        return content
    try:
        return parse_output(content, None)
    except BadOutput as problem:
        raise format_failure(problem, content, span) from None


def _last_output(env: Env) -> Any:
    """Return the content of `last_output`, or None if nothing ran before."""
    try:
        last = env.find("last_output")["last_output"]
    except NameError:
        return None
    return last.content if isinstance(last, TaskResult) else last
