"""`weft tasks watch`."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from weft.cli.display.output import counts_line, print_json
from weft.cli.invoke import echo, say, with_app
from weft.cli.options import TASK_ID, store_options
from weft.errors import WeftError
from weft.ids import TaskId
from weft.tasks.events import EventType

if TYPE_CHECKING:
    from weft.app.app import App
    from weft.tasks.summary import FlowSummary

LOOK_SECONDS = 1.0
"""How often to look whether anybody runs the flow; a process that has just been started is known by then."""


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def watch(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Watch the flow a task is in while another process runs it, until it ends; Ctrl-C leaves it running.

    It says so when no process runs the flow.
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
        telling = asyncio.create_task(_tell_when_nobody_runs(app, root_id))
        await _until_nobody_works(app, root_id)
        telling.cancel()
    summary = await app.summary(root_id)
    if not summary.is_over:
        _say_that_nobody_runs(root_id)
    return summary


async def _until_nobody_works(app: "App", root_id: TaskId) -> None:
    """Wait for the end of the flow; of one that was stopped, for the tasks that other processes still run."""
    after = 0
    workers: dict[TaskId, str] = {}
    while True:
        async for event in app.watch(root_id, after=after):
            after = event.seq
            if event.type is EventType.TASK_STARTED:
                if "worker" in event.facts:  # a step has none of its own: who evaluates performs it
                    workers[event.task_id] = event.facts["worker"]
            elif event.type is not EventType.TASK_PROGRESSED:
                workers.pop(event.task_id, None)
        if (await app.workers()).isdisjoint(workers.values()):
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _tell_when_nobody_runs(app: "App", root_id: TaskId) -> None:
    """Say so, once, when the flow is to be run but the last process that could run it is gone."""
    was_run = True
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        with suppress(WeftError):
            is_run = bool(await app.workers())
            if was_run and not is_run:
                _say_that_nobody_runs(root_id)
            was_run = is_run


def _say_that_nobody_runs(root_id: TaskId) -> None:
    say(f"nobody runs it; go on with: weft flow run {root_id}")
