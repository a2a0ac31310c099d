"""The history of a run: limits that earlier evaluations have come to, as records among its steps."""

from collections.abc import Awaitable

import msgspec

from weft.evaluator.history import Reached
from weft.evaluator.results import TaskError
from weft.runs.journal import Journal
from weft.tasks.record import Status
from weft.tasks.steps import mark_of

LIMIT = "limit"
"""The kind of such a record."""


class RunHistory:
    """What the journal knows of earlier evaluations, for the evaluator."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def reached(self, key: str) -> Reached | None:
        """The limit that an earlier evaluation has come to there."""
        found = self._journal.past.kept(key) if self._journal.past else None
        if found is None or found.task.status is not Status.FAILED:
            return None
        mark = mark_of(found.task)
        if mark.get("ended_run"):
            return None  # the run is tried again
        try:
            failure = mark["failure"]
            error: TaskError = msgspec.convert(failure["error"], TaskError)
            return Reached(error, str(failure["code"]), int(mark["steps"]))
        except (msgspec.ValidationError, TypeError, KeyError, ValueError):
            return None

    def keep(self, key: str, reached: Reached) -> Awaitable[None]:
        """Store that a limit was reached."""
        failure = {"code": reached.code, "error": msgspec.to_builtins(reached.error)}
        facts = {"failure": failure, "steps": reached.steps}
        return self._journal.keep(key, LIMIT, reached.error.message, facts)

    def pass_over(self, key: str) -> None:
        """What was asked for there need not be asked for again."""
        self._journal.past.pass_over(key)

    def reject(self, key: str) -> None:
        """Keep the answer of a step from other runs."""
        self._journal.reject(key)
