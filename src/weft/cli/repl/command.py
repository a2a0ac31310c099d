"""`weft repl`: read an input, evaluate it, print its value; and the commands `,help`, `,load` and others.

Errors do not end the session. Each command prints its own output.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import click
from msgspec import UNSET, Struct

from weft.app.evaluation import read
from weft.cli.display.output import plural, printable
from weft.cli.display.problems import print_error
from weft.cli.display.values import print_usage, print_value, value_text
from weft.cli.eval import ShownEvaluation, run
from weft.cli.invoke import echo
from weft.cli.options import (
    EvaluationOptions,
    binding_options,
    evaluation_options,
    read_bindings,
)
from weft.cli.repl.terminal import PlainInput, TerminalInput
from weft.cli.store_access import tracing
from weft.errors import AuthorError, RequestError, WeftError
from weft.evaluator.builtins import BUILT_INS
from weft.evaluator.functions import Closure
from weft.evaluator.values import kind_of
from weft.language.ast import Program, Template
from weft.language.diagnostics import nearest
from weft.language.library import TaskDefinition, TaskLibrary
from weft.language.sexp import read_program
from weft.language.sexp.program import SPECIAL_FORMS
from weft.language.source import Source


class Session:
    """Evaluates programs one after another; later ones can use what earlier ones defined."""

    def __init__(self, evaluation: ShownEvaluation) -> None:
        self._evaluation = evaluation
        self._evaluator = evaluation.evaluator
        self._runner = (
            asyncio.Runner()
        )  # one loop for all inputs: connections and models are bound to their loop

    def __enter__(self) -> Self:
        try:
            run(self._evaluation.load, self._runner)
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            run(self._evaluation.close, self._runner)
        finally:
            self._runner.close()

    @property
    def library(self) -> TaskLibrary:
        return self._evaluator.library

    @property
    def bindings(self) -> dict[str, Any]:
        """Return the names bound in this session, without built-in ones."""
        known = self._evaluator.global_env
        return {name: known[name] for name in known if name not in BUILT_INS and name != "taskLibrary"}

    def bind(self, bindings: Mapping[str, Any]) -> None:
        """Bind names before the first input; programs may redefine them."""
        self._evaluator.bind(bindings)

    def evaluate_text(self, text: str) -> Any:
        return self.evaluate(read_program(Source("<repl>", text)))

    def evaluate(self, program: Program) -> Any:
        """Return the value of a program.

        A template may be redefined; the old definition is kept if the new one is invalid.
        """
        tasks = self.library.tasks
        names = [form.name for form in program.forms if isinstance(form, Template)]
        replaced: dict[str, TaskDefinition] = {name: tasks.pop(name) for name in names if name in tasks}
        try:
            return self._run(program)
        finally:
            for name, definition in replaced.items():
                tasks.setdefault(name, definition)

    def _run(self, program: Program) -> Any:
        ledger = self._evaluation.ledger
        ledger.entries.clear()
        try:
            return run(lambda: self._evaluation.evaluate(program, {}), self._runner)
        except KeyboardInterrupt:
            self._replace_busy_loop()
            raise
        finally:
            self._evaluation.display.end()
            if ledger.entries:
                print_usage(ledger, as_tree=False)

    def _replace_busy_loop(self) -> None:
        """Switch to a new event loop if tasks are left in the old one: they would run with the next input."""
        if asyncio.all_tasks(self._runner.get_loop()):
            run(self._evaluation.close, self._runner)
            self._runner.close()
            self._runner = asyncio.Runner()


@click.command()
@binding_options
@evaluation_options
def repl(settings: tuple[str, ...], secrets: tuple[str, ...], **options: Any) -> None:
    """Evaluate expressions interactively and print their values.

    Later expressions can use what earlier ones defined; a template may be redefined. On a terminal, the input
    has a history, continues over several lines until its parentheses are closed, and Tab completes names.
    Ctrl-C interrupts an evaluation, Ctrl-D leaves the session. `,help` lists the commands.
    """
    bindings = read_bindings(settings, secrets)
    with tracing(), Session(ShownEvaluation(EvaluationOptions(**options))) as session:
        session.bind(bindings)
        if sys.stdin is not None and sys.stdin.isatty():
            echo("Type an expression to evaluate it; ,help lists commands; Ctrl-D leaves.")
            process_inputs(session, TerminalInput(lambda: names(session)))
        else:
            process_inputs(session, PlainInput())


def process_inputs(session: Session, inputs: Iterable[str]) -> None:
    """Evaluate inputs until they end, or one is `,quit`; print errors and continue."""
    for text in inputs:
        try:
            _process(session, text)
        except Leave:
            return
        except AuthorError as error:
            print_error(error)
        except WeftError as error:
            echo(f"error: {error.code}: {printable(error.message)}", err=True)
        except KeyboardInterrupt:
            echo("interrupted", err=True)


def _process(session: Session, text: str) -> None:
    if text.lstrip().startswith(","):
        run_command(session, text)
    else:
        _print_unless_null(session.evaluate_text(text))


def _print_unless_null(value: Any) -> None:
    if value is not None:
        print_value(value)


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
    _print_unless_null(value)


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
    _print_unless_null(value)
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
