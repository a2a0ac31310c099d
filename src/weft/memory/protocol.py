"""What the parts of memory are to each other: an index of files, what finds in it, what ranks again."""

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
    """What is known of a file besides its text."""

    root: str
    """The absolute path of the root it belongs to."""
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


class Chunk(Struct, frozen=True, kw_only=True):
    """Some lines of a file: what is matched and shown."""

    root: str
    path: str
    first_line: int
    """From 1."""
    last_line: int
    text: str
    symbols: tuple[str, ...] = ()
    """The names that are defined in it, and the one it stands inside."""
    part: tuple[int, int, int] | None = None
    """Of a very long line only a part: from which character, up to which, and how many the line has."""


class IndexProgress(Struct, frozen=True):
    """How far an update is."""

    seen: int
    changed: int
    removed: int
    total: int | None = None
    """None: the roots are still walked."""


class IndexReport(Struct, frozen=True, kw_only=True):
    """What an update did."""

    files: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """Why files were left out: binary, too_large, unreadable."""
    text_bytes: int = 0
    index_bytes: int = 0


class QueryPart(Struct, frozen=True):
    """A text that takes part in a query, and how much it counts."""

    text: str
    weight: float = 1.0


class Query(Struct, frozen=True, kw_only=True):
    """What is looked for."""

    parts: tuple[QueryPart, ...]
    strategy: Strategy = "content"
    limit: int = 20
    roots: tuple[str, ...] = ()
    """Only files of these; none: of all."""


class Match(Struct, frozen=True, kw_only=True):
    """A piece of a file that fits a query."""

    chunk: Chunk
    score: float
    """From 0 to 1; within one answer larger is better."""
    why: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The words that matched, by field: path, symbols, headings, content."""


class Index(Protocol):
    """Files of roots, kept up to date. Safe to use from several processes; calls block: use a thread."""

    def update(
        self, roots: Sequence[Path], on_progress: Callable[[IndexProgress], None] | None = None
    ) -> IndexReport:
        """Take in what is new, changed or gone."""
        ...

    def update_paths(self, root: Path, paths: Sequence[str]) -> IndexReport:
        """The same for a few paths, as the watch tells them."""
        ...

    def facts(self, root: str, path: str) -> FileFacts | None:
        """What is known of a file."""
        ...

    def status(self) -> dict[str, Any]:
        """Roots, files, bytes, when each was updated."""
        ...

    def drop(self, roots: Sequence[Path] | None = None) -> None:
        """Forget roots, or everything."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Matcher(Protocol):
    """Finds in an index."""

    def match(self, query: Query) -> list[Match]:
        """The best matches, the best first; at most `query.limit`. Blocks: use a thread."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def id(self) -> str:
        """Vectors of different ids cannot be compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector of length one for each text. Blocks: use a thread."""
        ...
