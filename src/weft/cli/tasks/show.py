"""`weft tasks show`: the fields of a task record, and the provenance of a step."""

import click
import msgspec

from weft.app.app import App
from weft.cli.display.output import plural, print_json, printable, printable_lines, when
from weft.cli.invoke import echo, with_app
from weft.cli.options import TASK_ID, store_options
from weft.ids import TaskId
from weft.tasks.record import Origin, Task, first_source
from weft.tasks.steps import PROMPT, RequestFacts, is_step, step_fields

SHOWN_SOURCES = 10
"""How many files of a prompt are shown; --json has all that are stored."""


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--all", "is_all", is_flag=True, help="Show empty fields too.")
@store_options
def show(task_id: TaskId, is_all: bool, db: str | None, user: str | None, is_json: bool) -> None:
    """Show all fields of a task.

    For a step of a run, also shows its step key, its request, and which run its result comes from.
    """
    # Imported here: keeps --help fast.
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
            shown = _to_text(value) if field != "error" else printable_lines(str(value), indent=width + 2)
            echo(f"{field:<{width}}  {shown}")
    for line in lines:
        echo(line)
    if is_open_question(task):
        echo(f"waiting for an answer; answer with: weft tasks answer {task.id} TEXT")


def _is_empty(value: object) -> bool:
    """Return whether a field is hidden without --all; 0 is shown: it is the most urgent priority."""
    return value is None or value is False or value == {} or value == []


def _to_text(value: object) -> str:
    if isinstance(value, str):
        return printable(value)
    return printable(msgspec.json.encode(value).decode())


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
    found = (await app.store.get_many([source], owner=app.owner)).get(source)
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
        line += ", price unknown" if cost is None else f", ${cost:.4f}"
    return [line]
