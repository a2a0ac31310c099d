"""Steps: the records that the evaluation of a task makes, and finds again when it is evaluated anew."""

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.record import Task


class Run(Struct, frozen=True):
    """The attempt at a task that is evaluated: only as long as it holds may steps be written."""

    task_id: TaskId
    attempt: int
    task_tree_id: TaskId
    user_id: str | None


class StepChange(Struct, frozen=True):
    """A step as it is to be stored from now on."""

    task: Task
    key: str
    input_hash: str
    reuse_hash: str | None = None
    """What other runs find it by once it is completed; None: it is not for them."""
    is_new: bool = True
    """Whether the store does not have the record yet."""
    is_first_child: bool = False
    """Whether nothing below its parent was stored before."""
    is_continued: bool = False
    """Whether this attempt at the run has stored the step before: the log says already that it began."""
    is_late_to_cancel: bool = False
    """Whether the program has gone on with the outcome: who cancelled the step came too late."""
    is_mark: bool = False
    """Whether only `params` change, of a step that has ended however; no other run finds it any more."""
    has_steps: bool = False
    """Whether steps were stored below it: those that are open when it ends, end with it."""


class StoredStep(Struct, frozen=True):
    """A step as it was found."""

    task: Task
    key: str
    input_hash: str


class WriteSteps(Struct, frozen=True):
    """Store steps of a run, all or none."""

    run: Run
    changes: tuple[StepChange, ...]
