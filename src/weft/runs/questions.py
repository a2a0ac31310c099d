"""Questions to people in a run, and time limits that keep running while nobody answers.

A limit counts the time in which a question was open: from when it was asked until it was answered, or until
now. The question's record holds these times. Time in which the run neither waited for people nor was
evaluated is not counted.
"""

import asyncio
import logging
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from weft.errors import WeftError
from weft.evaluator.errors import TaskFailed
from weft.evaluator.joins import enclosing_scope
from weft.evaluator.results import TaskFailure
from weft.evaluator.tools import ANSWERED_ELSEWHERE, AskAtTerminal
from weft.executors.protocol import Suspend
from weft.ids import TaskId
from weft.runs.journal import Journal, OpenStep
from weft.runs.replay import resumable
from weft.runs.reuse import digest
from weft.runs.step_records import question_name
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.questions import ANSWER, QUESTION, answer_of, due_at
from weft.tasks.record import Status, Task
from weft.tasks.steps import step_fields
from weft.telemetry.spans import SUSPENDED

MOST_SECONDS = 10**9
"""A deadline further away counts as no deadline: it may not fit into a date."""


def due_time(now: datetime) -> str | None:
    """Return the deadline for answering, from the enclosing time limits, in ISO format; None if unlimited."""
    scope = enclosing_scope()
    due = None if scope is None else scope.due()
    if due is None:
        return None
    seconds = due - asyncio.get_running_loop().time()
    return None if seconds > MOST_SECONDS else (now + timedelta(seconds=max(0.0, seconds))).isoformat()


def count_time_of(task: Task, *, now: datetime | None = None) -> None:
    """Count the waiting time of a recorded question towards enclosing limits; pass `now` if it is open."""
    scope = enclosing_scope()
    ended = task.completed_at if now is None else now
    if scope is None or not scope.has_waits or task.created_at is None or ended is None:
        return
    until = None if now is None else due_at(task)
    left = None if until is None or now is None else (until - now).total_seconds()
    due = None if left is None else asyncio.get_running_loop().time() + left
    scope.count_wait(task.created_at.timestamp(), ended.timestamp(), due)


log = logging.getLogger(__name__)

QUIET_SECONDS = 0.1
"""How long no step starts or ends before a run that waits only for people is suspended."""

LOOK_SECONDS = 0.5
"""Interval between checks of the store for answers from other processes."""


class Questions:
    """The questions of one evaluation; suspends the run when all open steps wait for people."""

    def __init__(self, journal: Journal, store: TaskStore) -> None:
        self._journal = journal
        self._store = store
        self._question_counts: Counter[str] = Counter()
        """Number of questions asked by each step."""
        self._waiting: dict[TaskId, tuple[OpenStep, asyncio.Future[Task]]] = {}
        self._asked_here = 0
        """Number of questions open at this terminal; the run is not suspended while there are any."""
        self._evaluation = asyncio.current_task()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._poller: asyncio.Task[None] | None = None
        self._suspending: asyncio.Task[None] | None = None
        self._suspension: Suspend | Exception | None = None

    async def ask(self, question: str, step_key: str, here: AskAtTerminal | None) -> str:
        """Return a person's answer; raise TaskFailed if somebody has cancelled the question.

        `here` asks at the terminal of this process; None: only another process can store the answer.
        """
        self._question_counts[step_key] += 1
        key = f"{step_key}?{self._question_counts[step_key]}"
        input_hash, name = digest(question), question_name(question)
        found = self._journal.past.part(key, input_hash, name) if self._journal.past else None
        if found is not None and _has_ended(found.task):
            count_time_of(found.task)
            return _answer_or_fail(found.task)
        before = resumable(found)
        due = due_time(self._journal.now()) if before is None else None
        opened = self._journal.begin_part(
            key,
            input_hash,
            name,
            QUESTION,
            inputs={QUESTION: question},
            facts={"due_at": due} if due is not None else {},
            before=before,
        )
        if before is not None:
            count_time_of(before, now=self._journal.now())
        try:
            await self._journal.show()
            return await self._wait_for_answer(opened, question, here)
        except asyncio.CancelledError:
            self._journal.cancel_attempt(opened)
            raise

    async def _wait_for_answer(self, opened: OpenStep, question: str, here: AskAtTerminal | None) -> str:
        elsewhere: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        self._waiting[opened.task.id] = opened, elsewhere
        self._watch()
        try:
            if here is None:
                self._restart_idle_timer()
                return self._close_answered(opened, await elsewhere)
            return await self._ask_here_too(opened, question, here, elsewhere)
        finally:
            del self._waiting[opened.task.id]

    async def _ask_here_too(
        self, opened: OpenStep, question: str, here: AskAtTerminal, elsewhere: asyncio.Future[Task]
    ) -> str:
        """Ask at this terminal too, and return the first answer, from here or from another process."""
        asking: asyncio.Future[Any] = asyncio.ensure_future(here(question))
        both: list[asyncio.Future[Any]] = [asking, elsewhere]
        self._asked_here += 1
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not elsewhere.done() and await self._journal.answer(opened, {ANSWER: asking.result()}):
                return answer_of(await self._store.get(opened.task.id, owner=EVERYONE))
            if not elsewhere.done():
                elsewhere.set_result(await self._store.get(opened.task.id, owner=EVERYONE))
        finally:
            self._asked_here -= 1
            asking.cancel(ANSWERED_ELSEWHERE if elsewhere.done() else None)
            await asyncio.wait([asking])
        return self._close_answered(opened, elsewhere.result())

    def _close_answered(self, opened: OpenStep, task: Task) -> str:
        """Return the answer that another process has stored."""
        self._journal.ended_elsewhere(opened)
        return _answer_or_fail(task)

    def close(self) -> None:
        """Stop polling, and cancel a pending suspension."""
        self._journal.on_change = None
        for one in (self._idle_timer, self._poller, self._suspending):
            if one is not None:
                one.cancel()

    def raise_suspension(self) -> None:
        """Raise the suspension or error that cancelled the evaluation, if nothing else cancelled it too."""
        if self._suspension is None or self._evaluation is None:
            return
        if self._evaluation.uncancel() == 0:
            raise self._suspension

    def _watch(self) -> None:
        self._journal.on_change = self._restart_idle_timer
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        """Poll the store until no question of this evaluation waits."""
        while self._waiting:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._check_once()
            except WeftError as error:
                log.warning("cannot check for answers: %s", error, extra={"action": "questions_failed"})
            except Exception:  # a bug must not end the loop: no answer would arrive any more
                log.exception("cannot check for answers", extra={"action": "questions_failed"})

    async def _check_once(self) -> None:
        found = await self._store.get_many(list(self._waiting), owner=EVERYONE)
        for task_id, task in found.items():
            if task_id in self._waiting and _has_ended(task):
                answered = self._waiting[task_id][1]
                if not answered.done():
                    answered.set_result(task)

    def _restart_idle_timer(self) -> None:
        """Check again, a moment after the last change, whether the run can be suspended."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._waiting and not self._asked_here:
            self._idle_timer = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._suspend_if_idle)

    def _suspend_if_idle(self) -> None:
        if self._is_idle() and self._suspending is None:
            self._suspending = asyncio.create_task(self._suspend())

    def _is_idle(self) -> bool:
        """Return whether every open step is a question or waits for one."""
        if not self._waiting or self._asked_here:
            return False
        waiting: set[str] = set()
        for opened, _ in self._waiting.values():
            for step in (opened, *opened.ancestors()):
                waiting |= {step.key, _spawner_of(step.key)}
        return all(step.is_composite or step.key in waiting for step in self._journal.open_steps())

    async def _suspend(self) -> None:
        try:
            await self._journal.show()
        except Exception as error:  # `raise_suspension` raises it: nothing else writes while all steps wait
            self._suspension = error
        if self._suspension is None:
            if not self._is_idle():
                self._suspending = None
                return
            asked = [opened.task for opened, _ in self._waiting.values()]
            wake_at = min((due for task in asked if (due := due_at(task)) is not None), default=None)
            self._suspension = Suspend([task.id for task in asked], self._journal.suspend(), wake_at=wake_at)
        if self._evaluation is not None:
            self._evaluation.cancel(SUSPENDED)


def _spawner_of(key: str) -> str:
    """Return the key of the tool call that waits for a subtask: `3/1#2` for `3/1/s2`; else `key` itself."""
    session, mark, number = key.rpartition("/s")
    return f"{session}#{number}" if mark else key


def _has_ended(task: Task) -> bool:
    """Return whether somebody answered or cancelled the question; False if the program cancelled it."""
    if task.status is Status.CANCELLED:
        return not step_fields(task).called_off
    return task.status is Status.COMPLETED


def _answer_or_fail(task: Task) -> str:
    if task.status is Status.COMPLETED:
        return answer_of(task)
    raise TaskFailed(TaskFailure("execution_halted", f"the question was not answered: {task.error}"))
