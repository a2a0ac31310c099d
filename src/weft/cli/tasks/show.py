"""`weft tasks show`: a task record, and for a step where its result came from."""

import click
import msgspec

from weft.app.app import App
from weft.cli.display.output import plural, print_json, printable, printable_lines, when
from weft.cli.invoke import echo, with_app
from weft.cli.options import TASK_ID, store_options
from weft.ids import TaskId
from weft.tasks.record import Origin, Task, first_source
from weft.tasks.steps import is_step, step_fields


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--all", "is_all", is_flag=True, help="Show empty fields too.")
@store_options
def show(task_id: TaskId, is_all: bool, db: str | None, user: str | None, is_json: bool) -> None:
    """Show everything about one task.

    Of a step of a run also: where in the program it stands, what was asked, and where its result came from.
    """
    # Imported here: `weft tasks show --help` must not pay for them.
    from weft.tasks.parsing.problems import task_object
    from weft.tasks.questions import is_open_question

    async def read(app: "App") -> "tuple[Task, list[str]]":
        task = await app.get(task_id)
        return task, [] if is_json else await step_lines(app, task)

    task, lines = with_app(db, user, read)
    record = task_object(task)
    if is_json:
        print_json(record)
        return
    width = max(map(len, record))
    for field, value in record.items():
        if is_all or not _is_empty(value):
            shown = _shown(value) if field != "error" else printable_lines(str(value), indent=width + 2)
            echo(f"{field:<{width}}  {shown}")
    for line in lines:
        echo(line)
    if is_open_question(task):
        echo(f"it waits for an answer: weft tasks answer {task.id} TEXT")


def _is_empty(value: object) -> bool:
    """Whether there is nothing to show; 0 is something, an urgent priority for one."""
    return value is None or value is False or value == {} or value == []


def _shown(value: object) -> str:
    if isinstance(value, str):
        return printable(value)
    return printable(msgspec.json.encode(value).decode())


async def step_lines(app: App, task: Task) -> list[str]:
    """What there is to say of a step; nothing of another task."""
    if not is_step(task):
        return []
    mark = step_fields(task)
    lines = ["", f"step {await _place(app, task)} ({printable(str(mark.get('kind')))})"]
    lines += _asked((task.params or {}).get("asked") or {})
    source = mark.get("link_of") or (first_source(task) if task.origin_type is Origin.LINK else None)
    if source is None:
        return [*lines, *_answered("answered", task)]
    found = (await app.store.get_many([source], owner=app.owner)).get(source)
    if found is None:
        return [*lines, f"linked from {source}, which is not in this store"]
    place = await _place(app, found) if is_step(found) else "of no run"
    return [*lines, f"linked from {source}, step {place}", *_answered("made", found)]


async def _place(app: App, task: Task) -> str:
    """The key of a step, and the run it is of."""
    run = task
    while is_step(run) and run.parent_id is not None:
        run = await app.get(run.parent_id)
    return f"{printable(str(step_fields(task).get('key')))} of run {run.id} '{printable(run.name, width=60)}'"


def _asked(asked: dict[str, object]) -> list[str]:
    lines = []
    for name in ("system", "prompt", "shell", "argv", "query"):
        value = asked.get(name)
        if value:
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            lines.append(f"asked ({name}):")
            lines += [f"  {printable(line)}" for line in text.splitlines()]
    return lines


def _answered(verb: str, task: Task) -> list[str]:
    if task.completed_at is None:
        return []
    usage = ((task.result or {}).get("notes") or {}).get("usage")
    words = f"{verb} {when(task.completed_at)}"
    if isinstance(usage, dict):
        cost = usage.get("cost")
        words += f" by {printable(str(usage.get('model')))}, {plural(int(usage.get('tokens') or 0), 'token')}"
        words += ", price unknown" if cost is None else f", ${cost:.4f}"
    return [words]
