"""Options and arguments that several commands share."""

import json
import sys
from collections.abc import Callable
from math import isfinite
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
    from weft.config.paths import read_start
    from weft.limits import MAX_JSON_BYTES

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


def read_bindings(
    settings: tuple[str, ...], secrets: tuple[str, ...], *, option: str | None = "--set"
) -> dict[str, Any]:
    """The names and what they are bound to; secrets are known as such from now on.

    `option` is where the settings come from; None: they are arguments.
    """
    found: dict[str, Any] = {}
    for setting in settings:
        name, value = _binding(setting, option)
        _add(found, name, value)
    for setting in secrets:
        _add(found, *_secret(setting))
    return found


def _add(found: dict[str, Any], name: str, value: Any) -> None:
    if name in found:
        raise click.UsageError(f"{name!r} is given twice")
    found[name] = value


def _binding(setting: str, option: str | None) -> tuple[str, Any]:
    name, sign, text = setting.partition("=")
    if not name or not sign:
        what = f"{option} takes NAME=VALUE" if option is not None else "inputs are given as NAME=VALUE"
        raise click.UsageError(f"{what}; {setting!r} is none")
    if text.startswith("@"):
        return name, read_input(text[1:]).decode("utf-8", "replace")
    try:
        return name, json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return name, text


def _secret(setting: str) -> tuple[str, Any]:
    """A name, and the secret it is bound to. The value is never an argument: others can read these."""
    import os

    from weft.secrets.value import Secret

    name, _, variable = setting.partition("=")
    variable = variable or name
    if not name.isprintable() or not name:
        raise click.UsageError(f"--secret takes NAME or NAME=VARIABLE; {setting!r} is none")
    value = os.environ.get(variable)
    if not value:
        raise click.UsageError(f"--secret {name}: the environment variable {variable} is not set")
    return name, Secret(value, name)


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise click.UsageError(f"--set: {digits} is too large for a number")
    return number


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
