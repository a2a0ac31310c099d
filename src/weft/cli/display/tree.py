"""Format a flow as the rows of a tree."""

import shutil
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from os import get_terminal_size
from typing import Any

from msgspec import Struct

from weft.cli.display.output import (
    STATUS_COLOURS,
    cells,
    cut,
    duration,
    headline,
    one_line,
    plural,
    printable,
    short_id,
)
from weft.cli.invoke import echo, styled
from weft.ids import TaskId
from weft.tasks.flow import Flow, find_step_owners
from weft.tasks.questions import is_open_question
from weft.tasks.record import Dependency, Task
from weft.tasks.steps import PROMPT, usage_of
from weft.tasks.summary import blocked

MARKS = {"pending": "·", "in_progress": "▶", "completed": "✔", "failed": "✘", "cancelled": "■"}

_MAX_SHOWN_DEPENDENCIES = 5
"""Maximum number of dependencies that a row names."""

MIN_LABEL = 24
"""Least cells for mark, name and argument; facts are cut before the label gets shorter."""

MAX_ARGUMENT = 60
MAX_ERROR = 200
NO_LIMIT = 10**6
"""Width of rows that are not cut."""


class TreeRow(Struct, frozen=True):
    """Row of one task: branches; mark, name and argument; status; facts (id, duration ...).

    The error stands on a line of its own, after `below`.
    """

    branches: str
    label: str
    status: str
    facts: str
    error: str = ""
    below: str = ""


def tree_rows(
    flow: Flow, blocked_ids: Collection[TaskId], *, width: int = NO_LIMIT, is_full: bool = False
) -> Iterator[TreeRow]:
    """Yield the rows of a flow's tree, children below their parents in creation order.

    No row is wider than `width` cells. `is_full`: with whole ids.
    """
    unfinished = _unfinished_steps(flow)
    arguments = distinguishing_arguments(flow)
    stack: list[tuple[TaskId, str, str]] = [(flow.root.id, "", "")]
    while stack:
        task_id, here, below = stack.pop()
        task = flow[task_id]
        children = flow.children.get(task_id, [])
        label = f"{MARKS[task.status.value]} {printable(task.name, width=MAX_ARGUMENT)}"
        if task_id in arguments:
            label += f"  {printable(arguments[task_id], width=MAX_ARGUMENT)}"
        facts = _facts(flow, task, is_blocked=task_id in blocked_ids, is_unfinished=task_id in unfinished)
        own = "  ".join(chain([short_id(task_id, is_full=is_full)], facts))
        under = below + ("│  " if children else "   ")
        yield _fitted(TreeRow(here, label, task.status.value, own, task.error or "", under), width)
        for index, child in reversed(list(enumerate(children))):
            is_last = index == len(children) - 1
            stack.append(
                (child, below + ("└─ " if is_last else "├─ "), below + ("   " if is_last else "│  "))
            )


def _fitted(row: TreeRow, width: int) -> TreeRow:
    """Return the row cut to a width: first the facts after the id, down to a short label, then the label."""
    branches, below = _shallow(row.branches, width), _shallow(row.below, width)
    room = width - len(branches) - 2
    label = cut(row.label, max(MIN_LABEL, room - cells(row.facts)))
    error = cut(headline(row.error, width=MAX_ERROR), width - len(below)) if row.error else ""
    return TreeRow(branches, label, row.status, cut(row.facts, room - cells(label)), error, below)


def _shallow(branches: str, width: int) -> str:
    """Return the branches of a task; those of a deep one without the outer levels."""
    half = width // 2
    return branches if len(branches) <= half else f"…{branches[1 - half :]}"


def distinguishing_arguments(flow: Flow) -> dict[TaskId, str]:
    """Return, of siblings with one name, the first argument in which they differ, as text by id."""
    found: dict[TaskId, str] = {}
    for children in flow.children.values():
        same: dict[str, list[TaskId]] = defaultdict(list)
        for child in children:
            same[flow[child].name].append(child)
        for siblings in same.values():
            if len(siblings) > 1:
                found |= _differences(siblings, [_arguments(flow[sibling]) for sibling in siblings])
    return found


def _differences(siblings: Sequence[TaskId], arguments: Sequence[dict[str, Any]]) -> dict[TaskId, str]:
    for name in dict.fromkeys(chain.from_iterable(arguments)):
        texts = [one_line(given[name]) if name in given else "" for given in arguments]
        if len(set(texts)) > 1:
            return {sibling: text for sibling, text in zip(siblings, texts, strict=True) if text}
    return {}


def _arguments(task: Task) -> dict[str, Any]:
    """Return the inputs of a task, or what its step sent: the words of a command, a prompt, a query."""
    if task.inputs:
        return task.inputs
    sent = (task.params or {}).get(PROMPT)
    if not isinstance(sent, dict):
        return {}
    argv = sent.get("argv")
    return {str(number): word for number, word in enumerate(argv)} if isinstance(argv, list) else sent


def _unfinished_steps(flow: Flow) -> set[TaskId]:
    """Return the steps that are in progress although their run has ended: nothing performs them."""
    return {
        task_id
        for task_id, owner in find_step_owners(flow).items()
        if flow[task_id].status.value == "in_progress"
        and owner is not None
        and owner in flow
        and flow[owner].status.is_terminal
    }


def _facts(flow: Flow, task: Task, *, is_blocked: bool, is_unfinished: bool) -> Iterator[str]:
    took = duration(task.started_at, task.completed_at)
    if took:
        yield took
    if is_unfinished:
        yield "[unfinished: its run has ended]"
    elif is_open_question(task):
        yield "[waits for an answer]"
    elif task.status.value == "in_progress":
        yield bar(task.progress)
    if is_blocked:
        yield "[blocked]"
    elif task.status.value == "pending" and task.schedule_enabled:
        yield "[waits for its schedule]"
    yield from spending(task, (flow[child] for child in flow.children.get(task.id, [])))
    if task.origin_type is not None and task.origin_type.value != "create":
        yield f"{task.origin_type} of {short_id(task.original_task_id)}"
    waits = [_named(flow, dependency) for dependency in task.dependencies[:_MAX_SHOWN_DEPENDENCIES]]
    if waits:
        yield f"<- {', '.join(waits)}{' ...' if len(task.dependencies) > _MAX_SHOWN_DEPENDENCIES else ''}"


def spending(task: Task, below: Iterable[Task] = ()) -> Iterator[str]:
    """Yield tokens and cost of a step's model calls, `below` being its children; nothing for other tasks.

    No cost is given for calls that cost nothing, such as those of embedded models.
    """
    usage = usage_of(task, below)
    if usage is None:
        return
    yield plural(usage.tokens, "token")
    if usage.cost and not usage.unpriced:
        yield f"${usage.cost:.4f}"


def _named(flow: Flow, dependency: Dependency) -> str:
    # If only the first tasks of a flow are loaded, a dependency may be missing.
    name = printable(flow[dependency.id].name, width=30) if dependency.id in flow else dependency.id[:8]
    return name if dependency.required else f"({name})"


def bar(progress: float, *, width: int = 10) -> str:
    """Format a progress bar: ███░░░░░░░ 30%."""
    filled = round(progress * width)
    return f"{'█' * filled}{'░' * (width - filled)} {progress:.0%}"


def print_tree(flow: Flow, *, to_stderr: bool = False, is_wide: bool = False, is_full: bool = False) -> int:
    """Print the tree of a flow in the width of the terminal, and return the number of rows.

    `is_wide`: rows are not cut; `is_full`: ids are not shortened.
    """
    width = NO_LIMIT if is_wide else terminal_width(to_stderr=to_stderr)
    count = 0
    for row in tree_rows(flow, blocked(flow), width=width, is_full=is_full):
        label = styled(row.label, fg=STATUS_COLOURS[row.status])
        echo(row.branches, label, "  ", styled(row.facts, dim=True), err=to_stderr)
        if row.error:
            echo(row.below, styled(row.error, fg=STATUS_COLOURS[row.status]), err=to_stderr)
        count += 1
    return count


def terminal_width(*, to_stderr: bool) -> int:
    """Return the columns of the terminal, COLUMNS if it is set, 80 without a terminal."""
    if to_stderr and not sys.stdout.isatty() and sys.stderr.isatty():
        try:
            return get_terminal_size(sys.stderr.fileno()).columns or 80
        except OSError:
            return 80
    return shutil.get_terminal_size().columns
