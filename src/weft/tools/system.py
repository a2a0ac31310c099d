"""The built-in tools: files inside the roots, scripts, memory, people and subtasks.

The docstring of a function is the description of its tool for models.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from weft.aio import call_function
from weft.errors import RequestError
from weft.evaluator.conversion import error_json_for_model
from weft.evaluator.effects import ScriptOutcome, ScriptRun
from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.subtasks.request import DESCRIPTION, PROPERTIES
from weft.evaluator.tools import Tool, ToolContext, ToolDefinition, ToolFailed
from weft.language.traversal import SPAWN_TOOL
from weft.limits import NulFree
from weft.secrets.truncation import cut_middle, without_half
from weft.tools.functions import FunctionTool
from weft.tools.roots import MAX_READ_BYTES, Roots
from weft.tools.safe_open import PathRefused

log = logging.getLogger(__name__)

MAX_FILES = 50
"""Maximum number of files per call."""

MAX_TOTAL_BYTES = 2 * MAX_READ_BYTES
"""Maximum size of the texts returned by one call; files beyond it are not read."""

RunScript = Callable[[ScriptRun], Awaitable[ScriptOutcome]]
"""Runs a script in the first root, as the project's `[executors.command]` allows. Raises TaskFailed."""

DEFAULT_TIMEOUT_SECONDS = 60.0
"""Time limit if the model gives none, so that it does not wait forever."""

MAX_OUTPUT_CHARACTERS = 100_000
"""Maximum length of stdout and of stderr in the result; the middle of a longer text is left out."""


def system_tools(roots: Roots, run_script: RunScript | None) -> tuple[Tool, ...]:
    """Return the built-in tools; without `run_script`, `system:run_script` fails."""
    files = FileTools(roots)
    return (
        SystemTool(files.read_files),
        SystemTool(files.list_directory),
        SystemTool(files.write_file, has_effects=True),
        SystemTool(ScriptTools(run_script).run_script, has_effects=True),
        SystemTool(get_context),
        SystemTool(request_user_input, has_effects=True),
        SpawnSubtask(),
    )


class SystemTool(FunctionTool):
    """A tool with the name and the docstring of a function."""

    def __init__(self, function: Callable[..., Any], *, has_effects: bool = False) -> None:
        description = " ".join((inspect.getdoc(function) or "").split())
        name = f"system:{function.__name__}"
        super().__init__(function, name=name, description=description, has_effects=has_effects)

    async def _perform(self, keywords: dict[str, Any]) -> Any:
        try:
            return await call_function(self.function, keywords, name="weft-files")
        except (RequestError, TaskFailed) as error:
            # Other errors are not of the tool: the store is unavailable, the run is suspended.
            raise ToolFailed(error.message) from None


class FileTools:
    """Reads, lists and writes files inside the roots; the functions run in threads.

    Wildcards are not supported: names may contain `*`, and a call should show what it reads.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def read_files(
        self,
        paths: Annotated[
            list[str],
            Meta(
                min_length=1,
                max_length=MAX_FILES,
                description="Paths of files, relative to the project folder. No wildcards.",
            ),
        ],
    ) -> Any:
        """Read text files of the project.

        Returns the content of each path, or an error if it cannot be read. A long file is truncated, and a
        note says so.
        """
        left = MAX_TOTAL_BYTES
        files = []
        for path in paths:
            one = self._read(path, max_bytes=min(left, MAX_READ_BYTES))
            left -= len(one.get("content", "").encode())
            files.append(one)
        if not any("content" in file for file in files):
            raise ToolFailed("; ".join(file["error"] for file in files))
        return {"files": files}

    def _read(self, path: str, *, max_bytes: int) -> dict[str, Any]:
        """Return `{"path", "content" or "error", "note"}`."""
        if max_bytes <= 0:
            error = f"not read: the files before it already have {MAX_TOTAL_BYTES} bytes"
            return {"path": path, "error": error}
        try:
            with _logged_refusal("system:read_files"):
                read = self._roots.read(path, max_bytes=max_bytes)
        except RequestError as error:
            return {"path": path, "error": error.message}
        if read.is_binary:
            return {"path": path, "error": f"not text: a binary file of {read.size} bytes"}
        if not read.is_cut:
            return {"path": path, "content": read.text}
        note = f"cut: the first {max_bytes} of {read.size} bytes"
        return {"path": path, "content": without_half(read.text), "note": note}

    def list_directory(
        self,
        path: Annotated[str, Meta(description="Path of a folder, relative to the project folder.")] = ".",
    ) -> Any:
        """List a folder of the project: names, kinds (file, folder, link, other) and sizes of files in bytes,
        sorted by name.

        Subfolders are not listed recursively.
        """
        with _logged_refusal("system:list_directory"):
            listing = self._roots.list(path)
        note = {"note": f"{listing.left_off} more entries are not listed"} if listing.left_off else {}
        return {"path": path, "entries": msgspec.to_builtins(list(listing.entries)), **note}

    def write_file(
        self,
        path: Annotated[
            str, Meta(min_length=1, description="Path of the file, relative to the project folder.")
        ],
        content: Annotated[str, Meta(description="The whole new text of the file.")],
    ) -> Any:
        """Write a text file of the project: create it, or replace its whole content.

        Missing folders are created.
        """
        with _logged_refusal("system:write_file"):
            return {"path": path, "bytes": self._roots.write(path, content)}


@contextmanager
def _logged_refusal(tool: str) -> Iterator[None]:
    try:
        yield
    except PathRefused as error:  # it may be an attack; a missing file is not worth a log line
        log.info("%s: %s", tool, error.message, extra={"action": "path_refused", "tool": tool})
        raise


class ScriptTools:
    """Runs scripts in the first root, under the same rules as the `command` executor."""

    def __init__(self, run_script: RunScript | None) -> None:
        self._run_script = run_script

    async def run_script(
        self,
        context: ToolContext,
        argv: Annotated[
            list[NulFree],
            Meta(
                min_length=1,
                description="The executable and its arguments, one string each. No shell is used.",
            ),
        ],
        stdin: Annotated[str, Meta(description="Text for standard input.")] | None = None,
        timeout_seconds: Annotated[
            float, Meta(gt=0, le=3600, description="Time limit in seconds.")
        ] = DEFAULT_TIMEOUT_SECONDS,
    ) -> Any:
        """Run a command in the project folder and wait for it.

        Returns stdout, stderr and the exit code, also if it is not 0; timed_out is true if the time limit was
        reached.
        """
        if self._run_script is None:
            raise ToolFailed("scripts cannot be run here")
        outcome = await self._run_script(
            ScriptRun(
                argv=tuple(argv), stdin=stdin, timeout_seconds=timeout_seconds, template=context.template
            )
        )
        return {
            "stdout": cut_middle(outcome.stdout, MAX_OUTPUT_CHARACTERS),
            "stderr": cut_middle(outcome.stderr, MAX_OUTPUT_CHARACTERS),
            "exit_code": None if outcome.is_timed_out else outcome.exit_code,
            "timed_out": outcome.is_timed_out,
        }


async def get_context(
    context: ToolContext,
    query: Annotated[str, Meta(min_length=1, description="What to look for, in plain words.")],
) -> Any:
    """Find what is relevant to a question in the indexed files of the project.

    Returns matches with their paths, and a summary.
    """
    if context.get_context is None:
        raise ToolFailed("memory is not available in this run")
    return await context.get_context(query)


async def request_user_input(
    context: ToolContext,
    question: Annotated[str, Meta(min_length=1, description="What to ask, as a person should read it.")],
) -> Any:
    """Ask the person who runs this task a question and wait for the answer.

    Only for what cannot be found out otherwise.
    """
    if context.ask_person is None:
        raise ToolFailed(
            "there is no person to ask: the run has no terminal, and its questions are not stored"
        )
    return {"answer": await context.ask_person(question, context.step_key)}


class SpawnSubtask:
    """Spawns a subtask. The evaluator, which knows the templates, validates the request."""

    has_effects = True
    definition = ToolDefinition(
        name=SPAWN_TOOL,
        description=DESCRIPTION,
        input_schema={
            "type": "object",
            "properties": {name: {"description": one["description"]} for name, one in PROPERTIES.items()},
        },
    )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return the TaskResult of the subtask. Raise ToolFailed with the error as JSON if it fails."""
        if context.spawn is None:
            raise ToolFailed("only a model spawns subtasks; a program calls the template by its name")
        try:
            return await context.spawn(arguments)
        except BudgetExceeded:
            raise
        except TaskFailed as error:
            raise ToolFailed(msgspec.json.encode(error_json_for_model(error.error)).decode()) from None
