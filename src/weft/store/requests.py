"""The writes that a store's committer understands."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from weft.ids import TaskId
from weft.store.protocol import Claim, Owner
from weft.tasks.changes import Operation
from weft.tasks.states import Outcome


class Start(Struct, frozen=True):
    """Begin an attempt."""

    task_id: TaskId
    worker: str
    now: datetime
    lease_until: datetime
    owner: Owner


class Report(Struct, frozen=True):
    """Store an attempt's progress."""

    claim: Claim
    progress: float
    now: datetime


class Finish(Struct, frozen=True):
    """End an attempt."""

    claim: Claim
    outcome: Outcome


class Operate(Struct, frozen=True):
    """Carry an operation out."""

    operation: Operation[Any]
    owner: Owner


Request = Start | Report | Finish | Operate
