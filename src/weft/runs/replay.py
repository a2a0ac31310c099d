"""Steps recorded by earlier attempts, indexed by step key, used for replay."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import count

from weft.evaluator.effects import Step
from weft.ids import TaskId
from weft.language.source import NOWHERE, Span
from weft.runs.errors import ReplayDiffers, StepsLeft
from weft.store.models import StoredStep
from weft.tasks.record import JsonObject, Status, Task
from weft.tasks.steps import step_fields, unkept_usage


class ReplayAction(Enum):
    """What becomes of a step that is asked for again."""

    GIVEN = "given"
    """Its outcome is known: the result, or the failure."""
    PERFORMED = "performed"
    """It has no outcome that counts."""


class RecordedSteps:
    """The steps of one task, the last record of each key. What is asked for is ticked off."""

    def __init__(self, steps: Sequence[StoredStep]) -> None:
        self._by_key = {step.key: step for step in steps}
        """The later record counts: it came in the place of one that was called off."""
        self._left = set(self._by_key)
        self._last: Step | None = None
        """The one that was asked for last: where a program is that leaves others out."""
        self._sorted: list[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._by_key)

    @property
    def parents(self) -> set[str | None]:
        """The ids of records that have steps below them."""
        return {step.task.parent_id for step in self._by_key.values()}

    @property
    def sources(self) -> frozenset[TaskId]:
        """The steps of other runs that those of this one are links of."""
        found = (step.task.original_task_id for step in self._by_key.values())
        return frozenset(one for one in found if one is not None)

    def find(self, step: Step, input_hash: str, name: str) -> StoredStep | None:
        """The record of a step; raises ReplayDiffers when something else was asked for there."""
        found = self._by_key.get(step.key)
        if found is None:
            return None
        if found.input_hash != input_hash:
            raise _differs(found, name, step.place)
        self._left.discard(step.key)
        self._last = step
        return found

    def part(self, key: str, input_hash: str, name: str, span: Span = NOWHERE) -> StoredStep | None:
        """The record of a part of a step: a turn of a session, what a tool gave there, a question.

        Raises ReplayDiffers when it was another one.
        """
        found = self.kept(key)
        if found is not None and found.input_hash != input_hash:
            raise _differs(found, name, span)
        return found

    def kept(self, key: str) -> StoredStep | None:
        """The record of something that is found by its key alone."""
        self._left.discard(key)
        return self._by_key.get(key)

    def given_to(self, key: str) -> JsonObject | None:
        """The inputs of a part of a step whose result is known; None: it is not."""
        found = self._by_key.get(key)
        return None if found is None or found.task.status is not Status.COMPLETED else found.task.inputs

    def pass_over(self, key: str) -> list[StoredStep]:
        """Ask no more for what has that key or is below it, and what that is: what is around ends without."""
        if not self._left:
            return []
        found = [one for one in (key, *self._below(key)) if one in self._left]
        self._left.difference_update(found)
        return [self._by_key[one] for one in found]

    def is_known(self, key: str) -> bool:
        """Whether there is a record of that key, or below it."""
        return key in self._by_key or next(self._below(key), None) is not None

    def has_left(self) -> bool:
        """Whether there are steps that were not asked for yet."""
        return bool(self._left)

    def _below(self, key: str) -> Iterator[str]:
        if self._sorted is None:
            self._sorted = sorted(self._by_key)
        for sign in "/#?!":
            at = bisect_left(self._sorted, f"{key}{sign}")
            while at < len(self._sorted) and self._sorted[at].startswith(f"{key}{sign}"):
                yield self._sorted[at]
                at += 1

    def require_nothing_left(self) -> None:
        """Raise StepsLeft when steps were performed before that the program did not ask for this time."""
        left = [key for key in self._left if self._counts(key)]
        if left:
            order = list(self._by_key)  # as they were stored
            first = min(left, key=order.index)
            raise StepsLeft(key=first, name=self._by_key[first].task.name, count=len(left), last=self._last)

    def _counts(self, key: str) -> bool:
        """Whether a step that is not asked for is missed: not one that a session spawned, which is over."""
        task = self._by_key[key].task
        has_outcome = (
            task.status in (Status.COMPLETED, Status.FAILED) and self.fate(task) is ReplayAction.GIVEN
        )
        if not has_outcome or "#" in key or "?" in key:
            return False
        while key:
            key = key.rpartition("/")[0]
            around = self._by_key.get(key)
            if around is not None and step_fields(around.task).get("kind") == "atomic":
                return False
        return True

    def fate(self, task: Task) -> ReplayAction:
        """What becomes of a step whose record this is."""
        mark = step_fields(task)
        if is_halted(task):
            return ReplayAction.GIVEN  # it failed for the program
        has_outcome = task.status is Status.COMPLETED or (task.status is Status.FAILED and "failure" in mark)
        return ReplayAction.GIVEN if has_outcome and not mark.get("ended_run") else ReplayAction.PERFORMED


def _differs(found: StoredStep, name: str, span: Span) -> ReplayDiffers:
    before = f"'{found.task.name}'" + (" with other inputs" if found.task.name == name else "")
    return ReplayDiffers(key=found.key, span=span, before=before, now=f"'{name}'")


def is_halted(task: Task) -> bool:
    """Whether somebody has cancelled a step; not: the program called it off."""
    return task.status is Status.CANCELLED and not step_fields(task).get("called_off")


def resumable(found: StoredStep | None) -> Task | None:
    """The record that may go on; one that is cancelled or completed stays so, and another takes its place."""
    is_over = found is None or found.task.status in (Status.CANCELLED, Status.COMPLETED)
    return None if found is None or is_over else found.task


def prior_usage(past: RecordedSteps, key: str, task: Task) -> JsonObject:
    """The entry for the mark of a step that is performed again; empty: nothing would be forgotten."""
    return unkept_usage(task, _parts(past, key)).as_mark()


def _parts(past: RecordedSteps, key: str) -> Iterator[Task]:
    """The turns of a session, and what tools gave there, that an earlier try has left."""
    numbers = count(1)
    while found := past.kept(f"{key}#{next(numbers)}"):
        yield found.task
