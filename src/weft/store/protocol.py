"""The `TaskStore` protocol, and the types that its methods take and return."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from msgspec import Struct

from weft.clock import Clock
from weft.errors import WeftError
from weft.ids import TaskId
from weft.store.models import AddedTemplate, NewTemplate, RegisteredTemplate, Run, StepChange, StoredStep
from weft.tasks.decisions import Operation
from weft.tasks.events import Event
from weft.tasks.flow import Flow
from weft.tasks.record import Dependency, JsonObject, Status, Task
from weft.tasks.states import Outcome
from weft.tasks.steps import Digests
from weft.tasks.summary import FlowSummary

T = TypeVar("T")


class Owner(Struct, frozen=True):
    """The user for whom a query runs. Tasks of another owner are treated as missing."""

    user_id: str | None = None
    is_everyone: bool = False


EVERYONE = Owner(is_everyone=True)
"""The operator of the store, who sees the tasks of all owners."""


class Claim(Struct, frozen=True):
    """A worker's right to finish one attempt of a task, until the worker's lease expires."""

    task_id: TaskId
    attempt: int
    worker: str
    task_tree_id: TaskId
    user_id: str | None


class Claimed(Struct, frozen=True):
    """A claimed task as it is now, with the history of its earlier attempts."""

    claim: Claim
    task: Task
    failures: int = 0
    """Failed attempts since the task was created or retried by a person."""
    losses: int = 0
    """Consecutive lost attempts: the worker died, or its lease expired."""
    last_error: str | None = None
    """The error of the last failed attempt."""


class AttemptResult(Struct, frozen=True):
    """The outcome of an attempt; with `retry_after`, a failed attempt is retried after that delay."""

    claim: Claim
    outcome: Outcome
    retry_after: timedelta | None = None


class Suspension(Struct, frozen=True):
    """Suspends an attempt: the task becomes pending until one of `until` finishes.

    A suspended task holds no worker. When one of `until` has already finished, the task is ready at once.
    """

    claim: Claim
    at: datetime
    until: tuple[TaskId, ...]
    dependencies: tuple[Dependency, ...] = ()
    """The task's own dependencies. While it is suspended, it depends on these and on `until`."""
    wake_at: datetime | None = None
    """When to resume the task even if `until` has not finished; the engine polls `overdue_suspensions`."""


class ClaimRequest(Struct, frozen=True, kw_only=True):
    """The flows and the number of tasks that a worker can claim now."""

    flows: Sequence[TaskId]
    """The roots of the flows."""
    worker: str
    slots: int
    free: Mapping[str, int] = {}
    """Slots left for methods that have their own limit; a method that is missing has no limit."""
    methods: Collection[str] | None = None
    """The methods that the worker knows; None: all. A task with an unknown method is left to the other live
    workers that may know the method. If no worker knows it, the task is claimed and fails."""


class ClaimResult(Struct, frozen=True, kw_only=True):
    """The tasks that a worker claimed, and when the next delayed task becomes ready."""

    claimed: tuple[Claimed, ...] = ()
    next_ready_at: datetime | None = None
    """When the next delayed task of the flows may start."""
    unknown_methods: frozenset[str] = frozenset()
    """Methods of ready tasks that only another worker may know."""


class DueSchedule(Struct, frozen=True):
    """An enabled schedule that is due. It is read without a lock, so it may already have been fired."""

    task_id: TaskId
    next_run_at: datetime
    params: JsonObject | None
    has_unfinished_run: bool
    """Whether a flow that was copied from the task is still running."""


class TaskFilter(Struct, frozen=True, kw_only=True):
    """Selects the tasks to list, newest first."""

    status: Status | None = None
    name: str | None = None
    """A part of the name, compared without case."""
    tree: TaskId | None = None
    only_roots: bool = False
    only_scheduled: bool = False
    with_steps: bool = True
    """Whether steps of programs are listed too; open questions always are."""
    limit: int = 50
    offset: int = 0


class TaskPage(Struct, frozen=True):
    """One page of the tasks that match a filter, and the total number of matches."""

    tasks: tuple[Task, ...]
    total: int


class EventFilter(Struct, frozen=True, kw_only=True):
    """Selects the events to read, oldest first."""

    after: int = 0
    """Only events with a greater `seq`."""
    tree: TaskId | None = None
    task: TaskId | None = None
    limit: int = 1000


class StoreDescription(Struct, frozen=True, kw_only=True):
    """The facts about a store that `weft doctor` prints."""

    kind: str
    location: str
    server_version: str
    schema_version: int
    tasks: int
    events: int
    problems: tuple[str, ...] = ()


class TaskStore(Protocol):
    """Keeps task records and their events. Every write is durable when its call returns.

    The store's clock, read inside the transaction, decides leases, retry delays and due times: the clocks
    of the machines that share a store may differ.
    """

    @property
    def clock(self) -> Clock:
        """Return the store's clock, as exactly as this process knows it."""
        ...

    @property
    def renews_with_lock(self) -> bool:
        """Return whether renewing a lease waits for other writers, because all write to one file."""
        ...

    async def operate(self, operation: Operation[T], *, owner: Owner) -> T:
        """Perform an operation in one transaction and return its value."""
        ...

    async def start(self, task_id: TaskId, *, worker: str, now: datetime, owner: Owner) -> Claim:
        """Start the next attempt of one pending task. Raise if its state forbids it."""
        ...

    async def advance(
        self, endings: Sequence[AttemptResult | Suspension], wanted: ClaimRequest
    ) -> tuple[Sequence[bool | WeftError], ClaimResult | WeftError]:
        """End attempts and claim ready tasks in one transaction.

        For each of `endings`, return whether its claim was still held (otherwise nothing was written
        for it), or the error why its outcome cannot be stored. Then return the claimed tasks, or the
        error why none could be claimed; the endings are stored even then. Raise if nothing was
        written. An unknown worker, or one with an expired lease, claims nothing.
        """
        ...

    async def report(self, claim: Claim, *, progress: float, now: datetime) -> bool:
        """Store the progress of an attempt. Return False if the claim is no longer held."""
        ...

    async def finish(self, claim: Claim, outcome: Outcome) -> bool:
        """End the attempt. Return False, with nothing written, if the claim is no longer held."""
        ...

    async def release(self, claim: Claim, *, now: datetime) -> bool:
        """Release the task, and do not count the attempt as lost. Return False if the claim is not held."""
        ...

    async def write_steps(self, run: Run, changes: Sequence[StepChange]) -> frozenset[TaskId] | None:
        """Store steps of a run, all in one transaction.

        Return the steps that were not written because they had ended meanwhile: somebody cancelled
        them. Return None, with nothing written, if the attempt at the run's task is no longer held.
        """
        ...

    async def steps_of(self, task_id: TaskId) -> Sequence[StoredStep]:
        """Return the steps that all attempts at a task recorded, in the order in which they were stored."""
        ...

    async def digests_of(self, root_id: TaskId) -> Mapping[TaskId, Digests]:
        """Return the digests of the steps of all runs in a flow."""
        ...

    async def reusable_steps(
        self, reuse_hash: str, *, user_id: str | None, besides: TaskId
    ) -> Sequence[TaskId]:
        """Return the completed steps of the same owner with this `reuse_hash`, not of the flow `besides`.

        Steps of the latest flow come first; within a flow they are in the order of their requests.
        """
        ...

    async def find_step(self, task_id: TaskId) -> Task | None:
        """Return the record of a step of any owner, or None if it was deleted."""
        ...

    async def update_params(self, run: Run, params: JsonObject, *, now: datetime) -> bool:
        """Update the params of a running program task. Return False if the attempt is no longer held."""
        ...

    async def add_templates(
        self, templates: Sequence[NewTemplate], *, user_id: str | None, now: datetime
    ) -> Sequence[AddedTemplate]:
        """Register templates of an owner, all or none; an unchanged text makes no new version."""
        ...

    async def remove_template(
        self, name: str, *, user_id: str | None, now: datetime
    ) -> RegisteredTemplate | None:
        """Remove an owner's template, and return its newest version, or None if it is not registered.

        `template_versions` still returns the template, because runs refer to versions.
        """
        ...

    async def templates(
        self, *, owner: Owner, names: Collection[str] | None = None
    ) -> Sequence[RegisteredTemplate]:
        """Return the newest versions of all templates, or of those in `names` that exist, sorted by name."""
        ...

    async def template_versions(self, name: str, *, owner: Owner) -> Sequence[RegisteredTemplate]:
        """Return all versions of a template, oldest first, even if it was removed."""
        ...

    async def known_templates(self, names: Collection[str]) -> frozenset[str]:
        """Return the names that any owner ever registered, out of `names`."""
        ...

    async def run_flow(self, root_id: TaskId, *, owner: Owner) -> None:
        """Mark a flow to be run by this process or any other. Raise TaskNotFound if it does not exist."""
        ...

    async def stop_flow(self, root_id: TaskId, *, owner: Owner) -> None:
        """Undo `run_flow`: no more tasks of the flow are started."""
        ...

    async def end_flow(self, root_id: TaskId) -> bool:
        """Mark a flow as over if no task is ready, delayed or in progress. Return whether it is over."""
        ...

    async def running_flows(self, *, owner: Owner) -> Sequence[TaskId]:
        """Return the roots of the flows that are marked to be run, oldest first."""
        ...

    async def add_worker(
        self, worker: str, *, lease_seconds: float, methods: Collection[str] | None = None
    ) -> None:
        """Register a worker, which holds its claims until its lease expires; or update its methods.

        `methods` are those that the worker knows; None: it may know any method.
        """
        ...

    async def renew_worker(self, worker: str, *, lease_seconds: float) -> frozenset[Claim] | None:
        """Renew the worker's lease and return the claims it holds, or None if it was declared dead.

        Does not wait for other writers where the store can avoid it, and is not retried on failure:
        the caller knows when its lease expires.
        """
        ...

    async def remove_worker(self, worker: str, *, now: datetime) -> int:
        """Remove a worker that shuts down, and release its tasks. Return how many tasks were released."""
        ...

    async def workers(self) -> Sequence[str]:
        """Return the ids of the registered workers."""
        ...

    async def recover(self, *, dead: Collection[str] = (), expired_at: datetime | None = None) -> int:
        """Release the tasks of dead workers, and return how many tasks were released.

        Dead are the workers in `dead` and those with a lease that expired before `expired_at`. Their
        attempts are lost: `Claimed.losses` counts them until an attempt ends. `expired_at` is a time
        of the store's clock that the caller trusts: a clock that jumps must not expire a lease.
        """
        ...

    async def restart_delays(self, *, lease_seconds: float | None = None) -> Sequence[TaskId]:
        """Restart retry delays that began in the future, because the clock was set back since.

        With `lease_seconds`, shorten every lease to at most that long from now: the lease of a dead
        worker would otherwise last longer by as much as the clock was set back, and live workers
        renew theirs. Return the tasks with a restarted delay.
        """
        ...

    async def check(self) -> None:
        """Raise StoreReplaced or SchemaTooNew if this is no longer the store that was opened."""
        ...

    def leave(self) -> None:
        """Stop waiting for a store that is unavailable, because the process is about to exit."""
        ...

    async def get(self, task_id: TaskId, *, owner: Owner) -> Task:
        """Return one task. Raise TaskNotFound if it does not exist."""
        ...

    async def get_many(self, task_ids: Sequence[TaskId], *, owner: Owner) -> dict[TaskId, Task]:
        """Return the tasks that exist, by id."""
        ...

    async def flow_of(self, task_id: TaskId, *, owner: Owner, limit: int | None = None) -> Flow:
        """Return the flow of a task, or its first `limit` tasks. Raise TaskNotFound if it does not exist."""
        ...

    async def summary(self, root_id: TaskId, *, owner: Owner) -> FlowSummary:
        """Return the state of a flow without reading its tasks. Raise TaskNotFound if it does not exist."""
        ...

    async def due_schedules(
        self, *, now: datetime, limit: int, after: DueSchedule | None = None
    ) -> Sequence[DueSchedule]:
        """Return enabled schedules that are due, the longest overdue first, starting after `after`."""
        ...

    async def overdue_suspensions(self, *, now: datetime, limit: int) -> Sequence[TaskId]:
        """Return suspended tasks that are past their `wake_at`, the longest overdue first."""
        ...

    async def list(self, wanted: TaskFilter, *, owner: Owner) -> TaskPage:
        """Return one page of the tasks that match a filter."""
        ...

    async def events(self, wanted: EventFilter, *, owner: Owner) -> Sequence[Event]:
        """Return the events that match a filter."""
        ...

    async def describe(self) -> StoreDescription:
        """Return the kind, location, version and size of the store, and any problems with it."""
        ...

    async def close(self) -> None:
        """Finish the running writes and close the store."""
        ...
