"""Options and arguments shared by several commands."""

import os
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem as Item
from msgspec import Struct

from weft.config.paths import read_start
from weft.errors import RequestError
from weft.ids import LAST, MIN_PREFIX, TaskId, is_task_id, prefix_range
from weft.limits import MAX_JSON_BYTES, decode_text, is_storable
from weft.secrets.references import KEY, Secret
from weft.tasks.parsing.arguments import ArgumentText, FileText, parse_json, typed_arguments

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "is_json", is_flag=True, help="Print the result as one JSON document.")

full_ids_option = click.option("--full-ids", "is_full", is_flag=True, help="Show whole ids.")

index_db_option = click.option(
    "--db", metavar="FILE|URL", help="Store that the index belongs to. Environment variable: WEFT_DB."
)

surface_option = click.option(
    "--format",
    "surface",
    type=click.Choice(["xml", "sexp"]),
    help="Format of the program. Default: by file suffix; standard input is XML if it begins with <.",
)


COUNT = click.IntRange(0, 2**31 - 1)
"""Type of options that take a number of rows, or the number of an event."""


class TextType(click.ParamType[str]):
    """Command-line text that can be stored: no NUL and no bytes that are not UTF-8."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not is_storable(text):
            self.fail("not valid text: it contains NUL or bytes that are not UTF-8", param, ctx)
        return text


TEXT = TextType()


class InvalidTaskId(RequestError):
    """The given value is not a task id."""

    code = "invalid-task-id"


class TaskReference(str):
    """The beginning of a task id, or `last`; `store_options` replaces it by the id before a command runs."""

    __slots__ = ()


def _completion() -> Any:
    # Imported here: needed only by a completion.
    from weft.cli import completion

    return completion


class TaskIdType(click.ParamType[TaskId]):
    """A task on the command line: its id, the beginning of its id, or `last`."""

    name = "id"

    def __init__(self, *, takes_last: bool = True) -> None:
        self._takes_last = takes_last

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> TaskId:
        if is_task_id(value):
            return TaskId(value.lower())
        if value == LAST and not self._takes_last:
            raise InvalidTaskId(f"{LAST!r} is not accepted here: give the id, as shown by `weft tasks list`")
        if not is_reference(value):
            form = f"give a UUID, at least its first {MIN_PREFIX} characters, or {LAST!r}"
            raise InvalidTaskId(f"{value!r} is not a task id: {form}")
        return TaskId(TaskReference(value))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        found: list[Item] = _completion().complete_id(ctx, incomplete)
        return found


def is_reference(text: str) -> bool:
    """Return whether a text can stand for a task that has a longer id."""
    return text == LAST or (len(text) >= MIN_PREFIX and prefix_range(text) is not None)


TASK_ID = TaskIdType()
CERTAIN_TASK_ID = TaskIdType(takes_last=False)
"""For commands whose effect cannot be undone."""


class TemplateNameType(click.ParamType[str]):
    """The name of a registered template; `or_file`: or a file."""

    name = "name"

    def __init__(self, *, or_file: bool = False) -> None:
        self._or_file = or_file

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return TEXT.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        files = [Item(incomplete, type="file")] if self._or_file else []
        return [*_completion().complete_template(ctx, incomplete), *files]


TEMPLATE_NAME = TemplateNameType()
PROGRAM = TemplateNameType(or_file=True)


class FlowSourceType(click.ParamType[str]):
    """A file with a flow, `-`, or a stored task as `TaskIdType` takes it; an existing file wins."""

    name = "flow"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not (is_task_id(value) or is_reference(value)) or Path(value).exists():
            return str(value)
        return TASK_ID.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        ids = TASK_ID.shell_complete(ctx, param, incomplete)
        return [*ids, Item(incomplete, type="file")]


FLOW_SOURCE = FlowSourceType()


class UnreadableFile(RequestError):
    """A file named on the command line cannot be read."""

    code = "unreadable-file"


def read_input(source: str) -> bytes:
    """Return the bytes of a file, or of standard input for `-`.

    Reads at most one byte more than the size limit, so that callers can reject input that is too long.
    """
    try:
        if source == "-":
            if sys.stdin is None:
                raise UnreadableFile("standard input is closed")
            return sys.stdin.buffer.read(MAX_JSON_BYTES + 1)
        return read_start(Path(source), MAX_JSON_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UnreadableFile(f"{source}: {getattr(error, 'strerror', None) or error}") from error


def read_stdin() -> bytes:
    return read_input("-")


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine options to one decorator; help lists them in this order."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


evaluation_options = _all(
    click.option(
        "--library",
        "libraries",
        metavar="PATH",
        multiple=True,
        help="Load templates and functions from a file, a folder, or a built-in library (weft:aider, "
        "weft:prompts). May be repeated.",
    ),
    click.option(
        "--max-steps",
        metavar="N",
        type=click.IntRange(1, 2**53),
        help="Maximum number of operations (calls and loop iterations), not of stored steps. "
        "Default: 10 million.",
    ),
    click.option(
        "--timeout",
        "timeout_seconds",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        help="Fail if the program takes longer than this.",
    ),
    click.option(
        "--model",
        metavar="MODEL",
        type=TEXT,
        help="Model for tasks that do not name one: an alias, or provider:model. "
        "Environment variable: WEFT_MODEL.",
    ),
    click.option(
        "--budget-tokens",
        metavar="N",
        type=click.IntRange(0, 2**53),
        help="Maximum number of tokens of all model requests together.",
    ),
    click.option(
        "--budget-cost",
        metavar="DOLLARS",
        type=click.FloatRange(min=0),
        help="Maximum cost of all model requests together, in US dollars.",
    ),
    click.option(
        "--stream",
        "is_streaming",
        is_flag=True,
        help="Print responses of models to standard error as they arrive.",
    ),
)
"""Adds the options that `EvaluationOptions` holds."""

binding_options = _all(
    click.option(
        "--set",
        "settings",
        metavar="NAME=VALUE",
        multiple=True,
        type=TEXT,
        help="Bind NAME to a value: JSON, @FILE for the text of a file, or plain text (@@TEXT if it begins "
        "with @); NAME:=JSON must be JSON. May be repeated.",
    ),
    click.option(
        "--secret",
        "secrets",
        metavar="NAME[=VARIABLE]",
        multiple=True,
        type=TEXT,
        help="Bind NAME to the value of an environment variable (default: NAME). "
        "The value is never shown. May be repeated.",
    ),
)
"""Adds --set and --secret."""


class EvaluationOptions(Struct, frozen=True, kw_only=True):
    """The values of `evaluation_options`."""

    libraries: tuple[str, ...] = ()
    max_steps: int | None = None
    timeout_seconds: float | None = None
    model: str | None = None
    budget_tokens: int | None = None
    budget_cost: float | None = None
    is_streaming: bool = False

    def limits(self) -> dict[str, Any]:
        """Return the limits that were given, by the names under which a run stores them."""
        named = {
            "steps": self.max_steps,
            "seconds": self.timeout_seconds,
            "tokens": self.budget_tokens,
            "cost": self.budget_cost,
        }
        return {name: limit for name, limit in named.items() if limit is not None}


def read_bindings(
    settings: tuple[str, ...],
    secrets: tuple[str, ...] = (),
    *,
    references: tuple[str, ...] = (),
    option: str | None = "--set",
    is_typed: bool = False,
) -> dict[str, Any]:
    """Parse NAME=VALUE settings and secrets into a dict; raise UsageError if a name is given twice.

    `secrets` are read, and registered for redaction; of `references` only the names are stored. `option` is
    the option named in error messages, None for positional arguments. With `is_typed`, values are left as
    texts for `typed_arguments`, because their parameters may have declared types.
    """
    found: dict[str, Any] = {}
    for setting in settings:
        name, value = _parse_binding(setting, option)
        _add_binding(found, name, value)
    for setting in secrets:
        _add_binding(found, *_read_secret(setting))
    for setting in references:
        name, _, variable = setting.partition("=")
        _add_binding(found, name, {KEY: variable or name})
    return found if is_typed else typed_arguments(found, {})


def _add_binding(found: dict[str, Any], name: str, value: Any) -> None:
    if name in found:
        raise click.UsageError(f"{name!r} is given twice")
    found[name] = value


def _parse_binding(setting: str, option: str | None) -> tuple[str, Any]:
    name, sign, text = setting.partition("=")
    if not name or not sign or name == ":":
        what = f"{option} takes NAME=VALUE" if option is not None else "inputs are given as NAME=VALUE"
        raise click.UsageError(f"{what}, not {setting!r}")
    if name.endswith(":"):
        try:
            return name[:-1], parse_json(text)
        except (ValueError, RecursionError) as error:
            raise click.UsageError(f"{name[:-1]}: the value after := is not JSON: {error}") from None
    if text.startswith("@@"):
        return name, ArgumentText(text[1:])
    return name, FileText(decode_text(read_input(text[1:]))) if text.startswith("@") else ArgumentText(text)


def _read_secret(setting: str) -> tuple[str, Any]:
    """Return a name and the secret bound to it.

    The value comes from the environment: other users of the machine can read arguments.
    """
    name, _, variable = setting.partition("=")
    variable = variable or name
    if not name.isprintable() or not name:
        raise click.UsageError(f"--secret takes NAME or NAME=VARIABLE, not {setting!r}")
    value = os.environ.get(variable)
    if not value:
        raise click.UsageError(f"--secret {name}: the environment variable {variable} is not set")
    return name, Secret(value, name)
