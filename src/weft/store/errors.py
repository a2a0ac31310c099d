"""What can be wrong with a store itself."""

import logging
from collections.abc import Iterable, Mapping, Sequence

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
    """The store cannot do what was asked; nothing was written."""

    code = "store-error"


class StoreBusy(TransientError):
    """Another process held the store's write lock for too long."""

    code = "store-busy"


class StoreUnusable(StoreError):
    """The store as a whole cannot be used; what runs here cannot be recorded."""

    code = "store-unusable"


class StoreFull(StoreUnusable):
    """The disk, or the database's own size limit, is full."""

    code = "store-full"


class StoreReadOnly(StoreUnusable):
    """The store can be read but not written."""

    code = "store-read-only"


class StoreUnreachable(TransientError):
    """The store's file cannot be opened or its server does not answer."""

    code = "store-unreachable"


class StoreDamaged(StoreUnusable):
    """The database file is damaged."""

    code = "store-damaged"


class StoreReplaced(StoreUnusable):
    """The store's file was removed or replaced while it was open: nothing more is stored in it."""

    code = "store-replaced"

    def __init__(self, *, location: str) -> None:
        super().__init__(
            f"{location} was removed or replaced while it was open; what was written since is in no file. "
            "Put the file back if you can, then resume what was running"
        )


class StoreNotFound(RequestError):
    """There is no store yet, and the command is none that makes one."""

    code = "store-not-found"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, *, location: str) -> None:
        super().__init__(f"no store at {location}; `weft flow submit` and `weft flow run` make one")


class NotAStore(RequestError):
    """The file or database is there, but it is not weft's."""

    code = "not-a-store"


class SchemaTooNew(RequestError):
    """A newer weft has written this store."""

    code = "schema-too-new"
    exit_code = EXIT_UNAVAILABLE

    def __init__(self, *, location: str, found: int, known: int) -> None:
        super().__init__(
            f"{location} has schema version {found}, this weft knows up to {known}; use a newer weft"
        )
        self.found = found
        self.known = known


class TaskExists(RequestError):
    """A task with that id is in the store already."""

    code = "task-exists"

    def __init__(self, *, task_ids: Sequence[str]) -> None:
        """`task_ids` are those that the owner may know of; none: they are other owners'."""
        more = f" and {len(task_ids) - 3} more" if len(task_ids) > 3 else ""
        which = f"already stored: {', '.join(task_ids[:3])}{more}" if task_ids else "ids cannot be used"
        super().__init__(f"{which}; leave ids out to get new ones")
        self.task_ids = tuple(task_ids)


def task_exists(added: Iterable[Task], owners: Mapping[str, str | None]) -> TaskExists:
    """Return the error for tasks some of whose ids are stored, by their owners.

    An owner sees only ids of his own tasks; a caller who adds tasks without an owner operates the store, and
    sees all.
    """
    known = [
        task.id
        for task in added
        if task.id in owners and (task.user_id is None or owners[task.id] == task.user_id)
    ]
    return TaskExists(task_ids=known)


class NotJson(RequestError):
    """A value that was to be stored cannot be written as JSON."""

    code = "not-json"

    def __init__(self, reason: Exception) -> None:
        super().__init__(f"cannot be stored as JSON: {reason}")


def refusal_of(error: Exception, *, reason: str, is_of_driver: bool) -> WeftError:
    """The outcome of a request that alone ends with the error; its neighbours in the commit go on."""
    if isinstance(error, WeftError):
        return error
    if is_of_driver or isinstance(error, OverflowError | TypeError | ValueError):
        # A value that the store cannot hold, or a record in it that cannot be read.
        return StoreError(f"the store refuses it: {reason}")
    if isinstance(error, MemoryError):
        return OutOfMemory("the write needs more memory than there is")
    log.error(
        "a write failed by a mistake of ours: %s",
        text_of(error),
        exc_info=error,
        extra={"action": "write_broken"},
    )
    return InternalError(text_of(error))
