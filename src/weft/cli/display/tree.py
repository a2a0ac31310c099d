"""Format a flow as the rows of a tree."""

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from weft.cli.display.output import STATUS_COLOURS, duration, headline, plural, printable
from weft.cli.invoke import echo, styled
from weft.ids import TaskId
from weft.tasks.flow import Flow, find_step_owners
from weft.tasks.questions import is_open_question
from weft.tasks.record import Dependency, Task
from weft.tasks.steps import usage_of
from weft.tasks.summary import blocked

MARKS = {"pending": "·", "in_progress": "▶", "completed": "✔", "failed": "✘", "cancelled": "■"}

_MAX_SHOWN_DEPENDENCIES = 5
"""Maximum number of dependencies that a row names."""


class TreeRow(Struct, frozen=True):
    """Row of one task: tree branches, mark and name, status, and facts (id, duration, error ...)."""

    branches: str
    label: str
    status: str
    facts: str


def tree_rows(flow: Flow, blocked_ids: Collection[TaskId]) -> Iterator[TreeRow]:
    """Yield the rows of a flow's tree, children below their parents in creation order."""
    unfinished = _unfinished_steps(flow)
    stack: list[tuple[TaskId, str, str]] = [(flow.root.id, "", "")]
    while stack:
        task_id, here, below = stack.pop()
        task = flow[task_id]
        label = f"{MARKS[task.status.value]} {printable(task.name, width=60)}"
        facts = "  ".join(
            _facts(flow, task, is_blocked=task_id in blocked_ids, is_unfinished=task_id in unfinished)
        )
        yield TreeRow(here, label, task.status.value, facts)
        children = flow.children.get(task_id, [])
        for index, child in reversed(list(enumerate(children))):
            is_last = index == len(children) - 1
            stack.append(
                (child, below + ("└─ " if is_last else "├─ "), below + ("   " if is_last else "│  "))
            )


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
    yield task.id
    took = duration(task.started_at, task.completed_at)
    if took:
        yield took
    if is_unfinished:
        yield "[unfinished: its run has ended]"
    elif is_open_question(task):
        yield "[waits for an answer]"
    elif task.status.value == "in_progress":
        yield bar(task.progress)
    yield from spending(task, (flow[child] for child in flow.children.get(task.id, [])))
    if task.origin_type is not None and task.origin_type.value != "create":
        yield f"{task.origin_type} of {task.original_task_id}"
    if is_blocked:
        yield "[blocked]"
    elif task.status.value == "pending" and task.schedule_enabled:
        yield "[waits for its schedule]"
    waits = [_named(flow, dependency) for dependency in task.dependencies[:_MAX_SHOWN_DEPENDENCIES]]
    if waits:
        yield f"<- {', '.join(waits)}{' ...' if len(task.dependencies) > _MAX_SHOWN_DEPENDENCIES else ''}"
    if task.error:
        yield headline(task.error, width=80)


def spending(task: Task, below: Iterable[Task] = ()) -> Iterator[str]:
    """Yield tokens and cost of a step's model calls, `below` being its children; nothing for other tasks."""
    usage = usage_of(task, below)
    if usage is None:
        return
    yield plural(usage.tokens, "token")
    if not usage.unpriced:
        yield f"${usage.cost:.4f}"


def _named(flow: Flow, dependency: Dependency) -> str:
    # If only the first tasks of a flow are loaded, a dependency may be missing.
    name = printable(flow[dependency.id].name, width=30) if dependency.id in flow else dependency.id[:8]
    return name if dependency.required else f"({name})"


def bar(progress: float, *, width: int = 10) -> str:
    """Format a progress bar: ███░░░░░░░ 30%."""
    filled = round(progress * width)
    return f"{'█' * filled}{'░' * (width - filled)} {progress:.0%}"


def print_tree(flow: Flow, *, to_stderr: bool = False) -> int:
    """Print the tree of a flow and return the number of rows."""
    count = 0
    for row in tree_rows(flow, blocked(flow)):
        label = styled(row.label, fg=STATUS_COLOURS[row.status])
        echo(row.branches, label, "  ", styled(row.facts, dim=True), err=to_stderr)
        count += 1
    return count
