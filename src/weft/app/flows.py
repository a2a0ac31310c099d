"""Run flows: the use case of `weft flow run`."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from weft.app.app import App, TaskFilter
from weft.app.programs import RunObserver
from weft.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNAVAILABLE, EXIT_WAITING
from weft.ids import TaskId
from weft.runs.template_tasks import is_run
from weft.tasks.questions import open_questions
from weft.tasks.record import Status, Task
from weft.tasks.summary import FlowSummary

MAX_FAILED = 50
"""Of how many failed tasks the reasons are read; a flow with more is taken to have failed for good."""


class FlowOutcome(Struct, frozen=True):
    """How a flow ended, or why it waits."""

    summary: FlowSummary
    questions: Sequence[Task]
    """Open questions, if nothing else of the flow is in progress."""
    exit_code: int


async def run_flow(app: App, flow: Any, observer: RunObserver) -> FlowOutcome:
    """Run a flow until no task of it can start or it is stopped.

    `flow` is a JSON document, which is stored first, or the id of a task of a stored flow, which is resumed.
    """
    after, was = 0, "new"
    with observer.storing():
        if isinstance(flow, str):
            root = await app.root_of(TaskId(flow))
            after, was = await app.last_event(root.id), "resumed"
        root_id = await app.begin(flow)
    await observer.follow(app, root_id, after=after, was=was)
    summary = await app.summary(root_id)
    if observer.is_stopped and summary.is_over:
        await app.end_flow(root_id)  # a stopping engine does not do this
    questions = () if observer.is_stopped else await _blocking_questions(app, summary)
    return FlowOutcome(summary, questions, EXIT_WAITING if questions else await _exit_code(app, summary))


async def _blocking_questions(app: App, summary: FlowSummary) -> Sequence[Task]:
    """Return the open questions of a flow if no other task is in progress; otherwise an empty tuple."""
    if not summary.counts.get(Status.IN_PROGRESS):
        return ()
    wanted = TaskFilter(tree=summary.root_id, status=Status.IN_PROGRESS, with_steps=False)
    running = (await app.list(wanted)).tasks
    questions = open_questions(running)
    return questions if len(questions) == len(running) else ()


async def _exit_code(app: App, summary: FlowSummary) -> int:
    if not summary.is_over:  # a signal stopped it, here or in another process
        return EXIT_INTERRUPTED
    if await _has(app, summary, Status.CANCELLED):
        return EXIT_FAILED
    if not await _has(app, summary, Status.PENDING) and not await _has(app, summary, Status.FAILED):
        return 0
    return EXIT_UNAVAILABLE if await _is_unavailable(app, summary) else EXIT_FAILED


async def _has(app: App, summary: FlowSummary, status: Status) -> bool:
    """Return whether a task has this status; steps do not count: a program may handle their failures."""
    wanted = TaskFilter(tree=summary.root_id, status=status, with_steps=False, limit=1)
    return bool(summary.counts.get(status)) and bool((await app.list(wanted)).total)


async def _is_unavailable(app: App, summary: FlowSummary) -> bool:
    """Return whether tasks failed only for lack of a model or network."""
    wanted = TaskFilter(tree=summary.root_id, status=Status.FAILED, with_steps=False, limit=MAX_FAILED)
    failed = await app.list(wanted)
    for task in failed.tasks:
        is_program = await is_run(app.store, task)
        if not is_program or (await app.outcome(task.id)).exit_code != EXIT_UNAVAILABLE:
            return False
    return 0 < failed.total == len(failed.tasks)
