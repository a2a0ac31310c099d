"""The context of a task besides its prompt: the files it names, and what memory finds."""

import shlex
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import Struct, structs

from weft.aio import run_blocking
from weft.config.sections import MemorySettings
from weft.effects.ranking import Ranker
from weft.evaluator.conversion import as_text
from weft.evaluator.effects import ContextQuery, Files, ModelCall, ScriptOutcome, ScriptRun, Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import (
    AssociativeMatchResult,
    DataContext,
    MatchItem,
    TaskFailure,
    TaskFailureReason,
)
from weft.evaluator.tools import ToolFailed
from weft.language.task_fields import STANDARD, ContextAssembly
from weft.limits import MAX_SHOWN_CHARACTERS
from weft.llm.context_window import ContextWindow
from weft.llm.prompt import file_item
from weft.memory.context.assembly import PER_FILE, fitting
from weft.memory.context.items import by_file
from weft.memory.memory import Found, IndexUnavailable, MatchingFailed, Memory, summary_of
from weft.memory.protocol import Match
from weft.secrets.truncation import cut

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


T = TypeVar("T")

DESCRIBED = ("description", "context_description")
"""The sources of `file_paths` that memory answers."""


class TaskContext(Struct, frozen=True, kw_only=True):
    """The data of a task, and what the notes of its result say of it."""

    data: DataContext
    warnings: tuple[str, ...] = ()
    given: tuple[dict[str, Any], ...] = ()
    facts: dict[str, Any] = {}

    def notes(self, call: ModelCall) -> dict[str, Any]:
        """Return `warnings`, `dataUsage` and `context` of the notes, where there is something to say."""
        notes: dict[str, Any] = {"warnings": list(self.warnings)} if self.warnings else {}
        usage = data_usage(call, self.given)
        if usage:
            notes["dataUsage"] = usage
        if self.given or self.facts:
            notes["context"] = {"given": list(self.given), **self.facts}
        return notes


class TaskMemory:
    """Asks memory, for tasks and for programs. What is not needed is not made."""

    def __init__(
        self,
        memory: Callable[[], Memory],
        settings: Callable[[], MemorySettings],
        reader: Callable[[Memory], ReadsFiles],
        base: Callable[[], Path],
    ) -> None:
        """`reader` reads what memory found, inside memory's own roots: those of tools may be others.

        `base` is the folder that tools and tasks begin a relative path at.
        """
        self._memory = memory
        self._settings = settings
        self._reader = reader
        self._base = base
        self._lock = threading.Lock()
        """Memory is opened in a thread, and once."""

    async def answer(self, step: Step, query: ContextQuery, ranker: Ranker | None) -> AssociativeMatchResult:
        """The answer to a query. A matching that fails is told in its `error`; without an index it fails."""
        try:
            found, _, warnings = await self._find(step, query, ranker)
        except MatchingFailed as error:
            return AssociativeMatchResult(context_summary="", error=error.message)
        except IndexUnavailable as error:
            raise _failed("context_retrieval_failure", error.message) from error
        result = await _in_thread(lambda: self._opened().result_of(query, found.matches, base=self._base()))
        return structs.replace(result, error="; ".join(warnings) or None)

    def wants_ranking(self, query: ContextQuery) -> bool:
        """Whether a model is to rank what is found for a query."""
        return self._settings().rerank if query.rerank is None else query.rerank

    async def for_task(
        self,
        step: Step,
        call: ModelCall,
        files: TaskFiles,
        room: ContextWindow,
        ranker: Ranker | None,
        now: datetime,
    ) -> TaskContext:
        """The files that the task names, then what memory finds: as much as there is room for."""
        query = query_of(call)
        try:
            found, facts, warnings = await self._find(step, query, ranker, call.context.assembly, files)
            items, more = await self._items(call.files, found, room, files, facts)
        except IndexUnavailable as error:
            details = await _so_far(files, room)
            raise _failed("context_retrieval_failure", error.message, details) from error
        except MatchingFailed as error:
            details = await _so_far(files, room)
            raise _failed("context_matching_failure", error.message, details) from error
        data = DataContext(
            retrieved_at=now,
            source_query=query.query or query.template_description,
            items=(*files.items, *items),
            overall_summary=summary_of(query, items),
        )
        data = await _fitted(data, room, len(files.items), facts)
        given = files.given() + tuple(map(_note, data.items[len(files.items) :]))
        return TaskContext(data=data, warnings=(*files.warnings, *warnings, *more), given=given, facts=facts)

    async def _find(
        self,
        step: Step,
        query: ContextQuery,
        ranker: Ranker | None,
        assembly: ContextAssembly | None = None,
        files: TaskFiles = NOTHING,
    ) -> tuple[Found, dict[str, Any], tuple[str, ...]]:
        """What was found beside the files that are named, what the notes say of it, and warnings."""
        limit = query.limit or self._settings().max_pieces
        base = self._base()
        paths = [str(base / item.source_path) for item in files.items if item.source_path]
        found = await _in_thread(
            lambda: self._opened().find(query, limit=limit, assembly=assembly, beside=paths)
        )
        facts: dict[str, Any] = {"excluded": found.excluded} if found.excluded else {}
        if ranker is None:
            return found, facts, found.warnings
        text = query.query or query.template_description or ""
        ranked = await ranker.ranked(step, found.matches, text)
        facts["rerank"] = {"model": ranker.model.id, "calls": ranked.calls, "failed": bool(ranked.warnings)}
        return Found(ranked.matches, found.excluded), facts, (*found.warnings, *ranked.warnings)

    async def _items(
        self,
        described: Files | None,
        found: Found,
        room: ContextWindow,
        files: TaskFiles,
        facts: dict[str, Any],
    ) -> tuple[tuple[MatchItem, ...], list[str]]:
        """What was found, as much as there is room for beside the files that are named."""
        taken = sum([await _tokens(item, room) for item in files.items])
        left = self._settings().max_tokens
        if room.tokens is not None:
            left = max(0, min(left, room.tokens - taken))
        if described is not None and described.source in DESCRIBED:
            return await self._described_files(described, found, room, left)
        chosen = await fitting(found.matches, room.count, left)
        if chosen.left_out:
            facts["left_out"] = chosen.left_out
        return await self._shown(chosen.matches), []

    async def _described_files(
        self, described: Files, found: Found, room: ContextWindow, left: int
    ) -> tuple[tuple[MatchItem, ...], list[str]]:
        """The files that a description means: whole while there is room, else the pieces that match."""
        files = list(by_file(found.matches).values())[: self._settings().max_files]
        pieces = await self._shown([one for file in files for one in file])
        warnings: list[str] = []
        items: list[MatchItem] = []
        for piece in pieces:
            try:
                forms = (await self._whole(piece), piece)
            except ToolFailed as error:
                warnings.append(f"file '{piece.source_path}' is left out: {error}")
                continue
            item = await _first_fitting(forms, room, left)
            if item is None:
                warnings.append(f"file '{piece.source_path}' is left out: there is no room for it")
            else:
                items.append(item)
                left -= await _tokens(item, room)
        if not files:
            shown = (described.text or "")[:MAX_SHOWN_CHARACTERS]
            warnings.append(f"no file fits the description of file_paths: {shown}")
        return tuple(items), warnings

    async def _shown(self, matches: Sequence[Match]) -> tuple[MatchItem, ...]:
        return await _in_thread(lambda: self._opened().items_of(matches, base=self._base()))

    async def _whole(self, piece: MatchItem) -> MatchItem:
        """The whole file of a piece, read as it is now; raises ToolFailed."""
        path = piece.source_path or piece.id
        reader = await _in_thread(lambda: self._reader(self._opened()))
        item = file_item(path, await reader.read(str(self._base() / path)))
        metadata = {name: piece.metadata[name] for name in ("root", "why")}
        return structs.replace(item, relevance_score=piece.relevance_score, metadata=metadata)

    def _opened(self) -> Memory:
        try:
            with self._lock:
                return self._memory()
        except (IndexUnavailable, MatchingFailed):
            raise
        except (OSError, ImportError) as error:
            raise IndexUnavailable(f"there is no index: {error}") from error


def data_usage(call: ModelCall, given: Iterable[dict[str, Any]]) -> str:
    """Return which data a request had beside its prompt, in words: `2 files, 1 match, 1 input`."""
    sources = [one["source"] for one in given]
    inherited = [name for name in call.context.inherited if name not in call.mentioned]
    counts = (
        (sources.count("file_paths"), "file", "files"),
        (sources.count("memory"), "match of memory", "matches of memory"),
        (len(call.unmentioned), "input", "inputs"),
        (len(inherited), "inherited name", "inherited names"),
    )
    found = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    return ", ".join([*found, *(["earlier outputs"] if call.context.previous_outputs is not None else [])])


def query_of(call: ModelCall) -> ContextQuery:
    """What a task asks memory: its text, the inputs that count, what it inherits, what came before."""
    payload = call.context
    description, query = call.description, call.prompt
    if call.files is not None and call.files.source in DESCRIBED:
        query = call.files.text or call.description or call.prompt
        # `context_description` is matched instead of the task's own description.
        description = None if call.files.source == "context_description" else call.description
    inherited = "\n".join(f"{name}: {as_text(value)}" for name, value in sorted(payload.inherited.items()))
    return ContextQuery(
        query=query,
        template_description=None if description == query else description,
        template_type="atomic",
        template_subtype=call.subtype or STANDARD,
        inputs={name: call.inputs[name] for name in payload.relevant_inputs if name in call.inputs},
        inherited_context=inherited or None,
        previous_outputs=payload.previous_outputs,
    )


async def _tokens(item: MatchItem, room: ContextWindow) -> int:
    return await room.count(item.content) + PER_FILE


async def _first_fitting(forms: Iterable[MatchItem], room: ContextWindow, left: int) -> MatchItem | None:
    for form in forms:
        if await _tokens(form, room) <= left:
            return form
    return None


async def _fitted(data: DataContext, room: ContextWindow, named: int, facts: dict[str, Any]) -> DataContext:
    """The context without the last of what memory found, until the task fits its window.

    Pieces were counted one by one; together with what is written around them they may take a little more.
    """
    while len(data.items) > named and not await room.fits(data):
        data = structs.replace(data, items=data.items[:-1])
        facts["left_out"] = facts.get("left_out", 0) + 1
    return data


def _note(item: MatchItem) -> dict[str, Any]:
    """Which file, which lines, how well it matched and why; never what is in it."""
    note: dict[str, Any] = {"id": item.id, "path": item.source_path, "source": "memory"}
    if "lines" in item.metadata:
        note["lines"] = item.metadata["lines"]
    return note | {"score": round(item.relevance_score, 4), "why": item.metadata.get("why", {})}


async def _in_thread(act: Callable[[], T]) -> T:
    return await run_blocking(act, name="weft-memory")


async def _so_far(files: TaskFiles, room: ContextWindow) -> dict[str, Any]:
    """Return what a failure says of the context: which files there were, and how much was used of how much.

    Never what is in them.
    """
    used = sum([await _tokens(item, room) for item in files.items])
    metrics = {"items": len(files.items), "used": used, "limit": room.tokens}
    return {"partial_context": list(files.given()), "context_metrics": metrics}


def _failed(reason: TaskFailureReason, message: str, details: dict[str, Any] | None = None) -> TaskFailed:
    return TaskFailed(TaskFailure(reason, message, details=details))
