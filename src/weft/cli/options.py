"""Options and arguments that several commands share."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from weft.errors import RequestError
from weft.ids import TaskId, is_task_id

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")


surface_option = click.option(
    "--format",
    "surface",
    type=click.Choice(["xml", "sexp"]),
    help="What the text is, if not what the suffix says (standard input: XML if it begins with <).",
)


def store_options(command: F) -> F:
    """Add --db, --user and --json."""
    command = json_option(command)
    command = click.option(
        "--user",
        metavar="USER",
        help="Act for this owner only; also WEFT_USER. Default: see every owner's tasks.",
    )(command)
    return click.option(
        "--db",
        metavar="FILE|URL",
        help="The store: a SQLite file, postgresql://... or :memory: ; also WEFT_DB.",
    )(command)


COUNT = click.IntRange(0, 2**31 - 1)
"""A number of rows on the command line."""


class TextType(click.ParamType[str]):
    """Text on the command line that can be compared and stored."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
            self.fail("it has characters that are no text", param, ctx)
        return text


TEXT = TextType()


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


def read_input(source: str) -> bytes:
    """The bytes of a file, or of standard input for `-`; one byte too many is enough to be refused."""
    # Imported here: --help must not pay for it.
    from weft.limits import MAX_JSON_BYTES, read_start

    try:
        if source == "-":
            if sys.stdin is None:
                raise UnreadableFile("standard input is closed")
            return sys.stdin.buffer.read(MAX_JSON_BYTES + 1)
        return read_start(Path(source), MAX_JSON_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UnreadableFile(f"{source}: {getattr(error, 'strerror', None) or error}") from error


def evaluation_options(command: F) -> F:
    """Add --library, --max-steps and --timeout."""
    command = click.option(
        "--timeout",
        "timeout_seconds",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        help="End an evaluation that takes longer.",
    )(command)
    command = click.option(
        "--max-steps",
        metavar="N",
        type=click.IntRange(1, 2**53),
        help="How many calls and rounds an evaluation may take. Default: 10 million.",
    )(command)
    return click.option(
        "--library",
        "libraries",
        metavar="PATH",
        multiple=True,
        help="Load the templates and functions of a file or folder, or of weft:aider or weft:prompts. "
        "Several may be given.",
    )(command)


def binding_options(command: F) -> F:
    """Add --set and --secret."""
    command = click.option(
        "--secret",
        "secrets",
        metavar="NAME[=VARIABLE]",
        multiple=True,
        type=TEXT,
        help="Bind a name to what an environment variable (default: of that name) holds; "
        "it is shown nowhere.",
    )(command)
    return click.option(
        "--set",
        "settings",
        metavar="NAME=VALUE",
        multiple=True,
        type=TEXT,
        help="Bind a name; a value that is JSON is JSON, @FILE is the text of a file. Several may be given.",
    )(command)


def model_options(command: F) -> F:
    """Add --model, --budget-tokens, --budget-cost and --stream."""
    command = click.option(
        "--stream",
        "is_streaming",
        is_flag=True,
        help="Show what models say on standard error, as it arrives.",
    )(command)
    command = click.option(
        "--budget-cost",
        metavar="DOLLARS",
        type=click.FloatRange(min=0),
        help="End before requests to models cost more US dollars than this, all together.",
    )(command)
    command = click.option(
        "--budget-tokens",
        metavar="N",
        type=click.IntRange(0, 2**53),
        help="End before requests to models take more tokens than this, all together.",
    )(command)
    return click.option(
        "--model",
        metavar="MODEL",
        type=TEXT,
        help="The model of tasks that name none: an alias, or provider:model. Also WEFT_MODEL.",
    )(command)
