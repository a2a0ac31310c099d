"""Rules between the fields of one task. Readers do not know them; the check and the evaluator apply them."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from weft.language.ast import Atomic, DirectorEvaluatorLoop, Reduce, Script, Sequential, TaskNode, Text
from weft.language.diagnostics import InvalidProgram, LanguageProblem
from weft.language.fields import REQUEST_FIELDS, TASK_FIELDS, TASK_KINDS, context_conflict, misplaced

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
_COUNTS = tuple(
    field.name
    for fields in (TASK_FIELDS, *(kind.fields for kind in TASK_KINDS.values()))
    for field in fields
    if field.kind == "count"
)
_COMMAND_OPTION = re.compile(r"-[a-zA-Z]*c")


def require_valid_task(node: TaskNode) -> None:
    """Raise InvalidProgram with the problems of a task."""
    problems = list(task_problems(node))
    if problems:
        raise InvalidProgram(problems)


def task_problems(node: TaskNode) -> Iterator[LanguageProblem]:
    """Yield the missing, misplaced and conflicting fields of a task."""
    missing = _explain_missing_field(node)
    if missing is not None:
        yield LanguageProblem(node.span, "missing-field", missing)
    misplacement = misplaced(node, [name for name in REQUEST_FIELDS if getattr(node, name)])
    if misplacement is not None:
        yield LanguageProblem(node.span, "bad-value", misplacement)
    conflict = context_conflict(node.context, node.span)
    if conflict is not None:
        yield conflict
    for name in _COUNTS:
        value = getattr(node, name, None)
        if value is not None and not (type(value) is int and value >= 1):
            yield LanguageProblem(node.span, "bad-value", f"{name} must be a whole number, at least 1")
    yield from _command_problems(node)


def _explain_missing_field(node: TaskNode) -> str | None:
    if isinstance(node, Atomic) and node.prompt is None:
        return "an atomic task needs instructions or a description: the prompt for the model"
    if isinstance(node, Sequential) and not node.steps:
        return "a sequential task needs at least one step"
    if isinstance(node, Reduce) and (node.inner_task is None or node.reduction_task is None):
        return "a reduce task needs an inner_task and a reduction_task"
    if isinstance(node, DirectorEvaluatorLoop):
        if node.director is None:
            return "a director_evaluator_loop needs a director"
        if node.evaluator is None and not node.criteria:
            return "a director_evaluator_loop needs an evaluator, or criteria to find one by"
    is_command = isinstance(node, Script) and (node.argv or node.shell is not None)
    if isinstance(node, Script) and not is_command and "command" not in {one.name for one in node.inputs}:
        return "a script needs a command: argv, shell, or an input named 'command'"
    return None


def _command_problems(node: TaskNode) -> Iterator[LanguageProblem]:
    """Yield the commands of shells that values would become a part of."""
    files = node.file_paths
    if files is not None and files.source == "command" and _has_placeholders(files.text):
        message = "the command of file_paths cannot have placeholders: values never join a command line"
        yield LanguageProblem(files.text.span if files.text else node.span, "bad-value", message)
    if not isinstance(node, Script):
        return
    if node.argv and node.shell is not None:
        yield LanguageProblem(node.span, "bad-value", "a script has argv or shell, not both")
    if node.shell is not None and _has_placeholders(node.shell):
        message = "a placeholder in shell would be part of a command line; use the input as a variable: $name"
        yield LanguageProblem(node.shell.span, "bad-value", message)
    command = _shell_command(node.argv)
    if command is not None and _has_placeholders(command):
        message = (
            "a placeholder in the command of a shell would be part of a command line; "
            "use the input as a variable: $name"
        )
        yield LanguageProblem(command.span, "bad-value", message)


def _shell_command(argv: tuple[Text, ...]) -> Text | None:
    """Return the command line that a shell in `argv` runs: of `sh -c "ls"` the last word."""
    if not argv or PurePosixPath(argv[0].raw).name not in _SHELLS:
        return None
    for option, command in pairwise(argv[1:]):
        if _COMMAND_OPTION.fullmatch(option.raw):
            return command
        if not option.raw.startswith("-"):
            return None
    return None


def _has_placeholders(text: Text | None) -> bool:
    return text is not None and any(not isinstance(part, str) for part in text.parts)
