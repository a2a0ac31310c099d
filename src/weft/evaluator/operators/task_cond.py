"""`<cond>`: the first case whose condition holds for the output before it."""

from typing import Any

from weft.evaluator.compiler import Compiler
from weft.evaluator.env import Env
from weft.evaluator.functions import Code
from weft.evaluator.operators.conditions import compiled_condition
from weft.evaluator.operators.task import as_task_result
from weft.evaluator.outputs import BadOutput, format_failure, parse_output
from weft.evaluator.results import TaskResult
from weft.language.spans import Span
from weft.language.tree import TaskCond


def task_cond(compiler: Compiler, node: TaskCond, is_tail: bool) -> Code:
    """Compile a cond of tasks."""
    cases = [
        (compiled_condition(compiler, case.test), compiler.compile(case.body), case.body.span)
        for case in node.cases
    ]

    def run(env: Env) -> TaskResult:
        scope = env.child(output=_output(env, node.span))
        for index, (test, body, span) in enumerate(cases):
            if test(scope):
                return as_task_result(body(env), span).with_notes(matched_case=index)
        return TaskResult(content="", status="COMPLETE", notes={"matched_case": None})

    return run


def _output(env: Env, span: Span) -> Any:
    """The JSON value of `last_output`; an empty object when nothing ran before."""
    try:
        last = env.find("last_output")["last_output"]
    except NameError:
        return {}
    content = last.content if isinstance(last, TaskResult) else last
    if not isinstance(content, str):
        return content
    try:
        return parse_output(content, None)
    except BadOutput as problem:
        raise format_failure(problem, content, span) from None
