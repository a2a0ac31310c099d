"""Answer a question that a program or a model asked a person, and resume the tasks that wait for it."""

from datetime import datetime

from msgspec import Struct, structs

from weft.errors import RequestError
from weft.ids import TaskId
from weft.limits import MAX_ANSWER_CHARACTERS, clean_text
from weft.tasks.decisions import Decision, FlowOperation, Snapshot, WriteSet
from weft.tasks.operations.lifecycle import moved
from weft.tasks.parsing.problems import shown
from weft.tasks.questions import (
    ANSWER,
    answer_of,
    due_at,
    is_open_question,
    is_overdue,
    is_question,
    open_questions,
    resumed_tasks,
)
from weft.tasks.record import Status, Task
from weft.tasks.states import Completed


class NoOpenQuestion(RequestError):
    """The task is not a question, or it no longer waits for an answer."""

    code = "no-open-question"

    def __init__(self, *, task: Task) -> None:
        name = f"{shown(task.name)} ({task.id})"
        if not is_question(task):
            reason = f"{name} is not a question to a person"
        elif task.status is Status.COMPLETED:
            reason = f"{name} was already answered with another text"
        elif is_open_question(task):
            reason = f"{name} can no longer be answered: its time limit was reached at {due_at(task)}"
        else:
            reason = f"{name} is {task.status} and no longer waits for an answer"
        super().__init__(reason)
        self.task_id = task.id


class AnswerTooLong(RequestError):
    """The answer is longer than a record can hold."""

    code = "answer-too-long"

    def __init__(self, *, characters: int) -> None:
        super().__init__(f"an answer has at most {MAX_ANSWER_CHARACTERS:,} characters, not {characters:,}")


class Answered(Struct, frozen=True):
    """An answered question."""

    question: Task
    is_repeated: bool = False
    """Whether the same answer was already stored, so that nothing was changed."""


class AnswerQuestion(FlowOperation, frozen=True, kw_only=True):
    """Stores the answer to the question `task_id`, and marks its flow to be run.

    Repeating the same answer changes nothing, so a client that lost the reply can send it again.
    """

    answer: str
    now: datetime

    def decide(self, found: Snapshot) -> Decision[Answered]:
        flow = found.flow_of(self.task_id)
        task = flow[self.task_id]
        text = clean_text(self.answer)
        is_answered = is_question(task) and task.status is Status.COMPLETED and not task.is_frozen
        if is_answered and answer_of(task) == text:
            return Decision(WriteSet(), Answered(task, is_repeated=True))
        if not is_open_question(task) or task.is_frozen or is_overdue(task, self.now):
            raise NoOpenQuestion(task=task)
        if len(self.answer) > MAX_ANSWER_CHARACTERS:
            raise AnswerTooLong(characters=len(self.answer))
        changes = moved([task], Completed(self.now, {ANSWER: text})).changes
        answered = changes.updated[0]
        changes = structs.replace(
            changes, updated=(answered, *resumed_tasks(flow, {task.id})), run=(flow.root.id,)
        )
        return Decision(changes, Answered(answered))


class ResumeSuspended(FlowOperation, frozen=True):
    """Resumes tasks of a flow that wait for a person, without an answer; the value is their ids.

    Used when somebody is available to answer now. With `overdue_at`, only tasks with a question that is
    overdue at that time are resumed.
    """

    overdue_at: datetime | None = None

    def decide(self, found: Snapshot) -> Decision[tuple[TaskId, ...]]:
        flow = found.flow_of(self.task_id)
        now = self.overdue_at
        until = {task.id for task in open_questions(flow) if now is None or is_overdue(task, now)}
        tasks = resumed_tasks(flow, until)
        run = (flow.root.id,) if tasks else ()
        return Decision(WriteSet(updated=tasks, run=run), tuple(task.id for task in tasks))
