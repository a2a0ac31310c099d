"""Programs as people name them: files, folders, standard input, objects of Python files, templates.

`check_programs` checks them without running them: the use case of `weft check`.
"""

import runpy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from weft.app.evaluation import read
from weft.config.paths import read_start
from weft.config.settings import Settings
from weft.effects.checks import check_program, project_names
from weft.errors import RequestError
from weft.language.ast import FunctionCall, Program, Template, Variable
from weft.language.builder.tasks import HasTemplate
from weft.language.builder.tasks import program as build_program
from weft.language.diagnostics import InvalidProgram, LanguageProblem
from weft.language.library import TaskDefinition, TaskLibrary, definition_of
from weft.language.reading import Surface, read_bytes
from weft.language.source import NOWHERE
from weft.limits import decode_text
from weft.runs.files import (
    SUFFIXES,
    LoadedFile,
    load_files,
    partly_loaded,
    read_file,
    schema_file_text,
    templates_of,
)
from weft.runs.program import StoredText, file_text, print_text


class RegisteredName(Struct, frozen=True):
    """Name of a registered template, `review`, or of a version, `review@2`, to be run as a program."""

    name: str


STDIN = "-"
"""Name of standard input among files."""

ReadInput = Callable[[], bytes]
"""Returns the bytes of standard input."""

PYTHON_SUFFIX = ".py"
NAMES = ("program", "main")
"""Default names of the object to run: the first name that the file defines counts."""


class NoPythonProgram(RequestError):
    """A Python file cannot be run, or does not define a program."""

    code = "no-python-program"


def find_source(
    name: str, surface: Surface | None, inputs: Mapping[str, Any], read_input: ReadInput
) -> StoredText | RegisteredName:
    """Return the program of a file or of standard input; any other name is that of a registered template.

    Raise InvalidProgram or NoPythonProgram if it cannot be read. A function of a Python file gets `inputs`.
    """
    if name == STDIN:
        return StoredText("<stdin>", decode_text(read_input()), surface)
    if name.partition(":")[0].endswith(PYTHON_SUFFIX):  # `report.py`, `report.py:nightly`
        return load_python_program(name, inputs)
    path = Path(name)
    looks_like_file = path.suffix.lower() in SUFFIXES or "/" in name or surface is not None
    return file_text(path, surface) if looks_like_file or path.exists() else RegisteredName(name)


def read_program(name: str, surface: Surface | None, read_input: ReadInput) -> Program:
    """Parse the program of a file or of standard input; raise InvalidProgram."""
    if name == STDIN:
        return read_bytes(read_input(), "<stdin>", surface)
    return read_file(Path(name), surface)


def read_programs(
    names: Sequence[str], surface: Surface | None, read_input: ReadInput
) -> tuple[list[LoadedFile], list[LanguageProblem]]:
    """Read programs from files, folders and standard input; return them and their syntax problems."""
    loaded, problems = load_files([Path(name) for name in names if name != STDIN], surface)
    if STDIN in names:
        try:
            loaded.append(LoadedFile("<stdin>", read_program(STDIN, surface, read_input)))
        except InvalidProgram as error:
            problems += error.found
            part = partly_loaded("<stdin>", error)
            loaded += [part] if part is not None else []
    return loaded, problems


_UNREADABLE_FILE_CODES = frozenset({"unbound-name", "unknown-task"})
"""Codes of problems that an unreadable file may cause; not reported if a file could not be read."""


def check_programs(
    loaded: Sequence[LoadedFile],
    problems: Sequence[LanguageProblem],
    registered: Mapping[str, TaskDefinition],
    settings: Settings,
) -> tuple[list[LanguageProblem], dict[str, list[str]]]:
    """Return the problems of programs, which can use each other's templates, and their inputs by file.

    `problems` are those found when the files were read, `registered` the templates of the store.
    """
    owners: dict[str, tuple[LoadedFile, TaskDefinition]] = {}
    for one in loaded:
        for template in templates_of([one]):
            owners.setdefault(template.name, (one, definition_of(template)))
    mentioned = frozenset().union(*(one.mentioned for one in loaded))
    unread = {problem.span.source.name for problem in problems} - {one.name for one in loaded}
    names = project_names(settings, schema_file_text)
    found = []
    inputs: dict[str, list[str]] = {}
    for one in loaded:
        library = TaskLibrary()
        own = {name for name, (owner, _) in owners.items() if owner is one}
        others = {name: known for name, (_, known) in owners.items() if name not in own}
        library.tasks = {name: known for name, known in registered.items() if name not in own} | others
        verdict = check_program(one.program, library, names, mentioned)
        found += verdict.problems
        if verdict.inputs:
            inputs[one.name] = list(verdict.inputs)
    return [problem for problem in found if not unread or problem.code not in _UNREADABLE_FILE_CODES], inputs


def load_python_program(name: str, inputs: Mapping[str, Any]) -> StoredText:
    """Return the program of a Python file, with the task functions it defines.

    If the program is a task function, it is called with the inputs that are its parameters. Raise
    NoPythonProgram if the file fails, or does not define the program.
    """
    path, _, wanted = name.partition(":")
    defined = _run_file(Path(path))
    chosen = next((one for one in ((wanted,) if wanted else NAMES) if one in defined), None)
    if chosen is None:
        expected = f"'{wanted}'" if wanted else " or ".join(f"'{one}'" for one in NAMES)
        raise NoPythonProgram(
            f"{path} does not define {expected}, a program made with weft.build or @weft.task"
        )
    value = defined[chosen]
    templates = {one.template.name: one.template for one in defined.values() if _is_task(one)}
    if _is_task(value):
        forms: tuple[Any, ...] = (_call(value.template, inputs),)
    else:
        forms = read(value).forms
    own = {form.name for form in forms if isinstance(form, Template)}
    library = [template for known, template in templates.items() if known not in own]
    return print_text(Program((*build_program(*library).forms, *forms)), path)


def _run_file(path: Path) -> dict[str, Any]:
    try:
        read_start(path, 1)  # rejects a named pipe, which would block
        return runpy.run_path(str(path), run_name="weft_program")
    except OSError as error:
        raise NoPythonProgram(f"{path}: {error.strerror}") from error
    except RequestError:
        raise
    except SystemExit as error:
        raise NoPythonProgram(f"{path} exits when it is loaded: SystemExit: {error}") from error
    except Exception as error:
        raise NoPythonProgram(f"{path} fails when it is loaded: {type(error).__name__}: {error}") from error


def _is_task(value: Any) -> bool:
    return isinstance(value, HasTemplate) and isinstance(getattr(value, "template", None), Template)


def _call(template: Template, inputs: Mapping[str, Any]) -> FunctionCall:
    names = [parameter.name for parameter in template.parameters if parameter.name in inputs]
    keywords = tuple((name, Variable(name=name, span=NOWHERE)) for name in names)
    return FunctionCall(func_name=template.name, keywords=keywords, span=NOWHERE)
