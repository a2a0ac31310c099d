"""`weft flow`: submit and run flows of tasks."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
from msgspec import Struct, to_builtins

from weft.app.app import App, EngineLimits, TaskFilter, read_document
from weft.app.flows import run_flow
from weft.app.host import StoreNotFound
from weft.app.wiring import project_executors
from weft.cli.display.output import counts_line, headline, print_flow, print_json, printable
from weft.cli.display.questions import echo_questions, questions_json
from weft.cli.display.tree import print_tree
from weft.cli.invoke import echo, echo_status, ignore_broken_pipe
from weft.cli.main import LazyGroup
from weft.cli.options import FLOW_SOURCE, read_input
from weft.cli.signals import ShutdownSignals, TerminalObserver, allow_many_files, exit_on_signal
from weft.cli.store_access import StoreOptions, store_options, tracing
from weft.errors import EXIT_INTERRUPTED, EXIT_WAITING, RequestError
from weft.executors.registry import BUILT_IN_IDS, ExecutorRegistry, UnknownExecutor
from weft.ids import is_task_id
from weft.tasks.flow import Flow
from weft.tasks.parsing.problems import decode, nearest
from weft.tasks.record import Status, method_of
from weft.tasks.summary import FlowSummary

T = TypeVar("T")

MAX_TREE_TASKS = 50
"""Maximum size of a flow that is printed as a tree when it ends; of a larger one, failed tasks are listed."""

PROGRAM_EXECUTOR = "template"
"""Id of the executor that runs programs; it needs an open store, so the registry does not list it here."""


@click.group(
    cls=LazyGroup,
)
def flow() -> None:
    """Submit and run flows of tasks.

    A flow is a JSON file: a list of tasks, or a tree of {"task": {...}, "children": [...]}. Only `name` is
    required; dependencies may be names instead of ids:

    \b
      [{"name": "fetch", "schemas": {"method": "http"}, "inputs": {"url": "https://example.com"}},
       {"name": "count", "schemas": {"method": "command"}, "inputs": {"argv": ["wc", "-c"]},
        "params": {"input_mappings": {"stdin": "fetch.text"}}, "dependencies": ["fetch"]}]

    `weft schema task` prints every field.
    """


class InvalidLimit(RequestError):
    """A limit does not have the form executor=number, or its executor does not exist."""

    code = "invalid-limit"


class WorkerOptions(Struct, frozen=True):
    """The options of commands that run tasks of a store."""

    store: StoreOptions
    concurrency: int
    per_executor: tuple[str, ...]

    def run(self, act: Callable[[App], Awaitable[T]], *, must_exist: bool) -> T:
        """Open the store with the executors and limits of these options, and return the result of `act`.

        Raise InvalidLimit if a limit is malformed or names no executor.
        """
        settings = self.store.settings()
        executors = project_executors(settings)
        limits = dict(map(_parse_limit, self.per_executor))
        others = [name for name in limits if not _is_executor(name, executors)]
        allow_many_files()

        async def checked(app: App) -> T:
            for name in others:
                if not await app.library.is_known(name):
                    raise _unknown_limit(name, limits[name], executors)
            return await act(app)

        try:
            with tracing():
                return self.store.run(
                    checked,
                    must_exist=must_exist or bool(others),  # no store is created for a mistake
                    settings=settings,
                    limits=EngineLimits(concurrency=self.concurrency, per_executor=limits),
                    executors=executors,
                )
        except StoreNotFound:
            if others:
                raise _unknown_limit(others[0], limits[others[0]], executors) from None
            raise


def _parse_limit(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.isascii() or not number.isdigit() or int(number) < 1:
        raise InvalidLimit(f"{text!r} is not a limit: give executor=number, for example command=4")
    return name, int(number)


def _is_executor(name: str, executors: ExecutorRegistry) -> bool:
    """Return whether an executor has this name; raise InvalidLimit if it could not be loaded."""
    known = executors.find(name)
    if known is not None and known.error is not None:
        raise InvalidLimit(f"the limit of {name!r}: {known.source} could not be loaded: {known.error}")
    return known is not None or name == PROGRAM_EXECUTOR


def _unknown_limit(name: str, number: int, executors: ExecutorRegistry) -> InvalidLimit:
    known = sorted([*(executor.id for executor in executors.list()), PROGRAM_EXECUTOR])
    hint = nearest(name, known) or f"; known executors are {', '.join(known)} and registered templates"
    return InvalidLimit(f"'{name}={number}': there is no executor {name!r}{hint}")


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


@flow.command(short_help="Store a flow and run it, or resume a stored flow.")
@click.argument("flow_or_id", metavar="FLOW.json|ID|-", type=FLOW_SOURCE)
@concurrency_option
@limit_option
@store_options
def run(
    flow_or_id: str,
    concurrency: int,
    per_executor: tuple[str, ...],
    store: StoreOptions,
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
    is_stored = is_task_id(flow_or_id)
    flow = flow_or_id if is_stored else decode(read_input(flow_or_id), source=flow_or_id)
    worker = WorkerOptions(store, concurrency, per_executor)
    return worker.run(lambda app: _run(app, flow, is_json=store.is_json), must_exist=is_stored)


async def _run(app: App, flow: Any, *, is_json: bool) -> int:
    stopping = ShutdownSignals(app.leave_store)
    with stopping.on_signals():
        outcome = await run_flow(app, flow, TerminalObserver(stopping, "running"))
    summary, root_id = outcome.summary, outcome.summary.root_id
    exit_on_signal(outcome.exit_code)
    with ignore_broken_pipe():
        if is_json:
            print_json({**to_builtins(summary), **questions_json(outcome.questions)})
        else:
            await _print_outcome(app, summary)
    if outcome.exit_code == EXIT_INTERRUPTED:
        by = "" if stopping.signal is not None else " by another process"
        echo_status(f"stopped{by}; resume with: weft flow run {root_id}")
    elif outcome.exit_code == EXIT_WAITING:
        echo_questions(outcome.questions, then=f"weft flow run {root_id}")
    elif summary.scheduled:
        echo_status(
            "scheduled tasks do not run with the flow; `weft serve` runs a copy of them when they are due"
        )
    return outcome.exit_code


async def _print_outcome(app: App, summary: FlowSummary) -> None:
    if sum(summary.counts.values()) <= MAX_TREE_TASKS:
        print_tree(await app.flow_of(summary.root_id))
    else:
        failed = await app.list(TaskFilter(tree=summary.root_id, status=Status.FAILED, limit=10))
        for task in failed.tasks:
            echo(f"✘ {printable(task.name, width=60)}  {task.id}  {headline(task.error or '', width=200)}")
    echo(f"{summary.root_id}  {counts_line(summary)}")


@flow.command(short_help="Check a flow and store it without running it.")
@click.argument("file", metavar="FLOW.json|-")
@click.option("--check", "is_check", is_flag=True, help="Only check the flow; store nothing.")
@store_options
def submit(file: str, is_check: bool, store: StoreOptions) -> None:
    """Check a flow and store it without running it.

    All problems are reported at once, and a flow with problems is not stored. `weft flow run ID` runs a
    stored flow.

    \b
    Examples:
      weft flow submit release.json
      weft flow submit --check release.json
      generate-flow | weft flow submit - --json
    """
    document = decode(read_input(file), source=file)
    if is_check:
        user_id = store.settings().user_id
        print_flow(read_document(document, user_id=user_id), is_json=store.is_json, did="valid:")
        return

    async def submit_document(app: App) -> Flow:
        stored = await app.submit(document)
        await _warn_of_unknown_executors(app, stored)
        return stored

    flow = store.run(submit_document, must_exist=False)
    print_flow(flow, is_json=store.is_json, did="stored")


async def _warn_of_unknown_executors(app: App, flow: Flow) -> None:
    """Warn about executors that this process lacks; another process may have them, so the flow is stored."""
    methods = {method_of(task) for task in flow} - BUILT_IN_IDS - {""}
    unknown = {method for method in methods if app.executors.find(method) is None}
    for method in sorted(unknown - (await app.library.find(unknown)).keys()) if unknown else ():
        try:
            app.executors.get(method)
        except UnknownExecutor as error:
            echo_status(f"warning: {error.message}; its tasks fail unless another worker has this executor")
