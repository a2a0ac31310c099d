"""A request on its way through a write transaction."""

from datetime import datetime
from typing import Any

from msgspec import Struct, field

from weft.store.postgresql.rows import EventRow


class Entry(Struct, eq=False):
    """A request of a group, what came of it, and the events it adds to the log."""

    now: datetime
    """The store's time, read when the transaction held the write lock."""
    request: Any
    """One of `weft.store.requests`; whoever applies it knows which."""
    outcome: Any = None
    """Its value, or the error that it alone ends with."""
    events: list[EventRow] = field(default_factory=list)
