"""The history of a run: limits that earlier evaluations have come to, as records among its steps."""

from collections.abc import Awaitable, Iterable

import msgspec

from weft.evaluator.replay_log import LimitReached, SkippedCall
from weft.evaluator.results import TaskError
from weft.runs.journal import Journal
from weft.runs.step_records import KINDS
from weft.tasks.record import JsonObject, Status, Task
from weft.tasks.steps import step_fields, usage_of

LIMIT = "limit"
"""The kind of such a record."""


def _was_made(task: Task) -> bool:
    """Whether the call was made, and ended by itself."""
    return task.status in (Status.COMPLETED, Status.FAILED)


class RunHistory:
    """What the journal knows of earlier evaluations, for the evaluator."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def reached(self, key: str) -> LimitReached | None:
        """The limit that an earlier evaluation has come to there."""
        found = self._journal.past.kept(key) if self._journal.past else None
        if found is None or found.task.status is not Status.FAILED:
            return None
        mark = step_fields(found.task)
        if mark.get("ended_run"):
            return None  # the run is tried again
        try:
            failure = mark["failure"]
            error: TaskError = msgspec.convert(failure["error"], TaskError)
            steps, limits = int(mark["steps"]), int(mark["limits"])
            return LimitReached(error, str(failure["code"]), steps, limits, mark.get("used"))
        except (msgspec.ValidationError, TypeError, KeyError, ValueError):
            return None

    def is_behind(self) -> bool:
        """Whether steps are stored that were not asked for yet."""
        return self._journal.past.has_left()

    def is_known(self, key: str) -> bool:
        """Whether steps are stored at that key, or below it."""
        return self._journal.past.is_known(key)

    def keep(self, key: str, reached: LimitReached) -> Awaitable[None]:
        """Store that a limit was reached."""
        failure = {"code": reached.code, "error": msgspec.to_builtins(reached.error)}
        facts = {"failure": failure, "steps": reached.steps, "limits": reached.limits, "used": reached.used}
        return self._journal.keep(key, LIMIT, reached.error.message, facts)

    def pass_over(self, key: str) -> Iterable[SkippedCall]:
        """What was asked for there need not be asked for again."""
        return [
            SkippedCall(step.task.name, _told_usage(step.task))
            for step in self._journal.past.pass_over(key)
            if step_fields(step.task).get("kind") in KINDS.values() and _was_made(step.task)
        ]

    def reject(self, key: str) -> None:
        """Keep the answer of a step from other runs."""
        self._journal.reject(key)


def _told_usage(task: Task) -> JsonObject | None:
    found = usage_of(task)
    return None if found is None else {"tokens": found.tokens, "cost": found.cost}
