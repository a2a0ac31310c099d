"""Protocols and data types of memory: the index of files, the matchers that search it, the embedder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, field

Strategy = Literal["content", "metadata"]


class Symbol(Struct, frozen=True):
    """A name that a file defines, or a heading."""

    name: str
    kind: str
    """class, function, method, constant, heading ..."""
    line: int


class FileFacts(Struct, frozen=True, kw_only=True):
    """Metadata of an indexed file."""

    root: str
    """Absolute path of the root that contains the file."""
    path: str
    """Relative to the root, with `/`."""
    size: int
    lines: int
    language: str | None = None
    title: str | None = None
    """The first heading, or the first line of the docstring."""
    symbols: tuple[Symbol, ...] = ()
    changed_at: float
    """Seconds since the epoch."""
    inode_changed_at: float | None = None
    """When content or permissions changed (ctime), in seconds since the epoch; None if unknown."""


class Chunk(Struct, frozen=True, kw_only=True):
    """A range of lines of a file: the unit that is matched and shown."""

    root: str
    path: str
    first_line: int
    """Counted from 1."""
    last_line: int
    text: str
    symbols: tuple[str, ...] = ()
    """Names defined in the chunk, and the last name defined before it, which usually encloses its start."""
    part: tuple[int, int, int] | None = None
    """For a part of a very long line: its start and end in characters, and the length of the line. None for
    whole lines."""


class IndexProgress(Struct, frozen=True):
    """Progress of an update of the index."""

    seen: int
    changed: int
    """Number of files added or changed."""
    removed: int
    total: int | None = None
    """None while the roots are still being walked."""


class IndexReport(Struct, frozen=True, kw_only=True):
    """Result of an update of the index."""

    files: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """Number of skipped files by reason: binary, too_large, unreadable."""
    text_bytes: int = 0
    """Size of the indexed files."""
    index_bytes: int = 0
    """Size of the index in its database; 0 in a report of `update_paths`."""


class QueryPart(Struct, frozen=True):
    """One text of a query, with its weight."""

    text: str
    weight: float = 1.0


class Query(Struct, frozen=True, kw_only=True):
    """A search of the index."""

    parts: tuple[QueryPart, ...]
    strategy: Strategy = "content"
    limit: int = 20
    roots: tuple[str, ...] = ()
    """Search only these roots; empty means all roots."""


class Match(Struct, frozen=True, kw_only=True):
    """A chunk that matches a query."""

    chunk: Chunk
    score: float
    """From 0 to 1; larger is better. Scores of different queries cannot be compared."""
    why: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Words that matched, by field: path, symbols, headings, content."""


class Index(Protocol):
    """Index of the files below some roots.

    Several processes may use the same index. Calls block: use a thread.
    """

    def update(
        self, roots: Sequence[Path], on_progress: Callable[[IndexProgress], None] | None = None
    ) -> IndexReport:
        """Index new and changed files below the roots, and remove deleted ones."""
        ...

    def update_paths(self, root: Path, paths: Sequence[str]) -> IndexReport:
        """Update only these paths of a root, as reported by a watcher."""
        ...

    def facts(self, root: str, path: str) -> FileFacts | None:
        """Return the metadata of a file, or None if it is not indexed."""
        ...

    def status(self) -> dict[str, Any]:
        """Return the roots with their files, bytes and time of the last update."""
        ...

    def drop(self, roots: Sequence[Path] | None = None) -> None:
        """Remove these roots from the index, or all of them for None."""
        ...

    def close(self) -> None: ...


class Matcher(Protocol):
    """Searches an index."""

    def match(self, query: Query) -> list[Match]:
        """Return at most `query.limit` matches, best first. Blocks: use a thread."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def id(self) -> str:
        """Return the id of the model; vectors of different models cannot be compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a unit vector for each text. Blocks: use a thread."""
        ...
