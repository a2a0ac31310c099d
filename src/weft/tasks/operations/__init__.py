"""Operations on stored tasks: pure decisions that a store writes."""

from weft.tasks.operations.answer import (
    Answered,
    AnswerQuestion,
    AnswerTooLong,
    NoOpenQuestion,
    ResumeSuspended,
)
from weft.tasks.operations.copy import ArchiveTasks, CopyTasks, LinkTasks, OutsideDependencies
from weft.tasks.operations.fire import FireSchedule, Firing, ReplanSchedule
from weft.tasks.operations.fork import ForkRun
from weft.tasks.operations.lifecycle import CancelTasks, DeleteTasks, RetryTasks
from weft.tasks.operations.submit import SubmitFlow
from weft.tasks.operations.update import ChangeRun, UpdateTask

__all__ = [
    "AnswerQuestion",
    "AnswerTooLong",
    "Answered",
    "ArchiveTasks",
    "CancelTasks",
    "ChangeRun",
    "CopyTasks",
    "DeleteTasks",
    "FireSchedule",
    "Firing",
    "ForkRun",
    "LinkTasks",
    "NoOpenQuestion",
    "OutsideDependencies",
    "ReplanSchedule",
    "ResumeSuspended",
    "RetryTasks",
    "SubmitFlow",
    "UpdateTask",
]
