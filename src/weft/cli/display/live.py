"""A flow while it runs: a live view on a terminal, lines otherwise. All of it on standard error."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from weft.cli.display.output import STATUS_COLOURS, counts_line, headline, printable
from weft.cli.display.questions import TerminalLock
from weft.cli.display.tree import bar, tree_rows
from weft.cli.invoke import ignore_stderr_errors, say
from weft.errors import WeftError
from weft.ids import TaskId
from weft.store.protocol import EventFilter, TaskFilter
from weft.tasks.record import Status
from weft.tasks.summary import FlowSummary, blocked

if TYPE_CHECKING:
    from weft.app.app import App

REFRESH_SECONDS = 0.25
MAX_ROWS = 20
"""As many as a terminal shows at a glance; a longer view would scroll and flicker."""

MAX_LINES_TASKS = 200
"""Flows with more tasks are told of in counts, not line by line."""

_TOLD = {
    "task.started",
    "task.completed",
    "task.failed",
    "task.cancelled",
    "task.retried",
    "task.released",
    "task.suspended",
}


@asynccontextmanager
async def watching(
    app: "App", root_id: TaskId, quiet: TerminalLock | None = None, *, after: int = 0
) -> AsyncIterator[None]:
    """Show the flow while the block runs, but not while somebody is asked on the same terminal.

    What happened up to the event `after` was in another life of the flow, and is not told again.
    """
    if sys.stderr.isatty():
        view: _LiveView | _LineView = _LiveView(app, root_id, quiet or TerminalLock())
    else:
        view = _LineView(app, root_id, after)
    showing = asyncio.create_task(_show(view))
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait([showing])
        with ignore_stderr_errors(), suppress(WeftError):
            await view.finish()


async def last_event(app: "App", task_id: TaskId) -> int:
    """The number of the last event there is of a task's flow."""
    root_id = (await app.get(task_id)).task_tree_id or task_id
    last = 0
    while events := await app.events(EventFilter(tree=root_id, after=last)):
        last = events[-1].seq
    return last


async def _show(view: "_LiveView | _LineView") -> None:
    """Show the flow until cancelled. That it cannot be shown, or the store is busy, must not end the run."""
    with ignore_stderr_errors():
        while True:
            with suppress(WeftError):
                await view.run()
            await asyncio.sleep(REFRESH_SECONDS)


class _LineView:
    """One line for each thing that happens; for large flows, one for each tenth that is done."""

    def __init__(self, app: "App", root_id: TaskId, after: int) -> None:
        self._app = app
        self._root_id = root_id
        self._after = after
        self._names: dict[TaskId, str] = {}
        self._tenths = 0

    async def run(self) -> None:
        while True:
            await self._tell()
            await asyncio.sleep(REFRESH_SECONDS)

    async def finish(self) -> None:
        await self._tell()

    async def _tell(self) -> None:
        summary = await self._app.summary(self._root_id)
        total = sum(summary.counts.values())
        if total > MAX_LINES_TASKS:
            self._tell_tenths(summary, total)
            return
        while events := await self._app.events(EventFilter(tree=self._root_id, after=self._after)):
            await self._learn_names({event.task_id for event in events})
            for event in events:
                if event.type.value in _TOLD:
                    error = f": {headline(event.facts['error'], width=200)}" if "error" in event.facts else ""
                    verb = event.type.value.removeprefix("task.").replace("_", " ")
                    say(f"{verb:<10} {self._names.get(event.task_id, event.task_id)}{error}")
            self._after = events[-1].seq

    def _tell_tenths(self, summary: FlowSummary, total: int) -> None:
        ended = sum(count for status, count in summary.counts.items() if Status(status).is_terminal)
        tenths = ended * 10 // total
        if tenths > self._tenths:
            self._tenths = tenths
            say(f"{tenths * 10}% ({counts_line(summary)})")

    async def _learn_names(self, task_ids: set[TaskId]) -> None:
        unknown = [task_id for task_id in task_ids if task_id not in self._names]
        found = await self._app.store.get_many(unknown, owner=self._app.owner)
        self._names |= {task_id: printable(task.name, width=60) for task_id, task in found.items()}


class _LiveView:
    """The tree with bars while it fits; else a bar for the whole and a row for each task in progress."""

    def __init__(self, app: "App", root_id: TaskId, quiet: TerminalLock) -> None:
        # Imported here: only a terminal needs it, and it is slow to import.
        from rich.console import Console
        from rich.live import Live

        self._app = app
        self._root_id = root_id
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
        self._quiet = quiet
        quiet.let_go = self._live.stop

    async def run(self) -> None:
        try:
            while True:
                picture = await self._picture()
                if not self._quiet.is_asking:
                    self._live.start()
                    self._live.update(picture, refresh=True)
                await asyncio.sleep(REFRESH_SECONDS)
        finally:
            self._live.stop()

    async def finish(self) -> None:
        """The view has cleared itself; what is printed next takes its place."""

    async def _picture(self) -> Any:
        from rich.text import Text

        summary = await self._app.summary(self._root_id)
        total = sum(summary.counts.values())
        text = Text()
        if total <= MAX_ROWS:
            flow = await self._app.flow_of(self._root_id)
            for row in tree_rows(flow, blocked(flow)):
                text.append(row.branches)
                text.append(row.label, style=STATUS_COLOURS[row.status])
                text.append(f"  {row.facts}\n", style="dim")
        else:
            wanted = TaskFilter(tree=self._root_id, status=Status.IN_PROGRESS, limit=MAX_ROWS)
            for task in (await self._app.list(wanted)).tasks:
                text.append(f"▶ {printable(task.name, width=50):<50} ", style=STATUS_COLOURS["in_progress"])
                text.append(f"{bar(task.progress)}\n")
        ended = sum(count for status, count in summary.counts.items() if Status(status).is_terminal)
        text.append(f"{bar(ended / total, width=30)}  {counts_line(summary)}", style="bold")
        return text
