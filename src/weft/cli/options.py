"""Options and arguments that several commands share."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from weft.errors import EXIT_INVALID, RequestError
from weft.ids import TaskId, is_task_id

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")


def store_options(command: F) -> F:
    """Add --db, --user and --json."""
    command = json_option(command)
    command = click.option(
        "--user",
        metavar="USER",
        help="Act for this owner only; also WEFT_USER. Default: see every owner's tasks.",
    )(command)
    return click.option(
        "--db", metavar="FILE|URL", help="The store: a SQLite file or postgresql://... ; also WEFT_DB."
    )(command)


class InvalidTaskId(RequestError):
    """What was given as a task id is none."""

    code = "invalid-task-id"


class TaskIdType(click.ParamType[TaskId]):
    """A task id on the command line."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> TaskId:
        if not is_task_id(value):
            raise InvalidTaskId(f"{value!r} is not a task id (a UUID v4, as `weft tasks list` shows them)")
        return TaskId(value.lower())


TASK_ID = TaskIdType()


class UnreadableFile(RequestError):
    """A file named on the command line cannot be read."""

    code = "unreadable-file"
    exit_code = EXIT_INVALID


def read_input(source: str) -> bytes:
    """The bytes of a file, or of standard input for `-`."""
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise UnreadableFile(f"{source}: {error.strerror}") from error
