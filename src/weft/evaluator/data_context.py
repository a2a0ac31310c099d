"""`DataContext`: what a task is given to work on, apart from the conversation; and what memory finds."""

from datetime import datetime
from typing import Any

from msgspec import Struct, field


class MatchItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece: a file, a match of memory, a binding, what earlier steps gave."""

    id: str
    content: str
    content_type: str
    relevance_score: float = 1.0
    source_path: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class DataContext(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found for a task, and when."""

    retrieved_at: datetime | None = None
    source_query: str | None = None
    items: tuple[MatchItem, ...] = ()
    overall_summary: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class AssociativeMatchResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What memory answers to a query."""

    context_summary: str
    matches: tuple[MatchItem, ...] = ()
    """The most relevant first."""
    error: str | None = None
    """Why there is no answer, or only a part of one."""
