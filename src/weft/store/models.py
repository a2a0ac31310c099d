"""The types that the methods of a store take and return."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.record import Dependency, JsonObject, Status, Task
from weft.tasks.states import Outcome


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


class Run(Struct, frozen=True):
    """The attempt at a program task that records steps; they are written only while its claim is held."""

    task_id: TaskId
    attempt: int
    task_tree_id: TaskId
    user_id: str | None


class StepChange(Struct, frozen=True):
    """New state of a step to be stored."""

    task: Task
    key: str
    input_hash: str
    reuse_hash: str | None = None
    """The digest by which other runs find the completed step; None: it is not reusable."""
    is_new: bool = True
    """Whether the store does not have the record yet."""
    is_first_child: bool = False
    """Whether this is the first stored step below its parent."""
    is_continued: bool = False
    """Whether this attempt at the run stored the step before, so that its start is already in the log."""
    is_outcome_used: bool = False
    """Whether the program already used the outcome, so that a cancellation of the step is ignored."""
    is_params_only: bool = False
    """Whether only `params` change, even if the step has ended; the step is no longer reusable."""
    has_steps: bool = False
    """Whether the step has steps below it; the open ones end when the step ends."""


class StoredStep(Struct, frozen=True):
    """A step that was read from the store."""

    task: Task
    key: str
    input_hash: str


class TemplateFacts(Struct, frozen=True, omit_defaults=True):
    """Facts about a template, stored so that its text need not be parsed for them."""

    type: str
    """atomic, sequential, reduce, script, director_evaluator_loop or composite."""
    summary: str = ""
    input_schema: JsonObject = {}
    """JSON Schema (draft-07) of its arguments."""
    names: tuple[str, ...] = ()
    """The names it uses, some of which may be other templates."""
    is_choosing: bool = False
    """Whether it may choose a template at run time, and so needs all templates."""


class NewTemplate(Struct, frozen=True):
    """A template to be registered."""

    name: str
    text: str
    """The source, in S-expressions."""
    facts: TemplateFacts


class RegisteredTemplate(Struct, frozen=True):
    """One version of a template of one owner."""

    name: str
    version: int
    """Counts from 1 and only grows, even if the template was removed meanwhile."""
    user_id: str | None
    text: str
    facts: TemplateFacts
    created_at: datetime
    removed_at: datetime | None = None
    """When the template was removed; set only in the version that was then the newest."""


class AddedTemplate(Struct, frozen=True):
    """A registered template, and whether registering it made a new version."""

    template: RegisteredTemplate
    is_new: bool
