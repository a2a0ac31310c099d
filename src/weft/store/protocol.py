"""What a store of task records does, whatever keeps them."""

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
    """On whose behalf a query runs; part of every one. Another owner's task does not exist."""

    user_id: str | None = None
    is_everyone: bool = False


EVERYONE = Owner(is_everyone=True)
"""The operator of the store: sees the tasks of all owners."""


class Claim(Struct, frozen=True):
    """A worker's right to finish one attempt of a task, until the worker's lease runs out."""

    task_id: TaskId
    attempt: int
    worker: str
    task_tree_id: TaskId
    user_id: str | None


class Claimed(Struct, frozen=True):
    """A task that was claimed, as it is now, and what became of earlier attempts at it."""

    claim: Claim
    task: Task
    failures: int = 0
    """Attempts that failed, since the task was made or retried by hand."""
    losses: int = 0
    """Attempts lost in a row: their process died, or its lease ran out."""
    last_error: str | None = None
    """Of the last attempt that failed."""


class AttemptResult(Struct, frozen=True):
    """How an attempt ended; with `retry_after`, a failed one is followed by another after that delay."""

    claim: Claim
    outcome: Outcome
    retry_after: timedelta | None = None


class Suspension(Struct, frozen=True):
    """An attempt that ends without an outcome: the task is pending until one of others has ended.

    So it holds nothing while a person is asked. When one of them has ended already it may go on at once.
    """

    claim: Claim
    at: datetime
    until: tuple[TaskId, ...]
    dependencies: tuple[Dependency, ...] = ()
    """What the task depended on before: it has no others but these and what it rests for."""
    wake_at: datetime | None = None
    """From when on it need not rest any longer; somebody must look (`overdue_rests`) and wake it."""


class ClaimRequest(Struct, frozen=True, kw_only=True):
    """How many tasks of some flows a worker can take on now."""

    flows: Sequence[TaskId]
    """The roots of the flows."""
    worker: str
    slots: int
    free: Mapping[str, int] = {}
    """Slots left for methods that have a limit of their own; methods not named have none."""
    methods: Collection[str] | None = None
    """The methods that the worker knows; None: all. Tasks of others are left alone as long as another worker
    lives that may know them. When none does, they are claimed to be failed."""


class ClaimResult(Struct, frozen=True, kw_only=True):
    """What a worker claimed, and when there may be more without anybody doing anything."""

    claimed: tuple[Claimed, ...] = ()
    next_ready_at: datetime | None = None
    """When the next delayed task of the flows may start."""
    left_to_others: frozenset[str] = frozenset()
    """The methods of tasks that could start, but that only another worker may know."""


class DueSchedule(Struct, frozen=True):
    """A schedule that is on and whose time has come, as somebody who only looks sees it."""

    task_id: TaskId
    next_run_at: datetime
    params: JsonObject | None
    has_unfinished_run: bool
    """Whether a flow that was made from the task is still to be run."""


class TaskFilter(Struct, frozen=True, kw_only=True):
    """Which tasks to list, newest first."""

    status: Status | None = None
    name: str | None = None
    """Part of the name, in any case."""
    tree: TaskId | None = None
    only_roots: bool = False
    only_scheduled: bool = False
    with_steps: bool = True
    """Whether those that the evaluation of a program made are listed too; open questions always are."""
    limit: int = 50
    offset: int = 0


class TaskPage(Struct, frozen=True):
    """Some of the tasks a filter lets through, and how many there are in all."""

    tasks: tuple[Task, ...]
    total: int


class EventFilter(Struct, frozen=True, kw_only=True):
    """Which events to read, oldest first."""

    after: int = 0
    tree: TaskId | None = None
    task: TaskId | None = None
    limit: int = 1000


class StoreDescription(Struct, frozen=True, kw_only=True):
    """What a store says of itself, for `weft doctor`."""

    kind: str
    location: str
    server_version: str
    schema_version: int
    tasks: int
    events: int
    problems: tuple[str, ...] = ()


class TaskStore(Protocol):
    """Keeps task records and their events. Every write is durable when its call returns.

    Leases, retry delays and due times are decided by the store's clock, read inside the transaction: the
    clocks of the machines that share a store may differ.
    """

    @property
    def clock(self) -> Clock:
        """Tell the store's time, as exactly as this process knows it."""
        ...

    @property
    def renews_with_lock(self) -> bool:
        """Whether renewing a lease waits for other writers, as it does where all write to one file."""
        ...

    async def operate(self, operation: Operation[T], *, owner: Owner) -> T:
        """Carry an operation out in one transaction and return its value."""
        ...

    async def start(self, task_id: TaskId, *, worker: str, now: datetime, owner: Owner) -> Claim:
        """Begin the next attempt of one pending task; raises when its state forbids it."""
        ...

    async def advance(
        self, endings: Sequence[AttemptResult | Suspension], wanted: ClaimRequest
    ) -> tuple[Sequence[bool | WeftError], ClaimResult | WeftError]:
        """End attempts and claim what may start, in one transaction.

        For each ending whether its claim still held (else nothing was written), or why its outcome cannot be
        stored. Then what was claimed, or why nothing could be: the endings are stored all the same. Raises
        when nothing was written. A worker that is not known, or whose lease has run out, claims nothing.
        """
        ...

    async def report(self, claim: Claim, *, progress: float, now: datetime) -> bool:
        """Store how far the attempt is; False when the claim no longer holds."""
        ...

    async def finish(self, claim: Claim, outcome: Outcome) -> bool:
        """End the attempt; False when the claim no longer holds and nothing was written."""
        ...

    async def give_back(self, claim: Claim, *, now: datetime) -> bool:
        """Let another worker take the task over, with nothing lost; False when the claim no longer holds."""
        ...

    async def write_steps(self, run: Run, changes: Sequence[StepChange]) -> frozenset[TaskId] | None:
        """Store steps of an evaluation, all in one transaction.

        Returns those that were not written because they had ended meanwhile: somebody cancelled them. None:
        the attempt at the task that is evaluated does not hold any more, and nothing was written.
        """
        ...

    async def steps_of(self, task_id: TaskId) -> Sequence[StoredStep]:
        """The steps that evaluations of a task have made, in the order in which they were stored."""
        ...

    async def digests_of(self, root_id: TaskId) -> Mapping[TaskId, Digests]:
        """What the steps of a flow are found by, of all runs in it."""
        ...

    async def reusable_steps(
        self, reuse_hash: str, *, user_id: str | None, besides: TaskId
    ) -> Sequence[TaskId]:
        """The completed steps of the same owner that have answered the same request; not those of one flow.

        Those of the latest flow come first, each flow's in the order in which they were asked.
        """
        ...

    async def find_step(self, task_id: TaskId) -> Task | None:
        """The record of a step, whoever owns it; None: it was deleted."""
        ...

    async def keep_params(self, run: Run, params: JsonObject, *, now: datetime) -> bool:
        """Change the params of a task that is evaluated; False when the attempt at it no longer holds."""
        ...

    async def add_templates(
        self, templates: Sequence[NewTemplate], *, user_id: str | None, now: datetime
    ) -> Sequence[AddedTemplate]:
        """Register templates of an owner, all or none; one whose text is the newest version's stays."""
        ...

    async def remove_template(
        self, name: str, *, user_id: str | None, now: datetime
    ) -> RegisteredTemplate | None:
        """Let an owner's template be found no more; its newest version, or None when there is none.

        `template_versions` gives it still: runs name versions.
        """
        ...

    async def templates(
        self, *, owner: Owner, names: Collection[str] | None = None
    ) -> Sequence[RegisteredTemplate]:
        """The newest versions of all templates, or of those of the names that there are; by name."""
        ...

    async def template_versions(self, name: str, *, owner: Owner) -> Sequence[RegisteredTemplate]:
        """All versions of a template, oldest first, also of one that was removed."""
        ...

    async def known_templates(self, names: Collection[str]) -> frozenset[str]:
        """Those of the names under which anybody ever registered a template."""
        ...

    async def run_flow(self, root_id: TaskId, *, owner: Owner) -> None:
        """Ask for a flow to be run, by this process or any other; raises TaskNotFound."""
        ...

    async def stop_flow(self, root_id: TaskId, *, owner: Owner) -> None:
        """Take that back: no more of its tasks are to be started."""
        ...

    async def end_flow(self, root_id: TaskId) -> bool:
        """Take it back if nothing of the flow can go on by itself; whether the flow is over."""
        ...

    async def running_flows(self, *, owner: Owner) -> Sequence[TaskId]:
        """The roots of the flows that are to be run, oldest first."""
        ...

    async def add_worker(
        self, worker: str, *, lease_seconds: float, methods: Collection[str] | None = None
    ) -> None:
        """Make a worker known; its claims hold until its lease runs out. Again: with other methods.

        `methods` are those that it knows; None: it may know any.
        """
        ...

    async def renew_worker(self, worker: str, *, lease_seconds: float) -> frozenset[Claim] | None:
        """Renew the worker's lease and return the claims it holds; None: it was taken for dead.

        Waits for no other writer where the store can do without, and is not repeated when it fails: the
        caller knows until when its lease lasts.
        """
        ...

    async def remove_worker(self, worker: str, *, now: datetime) -> int:
        """Forget a worker that leaves in good order and give back what it held; how many tasks that were."""
        ...

    async def workers(self) -> Sequence[str]:
        """The workers that are known."""
        ...

    async def recover(self, *, dead: Collection[str] = (), expired_at: datetime | None = None) -> int:
        """Release the tasks of workers that are dead, or whose lease had run out by a time; how many.

        Their attempts are lost: `Claimed.losses` counts them until one ends. The time is one of the store's
        clock that the caller trusts: the clock may jump at any moment, and no lease has run out by that.
        """
        ...

    async def restart_delays(self, *, lease_seconds: float | None = None) -> Sequence[TaskId]:
        """Begin the delays of retries anew that began in the future: the clock was put back since.

        With `lease_seconds`, no lease lasts longer from now on: that of a dead worker would last longer by as
        much as the clock was put back, and those who live renew theirs. Returns what waits for delays.
        """
        ...

    async def check(self) -> None:
        """Raise StoreReplaced or SchemaTooNew when the store is not the one that was opened any more."""
        ...

    def leave(self) -> None:
        """Wait no longer for a store that is away: the process is about to exit."""
        ...

    async def get(self, task_id: TaskId, *, owner: Owner) -> Task:
        """One task; raises TaskNotFound."""
        ...

    async def get_many(self, task_ids: Sequence[TaskId], *, owner: Owner) -> dict[TaskId, Task]:
        """Those of the tasks that exist."""
        ...

    async def flow_of(self, task_id: TaskId, *, owner: Owner, limit: int | None = None) -> Flow:
        """The flow a task is in, all of it or its first tasks; raises TaskNotFound."""
        ...

    async def summary(self, root_id: TaskId, *, owner: Owner) -> FlowSummary:
        """How a flow stands, without reading its tasks; raises TaskNotFound."""
        ...

    async def due_schedules(
        self, *, now: datetime, limit: int, after: DueSchedule | None = None
    ) -> Sequence[DueSchedule]:
        """The schedules that are on and due, the longest overdue first; those after one that is known."""
        ...

    async def overdue_rests(self, *, now: datetime, limit: int) -> Sequence[TaskId]:
        """Tasks that rest longer than they need to, the longest overdue first."""
        ...

    async def list(self, wanted: TaskFilter, *, owner: Owner) -> TaskPage:
        """The tasks a filter lets through."""
        ...

    async def events(self, wanted: EventFilter, *, owner: Owner) -> Sequence[Event]:
        """The events a filter lets through."""
        ...

    async def describe(self) -> StoreDescription:
        """What and where the store is, and whether it is sound."""
        ...

    async def close(self) -> None:
        """Finish the writes under way and let go of the store."""
        ...
