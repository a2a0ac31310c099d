"""The files that a task asks for with `file_paths`, read inside the roots."""

import shlex
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from weft.evaluator.data_context import DataContext, MatchItem
from weft.evaluator.effects import Files, ScriptOutcome, ScriptRun, Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.evaluator.tools import ToolFailed
from weft.limits import MAX_SHOWN_CHARACTERS
from weft.llm.data_context import file_item
from weft.secrets.cutting import cut

MAX_FILES = 1_000
"""Most files of one task: a command that lists a whole disk is a mistake."""

RunScript = Callable[[Step, ScriptRun], Awaitable[ScriptOutcome]]


class ReadsFiles(Protocol):
    """Reads files that may be read."""

    async def read(self, path: str) -> str:
        """The text of a file. Raises ToolFailed when it is not there, is no text, or may not be read."""
        ...


class TaskFiles(Struct, frozen=True):
    """What was read for a task, and what could not be."""

    items: tuple[MatchItem, ...] = ()
    warnings: tuple[str, ...] = ()

    def context(self, now: datetime) -> DataContext:
        """The files as the data of a task."""
        return DataContext(retrieved_at=now, items=self.items)

    def given(self) -> tuple[dict[str, Any], ...]:
        """What the notes of a result say of the files; never what is in them."""
        return tuple({"id": item.id, "path": item.source_path, "source": "file_paths"} for item in self.items)


NOTHING = TaskFiles()


async def files_of(
    files: Files | None, step: Step, run: RunScript, reader: Callable[[], ReadsFiles]
) -> TaskFiles:
    """Return the files of a request, in the order in which they are named.

    Raise TaskFailed for a file that the task names and that cannot be read, unless it is optional, and for
    a command that may not run. Of the files that a command lists, those that cannot be read are left out: it
    may list files that were deleted.
    """
    if files is None:
        return NOTHING
    if files.source in ("description", "context_description"):
        return NOTHING  # memory finds those
    paths = files.paths
    warnings: list[str] = []
    if files.source == "command":
        paths, warnings = await listed_paths(files.text or "", step, run)
    required = required_paths(files)
    items = []
    for path in dict.fromkeys(paths):
        try:
            items.append(file_item(path, await reader().read(path)))
        except ToolFailed as error:
            shown = cut(path, MAX_SHOWN_CHARACTERS)
            if path in required:
                raise missing_file(shown, str(error)) from error
            warnings.append(f"file '{shown}' is left out: {error}")
    return TaskFiles(tuple(items), tuple(warnings))


def required_paths(files: Files) -> frozenset[str]:
    """Return the paths that the task itself names and that must be there."""
    optional = files.optional or ()
    return frozenset(path for n, path in enumerate(files.paths) if n not in optional)


def missing_file(path: str, why: str) -> TaskFailed:
    """Return the failure of a task that names a file which cannot be read."""
    message = (
        f"the file '{path}' of the task cannot be read: {why}; paths are relative to the project folder. "
        "Give the path of a file, or mark it as optional"
    )
    return TaskFailed(TaskFailure("context_retrieval_failure", message))


async def listed_paths(command: str, step: Step, run: RunScript) -> tuple[tuple[str, ...], list[str]]:
    """The paths that a command prints, one a line; it is run as scripts are, never by a shell."""
    try:
        argv = tuple(shlex.split(command))
    except ValueError as error:
        raise _refused(f"the command of file_paths cannot be read: {error}") from None
    if not argv:
        raise _refused("the command of file_paths is empty")
    outcome = await run(step, ScriptRun(argv=argv, description="file_paths"))
    warnings = []
    if outcome.exit_code != 0:
        said = cut(outcome.stderr.strip(), MAX_SHOWN_CHARACTERS)
        warnings.append(f"the command of file_paths ended with {outcome.exit_code}: {said}")
    paths = [line for line in outcome.stdout.splitlines() if line.strip()]
    if warnings and not paths:
        raise TaskFailed(TaskFailure("context_retrieval_failure", f"{warnings[0]} and lists no file"))
    if any("\0" in path or "\ufffd" in path for path in paths):
        message = "what the command of file_paths prints is no list of paths, one a line"
        details = {"partial_context": cut(outcome.stdout, MAX_SHOWN_CHARACTERS)}
        raise TaskFailed(TaskFailure("context_parsing_failure", message, details=details))
    if len(paths) > MAX_FILES:
        warnings.append(f"the command of file_paths lists {len(paths)} files; {MAX_FILES} are read")
    return tuple(paths[:MAX_FILES]), warnings


def _refused(message: str) -> TaskFailed:
    return TaskFailed(TaskFailure("configuration_error", message))
