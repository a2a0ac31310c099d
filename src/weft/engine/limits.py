"""Limits of an engine: concurrency, waiting times, tolerance of a store that is away."""

import logging
from collections import Counter
from collections.abc import Mapping
from types import TracebackType

from msgspec import Struct

from weft.errors import TransientError


class EngineLimits(Struct, frozen=True, kw_only=True):
    """The limits of one engine process."""

    concurrency: int = 100
    """Attempts at the same time."""
    per_executor: Mapping[str, int] = {}
    """Attempts at the same time of single executors, by id."""
    lease_seconds: float = 0.0
    """How long a worker that says nothing is taken to be alive; 0: as the settings say. Four times as long
    where workers wait for each other's writes (SQLite)."""
    heartbeat_seconds: float = 1.0
    """How often a worker says that it is alive, and looks for cancelled and abandoned tasks."""
    poll_seconds: float = 0.2
    """How often to look for work that other processes have made ready."""
    lookup_seconds: float = 1.0
    """How long a claimed task waits for an executor that nobody knows: its template may just be registered.
    Once for each method: a flow of many such tasks does not wait for each."""
    grace_seconds: float = 10.0
    """How long running attempts may go on, and endings be written, once the engine is asked to stop."""
    leave_seconds: float = 1.0
    """How long an engine that has stopped waits for the store to release its tasks."""
    max_losses: int = 50
    """How many attempts at a task may be lost in a row, because their process died or its lease ran out: a
    task that kills its process each time must not do so for ever. Attempts that failed are the retry policy's
    matter; those given back by an engine that stops in good order are neither."""


class Slots:
    """The places for attempts, in all and by executor."""

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self._taken: Counter[str] = Counter()

    @property
    def free(self) -> int:
        return self._limits.concurrency - self._taken.total()

    @property
    def free_by_executor(self) -> dict[str, int]:
        return {name: limit - self._taken[name] for name, limit in self._limits.per_executor.items()}

    def take(self, method: str) -> None:
        self._taken[method] += 1

    def give(self, method: str) -> None:
        self._taken[method] -= 1


log = logging.getLogger(__name__)


class StoreTolerance:
    """A block whose transient errors are logged, not raised: its user tries again, or can do without."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, TransientError):
            return False
        log.warning("%s: %s", self._what, error.message, extra={"action": "store_transient_error"})
        return True
