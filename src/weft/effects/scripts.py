"""Run the commands of scripts and tools with the `command` executor, without storing a task."""

from weft.config.sections import CommandSettings
from weft.evaluator.effects import ScriptOutcome, ScriptRun, StepRecord
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.executors.command import Command
from weft.executors.protocol import ExecutionFailed, Work
from weft.ids import new_task_id
from weft.tasks.record import JsonObject, Status, Task


async def run_program(
    run: ScriptRun,
    settings: CommandSettings,
    *,
    cwd: str | None = None,
    max_output_bytes: int | None = None,
    record: StepRecord | None = None,
) -> ScriptOutcome:
    """Run a command and return its outcome; raise TaskFailed if it is not allowed or cannot be started.

    `record` is the step of a run that the command's environment variables name.
    """
    inputs: JsonObject = {"env": run.environment, "stdin": run.stdin, "check": False}
    inputs |= {"argv": list(run.argv)} if run.shell is None else {"shell": True, "command": run.shell}
    optional = {"timeout_seconds": run.timeout_seconds, "cwd": cwd, "max_output_bytes": max_output_bytes}
    inputs |= {name: value for name, value in optional.items() if value is not None}
    try:
        work = step_work(run.template or run.description or "script", inputs, record)
        result = await Command(settings).execute(work)
    except ExecutionFailed as error:
        if "exit_code" not in error.details:
            raise TaskFailed(TaskFailure("configuration_error", error.message)) from error
        result = error.details
    code = result["exit_code"]
    return ScriptOutcome(
        result["stdout"], result["stderr"], -1 if code is None else code, is_timed_out=code is None
    )


def step_work(name: str, inputs: JsonObject, record: StepRecord | None = None) -> Work:
    """Return an attempt at the step of `record`; without a record, at a task that is not stored."""
    record = record or StepRecord(new_task_id(), 1)
    return Work(
        task=Task(id=record.task_id, name=name, status=Status.IN_PROGRESS, inputs=inputs),
        attempt=record.attempt,
        inputs=inputs,
        dependencies={},
        report=_ignore_progress,
    )


async def _ignore_progress(fraction: float) -> None:
    """Ignore the progress."""
