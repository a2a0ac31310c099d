"""The operations on stored tasks. Each is pure: it decides, a store writes."""

from weft.tasks.operations.answer import Answered, AnswerQuestion, AnswerTooLong, NoOpenQuestion, WakeTasks
from weft.tasks.operations.archive import ArchiveTasks
from weft.tasks.operations.cancel import CancelTasks
from weft.tasks.operations.change_run import ChangeRun
from weft.tasks.operations.copy import CopyTasks, OutsideDependencies
from weft.tasks.operations.delete import DeleteTasks
from weft.tasks.operations.fire import FireSchedule, Firing, ReplanSchedule
from weft.tasks.operations.fork import ForkRun
from weft.tasks.operations.link import LinkTasks
from weft.tasks.operations.move import MoveTask
from weft.tasks.operations.retry import RetryTasks
from weft.tasks.operations.submit import SubmitFlow
from weft.tasks.operations.update import UpdateTask

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
    "MoveTask",
    "NoOpenQuestion",
    "OutsideDependencies",
    "ReplanSchedule",
    "RetryTasks",
    "SubmitFlow",
    "UpdateTask",
    "WakeTasks",
]
