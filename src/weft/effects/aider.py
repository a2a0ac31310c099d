"""Perform tasks of the subtypes `aider_automatic` and `aider_interactive` with aider."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from weft.effects.resources import ProjectResources
from weft.effects.scripts import step_work
from weft.effects.task_context import DESCRIBED, RunScript, TaskMemory, listed_paths, query_of
from weft.errors import MissingExtra
from weft.evaluator.conversion import as_text
from weft.evaluator.effects import ModelCall, Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskFailureReason, TaskResult
from weft.executors.protocol import ExecutionFailed
from weft.integrations.aider.request import AiderInputs, AiderResult, AiderUsage, Mode
from weft.language.task_fields import AIDER_SUBTYPES

FILE_CONTEXT = "file_context"
"""Input that names the files of a task without `file_paths`."""

PROMPTS: dict[Mode, str] = {"automatic": "prompt", "interactive": "initial_query"}
"""Input that holds the prompt, by mode; by default the prompt is the text of the task."""


class _AiderFiles(Struct, frozen=True):
    paths: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_matched: bool = False
    """Whether memory found the files; otherwise the task names them."""


class AiderTasks:
    """Performs aider tasks: finds the files, runs aider, and builds the task result."""

    def __init__(self, resources: ProjectResources, memory: TaskMemory, run_script: RunScript) -> None:
        self._resources = resources
        self._memory = memory
        self._run_script = run_script

    async def perform(self, step: Step, call: ModelCall, model: str | None) -> TaskResult:
        """Run aider and return the diff as content, everything else as parsed content; raise TaskFailed."""
        mode = AIDER_SUBTYPES[call.subtype or ""]
        found = await self._paths(step, call)
        inputs = AiderInputs(
            prompt=_prompt(call, mode),
            files=found.paths,
            mode=mode,
            model=call.model or model,
            provider=call.provider,
            timeout_seconds=call.timeout_seconds,
        )
        try:
            result = await self._resources.aider().run(
                inputs, step_work(call.template or "aider", {}, step.record)
            )
        except ExecutionFailed as error:
            raise TaskFailed(_failure(error)) from error
        return _task_result(result, found)

    async def _paths(self, step: Step, call: ModelCall) -> _AiderFiles:
        """Return the files that the task names, or those that memory finds if the task uses memory."""
        files = call.files
        if files is not None and files.source == "command":
            paths, problems = await listed_paths(files.text or "", step, self._run_script)
            return _AiderFiles(paths, tuple(problems))
        if files is not None and files.source not in DESCRIBED:
            return _AiderFiles(files.paths)
        named = call.inputs.get(FILE_CONTEXT)
        if files is None and named:
            return _AiderFiles(_named_paths(named))
        if files is None and not call.context.wants_fresh:
            return _AiderFiles()
        answer = await self._memory.answer(step, query_of(call), None)
        sources = dict.fromkeys(item.source_path for item in answer.matches if item.source_path)
        refusals = {path: self._resources.aider().refusal_of(path) for path in sources}
        allowed = [path for path, refusal in refusals.items() if refusal is None]
        warnings = [f"file skipped: {refusal}" for refusal in refusals.values() if refusal is not None]
        warnings += [answer.error] if answer.error else []
        return _AiderFiles(
            tuple(allowed[: self._resources.memory_settings.max_files]), tuple(warnings), is_matched=True
        )


def _named_paths(value: Any) -> tuple[str, ...]:
    paths: Sequence[Any] = [value] if isinstance(value, str) else value
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        message = f"the input '{FILE_CONTEXT}' must be a list of paths"
        raise TaskFailed(TaskFailure("input_validation_failure", message))
    return tuple(paths)


def _prompt(call: ModelCall, mode: Mode) -> str:
    given = call.inputs.get(PROMPTS[mode])
    prompt = call.prompt if given is None else as_text(given)
    if not prompt.strip():
        raise TaskFailed(
            TaskFailure("input_validation_failure", "aider needs a prompt: the prompt of the task is empty")
        )
    parts = [call.system, call.context.previous_outputs, prompt]
    return "\n\n".join(part for part in parts if part)


def _task_result(result: AiderResult, found: _AiderFiles) -> TaskResult:
    notes: dict[str, Any] = {
        "model": result.model,
        "usage": _usage(result.model, result.usage),
        "aider": {"files": list(found.paths), "files_from": "memory" if found.is_matched else "task"},
    }
    if found.warnings:
        notes["warnings"] = list(found.warnings)
    return TaskResult(content=result.diff, status="COMPLETE", parsed_content=result.as_json(), notes=notes)


def _usage(model: str, usage: AiderUsage) -> dict[str, Any]:
    """Return the usage of aider's model in the form of the notes of a model call."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "tokens": usage.input_tokens + usage.output_tokens,
        "cost": usage.cost,
        "turns": usage.answers,
        "model": model,
    }


def _failure(error: ExecutionFailed) -> TaskFailure:
    details = error.details
    notes = None
    if "usage" in details:  # aider ran, and its model calls are paid for
        usage = msgspec.convert(details["usage"], AiderUsage)
        notes = {"model": details["model"], "usage": _usage(details["model"], usage)}
    reason: TaskFailureReason = "tool_execution_error"
    if isinstance(error.__cause__, MissingExtra):
        reason = "dependency_error"
    elif error.is_permanent:
        reason = "configuration_error"
    elif details and details.get("exit_code") is None:
        reason = "execution_timeout"
    return TaskFailure(
        reason, error.message, content=details.get("diff"), notes=notes, details=details or None
    )
