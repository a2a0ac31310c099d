"""A step of a run in words: its place, what was asked, and where the result came from."""

from weft.app import App
from weft.cli.text import plural, printable, when
from weft.tasks.record import Origin, Task, first_source
from weft.tasks.steps import is_step, mark_of


async def step_lines(app: App, task: Task) -> list[str]:
    """What there is to say of a step; nothing of another task."""
    if not is_step(task):
        return []
    mark = mark_of(task)
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
    return f"{printable(str(mark_of(task).get('key')))} of run {run.id} '{printable(run.name, width=60)}'"


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
