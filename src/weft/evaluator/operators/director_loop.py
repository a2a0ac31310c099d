"""The director-evaluator loop: repeats director, optional script and evaluator until a condition ends it."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from weft.evaluator.compiler import Compiler
from weft.evaluator.conversion import as_text
from weft.evaluator.effects import ScriptOutcome
from weft.evaluator.environment import Env
from weft.evaluator.errors import BudgetExceeded, ProgramError, TaskFailed
from weft.evaluator.functions import Code
from weft.evaluator.operators.context import SequentialHistory
from weft.evaluator.operators.script import ScriptTask
from weft.evaluator.operators.steps import failed, part_failed
from weft.evaluator.operators.task import Entered, TaskCode, as_task_result
from weft.evaluator.operators.templates import call_template
from weft.evaluator.operators.text import FilledText, fill_all
from weft.evaluator.output_parsing import BadOutput, parse_output
from weft.evaluator.results import TaskFailure, TaskResult
from weft.language.ast import LOOP_NAMES, LOOP_TEXTS, DirectorEvaluatorLoop, Node
from weft.language.library import best_evaluator, no_evaluator
from weft.language.source import Span


def read_evaluation(result: TaskResult, span: Span) -> dict[str, Any]:
    """Return an evaluator's judgement from its parsed content, notes or text.

    Raise TaskFailed if none of the three has a boolean `success`.
    """
    for found in (result.value, result.notes, _parse_or_none(result.content)):
        if isinstance(found, dict) and isinstance(found.get("success"), bool):
            return {**found, "feedback": "" if found.get("feedback") is None else found["feedback"]}
    message = 'an evaluation must be an object with a boolean "success"'
    notes = {"parseError": {"type": "schema_mismatch", "message": message, "location": "/success"}}
    failure = TaskFailure("output_format_failure", message, content=result.content, notes=notes)
    raise failed(failure, span)


def success_score(evaluation: dict[str, Any]) -> float:
    """Return the score of an evaluation, from 0 to 1; without one, 1 for success, else 0."""
    score = evaluation.get("successScore")
    if isinstance(score, int | float) and not isinstance(score, bool) and 0 <= score <= 1:
        return float(score)
    return float(evaluation["success"])


def with_evaluation(result: TaskResult) -> TaskResult:
    """Return the result of an evaluating task, with its judgement in the notes if it has one.

    The notes are those of an EvaluationResult: `success`, `feedback`, `details`, `successScore`.
    """
    found = result.value
    if not isinstance(found, dict) or not isinstance(found.get("success"), bool):
        return result
    notes = {"success": found["success"], "feedback": found.get("feedback") or ""}
    if isinstance(found.get("details"), dict):
        notes["details"] = found["details"]
    return result.with_notes(**{**notes, "successScore": success_score(found), **result.notes})


def choose_evaluator(compiler: Compiler, criteria: str, names: Sequence[str], span: Span) -> Code:
    """Return code that calls the best template for the criteria with those of `names` that it takes."""
    definition = best_evaluator(compiler.library, criteria)
    if definition is None:
        raise failed(TaskFailure("template_not_found", no_evaluator(criteria)), span)
    wanted = [parameter.name for parameter in definition.parameters if parameter.name in names]

    def run(env: Env) -> Any:
        return call_template(compiler, definition, (), {name: env[name] for name in wanted}, span)

    return run


def _parse_or_none(content: str) -> Any:
    try:
        return parse_output(content, None)
    except BadOutput:
        return None


DEFAULT_ITERATIONS = 5


class LoopTask(TaskCode):
    """A compiled director-evaluator loop."""

    node: DirectorEvaluatorLoop

    def __init__(self, compiler: Compiler, node: DirectorEvaluatorLoop) -> None:
        super().__init__(compiler, node, "director_evaluator_loop")
        self.limit = node.max_iterations or DEFAULT_ITERATIONS
        self._prompt = None if node.prompt is None else FilledText(compiler, node.prompt)
        self._director = compiler.compile(cast(Node, node.director))  # a rule of tasks requires it
        self._evaluator = None if node.evaluator is None else compiler.compile(node.evaluator)
        self._script = None if node.script is None else ScriptTask(compiler, node.script)
        condition = node.termination_condition
        self._condition = None if condition is None else compiler.compile(condition)

    def run(self, env: Env) -> TaskResult:
        entered, script = self.enter(env), self.node.script
        blank = {name: "" if name in LOOP_TEXTS else None for name in LOOP_NAMES}
        entered.inner.update({name: entered.inputs.get(name, blank[name]) for name in LOOP_NAMES})
        if script is not None and script.output_slot is not None:
            entered.inner[script.output_slot] = None
        entered.inner["user_query"] = self.query(entered)
        entered.inner["max_iterations"] = self.limit
        history = SequentialHistory(self.settings)
        return self.compose(entered, lambda: self.iterate(entered.inner, history), history=history)

    def query(self, entered: Entered) -> Any:
        """Return `user_query`: the input, else the binding around the loop, else the prompt."""
        if "user_query" in entered.inputs:
            return entered.inputs["user_query"]
        try:
            return entered.outer.find("user_query")["user_query"]
        except NameError:
            return fill_all([self._prompt], entered.inner, self.compiler.library)[0]

    def iterate(self, env: Env, history: SequentialHistory) -> TaskResult:
        """Run the loop and return the last result of the director, with the reason for the end."""
        for iteration in range(1, self.limit + 1):
            env["current_iteration"] = iteration
            result = self._run_part("director", iteration, self._director, env)
            history.add(f"director {iteration}", result)
            env["director_result"] = result
            self._run_script(env, iteration)
            ended = self._evaluate(env, iteration, history)
            if ended is not None or iteration == self.limit:
                return result.with_notes(
                    iterations=iteration,
                    terminated_by=ended or "max_iterations",
                    evaluation=env["evaluation"],
                    successScore=success_score(env["evaluation"]),
                )
        raise AssertionError("a loop has at least one iteration")

    def _run_part(self, part: str, iteration: int, code: Code, env: Env) -> TaskResult:
        try:
            return as_task_result(code(env), self.node.span)
        except TaskFailed as error:
            raise self._failed(error, part, iteration) from error

    def _run_script(self, env: Env, iteration: int) -> None:
        """Run the script, if there is one; the evaluator judges its outcome."""
        if self._script is None:
            return
        try:
            entered = self._script.enter(env)
            outcome = self._script.outcome(entered, default_stdin=as_text(env["director_result"]))
        except (ProgramError, BudgetExceeded) as error:
            raise self._failed(error, "script", iteration) from error
        except TaskFailed as error:  # the script could not be started
            env.update(script_output="", script_errors=error.error.message, script_exit_code=None)
            if self._script.node.output_slot is not None:
                env[self._script.node.output_slot] = error.result()
            return
        result, errors = _script_result(self._script, outcome)
        env.update(script_output=outcome.stdout, script_errors=errors, script_exit_code=outcome.exit_code)
        self._script.leave(entered, result)

    def _evaluate(self, env: Env, iteration: int, history: SequentialHistory) -> str | None:
        """Judge the iteration and return the reason to end the loop, or None to continue."""
        code = self._evaluator or choose_evaluator(
            self.compiler, self.node.criteria or "", LOOP_NAMES, self.node.span
        )
        result = self._run_part("evaluator", iteration, code, env)
        history.add(f"evaluator {iteration}", result)
        try:
            evaluation = read_evaluation(result, self.node.span)
        except TaskFailed as error:
            details = {"iteration": iteration, "part": "evaluator"}
            changed = msgspec.structs.replace(error.error, details=details)
            raise TaskFailed(changed, span=error.span).caused_by(error) from None
        env["evaluation"] = evaluation
        env["evaluation_feedback"] = evaluation["feedback"]
        if evaluation["success"]:
            return "success"
        return "condition" if self._condition is not None and self._condition(env) else None

    def _failed(self, error: TaskFailed, part: str, iteration: int) -> TaskFailed:
        message = f"the {part} failed in iteration {iteration}"
        return part_failed(error, message, self.node.span, {"iteration": iteration, "part": part})


def _script_result(script: ScriptTask, outcome: ScriptOutcome) -> tuple[TaskResult, str]:
    """Return the result of a script that ran, failed or not, and the text of its errors."""
    try:
        return script.result(outcome), outcome.stderr
    except TaskFailed as error:
        errors = [outcome.stderr] if outcome.stderr else []
        if outcome.is_timed_out:
            errors = [outcome.stderr, "the script took too long"]
        elif not outcome.exit_code:  # its output does not match the output format
            errors.append(error.error.message)
        return error.result(), "\n".join(errors)
