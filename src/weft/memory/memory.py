"""Memory: what in the files of some roots is relevant to a query."""

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
from weft.memory.context.assembly import elements_of, in_order, is_pattern, meant, once, without
from weft.memory.context.freshness import stale_files, unreadable
from weft.memory.context.items import items_of, ranges_text, summaries_of
from weft.memory.errors import IndexBusy, IndexFileFailed
from weft.memory.protocol import (
    FileFacts,
    Index,
    IndexProgress,
    IndexReport,
    Match,
    Matcher,
    Query,
    QueryPart,
)

MAX_PART_CHARACTERS = 4_000
"""How much of a text takes part: the beginning says what it is about, the rest only costs time."""

QUERY, DESCRIPTION = 1.0, 1.0
BESIDE_QUERY = 0.5
"""What the description counts where a query says more exactly what is wanted."""
INPUT = 0.5
SURROUNDINGS = 0.3
"""Inherited context and earlier outputs say what it is about, but less what is wanted now."""


def question_of(query: ContextQuery, *, limit: int, roots: tuple[str, ...] = ()) -> Query:
    """What the matcher is asked. Raises ValueError for a strategy that there is not."""
    if query.matching_strategy not in STRATEGIES:
        known = " or ".join(STRATEGIES)
        raise ValueError(f"the matching strategy is {known}; this is '{query.matching_strategy}'")
    return Query(parts=tuple(_parts(query)), strategy=query.matching_strategy, limit=limit, roots=roots)


def _parts(query: ContextQuery) -> Iterator[QueryPart]:
    has_query = bool(query.query and query.query.strip())
    texts = [
        (query.query, QUERY),
        (query.template_description, BESIDE_QUERY if has_query else DESCRIPTION),
        *((text_of(value), INPUT) for value in query.inputs.values()),
        (query.inherited_context, SURROUNDINGS),
        (query.previous_outputs, SURROUNDINGS),
    ]
    for text, weight in texts:
        if text and text.strip():
            yield QueryPart(text[:MAX_PART_CHARACTERS], weight)


def text_of(value: Any) -> str:
    """An input as text that can be looked for."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def title_of(query: ContextQuery) -> str:
    """The query in one short line, for summaries."""
    text = " ".join((query.query or query.template_description or "").split())
    return text if len(text) <= 80 else f"{text[:79]}…"


log = logging.getLogger(__name__)

REFRESH_SECONDS = 60.0
"""How old the last look at all files may be, at most, before a question makes memory look again."""

MIN_REFRESH_SECONDS = 1.0
"""Tasks that ask at the same time share a look."""

LOOKING_SHARE = 0.05
"""Which part of the time looking may take: a small folder is looked at more often."""

PIECES_OF_FILE = 3
"""How many pieces of one file an answer has at most."""

MORE = 4
"""How many times as much is looked for when too much of the best is left out."""

MAX_SUMMARISED = 8
"""How many files the summary of an answer names."""


class IndexUnavailable(TransientError):
    """The index of files cannot be read or brought up to date."""

    code = "memory-unavailable"


class MatchingFailed(TransientError):
    """The index is there, and what is looked for in it cannot be found out."""

    code = "memory-matching-failed"


class Found(Struct, frozen=True):
    """The pieces that are relevant, the most important first, and how many an element excluded."""

    matches: tuple[Match, ...] = ()
    excluded: int = 0
    warnings: tuple[str, ...] = ()
    """Why there may be more than was found."""


class Memory:
    """Answers questions on the files of its roots. Calls block: use a thread.

    The first question, and one that comes some time after the last look, brings the index up to date. The
    files that an answer is of are looked at with every question.
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
            raise ValueError("memory has at least one root")
        self._on_progress = on_progress
        self._on_updated = on_updated
        self._on_close = on_close
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        """One question at a time, for many tasks may ask at once and the first of them makes the index."""
        self._due_at: float | None = None
        """When all files are to be looked at again."""

    def get_relevant_context_for(
        self, query: ContextQuery, *, limit: int = 20, assembly: ContextAssembly | None = None
    ) -> AssociativeMatchResult:
        """The files that matter, with the pieces that do. What fails is told in `error`, not raised."""
        try:
            found = self.find(query, limit=limit, assembly=assembly)
        except (IndexUnavailable, MatchingFailed) as error:
            return AssociativeMatchResult(context_summary="", error=error.message)
        return replace(self.result_of(query, found.matches), error="; ".join(found.warnings) or None)

    def find(
        self,
        query: ContextQuery,
        *,
        limit: int = 20,
        assembly: ContextAssembly | None = None,
        beside: Sequence[str] = (),
    ) -> Found:
        """The pieces that matter. Raises IndexUnavailable or MatchingFailed.

        `beside` are files that whoever asks has whole: none of their pieces is given again. Those that are
        not absolute are below the first root.
        """
        with self._lock:
            warnings = self._bring_up_to_date()
            try:
                asked = (query, limit, assembly or ContextAssembly(), self._real(beside))
                found = self._find_fresh(*asked, is_busy=bool(warnings))
                return replace(found, warnings=(*warnings, *found.warnings))
            except Exception as error:  # whatever an index or a matcher raises, the question has no answer
                raise MatchingFailed(f"memory cannot answer: {error}") from error

    def result_of(
        self, query: ContextQuery, matches: Sequence[Match], *, base: Path | None = None
    ) -> AssociativeMatchResult:
        """What was found, as the answer to the query: one item for each file."""
        items = self.items_of(matches, is_summary=query.matching_strategy == "metadata", base=base)
        return AssociativeMatchResult(context_summary=summary_of(query, items), matches=items)

    def items_of(
        self, matches: Sequence[Match], *, is_summary: bool = False, base: Path | None = None
    ) -> tuple[MatchItem, ...]:
        """One item for each file, of all of its matches. Paths in `base` (the first root) are relative."""
        form = summaries_of if is_summary else items_of
        return form(matches, self.facts, str(base or self.roots[0]))

    def facts(self, root: str, path: str) -> FileFacts | None:
        """What is known of a file."""
        return self.index.facts(root, path)

    def close(self) -> None:
        """Let go of the index."""
        with self._lock:
            if self._on_close is not None:
                self._on_close()
            self.index.close()

    def _bring_up_to_date(self) -> tuple[str, ...]:
        """Look at the files if that is due; why the index may still not know them all."""
        now = self._clock.now().timestamp()
        if self._due_at is not None and now < self._due_at:
            return ()
        missing = [root for root in self.roots if not root.is_dir()]
        if missing:
            raise IndexUnavailable(f"'{missing[0]}' is no folder that can be indexed")
        try:
            report = self.index.update(self.roots, self._on_progress)
        except IndexBusy as error:
            # What the index knows so far is better than no answer for as long as the other process is at it.
            # The answer carries the warning; a second one in the log would be said twice on a terminal.
            log.info("%s: the answer may be of old files", error.message, extra={"action": "index_busy"})
            return (f"{error.message}: what it has not come to yet is not found",)
        except Exception as error:  # a broken file, no index: no answer
            if isinstance(error, IndexFileFailed) and self._is_indexed():
                return (f"{error.message}: what has changed since it was last updated is not found",)
            raise IndexUnavailable(f"the index cannot be brought up to date: {error}") from error
        took = self._clock.now().timestamp() - now
        self._due_at = now + min(REFRESH_SECONDS, max(MIN_REFRESH_SECONDS, took / LOOKING_SHARE))
        if self._on_updated is not None:
            self._on_updated(report)
        return ()

    def _is_indexed(self) -> bool:
        """Whether something of every root is indexed: then an index that cannot be written has an answer."""
        try:
            roots = self.index.status()["roots"]
        except Exception:  # it cannot be read either, and why it cannot be written is told already
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
        """What is found in the files as they are; of those that may not be read any more, nothing."""
        found = self._find(query, limit, assembly, beside)
        stale = stale_files(found.matches, self.facts)
        if not stale:
            return found
        if not is_busy and self._take_again(stale):
            found = self._find(query, limit, assembly, beside)
        closed: frozenset[Path] = frozenset()
        # The index keeps what it knows of them, for who may not read them now may again.
        while new := unreadable(stale_files(found.matches, self.facts)):
            closed |= new
            found = self._find(query, limit, assembly, beside | closed)
        return replace(found, warnings=tuple(f"'{file}' may not be read: it is left out" for file in closed))

    def _take_again(self, stale: Mapping[str, Sequence[str]]) -> bool:
        """Index files anew that have changed; whether that was possible."""
        try:
            for root, paths in stale.items():
                self.index.update_paths(Path(root), paths)
        except (IndexBusy, IndexFileFailed):
            return False  # the other process will come to them, or the next look
        return True

    def _real(self, paths: Sequence[str]) -> frozenset[Path]:
        return frozenset((self.roots[0] / path).resolve() for path in paths)

    def _find(
        self, query: ContextQuery, limit: int, assembly: ContextAssembly, beside: frozenset[Path]
    ) -> Found:
        excluded = elements_of(assembly.excluded_elements)
        # So that enough is left. A file has few pieces among the best.
        wanted = (2 * limit if excluded else limit) + PIECES_OF_FILE * len(beside)
        question = question_of(query, limit=wanted, roots=tuple(map(str, self.roots)))
        elements = (elements_of(assembly.primary_elements), elements_of(assembly.secondary_elements))
        primary, secondary = (self._meant(question, texts) for texts in elements)
        while True:
            matches = self._match(question)
            every = once(in_order(matches, primary, secondary, elements))
            if beside:
                every = [match for match in every if _file_of(match) not in beside]
            kept = without(every, excluded, self.facts)
            if len(kept) >= limit or len(matches) < question.limit:
                return Found(tuple(kept[:limit]), len(every) - len(kept))
            # What is left out was among the best: those that come after it are looked at too.
            question = replace(question, limit=question.limit * MORE)

    def _meant(self, question: Query, elements: tuple[str, ...]) -> list[Match]:
        """What the elements of the author mean.

        A path is looked for as the words it is made of, and means what fits it of what was found.
        """
        found: list[Match] = []
        for element in elements:
            text = element.replace("*", " ") if is_pattern(element) else element
            part = Query(
                parts=(QueryPart(text),),
                strategy=question.strategy,
                limit=question.limit,
                roots=question.roots,
            )
            found += meant(element, self._match(part))
        return found

    def _match(self, question: Query) -> list[Match]:
        return self.matcher.match(question) if any(part.text.strip() for part in question.parts) else []


def _file_of(match: Match) -> Path:
    return Path(match.chunk.root, match.chunk.path)


def summary_of(query: ContextQuery, items: Sequence[MatchItem]) -> str:
    """What was found, in a line or two."""
    title = title_of(query)
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
