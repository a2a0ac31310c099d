"""Limits of an engine: concurrency, delays, tolerance of an unavailable store."""

import logging
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from weft.errors import TransientError


class EngineLimits(Struct, frozen=True, kw_only=True):
    """The limits of one engine process."""

    concurrency: int = 100
    """Maximum number of concurrent attempts."""
    per_executor: Mapping[str, int] = {}
    """Maximum number of concurrent attempts of single executors, by id."""
    lease_seconds: float = 0.0
    """How long a worker without a heartbeat counts as alive; 0: as in the settings. Multiplied by four for a
    SQLite file, where workers wait for each other's writes."""
    heartbeat_seconds: float = 1.0
    """Interval in which a worker renews its lease, and looks for cancelled and lost tasks."""
    poll_seconds: float = 0.2
    """Interval between polls for tasks that other processes have made ready."""
    lookup_seconds: float = 1.0
    """How long a claimed task waits for an executor that is not registered: another process may just be
    adding it to the task library. Once this time has passed, further tasks of the same method do not wait."""
    grace_seconds: float = 10.0
    """How long a stopping engine lets attempts run and writes their outcomes."""
    leave_seconds: float = 1.0
    """How long a stopped engine waits for the store to release its tasks."""
    max_losses: int = 50
    """How many attempts in a row may be lost (the worker died, or its lease expired) before a task fails: a
    task that kills its process each time must not do so for ever. Failed attempts are subject to the retry
    policy instead; attempts released by a stopping engine do not count."""


class Slots:
    """Slots for concurrent attempts, in total and by executor."""

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

    def release(self, method: str) -> None:
        self._taken[method] -= 1


log = logging.getLogger(__name__)


class StoreTolerance:
    """Context manager that logs transient errors of `what` instead of raising them; callers may retry."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, *_trace: object) -> bool:
        if not isinstance(error, TransientError):
            return False
        log.warning("%s: %s", self._what, error.message, extra={"action": "store_transient_error"})
        return True
