"""`weft tasks list`, `show`, `tree`, `events` and `watch`."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import click
import msgspec

from weft.app.app import App, EventFilter, TaskFilter
from weft.cli.display.live import watching
from weft.cli.display.output import (
    counts_line,
    plural,
    print_json,
    print_result,
    print_table,
    printable,
    printable_lines,
    short_id,
    when,
)
from weft.cli.display.tree import print_tree
from weft.cli.invoke import echo, echo_status
from weft.cli.options import COUNT, TASK_ID, TEXT, full_ids_option
from weft.cli.store_access import StoreOptions, store_options
from weft.errors import WeftError
from weft.ids import TaskId
from weft.tasks.events import Event, EventType
from weft.tasks.flow import Flow, nested_json
from weft.tasks.parsing.problems import task_object
from weft.tasks.questions import is_open_question
from weft.tasks.record import Origin, Status, Task, first_source
from weft.tasks.steps import PROMPT, RequestFacts, is_step, step_fields
from weft.tasks.summary import FlowSummary


@click.command("list")
@click.option(
    "--status",
    type=click.Choice(["pending", "in_progress", "completed", "failed", "cancelled"]),
    help="List only tasks with this status.",
)
@click.option(
    "--name", type=TEXT, metavar="TEXT", help="List only tasks with TEXT in their name, ignoring case."
)
@click.option(
    "--flow", "tree", type=TASK_ID, metavar="ID", help="List only tasks of the flow with this root id."
)
@click.option("--roots", "only_roots", is_flag=True, help="List only root tasks: one line per flow.")
@click.option(
    "--steps", "with_steps", is_flag=True, help="Also list the steps of runs; see `weft tasks tree`."
)
@click.option("--scheduled", "only_scheduled", is_flag=True, help="List only tasks with an enabled schedule.")
@click.option("--limit", type=COUNT, default=50, show_default=True, help="Maximum number of rows.")
@click.option("--offset", type=COUNT, default=0, help="Number of tasks to skip.")
@full_ids_option
@store_options
def list_tasks(
    status: str | None,
    name: str | None,
    tree: TaskId | None,
    only_roots: bool,
    with_steps: bool,
    only_scheduled: bool,
    limit: int,
    offset: int,
    is_full: bool,
    store: StoreOptions,
) -> None:
    """List tasks, newest first; the steps of runs only with --steps.

    `question` in the column DONE marks a question that waits for an answer: see `weft tasks answer`.

    \b
    Examples:
      weft tasks list --status failed
      weft tasks list --roots --name report
    """
    wanted = TaskFilter(
        status=Status(status) if status else None,
        name=name,
        tree=tree,
        only_roots=only_roots,
        with_steps=with_steps,
        only_scheduled=only_scheduled,
        limit=limit,
        offset=offset,
    )
    page = store.run(lambda app: app.list(wanted))
    if store.is_json:
        print_json({"tasks": [task_object(task) for task in page.tasks], "total": page.total})
        return
    if not page.total:
        echo("no tasks")
        return
    rows = [
        (
            short_id(task.id, is_full=is_full),
            printable(task.name, width=40),
            task.status.value,
            "question" if is_open_question(task) else f"{task.progress:.0%}",
            when(task.created_at),
        )
        for task in page.tasks
    ]
    print_table(("ID", "NAME", "STATUS", "DONE", "CREATED"), rows, status_column=2)
    if page.total > len(page.tasks):
        echo(f"{len(page.tasks):,} of {plural(page.total, 'task')}; see --limit and --offset")


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--all", "is_all", is_flag=True, help="Show empty fields too.")
@store_options
def show(task_id: TaskId, is_all: bool, store: StoreOptions) -> None:
    """Show all fields of a task.

    For a step of a run, also shows its step key, its request, and which run its result comes from.
    """

    async def read(app: "App") -> "tuple[Task, list[str]]":
        task = await app.get(task_id)
        return task, [] if store.is_json else await step_lines(app, task)

    task, lines = store.run(read)
    record = task_object(task)
    if store.is_json:
        print_json(record)
        return
    width = max(map(len, record))
    for field, value in record.items():
        if is_all or not _is_empty(value):
            if field == "error":
                text = printable_lines(str(value), indent=width + 2)
            else:
                text = printable(value if isinstance(value, str) else msgspec.json.encode(value).decode())
            echo(f"{field:<{width}}  {text}")
    for line in lines:
        echo(line)
    if is_open_question(task):
        echo(f"waiting for an answer; answer with: weft tasks answer {task.id} TEXT")


def _is_empty(value: object) -> bool:
    """Return whether a field is hidden without --all; 0 is shown: it is the most urgent priority."""
    return value is None or value is False or value == {} or value == []


async def step_lines(app: App, task: Task) -> list[str]:
    """Return lines about the request and the origin of a step; no lines for other tasks."""
    if not is_step(task):
        return []
    fields = step_fields(task)
    lines = ["", f"step {await _describe_step(app, task)} ({printable(fields.kind)})"]
    lines += _request_lines((task.params or {}).get(PROMPT) or {})
    lines += provenance_lines(fields.request)
    source = fields.link_of or (first_source(task) if task.origin_type is Origin.LINK else None)
    if source is None:
        return [*lines, *_result_lines("answered", task)]
    found = (await app.find_tasks([source])).get(source)
    if found is None:
        return [*lines, f"linked from {source}, which is not in this store"]
    origin = f"step {await _describe_step(app, found)}" if is_step(found) else "which is not a step of a run"
    return [*lines, f"linked from {source}, {origin}", *_result_lines("made", found)]


async def _describe_step(app: App, task: Task) -> str:
    """Return the step key, and the id and name of the run."""
    run = task
    while is_step(run) and run.parent_id is not None:
        run = await app.get(run.parent_id)
    return f"{printable(step_fields(task).key)} of run {run.id} '{printable(run.name, width=60)}'"


def _request_lines(request: dict[str, object]) -> list[str]:
    lines = []
    for name in ("system", "prompt", "shell", "argv", "query"):
        value = request.get(name)
        if value:
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            lines.append(f"{name}:")
            lines += [f"  {printable(line)}" for line in text.splitlines()]
    return lines


def provenance_lines(facts: RequestFacts | None) -> list[str]:
    """Return where the tokens of the prompt came from, and what the provider reported."""
    if facts is None:
        return []
    tokens: dict[str, int] = {}
    for part in facts.parts:
        tokens[part.kind] = tokens.get(part.kind, 0) + part.tokens
    kinds = ", ".join(f"{printable(kind)} {count}" for kind, count in tokens.items())
    lines = [f"prompt made of (estimated tokens): {kinds}"] if kinds else []
    sources = dict.fromkeys(str(part.source) for part in facts.parts if part.kind in ("files", "memory"))
    lines += [f"  {printable(source, width=100)}" for source in list(sources)[:SHOWN_SOURCES]]
    reported = [f"{facts.cache_read_tokens} input tokens cached"] if facts.cache_read_tokens else []
    if facts.first_token_seconds is not None:
        reported.append(f"first token after {facts.first_token_seconds:.2f} s")
    return [*lines, ", ".join(reported)] if reported else lines


def _result_lines(verb: str, task: Task) -> list[str]:
    if task.completed_at is None:
        return []
    usage = ((task.result or {}).get("notes") or {}).get("usage")
    line = f"{verb} {when(task.completed_at)}"
    if isinstance(usage, dict):
        cost = usage.get("cost")
        line += f" by {printable(str(usage.get('model')))}, {plural(int(usage.get('tokens') or 0), 'token')}"
        line += ", price unknown" if cost is None else f", ${cost:.4f}" if cost else ""
    return [line]


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option(
    "--limit", type=click.IntRange(1), default=500, show_default=True, help="Maximum number of rows."
)
@click.option("--wide", "is_wide", is_flag=True, help="Do not cut rows to the width of the terminal.")
@full_ids_option
@store_options
def tree(task_id: TaskId, limit: int, is_wide: bool, is_full: bool, store: StoreOptions) -> None:
    """Show the flow of a task as a tree.

    Beside the names of siblings that are named alike stands the argument that tells them apart.

    Marks: · pending, ▶ in progress, ✔ completed, ✘ failed, ■ cancelled. `<- a, b` lists dependencies,
    optional ones in parentheses. [blocked] marks a task whose dependency failed or was cancelled,
    [waits for an answer] a question to a person.
    """
    if store.is_json:
        print_json(msgspec.Raw(nested_json(store.run(lambda app: app.flow_of(task_id)))))
        return

    async def read(app: App) -> tuple[Flow, FlowSummary]:
        root_id = (await app.get(task_id)).task_tree_id or task_id
        return await app.flow_of(root_id, limit=limit), await app.summary(root_id)

    flow, summary = store.run(read)
    shown = print_tree(flow, is_wide=is_wide, is_full=is_full)
    total = sum(summary.counts.values())
    if shown < total:
        echo(f"... {plural(total - shown, 'more task')}; see --limit")
    echo(counts_line(summary))


@click.command()
@click.argument("task_id", metavar="[ID]", type=TASK_ID, required=False)
@click.option(
    "--flow", "tree", type=TASK_ID, metavar="ID", help="Show events of the whole flow with this root id."
)
@click.option("--after", type=COUNT, default=0, help="Show only events with a higher number.")
@click.option("--limit", type=COUNT, default=1000, show_default=True, help="Maximum number of events.")
@full_ids_option
@store_options
def events(
    task_id: TaskId | None,
    tree: TaskId | None,
    after: int,
    limit: int,
    is_full: bool,
    store: StoreOptions,
) -> None:
    """Show the events of a task, of a flow, or of the whole store, oldest first."""
    wanted = EventFilter(after=after, tree=tree, task=task_id, limit=limit)
    found = store.run(lambda app: _events(app, wanted))
    if store.is_json:
        print_json({"events": list(found)})
        return
    for event in found:
        facts = printable(msgspec.json.encode(event.facts).decode(), width=100) if event.facts else ""
        task = short_id(event.task_id, is_full=is_full)
        echo(f"{event.seq:>6}  {when(event.at)}  {task}  {event.type:<16}  {facts}".rstrip())
    if not found:
        echo("no events")


async def _events(app: App, wanted: EventFilter) -> Sequence[Event]:
    found = await app.events(wanted)
    for task_id in (wanted.task, wanted.tree):
        if task_id is not None and not found:
            await app.get(task_id)  # raises if the task does not exist; a deleted task still has events
    return found


SHOWN_SOURCES = 10
"""How many files of a prompt are shown; --json has all that are stored."""

LOOK_SECONDS = 1.0
"""Seconds between two checks for workers; a worker that has just started is registered by then."""


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def watch(task_id: TaskId, store: StoreOptions) -> None:
    """Watch the flow of a task until it ends, while another process runs it.

    Ctrl-C stops watching; the flow continues. Prints a message if no process runs the flow.
    """
    summary = store.run(lambda app: _watch(app, task_id))
    print_result(summary, f"{summary.root_id}  {counts_line(summary)}", is_json=store.is_json)


async def _watch(app: App, task_id: TaskId) -> FlowSummary:
    root_id = (await app.get(task_id)).task_tree_id or task_id
    async with watching(app, root_id):
        checking = asyncio.create_task(_report_missing_workers(app, root_id))
        await _wait_for_workers(app, root_id)
        checking.cancel()
    summary = await app.summary(root_id)
    if not summary.is_over:
        _echo_no_workers(root_id)
    return summary


async def _wait_for_workers(app: App, root_id: TaskId) -> None:
    """Wait until the flow ends, or, if it was stopped, until no worker runs a task of it."""
    after = 0
    workers: dict[TaskId, str] = {}
    while True:
        async for event in app.watch(root_id, after=after):
            after = event.seq
            if event.type is EventType.TASK_STARTED:
                if "worker" in event.facts:  # steps have no worker of their own
                    workers[event.task_id] = event.facts["worker"]
            elif event.type is not EventType.TASK_PROGRESSED:
                workers.pop(event.task_id, None)
        if (await app.workers()).isdisjoint(workers.values()):
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _report_missing_workers(app: App, root_id: TaskId) -> None:
    """Print a message each time the last worker of the store disappears, until cancelled."""
    had_workers = True
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        with suppress(WeftError):
            has_workers = bool(await app.workers())
            if had_workers and not has_workers:
                _echo_no_workers(root_id)
            had_workers = has_workers


def _echo_no_workers(root_id: TaskId) -> None:
    echo_status(f"no process runs this flow; resume with: weft flow run {root_id}")
