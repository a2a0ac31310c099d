"""The writes that a store's committer understands."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from msgspec import Struct

from weft.ids import TaskId
from weft.store.models import AddTemplates, KeepParams, RemoveTemplate, WriteSteps
from weft.store.protocol import AttemptResult, Claim, ClaimRequest, Owner, Suspension
from weft.tasks.decisions import Operation


class Start(Struct, frozen=True):
    """Begin an attempt."""

    task_id: TaskId
    worker: str
    now: datetime
    owner: Owner


class Report(Struct, frozen=True):
    """Store an attempt's progress."""

    claim: Claim
    progress: float
    now: datetime


class GiveBack(Struct, frozen=True):
    """Let another worker take an attempt over."""

    claim: Claim
    now: datetime


class RunFlow(Struct, frozen=True):
    """Ask for a flow to be run, or take that back."""

    root_id: TaskId
    is_running: bool
    owner: Owner


class EndFlow(Struct, frozen=True):
    """Take it back if nothing of the flow can go on by itself."""

    root_id: TaskId


class AddWorker(Struct, frozen=True):
    """Make a worker known."""

    worker: str
    lease_seconds: float
    methods: tuple[str, ...] | None = None


class RenewWorker(Struct, frozen=True):
    """Renew a worker's lease."""

    worker: str
    lease_seconds: float


class RemoveWorker(Struct, frozen=True):
    """Forget a worker that leaves."""

    worker: str
    now: datetime


class Recover(Struct, frozen=True):
    """Release what dead workers held."""

    dead: Collection[str]
    expired_at: datetime | None = None


class RestartDelays(Struct, frozen=True):
    """Begin delays anew that began in the future, and shorten leases that end later than new ones would."""

    lease_seconds: float | None


class Operate(Struct, frozen=True):
    """Carry an operation out."""

    operation: Operation[Any]
    owner: Owner


Request = (
    Start
    | WriteSteps
    | Report
    | AttemptResult
    | Suspension
    | GiveBack
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
    | KeepParams
)
