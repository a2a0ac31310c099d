"""Write requests that the group commit of a store applies."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from msgspec import Struct

from weft.ids import TaskId
from weft.store.models import AddTemplates, RemoveTemplate, UpdateParams, WriteSteps
from weft.store.protocol import AttemptResult, Claim, ClaimRequest, Owner, Suspension
from weft.tasks.decisions import Operation


class Start(Struct, frozen=True):
    """Start an attempt."""

    task_id: TaskId
    worker: str
    now: datetime
    owner: Owner


class Report(Struct, frozen=True):
    """Store the progress of an attempt."""

    claim: Claim
    progress: float
    now: datetime


class Release(Struct, frozen=True):
    """Release a claimed task."""

    claim: Claim
    now: datetime


class RunFlow(Struct, frozen=True):
    """Mark a flow to be run or, if `is_running` is false, undo that."""

    root_id: TaskId
    is_running: bool
    owner: Owner


class EndFlow(Struct, frozen=True):
    """Mark a flow as over if none of its tasks is ready, delayed or in progress."""

    root_id: TaskId


class AddWorker(Struct, frozen=True):
    """Register a worker."""

    worker: str
    lease_seconds: float
    methods: tuple[str, ...] | None = None


class RenewWorker(Struct, frozen=True):
    """Renew a worker's lease."""

    worker: str
    lease_seconds: float


class RemoveWorker(Struct, frozen=True):
    """Remove a worker that shuts down."""

    worker: str
    now: datetime


class Recover(Struct, frozen=True):
    """Release the tasks of dead workers."""

    dead: Collection[str]
    expired_at: datetime | None = None


class RestartDelays(Struct, frozen=True):
    """Restart delays that began in the future, and shorten leases that last longer than new ones."""

    lease_seconds: float | None


class Operate(Struct, frozen=True):
    """Perform an operation."""

    operation: Operation[Any]
    owner: Owner


Request = (
    Start
    | WriteSteps
    | Report
    | AttemptResult
    | Suspension
    | Release
    | ClaimRequest
    | RunFlow
    | EndFlow
    | AddWorker
    | RenewWorker
    | RemoveWorker
    | Recover
    | RestartDelays
    | Operate
    | AddTemplates
    | RemoveTemplate
    | UpdateParams
)
