"""`weft flow run`."""

import asyncio
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from weft.cli.display.output import counts_line, print_json
from weft.cli.invoke import collecting, echo, with_app
from weft.cli.options import read_input, store_options
from weft.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_UNAVAILABLE,
    EXIT_WAITING,
    RequestError,
    TransientError,
)
from weft.ids import TaskId, is_task_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.app.app import App
    from weft.engine.limits import EngineLimits
    from weft.executors.registry import ExecutorRegistry
    from weft.tasks.record import Task
    from weft.tasks.summary import FlowSummary

MAX_TREE_TASKS = 50
"""A flow of up to so many tasks is shown as a tree at the end; of a larger one, what failed."""

MAX_FILES = 65_536
"""Enough for ten thousand programs at a time."""

INTERRUPT_GRACE_SECONDS = 2.0
"""How long running tasks may go on after Ctrl-C: somebody is waiting at the terminal."""


PROGRAMS = "template"
"""The id of the executor of programs, which is made for a store once that is open."""


class InvalidLimit(RequestError):
    """A limit is not of the form executor=number, or there is no such executor."""

    code = "invalid-limit"


def limits_of(
    concurrency: int,
    per_executor: tuple[str, ...],
    executors: "ExecutorRegistry",
    db: str | None,
    user: str | None,
) -> "EngineLimits":
    """The limits that options describe."""
    from weft.engine.limits import EngineLimits

    limits: dict[str, int] = {}
    for text in per_executor:
        name, _, number = text.rpartition("=")
        if not name or not number.isascii() or not number.isdigit() or int(number) < 1:
            raise InvalidLimit(f"{text!r} is not of the form executor=number, such as command=4")
        limits[name] = int(number)
        known = executors.find(name)
        if known is not None and known.error is not None:
            raise InvalidLimit(f"{text!r}: {known.source} could not be loaded: {known.error}")
        if known is None and name != PROGRAMS and not _is_template(name, db, user):
            raise InvalidLimit(f"{text!r}: no executor is called {name!r}{_hint(name, executors)}")
    return EngineLimits(concurrency=concurrency, per_executor=limits)


def _is_template(name: str, db: str | None, user: str | None) -> bool:
    """Whether a template of that name, or a version of it, is registered in the store, if there is one."""
    from weft.runs.templates import read_name
    from weft.store.errors import StoreNotFound

    try:
        return bool(with_app(db, user, lambda app: app.store.known_templates([read_name(name).name])))
    except StoreNotFound:
        return False


def _hint(name: str, executors: "ExecutorRegistry") -> str:
    """What may have been meant by the name of an executor, or which ones there are."""
    from weft.tasks.parsing.problems import nearest

    known = sorted([*(executor.id for executor in executors.list()), PROGRAMS])
    return nearest(name, known) or f"; there are: {', '.join(known)}, and registered templates"


def allow_many_files() -> None:
    """Raise the limit of open files as far as we may: every program that runs takes some.

    Not beyond what any of them needs: there are programs that look at every number up to the limit.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def known_executors(db: str | None, user: str | None) -> "ExecutorRegistry":
    """The executors that flows are run with."""
    from weft.config.settings import load_settings
    from weft.effects.tools import project_registry

    return project_registry(load_settings(db=db, user_id=user))


concurrency_option = click.option(
    "--concurrency", type=click.IntRange(1), default=100, show_default=True, help="Tasks at the same time."
)
limit_option = click.option(
    "--limit",
    "per_executor",
    multiple=True,
    metavar="EXECUTOR=N",
    help="At most N tasks of this executor at the same time. May be repeated.",
)


@click.command()
@click.argument("what", metavar="FLOW.json|ID|-")
@concurrency_option
@limit_option
@store_options
def run(
    what: str,
    concurrency: int,
    per_executor: tuple[str, ...],
    db: str | None,
    user: str | None,
    is_json: bool,
) -> int:
    """Store a flow and run it; or go on with a stored one, given the id of any of its tasks.

    It ends when nothing can go on by itself: exit 0 when every task completed, 4 when it waits for a person's
    answer, 5 when all that failed are programs that found no model or network, else 1; or 130 when a signal
    stopped it before that, here or in another process. Kill it at any moment and run it again by its id,
    which it says first: finished tasks are not run again. Several processes may run the same flow.

    \b
    Examples:
      weft flow run release.json
      weft flow run release.json --concurrency 8 --limit command=2
      weft flow run 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d
    """
    # Imported here: `weft flow run --help` must not pay for it.
    from weft.tasks.parsing.problems import decode

    is_stored = is_task_id(what)
    flow = what if is_stored else decode(read_input(what), source=what)
    executors = known_executors(db, user)
    allow_many_files()
    with collecting():
        return with_app(
            db,
            user,
            lambda app: _run(app, flow, is_json=is_json),
            must_exist=is_stored,
            limits=limits_of(concurrency, per_executor, executors, db, user),
            executors=executors,
        )


async def _run(app: "App", flow: Any, *, is_json: bool) -> int:
    from msgspec import to_builtins

    from weft.cli.display.live import watching
    from weft.cli.display.questions import asked_json, tell_what_is_asked
    from weft.cli.invoke import ignore_broken_pipe, say
    from weft.cli.signals import ShutdownSignals, leave_with

    stopping = ShutdownSignals(app.store.leave)
    with stopping.on_signals():
        with stopping.storing():
            root_id = await app.begin(flow)
        say(f"running {root_id}")
        async with watching(app, root_id):
            await stopping.run_until_stopped(app.wait(root_id), partial(stop_run, app, root_id))
        summary = await app.summary(root_id)
        if summary.is_over and stopping.signal is not None:
            await app.store.end_flow(root_id)  # an engine that is being stopped leaves that to others
        questions = () if stopping.signal is not None else await _waits_for(app, summary)
        code = EXIT_WAITING if questions else await _exit_code(app, summary)
    leave_with(code)
    with ignore_broken_pipe():
        if is_json:
            print_json({**to_builtins(summary), **asked_json(questions)})
        else:
            await _print_outcome(app, summary)
    if code == EXIT_INTERRUPTED:
        by = "" if stopping.signal is not None else " by another process"
        say(f"stopped{by}; go on with: weft flow run {root_id}")
    elif code == EXIT_WAITING:
        tell_what_is_asked(questions, then=f"weft flow run {root_id}")
    elif summary.scheduled:
        say("what waits for a schedule does not run with the flow; weft serve runs a copy when it is due")
    return code


async def _waits_for(app: "App", summary: "FlowSummary") -> "Sequence[Task]":
    """The questions that nobody has answered, when all that is under way waits for them."""
    from weft.store.protocol import TaskFilter
    from weft.tasks.questions import open_questions
    from weft.tasks.record import Status

    if not summary.counts.get(Status.IN_PROGRESS):
        return ()
    wanted = TaskFilter(tree=summary.root_id, status=Status.IN_PROGRESS, with_steps=False)
    under_way = (await app.list(wanted)).tasks
    questions = open_questions(under_way)
    return questions if len(questions) == len(under_way) else ()


async def stop_run(app: "App", root_id: TaskId, received: signal.Signals) -> None:
    """Stop running a flow here; after Ctrl-C it is not to be run anywhere."""
    from weft.cli.invoke import say

    if received is not signal.SIGINT:
        await app.stop()
        return
    try:
        # A person wants it to stop; a SIGTERM only ends this process, and others may take over.
        async with asyncio.timeout(INTERRUPT_GRACE_SECONDS):
            await app.store.stop_flow(root_id, owner=app.owner)
    except (TimeoutError, TransientError):
        say("the store is away; other processes may go on with it")
    finally:
        await app.stop(grace_seconds=INTERRUPT_GRACE_SECONDS)


async def _exit_code(app: "App", summary: "FlowSummary") -> int:
    if not summary.is_over:  # a signal stopped it, here or in another process
        return EXIT_INTERRUPTED
    if await _is_completed(app, summary):
        return 0
    return EXIT_UNAVAILABLE if await _is_unavailable(app, summary) else EXIT_FAILED


async def _is_unavailable(app: "App", summary: "FlowSummary") -> bool:
    """Return whether all that failed are programs that found no model or network: later it may succeed."""
    from weft.evaluator.results import is_unavailable
    from weft.runs.outcome import outcome_of
    from weft.runs.template_tasks import is_run
    from weft.store.protocol import TaskFilter
    from weft.tasks.record import Status

    wanted = TaskFilter(tree=summary.root_id, status=Status.CANCELLED, with_steps=False, limit=1)
    if summary.counts.get(Status.CANCELLED) and (await app.list(wanted)).total:
        return False
    wanted = TaskFilter(tree=summary.root_id, status=Status.FAILED, with_steps=False, limit=MAX_TREE_TASKS)
    failed = await app.list(wanted)
    for task in failed.tasks:
        result = (await outcome_of(app.store, task)).result if await is_run(app.store, task) else None
        if result is None or not is_unavailable(result.notes.get("error") or {}):
            return False
    return 0 < failed.total == len(failed.tasks)


async def _is_completed(app: "App", summary: "FlowSummary") -> bool:
    """Return whether every task is; a program may complete although steps of it failed or were cancelled."""
    from weft.store.protocol import TaskFilter
    from weft.tasks.record import Status

    for status in (Status.PENDING, Status.FAILED, Status.CANCELLED):
        wanted = TaskFilter(tree=summary.root_id, status=status, with_steps=False, limit=1)
        if summary.counts.get(status) and (await app.list(wanted)).total:
            return False
    return True


async def _print_outcome(app: "App", summary: "FlowSummary") -> None:
    from weft.cli.display.output import headline, printable
    from weft.cli.tasks.tree import print_tree
    from weft.store.protocol import TaskFilter
    from weft.tasks.record import Status

    if sum(summary.counts.values()) <= MAX_TREE_TASKS:
        print_tree(await app.flow_of(summary.root_id))
    else:
        failed = await app.list(TaskFilter(tree=summary.root_id, status=Status.FAILED, limit=10))
        for task in failed.tasks:
            echo(f"✘ {printable(task.name, width=60)}  {task.id}  {headline(task.error or '', width=200)}")
    echo(f"{summary.root_id}  {counts_line(summary)}")
