"""Memory: finds the parts of files that are relevant to a task."""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from weft.clock import Clock, SystemClock
from weft.errors import TransientError
from weft.evaluator.effects import ContextQuery
from weft.evaluator.results import AssociativeMatchResult, MatchItem
from weft.language.task_fields import STRATEGIES, ContextAssembly
from weft.memory.context.assembly import (
    drop_duplicate_files,
    drop_excluded,
    is_pattern,
    merge_ranked,
    select_meant,
    split_elements,
)
from weft.memory.context.items import (
    find_stale_files,
    find_unreadable,
    items_of,
    ranges_text,
)
from weft.memory.errors import IndexBusy, IndexDamaged, IndexFileFailed
from weft.memory.protocol import (
    Index,
    IndexProgress,
    IndexReport,
    Match,
    Matcher,
    Query,
    QueryPart,
)

MAX_PART_CHARACTERS = 4_000
"""Longer texts of a query are truncated: the beginning states the subject, and more words only take time."""

QUERY_WEIGHT, DESCRIPTION_WEIGHT = 1.0, 1.0
DESCRIPTION_BESIDE_QUERY_WEIGHT = 0.5
"""Weight of the description when there is also a query, which is more exact."""
INPUT_WEIGHT = 0.5
BACKGROUND_WEIGHT = 0.3
"""Inherited context and earlier outputs give the subject, but say less about the current task."""


def build_query(query: ContextQuery, *, limit: int, roots: tuple[str, ...] = ()) -> Query:
    """Return the query for the matcher. Raise ValueError for an unknown matching strategy."""
    if query.matching_strategy not in STRATEGIES:
        known = " or ".join(STRATEGIES)
        raise ValueError(f"unknown matching strategy '{query.matching_strategy}': use {known}")
    return Query(parts=tuple(_parts(query)), strategy=query.matching_strategy, limit=limit, roots=roots)


def _parts(query: ContextQuery) -> Iterator[QueryPart]:
    has_query = bool(query.query and query.query.strip())
    texts = [
        (query.query, QUERY_WEIGHT),
        (query.template_description, DESCRIPTION_BESIDE_QUERY_WEIGHT if has_query else DESCRIPTION_WEIGHT),
        *((_input_text(value), INPUT_WEIGHT) for value in query.inputs.values()),
        (query.inherited_context, BACKGROUND_WEIGHT),
        (query.previous_outputs, BACKGROUND_WEIGHT),
    ]
    for text, weight in texts:
        if text and text.strip():
            yield QueryPart(text[:MAX_PART_CHARACTERS], weight)


def _input_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


log = logging.getLogger(__name__)

REFRESH_SECONDS = 60.0
"""Maximum age of the last update of the index; an older index is updated before a search."""

MIN_REFRESH_SECONDS = 1.0
"""Minimum time between two updates of the index, so that concurrent searches share one."""

MAX_REFRESH_SHARE = 0.05
"""Maximum share of the time spent on updates, so that small folders are updated more often than large."""

CHUNKS_PER_FILE = 3
"""Maximum number of chunks of one file that a matcher returns for a query."""

LIMIT_FACTOR = 4
"""Factor by which the search limit grows when exclusions leave too few matches."""

MAX_SUMMARISED = 8
"""Maximum number of files named in the summary of a result."""


class IndexUnavailable(TransientError):
    """The index of files cannot be read or updated."""

    code = "memory-unavailable"


class MatchingFailed(TransientError):
    """The search of the index failed."""

    code = "memory-matching-failed"


class Found(Struct, frozen=True):
    """Relevant chunks, most important first."""

    matches: tuple[Match, ...] = ()
    excluded: int = 0
    """Number of chunks removed by excluded elements."""
    warnings: tuple[str, ...] = ()
    """Reasons why the result may be incomplete."""


class Memory:
    """Searches the files of its roots. Calls block: use a thread.

    The first search, and a search some time after the last update, updates the index first. Every search
    checks that the files of its result have not changed.
    """

    def __init__(
        self,
        index: Index,
        matcher: Matcher,
        roots: Sequence[Path | str],
        *,
        on_progress: Callable[[IndexProgress], None] | None = None,
        on_updated: Callable[[IndexReport], None] | None = None,
        on_close: Callable[[], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.index = index
        self.matcher = matcher
        self.roots = tuple(dict.fromkeys(Path(root).resolve() for root in roots))
        if not self.roots:
            raise ValueError("memory needs at least one root")
        self._on_progress = on_progress
        self._on_updated = on_updated
        self._on_close = on_close
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        """Allows one search at a time: many tasks may search at once, and the first one builds the index."""
        self._due_at: float | None = None
        """When the next update is due, in seconds since the epoch; None before the first update."""

    def find(
        self,
        query: ContextQuery,
        *,
        limit: int = 20,
        assembly: ContextAssembly | None = None,
        beside: Sequence[str] = (),
    ) -> Found:
        """Return the relevant chunks. Raise IndexUnavailable or MatchingFailed.

        `beside` lists files that the task already has in full; their chunks are left out. Relative paths are
        resolved against the first root.
        """
        files = frozenset((self.roots[0] / path).resolve() for path in beside)
        arguments = (query, limit, assembly or ContextAssembly(), files)
        with self._lock:
            try:
                return self._search(*arguments)
            except IndexDamaged as error:
                text = "%s; it is replaced by a new one"
                log.warning(text, error.message, extra={"action": "index_replaced"})
            try:
                self.index.drop()
                self._due_at = None
                return self._search(*arguments)
            except (IndexBusy, IndexDamaged, IndexFileFailed) as again:
                raise MatchingFailed(f"the search of the index failed: {again}") from again

    def _search(
        self, query: ContextQuery, limit: int, assembly: ContextAssembly, beside: frozenset[Path]
    ) -> Found:
        warnings = self._refresh()
        try:
            found = self._find_fresh(query, limit, assembly, beside, is_busy=bool(warnings))
            return replace(found, warnings=(*warnings, *found.warnings))
        except IndexDamaged:
            raise
        except Exception as error:  # an index or a matcher may raise anything
            raise MatchingFailed(f"the search of the index failed: {error}") from error

    def result_of(
        self, query: ContextQuery, matches: Sequence[Match], *, base: Path | None = None
    ) -> AssociativeMatchResult:
        """Return the matches as the result of the query, with one item per file."""
        items = self.items_of(matches, is_summary=query.matching_strategy == "metadata", base=base)
        return AssociativeMatchResult(context_summary=summary_of(query, items), matches=items)

    def items_of(
        self, matches: Sequence[Match], *, is_summary: bool = False, base: Path | None = None
    ) -> tuple[MatchItem, ...]:
        """Return one item per file, made of all its matches; with `is_summary`, of its metadata.

        Paths inside `base` (default: the first root) are relative to it.
        """
        return items_of(matches, self.index.facts, str(base or self.roots[0]), is_summary=is_summary)

    def close(self) -> None:
        with self._lock:
            if self._on_close is not None:
                self._on_close()
            self.index.close()

    def _refresh(self) -> tuple[str, ...]:
        """Update the index if an update is due. Return warnings if the index may still be out of date."""
        now = self._clock.now().timestamp()
        if self._due_at is not None and now < self._due_at:
            return ()
        missing = [root for root in self.roots if not root.is_dir()]
        if missing:
            raise IndexUnavailable(f"cannot index '{missing[0]}': it is not a folder")
        try:
            report = self.index.update(self.roots, self._on_progress)
        except IndexBusy as error:
            # An outdated result is better than no result while the other process is indexing.
            # The result carries the warning; a log line at warning level would repeat it on a terminal.
            log.info("%s: results may be out of date", error.message, extra={"action": "index_busy"})
            return (f"{error.message}: files that it has not indexed yet are not found",)
        except Exception as error:  # an index may raise anything
            if isinstance(error, IndexFileFailed) and self._is_indexed():
                return (f"{error.message}: changes since the last update are not found",)
            raise IndexUnavailable(f"the index cannot be updated: {error}") from error
        took = self._clock.now().timestamp() - now
        self._due_at = now + min(REFRESH_SECONDS, max(MIN_REFRESH_SECONDS, took / MAX_REFRESH_SHARE))
        if self._on_updated is not None:
            self._on_updated(report)
        return ()

    def _is_indexed(self) -> bool:
        """Return True if every root has indexed files, so that an unwritable index can still be searched."""
        try:
            roots = self.index.status()["roots"]
        except Exception:  # it cannot be read either; the caller reports why it cannot be written
            return False
        return {str(root) for root in self.roots} <= {root["root"] for root in roots if root["files"]}

    def _find_fresh(
        self,
        query: ContextQuery,
        limit: int,
        assembly: ContextAssembly,
        beside: frozenset[Path],
        *,
        is_busy: bool,
    ) -> Found:
        """Search, index changed files of the result again, and leave out files that are no longer readable.

        With `is_busy` the index cannot be updated now, so it is searched as it is.
        """
        found = self._find(query, limit, assembly, beside)
        stale = find_stale_files(found.matches, self.index.facts)
        if not stale:
            return found
        if not is_busy and self._reindex(stale):
            found = self._find(query, limit, assembly, beside)
        denied: frozenset[Path] = frozenset()
        # Unreadable files stay in the index: they may become readable again.
        while new := find_unreadable(find_stale_files(found.matches, self.index.facts)):
            denied |= new
            found = self._find(query, limit, assembly, beside | denied)
        return replace(
            found, warnings=tuple(f"no permission to read '{file}': it is left out" for file in denied)
        )

    def _reindex(self, stale: Mapping[str, Sequence[str]]) -> bool:
        """Index changed files again. Return False if the index is busy or cannot be written."""
        try:
            for root, paths in stale.items():
                self.index.update_paths(Path(root), paths)
        except (IndexBusy, IndexFileFailed):
            return False  # the other process or the next update will index them
        return True

    def _find(
        self, query: ContextQuery, limit: int, assembly: ContextAssembly, beside: frozenset[Path]
    ) -> Found:
        """Search the index as it is; leave out the files in `beside`."""
        excluded = split_elements(assembly.excluded_elements)
        # Ask for more than the limit, because some matches will be left out.
        wanted = (2 * limit if excluded else limit) + CHUNKS_PER_FILE * len(beside)
        search = build_query(query, limit=wanted, roots=tuple(map(str, self.roots)))
        elements = (split_elements(assembly.primary_elements), split_elements(assembly.secondary_elements))
        primary, secondary = (self._match_elements(search, texts) for texts in elements)
        while True:
            matches = self._match(search)
            candidates = drop_duplicate_files(merge_ranked(matches, primary, secondary, elements))
            if beside:
                candidates = [
                    match for match in candidates if Path(match.chunk.root, match.chunk.path) not in beside
                ]
            kept = drop_excluded(candidates, excluded, self.index.facts)
            if len(kept) >= limit or len(matches) < search.limit:
                return Found(tuple(kept[:limit]), len(candidates) - len(kept))
            # Too many of the best matches were left out: search further down.
            search = replace(search, limit=search.limit * LIMIT_FACTOR)

    def _match_elements(self, search: Query, elements: tuple[str, ...]) -> list[Match]:
        """Return the matches of primary or secondary elements.

        A path pattern is searched for by its words; only the matches in files that match it are kept.
        """
        found: list[Match] = []
        for element in elements:
            text = element.replace("*", " ") if is_pattern(element) else element
            found += select_meant(element, self._match(replace(search, parts=(QueryPart(text),))))
        return found

    def _match(self, query: Query) -> list[Match]:
        return self.matcher.match(query) if any(part.text.strip() for part in query.parts) else []


def summary_of(query: ContextQuery, items: Sequence[MatchItem]) -> str:
    """Summarise the found files in one sentence."""
    text = " ".join((query.query or query.template_description or "").split())
    title = text if len(text) <= 80 else f"{text[:79]}…"
    about = f" for '{title}'" if title else ""
    if not items:
        return f"No file matches{about}."
    named = ", ".join(_named(item) for item in items[:MAX_SUMMARISED])
    more = f" and {len(items) - MAX_SUMMARISED} more" if len(items) > MAX_SUMMARISED else ""
    files = "1 file matches" if len(items) == 1 else f"{len(items)} files match"
    return f"{files}{about}: {named}{more}."


def _named(item: MatchItem) -> str:
    lines = item.metadata.get("lines")
    if not lines or item.content_type != "code_chunk":
        return item.source_path or item.id
    return f"{item.source_path} (lines {ranges_text(tuple(span) for span in lines)})"
