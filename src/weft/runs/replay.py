"""Steps recorded by earlier attempts, indexed by step key, used for replay."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import count, takewhile

from weft.evaluator.effects import Step
from weft.ids import TaskId
from weft.language.source import NOWHERE, Span
from weft.runs.errors import ReplayDiffers, StepsLeft
from weft.store.models import StoredStep
from weft.tasks.record import JsonObject, Status, Task
from weft.tasks.steps import Usage, step_fields, unrecorded_usage


class RecordedSteps:
    """The recorded steps of one task, the last record of each key, ticked off as the program reaches them."""

    def __init__(self, steps: Sequence[StoredStep]) -> None:
        self._by_key = {step.key: step for step in steps}
        """The later record counts: it replaces one that the program cancelled."""
        self._unreached = set(self._by_key)
        self._last: Step | None = None
        """The step that the program reached last, for messages about steps that it did not reach."""
        self._sorted: list[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._by_key)

    @property
    def parents(self) -> set[str | None]:
        """Return the ids of records that have children."""
        return {step.task.parent_id for step in self._by_key.values()}

    @property
    def sources(self) -> frozenset[TaskId]:
        """Return the ids of the steps of other runs that steps of this run link to."""
        found = (step.task.original_task_id for step in self._by_key.values())
        return frozenset(one for one in found if one is not None)

    def find(self, step: Step, input_hash: str, name: str) -> StoredStep | None:
        """Return the record of a step; raise ReplayDiffers if its key has another request."""
        found = self._by_key.get(step.key)
        if found is None:
            return None
        if found.input_hash != input_hash:
            raise _differs(found, name, step.place)
        self._unreached.discard(step.key)
        self._last = step
        return found

    def part(self, key: str, input_hash: str, name: str, span: Span = NOWHERE) -> StoredStep | None:
        """Return the record of a part of a step: a turn, a tool call of a session, or a question.

        Raise ReplayDiffers if another request was recorded under this key.
        """
        found = self.kept(key)
        if found is not None and found.input_hash != input_hash:
            raise _differs(found, name, span)
        return found

    def kept(self, key: str) -> StoredStep | None:
        """Return the record with that key, without comparing digests."""
        self._unreached.discard(key)
        return self._by_key.get(key)

    def given_to(self, key: str) -> JsonObject | None:
        """Return the inputs of a completed part of a step; None if it is not completed."""
        found = self._by_key.get(key)
        return None if found is None or found.task.status is not Status.COMPLETED else found.task.inputs

    def pass_over(self, key: str) -> list[StoredStep]:
        """Tick off the step with that key and all steps below it; return those that were not reached yet."""
        if not self._unreached:
            return []
        found = [one for one in (key, *self._below(key)) if one in self._unreached]
        self._unreached.difference_update(found)
        return [self._by_key[one] for one in found]

    def is_known(self, key: str) -> bool:
        """Return whether there is a record with that key or below it."""
        return key in self._by_key or next(self._below(key), None) is not None

    def has_left(self) -> bool:
        """Return whether there are recorded steps that the program has not reached yet."""
        return bool(self._unreached)

    def _below(self, key: str) -> Iterator[str]:
        if self._sorted is None:
            self._sorted = sorted(self._by_key)
        for sign in "/#?!":
            at = bisect_left(self._sorted, f"{key}{sign}")
            while at < len(self._sorted) and self._sorted[at].startswith(f"{key}{sign}"):
                yield self._sorted[at]
                at += 1

    def require_nothing_left(self) -> None:
        """Raise StepsLeft if the program ended without reaching a recorded step."""
        left = [key for key in self._unreached if self._must_be_reached(key)]
        if left:
            order = list(self._by_key)  # as they were stored
            first = min(left, key=order.index)
            raise StepsLeft(key=first, name=self._by_key[first].task.name, count=len(left), last=self._last)

    def _must_be_reached(self, key: str) -> bool:
        """Return whether the program must reach the step on replay; not if a model session spawned it."""
        task = self._by_key[key].task
        has_ended = task.status in (Status.COMPLETED, Status.FAILED) and has_outcome(task)
        if not has_ended or "#" in key or "?" in key:
            return False
        while key:
            key = key.rpartition("/")[0]
            ancestor = self._by_key.get(key)
            if ancestor is not None and step_fields(ancestor.task).kind == "atomic":
                return False
        return True

    def prior_usage(self, key: str, task: Task) -> Usage:
        """Return the usage of earlier attempts at a session that none of its recorded turns contains."""
        records = (self.kept(f"{key}#{number}") for number in count(1))
        parts = (record.task for record in takewhile(bool, records) if record is not None)
        return unrecorded_usage(task, parts)


def _differs(found: StoredStep, name: str, span: Span) -> ReplayDiffers:
    before = f"'{found.task.name}'" + (" with other inputs" if found.task.name == name else "")
    return ReplayDiffers(key=found.key, span=span, before=before, now=f"'{name}'")


def has_outcome(task: Task) -> bool:
    """Return whether replay gives the recorded result or failure; otherwise the step is performed again."""
    if is_step_cancelled(task):
        return True  # the program gets it as a failure
    fields = step_fields(task)
    has_failed = task.status is Status.FAILED and fields.failure is not None
    return (task.status is Status.COMPLETED or has_failed) and not fields.ended_run


def is_step_cancelled(task: Task) -> bool:
    """Return whether somebody has cancelled the step, as opposed to the program itself."""
    return task.status is Status.CANCELLED and not step_fields(task).called_off


def resumable(found: StoredStep | None) -> Task | None:
    """Return the record if the step can be resumed in it; a cancelled or completed step gets a new record."""
    if found is None or found.task.status in (Status.CANCELLED, Status.COMPLETED):
        return None
    return found.task
