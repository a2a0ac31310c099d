"""Forks: steps that a run takes over from the original run, which it was forked from."""

from collections.abc import Sequence
from typing import Self

from weft.ids import TaskId, is_task_id
from weft.store.models import StoredStep
from weft.store.protocol import TaskStore
from weft.tasks.operations.fork import FORK
from weft.tasks.record import Origin, Status, Task
from weft.tasks.steps import program_position_of_key, step_fields


def may_reuse(task: Task) -> bool:
    """Return whether a run may reuse results of other runs.

    A copy and a firing of a schedule must do their work again, unless `params.reuse` is true. A fork is a
    copy too, but continues a run.
    """
    params = task.params or {}
    reuse, fork = params.get("reuse"), params.get(FORK)
    if isinstance(reuse, bool):
        return reuse
    is_fork = isinstance(fork, dict) and fork.get("of") == task.original_task_id
    return task.origin_type is not Origin.COPY or is_fork


class Fork:
    """The steps of the original run; those before the fork point are taken over."""

    def __init__(self, steps: Sequence[StoredStep], from_key: str, *, is_reusing: bool = True) -> None:
        position = program_position_of_key(from_key)
        self._before = {step.key: step for step in steps if program_position_of_key(step.key) < position}
        self._original_ids = frozenset(step.task.id for step in steps)
        self.is_reusing = is_reusing

    @classmethod
    async def open(cls, store: TaskStore, task: Task) -> Self | None:
        """Return the fork that the task's `params` describe; None if the task is not a fork."""
        fork = (task.params or {}).get(FORK)
        if not isinstance(fork, dict) or not is_task_id(fork.get("of")):
            return None
        # A submitted record can name any run: only steps of the same owner are used.
        found = await store.steps_of(TaskId(fork["of"]))
        steps = [step for step in found if step.task.user_id == task.user_id]
        return cls(steps, str(fork.get("from")), is_reusing=fork.get("reuse") is not False)

    def find(self, key: str, input_hash: str) -> Task | None:
        """Return the step of the original run with this key and request, if it can be taken over."""
        step = self._before.get(key)
        if step is None or step.input_hash != input_hash:
            return None
        fields = step_fields(step.task)
        has_failed = step.task.status is Status.FAILED and fields.failure and not fields.ended_run
        return step.task if step.task.status is Status.COMPLETED or has_failed else None

    def is_of_old_run(self, task_id: TaskId) -> bool:
        return task_id in self._original_ids
