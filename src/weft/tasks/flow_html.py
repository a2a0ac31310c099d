"""A flow as HTML, for notebooks: its tree, with every value escaped."""

from html import escape
from typing import TYPE_CHECKING

from weft.tasks.record import Status, Task

if TYPE_CHECKING:
    from weft.tasks.flow import Flow

MAX_ROWS = 500
"""A notebook cell with more rows helps nobody."""

_COLOURS = {
    Status.PENDING: "#777",
    Status.IN_PROGRESS: "#0086b3",
    Status.COMPLETED: "#2a8a2a",
    Status.FAILED: "#c62828",
    Status.CANCELLED: "#b58900",
}


def flow_html(flow: "Flow") -> str:
    """The tree as a table: name, status, progress, error."""
    rows = []
    for number, (task, depth) in enumerate(flow.walk()):
        if number == MAX_ROWS:
            rows.append(f"<tr><td colspan=4>... {len(flow) - MAX_ROWS:,} more</td></tr>")
            break
        rows.append(_row(task, depth))
    heads = "<tr><th style='text-align:left'>task</th><th>status</th><th>done</th><th>error</th></tr>"
    return f"<table>{heads}{''.join(rows)}</table>"


def _row(task: Task, depth: int) -> str:
    name = f"<td style='text-align:left;padding-left:{depth * 1.5 + 0.5}em'>{escape(task.name)}</td>"
    status = f"<td style='color:{_COLOURS[task.status]}'>{task.status.value}</td>"
    rest = f"<td>{task.progress:.0%}</td><td>{escape(task.error or '')}</td>"
    return f"<tr title='{task.id}'>{name}{status}{rest}</tr>"
