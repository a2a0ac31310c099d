"""What callers use of a store: `TaskStore`, and the types that its methods take and return."""

from weft.clock import Clock
from weft.store.claims import Claims
from weft.store.models import (
    EVERYONE,
    AttemptResult,
    Claim,
    Claimed,
    ClaimRequest,
    ClaimResult,
    DueSchedule,
    EventFilter,
    Owner,
    StoreDescription,
    Suspension,
    TaskFilter,
    TaskPage,
)
from weft.store.records import Records
from weft.store.steps import Steps
from weft.store.templates import Templates
from weft.store.workers import Workers

__all__ = [
    "EVERYONE",
    "AttemptResult",
    "Claim",
    "ClaimRequest",
    "ClaimResult",
    "Claimed",
    "DueSchedule",
    "EventFilter",
    "Owner",
    "StoreDescription",
    "Suspension",
    "TaskFilter",
    "TaskPage",
    "TaskStore",
]


class TaskStore(Records, Claims, Steps, Templates, Workers):
    """Keeps task records and their events. Every write is durable when its call returns.

    The parts are those of different users: operations and queries (`Records`), the engine (`Claims`,
    `Workers`), runs of programs (`Steps`), and the task library (`Templates`). A database implements what
    raises NotImplementedError here and in `StorePart`.

    The store's clock, read inside the transaction, decides leases, retry delays and due times: the clocks
    of the machines that share a store may differ.
    """

    @property
    def clock(self) -> Clock:
        """Return the store's clock, as exactly as this process knows it."""
        raise NotImplementedError

    async def check(self) -> None:
        """Raise StoreReplaced or SchemaTooNew if this is no longer the store that was opened."""
        raise NotImplementedError

    def stop_waiting(self) -> None:
        """Stop waiting for a store that is unavailable, because the process is about to exit."""
        raise NotImplementedError

    async def describe(self) -> StoreDescription:
        """Return the kind, location, version and size of the store, and any problems with it."""
        raise NotImplementedError

    async def close(self) -> None:
        """Finish the running writes and close the store."""
        raise NotImplementedError
