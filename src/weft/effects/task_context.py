"""Context of a task besides its prompt: the files it names, and the matches of memory."""

import shlex
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, structs

from weft.aio import run_blocking
from weft.effects.resources import ProjectResources, RootFiles
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
from weft.memory.context.assembly import TOKENS_PER_FILE, select_fitting
from weft.memory.context.items import by_file
from weft.memory.memory import Found, IndexUnavailable, MatchingFailed, Memory, summary_of
from weft.memory.protocol import Match
from weft.secrets.truncation import cut

if TYPE_CHECKING:
    from weft.effects.ranking import Ranker

MAX_FILES = 1_000
"""Most files read from the output of a `file_paths` command; one that lists more is probably wrong."""

T = TypeVar("T")

DESCRIBED = ("description", "context_description")
"""Sources of `file_paths` that are queries to memory."""

RunScript = Callable[[Step, ScriptRun], Awaitable[ScriptOutcome]]


class TaskFiles(Struct, frozen=True):
    """The files read for a task, and warnings about files that could not be read."""

    items: tuple[MatchItem, ...] = ()
    warnings: tuple[str, ...] = ()

    def context(self, now: datetime) -> DataContext:
        """Return the files as the data context of a task."""
        return DataContext(retrieved_at=now, items=self.items)

    def given(self) -> tuple[dict[str, Any], ...]:
        """Return ids and paths of the files for the notes of a result; never their contents."""
        return tuple({"id": item.id, "path": item.source_path, "source": "file_paths"} for item in self.items)


NOTHING = TaskFiles()


async def files_of(
    files: Files | None, step: Step, run: RunScript, reader: Callable[[], RootFiles]
) -> TaskFiles:
    """Return the files of a request, in the order in which they are named.

    Raise TaskFailed for a named file that cannot be read, unless it is optional, and for a command that is
    not allowed. Unreadable files that a command lists are skipped with a warning: it may list deleted files.
    """
    if files is None or files.source in DESCRIBED:  # memory finds described files
        return NOTHING
    paths = files.paths
    warnings: list[str] = []
    if files.source == "command":
        paths, warnings = await listed_paths(files.text or "", step, run)
    optional = files.optional or ()
    required = {path for n, path in enumerate(files.paths) if n not in optional}
    items = []
    for path in dict.fromkeys(paths):
        try:
            items.append(file_item(path, await reader().read(path)))
        except ToolFailed as error:
            shown = cut(path, MAX_SHOWN_CHARACTERS)
            if path in required:
                raise missing_file(shown, str(error)) from error
            warnings.append(f"file '{shown}' skipped: {error}")
    return TaskFiles(tuple(items), tuple(warnings))


def missing_file(path: str, why: str) -> TaskFailed:
    """Return the failure of a task with an unreadable required file."""
    message = (
        f"the file '{path}' of the task cannot be read: {why}. "
        "Give a path relative to the project folder, or mark the file as optional"
    )
    return _failed("context_retrieval_failure", message)


async def listed_paths(command: str, step: Step, run: RunScript) -> tuple[tuple[str, ...], list[str]]:
    """Return the paths that a command prints, one per line, and warnings; no shell is used."""
    try:
        argv = tuple(shlex.split(command))
    except ValueError as error:
        raise _failed("configuration_error", f"the command of file_paths cannot be parsed: {error}") from None
    if not argv:
        raise _failed("configuration_error", "the command of file_paths is empty")
    outcome = await run(step, ScriptRun(argv=argv, description="file_paths"))
    warnings = []
    if outcome.exit_code != 0:
        stderr = cut(outcome.stderr.strip(), MAX_SHOWN_CHARACTERS)
        warnings.append(f"the command of file_paths exited with code {outcome.exit_code}: {stderr}")
    paths = [line for line in outcome.stdout.splitlines() if line.strip()]
    if warnings and not paths:
        raise _failed("context_retrieval_failure", f"{warnings[0]} (it listed no files)")
    if any("\0" in path or "\ufffd" in path for path in paths):
        message = "the output of the command of file_paths is not a list of paths, one per line"
        details = {"partial_context": cut(outcome.stdout, MAX_SHOWN_CHARACTERS)}
        raise _failed("context_parsing_failure", message, details)
    if len(paths) > MAX_FILES:
        warnings.append(
            f"the command of file_paths listed {len(paths)} files; only the first {MAX_FILES} are read"
        )
    return tuple(paths[:MAX_FILES]), warnings


class TaskContext(Struct, frozen=True, kw_only=True):
    """Data context of a task, and the facts about it for the notes of the result."""

    data: DataContext
    warnings: tuple[str, ...] = ()
    given: tuple[dict[str, Any], ...] = ()
    """Ids and paths of the files and matches, without their contents."""
    facts: dict[str, Any] = {}
    """Further entries of the note `context`: `excluded`, `left_out`, `rerank`."""

    def notes(self, call: ModelCall) -> dict[str, Any]:
        """Return the notes `warnings`, `dataUsage` and `context`, those that are not empty."""
        notes: dict[str, Any] = {"warnings": list(self.warnings)} if self.warnings else {}
        usage = data_usage(call, self.given)
        if usage:
            notes["dataUsage"] = usage
        if self.given or self.facts:
            notes["context"] = {"given": list(self.given), **self.facts}
        return notes


class TaskMemory:
    """Queries memory for tasks and programs; memory is opened on first use."""

    def __init__(self, resources: ProjectResources) -> None:
        self._resources = resources
        self._lock = threading.Lock()
        """Held while memory is opened, which happens in a thread and only once."""

    async def answer(
        self, step: Step, query: ContextQuery, ranker: "Ranker | None"
    ) -> AssociativeMatchResult:
        """Return the result of a query, with `error` if matching failed.

        Raise TaskFailed if there is no index.
        """
        try:
            found, _, warnings = await self._find(step, query, ranker)
        except MatchingFailed as error:
            return AssociativeMatchResult(context_summary="", error=error.message)
        except IndexUnavailable as error:
            raise _failed("context_retrieval_failure", error.message) from error
        result = await _in_thread(
            lambda: self._open().result_of(query, found.matches, base=self._resources.base())
        )
        return structs.replace(result, error="; ".join(warnings) or None)

    def wants_ranking(self, query: ContextQuery) -> bool:
        """Return whether a model ranks the matches of a query: its own setting, else the project's."""
        return self._resources.memory_settings.rerank if query.rerank is None else query.rerank

    async def for_task(
        self,
        step: Step,
        call: ModelCall,
        files: TaskFiles,
        window: ContextWindow,
        ranker: "Ranker | None",
        now: datetime,
    ) -> TaskContext:
        """Return the named files of a task, then matches of memory, as far as they fit the context window."""
        query = query_of(call)
        try:
            found, facts, warnings = await self._find(step, query, ranker, call.context.assembly, files)
            items, more = await self._items(call.files, found, window, files, facts)
        except IndexUnavailable as error:
            details = await _partial_context(files, window)
            raise _failed("context_retrieval_failure", error.message, details) from error
        except MatchingFailed as error:
            details = await _partial_context(files, window)
            raise _failed("context_matching_failure", error.message, details) from error
        data = DataContext(
            retrieved_at=now,
            source_query=query.query or query.template_description,
            items=(*files.items, *items),
            overall_summary=summary_of(query, items),
        )
        data = await _fitted(data, window, len(files.items), facts)
        given = files.given() + tuple(map(_note, data.items[len(files.items) :]))
        return TaskContext(data=data, warnings=(*files.warnings, *warnings, *more), given=given, facts=facts)

    async def _find(
        self,
        step: Step,
        query: ContextQuery,
        ranker: "Ranker | None",
        assembly: ContextAssembly | None = None,
        files: TaskFiles = NOTHING,
    ) -> tuple[Found, dict[str, Any], tuple[str, ...]]:
        """Return the matches outside of the named files, facts for the notes, and warnings."""
        limit = query.limit or self._resources.memory_settings.max_pieces
        base = self._resources.base()
        paths = [str(base / item.source_path) for item in files.items if item.source_path]
        found = await _in_thread(
            lambda: self._open().find(query, limit=limit, assembly=assembly, beside=paths)
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
        window: ContextWindow,
        files: TaskFiles,
        facts: dict[str, Any],
    ) -> tuple[tuple[MatchItem, ...], list[str]]:
        """Return the matches that fit the context window besides the named files, and warnings."""
        taken = sum([await _tokens(item, window) for item in files.items])
        left = self._resources.memory_settings.max_tokens
        if window.tokens is not None:
            left = max(0, min(left, window.tokens - taken))
        if described is not None and described.source in DESCRIBED:
            return await self._described_files(described, found, window, left)
        chosen = await select_fitting(found.matches, window.count, left)
        if chosen.left_out:
            facts["left_out"] = chosen.left_out
        return await self._to_items(chosen.matches), []

    async def _described_files(
        self, described: Files, found: Found, window: ContextWindow, left: int
    ) -> tuple[tuple[MatchItem, ...], list[str]]:
        """Return files that match a description: whole if they fit into `left` tokens, else in pieces."""
        files = list(by_file(found.matches).values())[: self._resources.memory_settings.max_files]
        pieces = await self._to_items([one for file in files for one in file])
        warnings: list[str] = []
        items: list[MatchItem] = []
        for piece in pieces:
            try:
                forms = (await self._whole_file(piece), piece)
            except ToolFailed as error:
                warnings.append(f"file '{piece.source_path}' skipped: {error}")
                continue
            for form in forms:
                tokens = await _tokens(form, window)
                if tokens <= left:
                    items.append(form)
                    left -= tokens
                    break
            else:
                warnings.append(f"file '{piece.source_path}' skipped: no tokens are left for it")
        if not files:
            shown = (described.text or "")[:MAX_SHOWN_CHARACTERS]
            warnings.append(f"no file matches the description of file_paths: {shown}")
        return tuple(items), warnings

    async def _to_items(self, matches: Sequence[Match]) -> tuple[MatchItem, ...]:
        return await _in_thread(lambda: self._open().items_of(matches, base=self._resources.base()))

    async def _whole_file(self, piece: MatchItem) -> MatchItem:
        """Return the whole current file of a piece; raise ToolFailed."""
        path = piece.source_path or piece.id
        reader = await _in_thread(lambda: self._resources.found_files(self._open()))
        item = file_item(path, await reader.read(str(self._resources.base() / path)))
        metadata = {name: piece.metadata[name] for name in ("root", "why")}
        return structs.replace(item, relevance_score=piece.relevance_score, metadata=metadata)

    def _open(self) -> Memory:
        try:
            with self._lock:
                return self._resources.memory()
        except (OSError, ImportError) as error:
            raise IndexUnavailable(f"the index cannot be opened: {error}") from error


def data_usage(call: ModelCall, given: Iterable[dict[str, Any]]) -> str:
    """Summarize the data of a request besides its prompt: `2 files, 1 match of memory, 1 input`."""
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
    """Return the query of a task: its text, relevant inputs, inherited context and earlier outputs."""
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


async def _tokens(item: MatchItem, window: ContextWindow) -> int:
    return await window.count(item.content) + TOKENS_PER_FILE


async def _fitted(data: DataContext, window: ContextWindow, named: int, facts: dict[str, Any]) -> DataContext:
    """Drop the last matches, but not the first `named` items, until the task fits its context window.

    Pieces were counted one by one; together with the text around them they may need slightly more tokens.
    """
    while len(data.items) > named and not await window.fits(data):
        data = structs.replace(data, items=data.items[:-1])
        facts["left_out"] = facts.get("left_out", 0) + 1
    return data


def _note(item: MatchItem) -> dict[str, Any]:
    """Return path, lines, score and reason of a match for the notes; never its contents."""
    note: dict[str, Any] = {"id": item.id, "path": item.source_path, "source": "memory"}
    if "lines" in item.metadata:
        note["lines"] = item.metadata["lines"]
    return note | {"score": round(item.relevance_score, 4), "why": item.metadata.get("why", {})}


async def _in_thread(act: Callable[[], T]) -> T:
    return await run_blocking(act, name="weft-memory")


async def _partial_context(files: TaskFiles, window: ContextWindow) -> dict[str, Any]:
    """Return the details of a failure: the files read so far and the tokens used; never their contents."""
    used = sum([await _tokens(item, window) for item in files.items])
    metrics = {"items": len(files.items), "used": used, "limit": window.tokens}
    return {"partial_context": list(files.given()), "context_metrics": metrics}


def _failed(reason: TaskFailureReason, message: str, details: dict[str, Any] | None = None) -> TaskFailed:
    return TaskFailed(TaskFailure(reason, message, details=details))
