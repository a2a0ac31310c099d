"""Errors of the store itself."""

import logging
from collections.abc import Iterable, Mapping

from weft.errors import (
    EXIT_NOT_FOUND,
    EXIT_UNAVAILABLE,
    InternalError,
    OutOfMemory,
    RequestError,
    TransientError,
    WeftError,
    text_of,
)
from weft.tasks.record import Task

log = logging.getLogger(__name__)


class StoreError(WeftError):
    """The store cannot perform a request; nothing was written, unless the code is `commit-unknown`."""

    code = "store-error"


class StoreBusy(TransientError):
    """Another process held the store's write lock for too long."""

    code = "store-busy"


class StoreUnusable(StoreError):
    """The store as a whole cannot be used, so nothing that runs can be recorded."""

    code = "store-unusable"


class StoreFull(StoreUnusable):
    """The disk, or the database's own size limit, is full."""

    code = "store-full"


class StoreReadOnly(StoreUnusable):
    """The store can be read but not written."""

    code = "store-read-only"


class StoreUnreachable(TransientError):
    """The store's file cannot be opened, or its server does not respond."""

    code = "store-unreachable"


class StoreDamaged(StoreUnusable):
    """The database file is damaged."""

    code = "store-damaged"


class StoreReplaced(StoreUnusable):
    """The store's file was removed or replaced while it was open; nothing more is stored in it."""

    code = "store-replaced"

    def __init__(self, *, location: str) -> None:
        super().__init__(
            f"{location} was removed or replaced while it was open; later writes were lost. "
            "Restore the file if you can, then resume the runs"
        )


class StoreNotFound(RequestError):
    """The store does not exist, and this command does not create one."""

    code = "store-not-found"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, *, location: str) -> None:
        super().__init__(f"no store at {location}; `weft run` and `weft flow run` create one")


class NotAStore(RequestError):
    """The file or database exists, but it is not a weft store."""

    code = "not-a-store"


class SchemaTooNew(RequestError):
    """The store was written by a newer version of weft."""

    code = "schema-too-new"
    exit_code = EXIT_UNAVAILABLE

    def __init__(self, *, location: str, found: int, known: int) -> None:
        super().__init__(
            f"{location} has schema version {found}, but this weft supports up to {known}; use a newer weft"
        )
        self.found = found
        self.known = known


class TaskExists(RequestError):
    """A task with this id is already in the store."""

    code = "task-exists"

    def __init__(self, added: Iterable[Task], owners: Mapping[str, str | None]) -> None:
        """Create the error; `owners` maps each id of the added tasks that is already stored to its owner.

        The message names only ids of the caller's own tasks; a caller without an owner operates the store,
        and sees all ids.
        """
        task_ids = [
            task.id
            for task in added
            if task.id in owners and (task.user_id is None or owners[task.id] == task.user_id)
        ]
        more = f" and {len(task_ids) - 3} more" if len(task_ids) > 3 else ""
        which = f"already stored: {', '.join(task_ids[:3])}{more}" if task_ids else "ids cannot be used"
        super().__init__(f"{which}; leave ids out to get new ones")
        self.task_ids = tuple(task_ids)


class NotJson(RequestError):
    """A value cannot be encoded as JSON, so it cannot be stored."""

    code = "not-json"

    def __init__(self, reason: Exception) -> None:
        super().__init__(f"cannot be stored as JSON: {reason}")


def refusal_of(error: Exception, *, reason: str, is_of_driver: bool) -> WeftError:
    """Return the outcome of a request that fails alone, without the other requests of its commit."""
    if isinstance(error, WeftError):
        return error
    if is_of_driver or isinstance(error, OverflowError | TypeError | ValueError):
        # A value that the store cannot hold, or a record in it that cannot be read.
        return StoreError(f"the store rejected the write: {reason}")
    if isinstance(error, MemoryError):
        return OutOfMemory("the write needs more memory than is available")
    log.error(
        "a write failed because of a bug in weft: %s",
        text_of(error),
        exc_info=error,
        extra={"action": "write_broken"},
    )
    return InternalError(text_of(error))
