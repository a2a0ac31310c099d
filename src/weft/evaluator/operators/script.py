"""The script task: runs a command. Values reach it as argv, standard input and environment."""

import shlex
from typing import Any

from weft.evaluator.compiler import Compiler
from weft.evaluator.conversion import as_text
from weft.evaluator.effects import ScriptOutcome, ScriptRun
from weft.evaluator.environment import Env
from weft.evaluator.errors import ProgramError, TaskFailed
from weft.evaluator.operators.steps import error_location, failed, perform, program_error_at, reject_output
from weft.evaluator.operators.task import Entered, TaskCode
from weft.evaluator.operators.text import compile_texts, fill_all
from weft.evaluator.results import TaskFailure, TaskFailureReason, TaskResult
from weft.language.ast import Script
from weft.language.task_fields import IMPLICIT_INPUT
from weft.secrets.truncation import cut

COMMAND = "command"
"""The input with the command of a script that has neither `argv` nor `shell`."""


class ScriptTask(TaskCode):
    """A compiled script task."""

    node: Script

    def __init__(self, compiler: Compiler, node: Script) -> None:
        super().__init__(compiler, node, "script")
        self._texts = compile_texts(compiler, (node.description, node.shell, *node.argv))

    def run(self, env: Env) -> TaskResult:
        entered = self.enter(env)
        return self.leave(entered, self.result(self.outcome(entered)))

    def outcome(self, entered: Entered, *, default_stdin: str | None = None) -> ScriptOutcome:
        """Run the script; `default_stdin` is its standard input if no input sets it."""
        run = self._prepare_run(entered, default_stdin)
        found: ScriptOutcome = perform(
            self.compiler, run, self.node.span, self.compiler.machine.effects.run_script
        )
        return found

    def result(self, outcome: ScriptOutcome) -> TaskResult:
        """Return the result of a successful script. Raise TaskFailed for a failed one."""
        failure = script_failure(outcome, self.node.timeout_seconds)
        if failure is not None:
            raise reject_output(self.compiler.machine, failed(failure, self.node.span))
        facts = script_facts(outcome)
        try:
            return self.parse_or_fail(TaskResult(content=outcome.stdout, status="COMPLETE", notes=facts))
        except TaskFailed as error:
            raise reject_output(self.compiler.machine, error) from None

    def _prepare_run(self, entered: Entered, default_stdin: str | None) -> ScriptRun:
        node = self.node
        description, shell, *argv = fill_all(self._texts, entered.inner, self.compiler.library)
        inputs = dict(entered.own)
        words = tuple(word or "" for word in argv)
        if not node.argv and node.shell is None:
            words = self._command(inputs)
        stdin = default_stdin
        for name in (IMPLICIT_INPUT, "stdin"):
            if name in inputs:
                stdin = self._text(inputs.pop(name))
        names = [name for name in inputs if name.isascii() and name.isidentifier()]
        values = self._reject_nul(tuple(self._text(inputs[name]) for name in names))
        return ScriptRun(
            argv=self._reject_nul(words),
            shell=shell,
            stdin=stdin,
            environment=dict(zip(names, values, strict=True)),
            timeout_seconds=node.timeout_seconds,
            template=entered.name,
            subtype=node.subtype,
            description=description,
            reuse=node.reuse,
        )

    def _command(self, inputs: dict[str, Any]) -> tuple[str, ...]:
        """Return the words of the input `command`: a list, or a text that is split like a shell command."""
        command = inputs.pop(COMMAND)
        try:
            words = command if isinstance(command, list) else shlex.split(self._text(command))
        except ValueError as error:
            raise self._error(f"the command cannot be split into words: {error}") from None
        if not words:
            raise self._error("the command is empty")
        return tuple(self._text(word) for word in words)

    def _text(self, value: Any) -> str:
        with error_location(self.node.span):
            return as_text(value)

    def _reject_nul(self, words: tuple[str, ...]) -> tuple[str, ...]:
        if any("\0" in word for word in words):
            raise self._error("a NUL character cannot be part of a command or environment")
        return words

    def _error(self, message: str) -> ProgramError:
        return program_error_at("bad-value", message, self.node.span)


def script_failure(outcome: ScriptOutcome, timeout_seconds: float | None) -> TaskFailure | None:
    """Return why a script failed, or None if it succeeded."""
    reason: TaskFailureReason
    if outcome.is_timed_out:
        reason, message = "execution_timeout", "the script took too long"
        if timeout_seconds is not None:
            message = f"the script took longer than {timeout_seconds:g} seconds"
    elif outcome.exit_code:
        reason, message = "execution_halted", f"the script exited with code {outcome.exit_code}"
        last_line = outcome.stderr.strip().rpartition("\n")[2]
        message += f": {cut(last_line, 200)}" if last_line else ""
    else:
        return None
    return TaskFailure(reason, message, content=outcome.stdout, details=script_facts(outcome))


def script_facts(outcome: ScriptOutcome) -> dict[str, Any]:
    """Return the outcome of a script, with the specification's names."""
    return {
        "script_stdout": outcome.stdout,
        "script_stderr": outcome.stderr,
        "script_exit_code": outcome.exit_code,
    }
