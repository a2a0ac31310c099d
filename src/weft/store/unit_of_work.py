"""Writes as generators, so that each is written once for both databases.

A write yields statements and is sent their rows. SQLite executes each statement at once. PostgreSQL runs
writes of different tasks in step, and executes the same statement of all of them as one, because a round trip
takes longer than most statements.
"""

import functools
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from datetime import datetime
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from msgspec import Struct, field

from weft.ids import TaskId
from weft.store.columns import json_text
from weft.store.group_commit import Done, GroupCommit
from weft.store.models import Claim, ClaimRequest, Owner, Run, StepChange
from weft.tasks.decisions import Operation
from weft.tasks.events import EventType, NewEvent
from weft.tasks.record import JsonObject, Task

T = TypeVar("T")
P = ParamSpec("P")

Row = Any
"""A row: the parameters of a statement, or a result (a tuple in SQLite, a `Record` in PostgreSQL)."""


class Many(Struct, frozen=True):
    """A statement that is executed for each row; no rows are returned."""

    name: str
    rows: Iterable[Row]


Statement = tuple[str, Row] | Many
"""The name of a statement and its parameters: datetimes, lists, and what every database can hold."""

Work = Generator[Statement, Sequence[Row], T]
"""A running write: it yields statements, is sent their rows, and returns the value of the write."""

EventRow = tuple[str, str, str, str | None, datetime, str]
"""Type, task, flow, owner, time and facts of an event."""

EVENT_COLUMNS = ("type", "task_id", "task_tree_id", "user_id", "at", "facts")


class Dialect(Struct, frozen=True):
    """How a database represents records and times."""

    task_row: Callable[[Task], list[Any]]
    """Returns the fields of a record as parameters."""
    task_of: Callable[[Row], Task]
    """Returns the record of a row that begins with its fields."""
    time_of: Callable[[Any], datetime]
    """Returns a time from a column."""


class Unit(Struct, eq=False):
    """What a transaction, or one of its writes, collects to be written together."""

    now: datetime
    """The store's time, read while the transaction holds the write lock."""
    dialect: Dialect
    events: list[EventRow] = field(default_factory=list)
    completed: list[tuple[TaskId, int]] = field(default_factory=list)
    """Id and `seq` of tasks that completed, and must release their dependents."""
    unsuccessful: list[tuple[TaskId, int]] = field(default_factory=list)
    """Id and `seq` of tasks that failed or were cancelled, and must release those that need not complete."""

    def add_event(self, claim: Claim, kind: EventType, at: datetime, facts: JsonObject) -> None:
        """Collect an event of an attempt."""
        self.events.append(
            (kind._value_, claim.task_id, claim.task_tree_id, claim.user_id, at, json_text(facts))
        )

    def add_events(self, events: Iterable[NewEvent]) -> None:
        self.events += map(event_row, events)

    def add_ended_steps(self, rows: Sequence[Row], error: str, at: datetime) -> None:
        """Collect what follows from the end of open steps; each row has run, id, `seq`, flow and owner."""
        facts = json_text({"error": error})
        for _, step_id, seq, tree, user_id in sorted(rows, key=lambda row: row[2]):
            self.unsuccessful.append((TaskId(str(step_id)), seq))
            kind = EventType.TASK_CANCELLED._value_
            self.events.append((kind, str(step_id), str(tree), user_id, at, facts))


def event_row(event: NewEvent) -> EventRow:
    facts = json_text(event.facts) if event.facts else "{}"
    return (event.type._value_, event.task_id, event.task_tree_id, event.user_id, event.at, facts)


class Write(Struct, eq=False):
    """A write that its database performs as a generator."""

    begin: Callable[[Unit], Work[Any]]
    task_id: TaskId | None = None
    """The only task that the write concerns, besides open steps of that task. Such writes neither read nor
    change what another task waits for, so those of different tasks may be performed in any order."""
    is_large: bool = False
    """Whether it takes too long for the event loop."""


class Operate(Struct, frozen=True):
    """Perform an operation."""

    operation: Operation[Any]
    owner: Owner


class WriteSteps(Struct, frozen=True):
    """Store steps of a run; consecutive requests of one run are performed together."""

    run: Run
    changes: Sequence[StepChange]


Request = Write | Operate | WriteSteps | ClaimRequest
"""What a group commit passes to the database. It performs all but the first in its own way."""


def is_large(request: Request) -> bool:
    """Return whether a request takes too long for the event loop, or for the usual time limit."""
    return isinstance(request, Operate) or (isinstance(request, Write) and request.is_large)


Query = tuple[str, Row]
"""The name of a query and its parameters."""


class StorePart:
    """What the parts of a store share; each database implements it."""

    dialect: ClassVar[Dialect]

    def __init__(self) -> None:
        self._group = GroupCommit(self._commit)

    def _commit(self, requests: Sequence[Request], done: Done) -> None:
        """Commit the requests in one transaction, and call `done` with the outcome of each."""
        raise NotImplementedError

    def _read(self, then: Callable[..., T], *queries: Query, is_short: bool = False) -> Awaitable[T]:
        """Return what `then` makes of the rows of each query; all see one snapshot.

        `is_short`: the query looks up a few rows by an index, and `then` takes no time.
        """
        raise NotImplementedError


Writing = Callable[Concatenate[Any, Unit, P], Work[T]]
"""A generator function that writes; a method, with what it collects before its own arguments."""


def write(
    *, of_task: bool = False, is_large: bool = False
) -> Callable[[Writing[P, T]], Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]]:
    """Make a method of a generator function: it returns its value once the write is committed.

    `of_task`: the write concerns one task (see `Write.task_id`), and its first argument is the claim or the
    id of the task. `is_large`: it takes too long for the event loop.
    """

    def method_of(work: Writing[P, T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
        @functools.wraps(work)
        async def method(self: StorePart, /, *args: P.args, **kwargs: P.kwargs) -> T:
            task_id: Any = getattr(args[0], "task_id", args[0]) if of_task else None
            value: T = await self._group.write(
                Write(lambda unit: work(self, unit, *args, **kwargs), task_id, is_large)
            )
            return value

        return method

    return method_of
