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
    """An argument is not of the form field=value."""

    code = "invalid-assignment"


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.argument("assignments", metavar="FIELD=VALUE...", nargs=-1, required=True)
@store_options
def update(
    task_id: TaskId, assignments: tuple[str, ...], db: str | None, user: str | None, is_json: bool
) -> None:
    """Set fields of a task. A value that is JSON is taken as JSON, @FILE reads a file, the rest is text.

    parent_id and user_id never change; dependencies (by id) only while the task is pending; inputs, params
    and schemas while it is pending or failed.

    \b
    Examples:
      weft tasks update ID priority=0 name="Nightly report"
      weft tasks update ID inputs='{"url": "https://example.com"}'
      weft tasks update ID inputs=@inputs.json
    """
    # Imported here: `weft tasks update --help` must not pay for it.
    from weft.tasks.parsing.problems import task_object

    fields = parsed_assignments(assignments)
    task = with_app(db, user, lambda app: app.update(task_id, fields))
    if is_json:
        print_json(task_object(task))
    else:
        echo(f"updated {task.id}: {', '.join(sorted(fields))}")


def parsed_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """The fields and values of FIELD=VALUE arguments, each field once."""
    fields: dict[str, Any] = {}
    wrong: list[str] = []
    for assignment in assignments:
        try:
            field, value = parsed_assignment(assignment)
        except InvalidAssignment as error:
            wrong.append(error.message)
            continue
        if field in fields:
            wrong.append(f"{field} is given twice")
        fields[field] = value
    if wrong:
        raise InvalidAssignment("; ".join(wrong))
    return fields


def parsed_assignment(assignment: str) -> tuple[str, Any]:
    """The field and the value of one FIELD=VALUE argument."""
    field, equals, text = assignment.partition("=")
    if not field or not equals:
        raise InvalidAssignment(f"{assignment!r} is not of the form field=value")
    if text.startswith("@"):
        return field, parsed_value(_file_text(text[1:]))
    return field, parsed_value(text)


def _file_text(name: str) -> str:
    try:
        return read_input(name).decode()
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{name}: not UTF-8 text") from error


def parsed_value(text: str) -> Any:
    """The value that JSON text stands for, or the text itself when it is no JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
