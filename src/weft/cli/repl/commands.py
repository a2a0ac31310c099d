"""Commands of a repl session: `,help`, `,load` and others. Each prints its own output."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct

from weft.app.evaluation import read
from weft.cli.display.output import plural, printable
from weft.cli.display.values import print_value, value_text
from weft.cli.invoke import echo
from weft.cli.repl.session import Session
from weft.errors import RequestError
from weft.evaluator.builtins import BUILT_INS
from weft.evaluator.functions import Closure
from weft.evaluator.values import kind_of
from weft.language.ast import Template
from weft.language.diagnostics import nearest
from weft.language.library import TaskDefinition
from weft.language.sexp.program import SPECIAL_FORMS

WIDTH = 60
"""How many characters of a value `,env` shows."""


class Leave(Exception):
    """Raised to end the session."""


class UnknownCommand(RequestError):
    """The repl has no such command, or the command lacks an argument."""

    code = "unknown-command"


class Command(Struct, frozen=True):
    """A command with its usage and a line of help."""

    usage: str
    about: str
    act: Callable[[Session, str], None]


def run_command(session: Session, text: str) -> None:
    """Run the command of an input that begins with a comma; raise UnknownCommand."""
    name, _, argument = text.strip().removeprefix(",").partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        hint = nearest(name, COMMANDS) or "; ,help lists them"
        raise UnknownCommand(f"there is no command ,{name}{hint}")
    if not argument.strip() and "[" not in command.usage and " " in command.usage:
        raise UnknownCommand(f"usage: {command.usage}")
    command.act(session, argument.strip())


def names(session: Session) -> Iterator[str]:
    """Yield every name that Tab can complete."""
    yield from (f",{name}" for name in COMMANDS)
    yield from BUILT_INS
    yield from SPECIAL_FORMS
    yield from session.bindings
    yield from session.library.tasks


def _help(session: Session, name: str) -> None:
    if name:
        echo(_help_on(session, name.removeprefix(",")))
        return
    for command in COMMANDS.values():
        echo(f"{command.usage:14} {command.about}")
    echo("\nForms: " + " ".join(sorted(SPECIAL_FORMS)))
    echo("\nFunctions: " + " ".join(sorted(BUILT_INS)))


def _help_on(session: Session, name: str) -> str:
    """Return the help text of a name; raise UnknownCommand if it is not defined."""
    bindings = session.bindings
    if name in bindings:
        return f"{_signature(name, bindings[name])}: {kind_of(bindings[name])}"
    if name in session.library:
        return _template_help(session.library.get_task(name))
    if name in SPECIAL_FORMS:
        return SPECIAL_FORMS[name].shape
    if name in BUILT_INS:
        return BUILT_INS[name].doc
    if name in COMMANDS:
        return f"{COMMANDS[name].usage}: {COMMANDS[name].about}"
    raise UnknownCommand(f"'{name}' is not defined{nearest(name, names(session))}")


def _template_help(definition: TaskDefinition) -> str:
    lines = [_signature(definition.name, definition)]
    prompt = definition.metadata["description"] or getattr(definition.ast_node, "prompt", None)
    if prompt is not None:
        lines.append(printable(getattr(prompt, "raw", prompt)))
    if definition.template.returns:
        lines.append(f"returns {printable(definition.template.returns)}")
    return "\n".join(lines)


def _signature(name: str, value: Any) -> str:
    """Return how to call a function or template: `(f x [y])`; for other values, the name."""
    if isinstance(value, Closure):
        return f"({' '.join([name, *value.parameters])})"
    if not isinstance(value, TaskDefinition):
        return name
    taken = (one.name if one.default is UNSET else f"[{one.name}]" for one in value.parameters)
    return f"({' '.join([name, *taken])})"


def _load(session: Session, path: str) -> None:
    program = read(Path(os.path.expanduser(path)))  # noqa: PTH111 - Path's own raises for an unknown user
    value = session.evaluate(program)
    templates = sum(isinstance(form, Template) for form in program.forms)
    echo(f"loaded {plural(templates, 'template')} from {printable(path)}")
    if value is not None:
        print_value(value)


def _env(session: Session, _: str) -> None:
    for name, value in sorted(session.bindings.items()):
        shown = "" if isinstance(value, Closure) else f" = {printable(value_text(value), width=WIDTH)}"
        echo(printable(_signature(name, value)) + shown)
    for definition in session.library:
        echo(f"{printable(_signature(definition.name, definition))}: {definition.type} task")


def _type(session: Session, text: str) -> None:
    echo(kind_of(session.evaluate_text(text)))


def _time(session: Session, text: str) -> None:
    began = time.perf_counter()
    value = session.evaluate_text(text)
    seconds = time.perf_counter() - began
    if value is not None:
        print_value(value)
    echo(f"{seconds:.6f} s")


def _quit(session: Session, _: str) -> None:
    raise Leave


COMMANDS = {
    "help": Command(",help [NAME]", "list commands, forms and functions; or explain a name", _help),
    "load": Command(",load FILE", "evaluate a file of XML or S-expressions", _load),
    "env": Command(",env", "list the names defined in this session", _env),
    "type": Command(",type EXPR", "evaluate, and print the type of the value", _type),
    "time": Command(",time EXPR", "evaluate, and print the time it took", _time),
    "quit": Command(",quit", "leave the session", _quit),
}
