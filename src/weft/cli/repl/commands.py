"""The commands of a session: `,help`, `,load` ... Each prints its own answer."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct

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
from weft.runs.files import read_file

WIDTH = 60
"""How much of a value `,env` shows."""


class Leave(Exception):
    """The session is to end."""


class UnknownCommand(RequestError):
    """A session has no such command, or the command needs more than it was given."""

    code = "unknown-command"


class Command(Struct, frozen=True):
    """A command: how it is written, what it does."""

    usage: str
    about: str
    act: Callable[[Session, str], None]


def run_command(session: Session, text: str) -> None:
    """Do what an input that begins with a comma says; raises UnknownCommand."""
    name, _, rest = text.strip().removeprefix(",").partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        hint = nearest(name, COMMANDS) or "; ,help lists them"
        raise UnknownCommand(f"there is no command ,{name}{hint}")
    if not rest.strip() and "[" not in command.usage and " " in command.usage:
        raise UnknownCommand(f"it is written {command.usage}")
    command.act(session, rest.strip())


def names(session: Session) -> Iterator[str]:
    """Every name that can be completed."""
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
    """What is to be known of a name."""
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
    raise UnknownCommand(f"nothing is called '{name}'{nearest(name, names(session))}")


def _template_help(definition: TaskDefinition) -> str:
    lines = [_signature(definition.name, definition)]
    prompt = definition.metadata["description"] or getattr(definition.ast_node, "prompt", None)
    if prompt is not None:
        lines.append(printable(getattr(prompt, "raw", prompt)))
    if definition.template.returns:
        lines.append(f"returns {printable(definition.template.returns)}")
    return "\n".join(lines)


def _signature(name: str, value: Any) -> str:
    """How a call of a function or template is written; of another value its name."""
    if isinstance(value, Closure):
        return f"({' '.join([name, *value.parameters])})"
    if not isinstance(value, TaskDefinition):
        return name
    taken = (one.name if one.default is UNSET else f"[{one.name}]" for one in value.parameters)
    return f"({' '.join([name, *taken])})"


def _load(session: Session, path: str) -> None:
    program = read_file(Path(os.path.expanduser(path)))  # noqa: PTH111 - Path's own raises for an unknown user
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
    "help": Command(",help [NAME]", "list commands, forms and functions; or say what a name is", _help),
    "load": Command(",load FILE", "evaluate a file, XML or S-expressions", _load),
    "env": Command(",env", "list what was defined", _env),
    "type": Command(",type EXPR", "evaluate, and say what kind of value it is", _type),
    "time": Command(",time EXPR", "evaluate, and say how long it took", _time),
    "quit": Command(",quit", "leave", _quit),
}
