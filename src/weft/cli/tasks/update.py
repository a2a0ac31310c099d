"""`weft tasks update`."""

from collections.abc import Iterable
from typing import Any

import click
import msgspec

from weft.cli.display.output import print_json
from weft.cli.invoke import echo, with_app
from weft.cli.options import TASK_ID, UnreadableFile, read_input, store_options
from weft.errors import RequestError
from weft.ids import TaskId


class InvalidAssignment(RequestError):
    """An argument does not have the form field=value."""

    code = "invalid-assignment"


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.argument("assignments", metavar="FIELD=VALUE...", nargs=-1, required=True)
@store_options
def update(
    task_id: TaskId, assignments: tuple[str, ...], db: str | None, user: str | None, is_json: bool
) -> None:
    """Set fields of a task.

    VALUE is JSON, @FILE for the contents of a file, or plain text. parent_id and user_id cannot be changed;
    dependencies (ids) only while the task is pending; inputs, params and schemas while it is pending or
    failed.

    \b
    Examples:
      weft tasks update ID priority=0 name="Nightly report"
      weft tasks update ID inputs='{"url": "https://example.com"}'
      weft tasks update ID inputs=@inputs.json
    """
    # Imported here: keeps --help fast.
    from weft.tasks.parsing.problems import task_object

    fields = parse_assignments(assignments)
    task = with_app(db, user, lambda app: app.update(task_id, fields))
    if is_json:
        print_json(task_object(task))
    else:
        echo(f"updated {task.id}: {', '.join(sorted(fields))}")


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Parse FIELD=VALUE arguments; raise InvalidAssignment if one is malformed or repeated."""
    fields: dict[str, Any] = {}
    wrong: list[str] = []
    for assignment in assignments:
        try:
            field, value = _parse_assignment(assignment)
        except InvalidAssignment as error:
            wrong.append(error.message)
            continue
        if field in fields:
            wrong.append(f"{field} is given twice")
        fields[field] = value
    if wrong:
        raise InvalidAssignment("; ".join(wrong))
    return fields


def _parse_assignment(assignment: str) -> tuple[str, Any]:
    field, equals, text = assignment.partition("=")
    if not field or not equals:
        raise InvalidAssignment(f"{assignment!r} is not of the form field=value")
    if text.startswith("@"):
        return field, _parse_value(_file_text(text[1:]))
    return field, _parse_value(text)


def _file_text(name: str) -> str:
    try:
        return read_input(name).decode()
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{name}: not UTF-8 text") from error


def _parse_value(text: str) -> Any:
    """Decode JSON; return the text itself if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
