"""`weft tasks watch`."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from weft.cli.display.output import counts_line, print_json
from weft.cli.invoke import echo, echo_status, with_app
from weft.cli.options import TASK_ID, store_options
from weft.errors import WeftError
from weft.ids import TaskId
from weft.tasks.events import EventType

if TYPE_CHECKING:
    from weft.app.app import App
    from weft.tasks.summary import FlowSummary

LOOK_SECONDS = 1.0
"""Seconds between two checks for workers; a worker that has just started is registered by then."""


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def watch(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Watch the flow of a task until it ends, while another process runs it.

    Ctrl-C stops watching; the flow continues. Prints a message if no process runs the flow.
    """
    summary = with_app(db, user, lambda app: _watch(app, task_id))
    if is_json:
        print_json(summary)
    else:
        echo(f"{summary.root_id}  {counts_line(summary)}")


async def _watch(app: "App", task_id: TaskId) -> "FlowSummary":
    from weft.cli.display.live import watching

    root_id = (await app.get(task_id)).task_tree_id or task_id
    async with watching(app, root_id):
        checking = asyncio.create_task(_report_missing_workers(app, root_id))
        await _wait_for_workers(app, root_id)
        checking.cancel()
    summary = await app.summary(root_id)
    if not summary.is_over:
        _echo_no_workers(root_id)
    return summary


async def _wait_for_workers(app: "App", root_id: TaskId) -> None:
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


async def _report_missing_workers(app: "App", root_id: TaskId) -> None:
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
