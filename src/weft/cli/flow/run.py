"""`weft flow run`."""

import asyncio
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from weft.cli.display.output import counts_line, print_json
from weft.cli.invoke import echo, tracing, with_app
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
"""Maximum size of a flow that is printed as a tree when it ends; of a larger one, failed tasks are listed."""

MAX_FILES = 65_536
"""Limit of open files to set: enough for ten thousand processes that run at the same time."""

INTERRUPT_GRACE_SECONDS = 2.0
"""How long running tasks may continue after Ctrl-C: a person waits at the terminal."""

PROGRAM_EXECUTOR = "template"
"""Id of the executor that runs programs; it needs an open store, so the registry does not list it here."""


class InvalidLimit(RequestError):
    """A limit does not have the form executor=number, or its executor does not exist."""

    code = "invalid-limit"


def parse_limits(
    concurrency: int,
    per_executor: tuple[str, ...],
    executors: "ExecutorRegistry",
    db: str | None,
    user: str | None,
) -> "EngineLimits":
    """Parse --concurrency and --limit; raise InvalidLimit if a limit is malformed or names no executor."""
    from weft.engine.limits import EngineLimits

    limits: dict[str, int] = {}
    for text in per_executor:
        name, _, number = text.rpartition("=")
        if not name or not number.isascii() or not number.isdigit() or int(number) < 1:
            raise InvalidLimit(f"{text!r} is not a limit: give executor=number, for example command=4")
        limits[name] = int(number)
        known = executors.find(name)
        if known is not None and known.error is not None:
            raise InvalidLimit(f"{text!r}: {known.source} could not be loaded: {known.error}")
        if known is None and name != PROGRAM_EXECUTOR and not _is_template(name, db, user):
            raise InvalidLimit(f"{text!r}: there is no executor {name!r}{_hint(name, executors)}")
    return EngineLimits(concurrency=concurrency, per_executor=limits)


def _is_template(name: str, db: str | None, user: str | None) -> bool:
    """Return whether a template of this name (or NAME@VERSION) is registered; False without a store."""
    from weft.runs.templates import read_name
    from weft.store.errors import StoreNotFound

    try:
        return bool(with_app(db, user, lambda app: app.store.known_templates([read_name(name).name])))
    except StoreNotFound:
        return False


def _hint(name: str, executors: "ExecutorRegistry") -> str:
    """Return a suggestion for a mistyped executor, or the list of executors."""
    from weft.tasks.parsing.problems import nearest

    known = sorted([*(executor.id for executor in executors.list()), PROGRAM_EXECUTOR])
    return nearest(name, known) or f"; known executors are {', '.join(known)} and registered templates"


def allow_many_files() -> None:
    """Raise the limit of open files to MAX_FILES if possible: every running process needs some.

    Not higher: some executables loop over all file descriptors up to the limit.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def known_executors(db: str | None, user: str | None) -> "ExecutorRegistry":
    from weft.config.settings import load_settings
    from weft.effects.tools import project_registry

    return project_registry(load_settings(db=db, user_id=user))


concurrency_option = click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of running tasks.",
)
limit_option = click.option(
    "--limit",
    "per_executor",
    multiple=True,
    metavar="EXECUTOR=N",
    help="Maximum number of running tasks of one executor, for example command=2. May be repeated.",
)


@click.command()
@click.argument("flow_or_id", metavar="FLOW.json|ID|-")
@concurrency_option
@limit_option
@store_options
def run(
    flow_or_id: str,
    concurrency: int,
    per_executor: tuple[str, ...],
    db: str | None,
    user: str | None,
    is_json: bool,
) -> int:
    """Store a flow and run it; or resume a stored flow, given the id of any of its tasks.

    Prints the id of the flow first. If the command is killed, run it again with that id: finished tasks are
    not run again. Several processes can run the same flow; they share its tasks.

    Exit code 0: all tasks completed; 1: tasks failed; 4: waiting for a person to answer a question
    (weft tasks answer); 5: the only failures are programs that found no model or network, try again later;
    130: the flow was interrupted by a signal, here or in another process.

    \b
    Examples:
      weft flow run release.json
      weft flow run release.json --concurrency 8 --limit command=2
      weft flow run 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d
    """
    # Imported here: keeps --help fast.
    from weft.tasks.parsing.problems import decode

    is_stored = is_task_id(flow_or_id)
    flow = flow_or_id if is_stored else decode(read_input(flow_or_id), source=flow_or_id)
    executors = known_executors(db, user)
    allow_many_files()
    with tracing():
        return with_app(
            db,
            user,
            lambda app: _run(app, flow, is_json=is_json),
            must_exist=is_stored,
            limits=parse_limits(concurrency, per_executor, executors, db, user),
            executors=executors,
        )


async def _run(app: "App", flow: Any, *, is_json: bool) -> int:
    from msgspec import to_builtins

    from weft.cli.display.live import watching
    from weft.cli.display.questions import echo_questions, questions_json
    from weft.cli.invoke import echo_status, ignore_broken_pipe
    from weft.cli.signals import ShutdownSignals, exit_on_signal

    stopping = ShutdownSignals(app.store.stop_waiting)
    with stopping.on_signals():
        with stopping.storing():
            root_id = await app.begin(flow)
        echo_status(f"running {root_id}")
        async with watching(app, root_id):
            await stopping.run_until_stopped(app.wait(root_id), partial(stop_run, app, root_id))
        summary = await app.summary(root_id)
        if summary.is_over and stopping.signal is not None:
            await app.store.end_flow(root_id)  # a stopping engine does not do this
        questions = () if stopping.signal is not None else await _blocking_questions(app, summary)
        code = EXIT_WAITING if questions else await _exit_code(app, summary)
    exit_on_signal(code)
    with ignore_broken_pipe():
        if is_json:
            print_json({**to_builtins(summary), **questions_json(questions)})
        else:
            await _print_outcome(app, summary)
    if code == EXIT_INTERRUPTED:
        by = "" if stopping.signal is not None else " by another process"
        echo_status(f"stopped{by}; resume with: weft flow run {root_id}")
    elif code == EXIT_WAITING:
        echo_questions(questions, then=f"weft flow run {root_id}")
    elif summary.scheduled:
        echo_status(
            "scheduled tasks do not run with the flow; `weft serve` runs a copy of them when they are due"
        )
    return code


async def _blocking_questions(app: "App", summary: "FlowSummary") -> "Sequence[Task]":
    """Return the open questions of a flow if no other task is in progress; otherwise an empty tuple."""
    from weft.store.protocol import TaskFilter
    from weft.tasks.questions import open_questions
    from weft.tasks.record import Status

    if not summary.counts.get(Status.IN_PROGRESS):
        return ()
    wanted = TaskFilter(tree=summary.root_id, status=Status.IN_PROGRESS, with_steps=False)
    running = (await app.list(wanted)).tasks
    questions = open_questions(running)
    return questions if len(questions) == len(running) else ()


async def stop_run(app: "App", root_id: TaskId, received: signal.Signals) -> None:
    """Stop running a flow in this process; after Ctrl-C (SIGINT) also in all other processes."""
    from weft.cli.invoke import echo_status

    if received is not signal.SIGINT:
        await app.stop()
        return
    try:
        # Ctrl-C comes from a person, who wants the flow to stop; after SIGTERM other processes may take over.
        async with asyncio.timeout(INTERRUPT_GRACE_SECONDS):
            await app.store.stop_flow(root_id, owner=app.owner)
    except (TimeoutError, TransientError):
        echo_status("the store is unavailable; other processes may continue to run the flow")
    finally:
        await app.stop(grace_seconds=INTERRUPT_GRACE_SECONDS)


async def _exit_code(app: "App", summary: "FlowSummary") -> int:
    if not summary.is_over:  # a signal stopped it, here or in another process
        return EXIT_INTERRUPTED
    if await _is_completed(app, summary):
        return 0
    return EXIT_UNAVAILABLE if await _is_unavailable(app, summary) else EXIT_FAILED


async def _is_unavailable(app: "App", summary: "FlowSummary") -> bool:
    """Return whether tasks failed only for lack of a model or network, and no task was cancelled."""
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
    """Return whether every task completed; steps do not count: a program may handle their failures."""
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
