"""Limits that earlier attempts of a run reached, stored as records among its steps."""

from collections.abc import Awaitable, Iterable

import msgspec

from weft.evaluator.replay_log import History, LimitReached, SkippedCall
from weft.evaluator.results import TaskError
from weft.runs.journal import Journal
from weft.runs.step_records import KINDS
from weft.tasks.record import Status
from weft.tasks.steps import step_fields, usage_of

LIMIT = "limit"
"""Kind of the record of a reached limit."""


class RunHistory(History):
    """Gives the evaluator the limits in the journal of earlier attempts, and stores newly reached ones."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def reached(self, key: str) -> LimitReached | None:
        found = self._journal.past.kept(key) if self._journal.past else None
        if found is None or found.task.status is not Status.FAILED:
            return None
        fields = step_fields(found.task)
        failure = fields.failure
        # A limit that ended the run does not count: the resumed run may have another.
        if fields.ended_run or failure is None or fields.steps is None or fields.limits is None:
            return None
        try:
            error: TaskError = msgspec.convert(failure.error, TaskError)
        except msgspec.ValidationError:
            return None
        return LimitReached(error, str(failure.code), fields.steps, fields.limits, fields.used)

    def is_behind(self) -> bool:
        return self._journal.past.has_left()

    def is_known(self, key: str) -> bool:
        return self._journal.past.is_known(key)

    def keep(self, key: str, reached: LimitReached) -> Awaitable[None]:
        failure = {"code": reached.code, "error": msgspec.to_builtins(reached.error)}
        facts = {"failure": failure, "steps": reached.steps, "limits": reached.limits, "used": reached.used}
        return self._journal.keep(key, LIMIT, reached.error.message, facts)

    def pass_over(self, key: str) -> Iterable[SkippedCall]:
        """Return the calls that ended by themselves, and were not cancelled."""
        tasks = [step.task for step in self._journal.past.pass_over(key)]
        return [
            SkippedCall(task.name, None if usage is None else {"tokens": usage.tokens, "cost": usage.cost})
            for task, usage in ((task, usage_of(task)) for task in tasks)
            if step_fields(task).kind in KINDS.values() and task.status in (Status.COMPLETED, Status.FAILED)
        ]

    def reject(self, key: str) -> None:
        self._journal.reject(key)
