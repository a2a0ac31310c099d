"""Progress of a running flow on standard error: a live view on a terminal, lines otherwise."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from weft.app.app import App, EventFilter, TaskFilter
from weft.cli.display.output import STATUS_COLOURS, counts_line, headline, printable
from weft.cli.display.questions import TerminalLock
from weft.cli.display.tree import bar, tree_rows
from weft.cli.invoke import echo_status, ignore_stderr_errors
from weft.errors import WeftError
from weft.ids import TaskId
from weft.tasks.record import Status
from weft.tasks.summary import FlowSummary, blocked

REFRESH_SECONDS = 0.25
MAX_ROWS = 20
"""Most rows of the live view; a longer one would scroll and flicker."""

MAX_LINES_TASKS = 200
"""Flows with more tasks are reported in counts, not line by line."""

_SHOWN_EVENTS = {
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
    app: App, root_id: TaskId, terminal: TerminalLock | None = None, *, after: int = 0
) -> AsyncIterator[None]:
    """Show the progress of a flow while the block runs, except while a question is on the terminal.

    Without a terminal, a line is printed for each notable event with a number above `after`.
    """
    if sys.stderr.isatty():
        view: _LiveView | _LineView = _LiveView(app, root_id, terminal or TerminalLock())
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


async def _show(view: "_LiveView | _LineView") -> None:
    """Show the flow until cancelled. A closed terminal or a busy store must not end the run."""
    with ignore_stderr_errors():
        while True:
            with suppress(WeftError):
                await view.update()
            await asyncio.sleep(REFRESH_SECONDS)


class _LineView:
    """Prints one line per event; for large flows, one line per 10 % of ended tasks."""

    def __init__(self, app: App, root_id: TaskId, after: int) -> None:
        self._app = app
        self._root_id = root_id
        self._after = after
        self._names: dict[TaskId, str] = {}
        self._tenths = 0

    async def update(self) -> None:
        """Print what has happened since the last call."""
        summary = await self._app.summary(self._root_id)
        total = sum(summary.counts.values())
        if total > MAX_LINES_TASKS:
            self._print_tenths(summary, total)
            return
        while events := await self._app.events(EventFilter(tree=self._root_id, after=self._after)):
            await self._load_names({event.task_id for event in events})
            for event in events:
                if event.type.value in _SHOWN_EVENTS:
                    error = f": {headline(event.facts['error'], width=200)}" if "error" in event.facts else ""
                    verb = event.type.value.removeprefix("task.").replace("_", " ")
                    echo_status(f"{verb:<10} {self._names.get(event.task_id, event.task_id)}{error}")
            self._after = events[-1].seq

    def _print_tenths(self, summary: FlowSummary, total: int) -> None:
        ended = sum(count for status, count in summary.counts.items() if Status(status).is_terminal)
        tenths = ended * 10 // total
        if tenths > self._tenths:
            self._tenths = tenths
            echo_status(f"{tenths * 10}% ({counts_line(summary)})")

    finish = update

    async def _load_names(self, task_ids: set[TaskId]) -> None:
        unknown = [task_id for task_id in task_ids if task_id not in self._names]
        found = await self._app.find_tasks(unknown)
        self._names |= {task_id: printable(task.name, width=60) for task_id, task in found.items()}


class _LiveView:
    """Shows the tree with progress bars if it fits; otherwise a total bar and the running tasks."""

    def __init__(self, app: App, root_id: TaskId, terminal: TerminalLock) -> None:
        # Imported here: slow to import, and needed only on a terminal.
        from rich.console import Console
        from rich.live import Live

        self._app = app
        self._root_id = root_id
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
        self._terminal = terminal
        terminal.clear_view = self._live.stop

    async def update(self) -> None:
        """Show the current state, except while a question is on the terminal."""
        text = await self._render()
        if not self._terminal.is_asking:
            self._live.start()
            self._live.update(text, refresh=True)

    async def finish(self) -> None:
        """Clear the view."""
        self._live.stop()

    async def _render(self) -> Any:
        from rich.text import Text

        summary = await self._app.summary(self._root_id)
        total = sum(summary.counts.values())
        # A row that wrapped would stay behind when the view is drawn again, as would rows below the screen.
        text = Text(no_wrap=True, overflow="ellipsis")
        most = min(MAX_ROWS, self._live.console.height - 2)
        if total <= most:
            flow = await self._app.flow_of(self._root_id)
            for row in tree_rows(flow, blocked(flow), width=self._live.console.width):
                text.append(row.branches)
                text.append(row.label, style=STATUS_COLOURS[row.status])
                text.append(f"  {row.facts}\n", style="dim")
        else:
            wanted = TaskFilter(tree=self._root_id, status=Status.IN_PROGRESS, limit=max(most, 1))
            for task in (await self._app.list(wanted)).tasks:
                text.append(f"{bar(task.progress)}  ")
                text.append(f"▶ {printable(task.name, width=60)}\n", style=STATUS_COLOURS["in_progress"])
        ended = sum(count for status, count in summary.counts.items() if Status(status).is_terminal)
        text.append(f"{bar(ended / total, width=30)}  {counts_line(summary)}", style="bold")
        return text
