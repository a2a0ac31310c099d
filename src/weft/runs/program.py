"""A program as stored with its run: text, settings and working folder, pinned when it starts."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

from weft.config.sections import ModelsSettings
from weft.config.settings import find_project_file, working_folder
from weft.errors import RequestError
from weft.executors.protocol import ExecutionFailed
from weft.language.ast import FunctionCall, Node, Program, TaskNode, Template, Variable, definitions_of
from weft.language.diagnostics import refuse
from weft.language.library import TaskLibrary
from weft.language.reading import Surface, read_bytes, read_text
from weft.language.schemas import ReadSchema, is_path
from weft.language.sexp.printer import print_program
from weft.language.task_fields import OutputFormat
from weft.llm.errors import ModelError
from weft.llm.models import resolved
from weft.runs.files import read_content
from weft.tasks.program_params import PROGRAM
from weft.tasks.record import JsonObject, Task
from weft.version import __version__


class NoProgram(RequestError):
    """The record of a run has no program that could be read."""

    code = "no-program"


class StoredText(Struct, frozen=True, omit_defaults=True):
    """A text in one of the surfaces, and what it is called in messages."""

    name: str
    text: str
    surface: Surface | None = None

    def read(self) -> Program:
        """The program that it is; raises InvalidProgram."""
        return read_text(self.text, self.name, self.surface)

    def definitions(self) -> Program:
        """What of it a program can use whose library it is."""
        return definitions_of(self.read())


class StoredProgram(Struct, frozen=True, omit_defaults=True):
    """Everything that says what a run does, but its inputs."""

    main: StoredText
    libraries: tuple[StoredText, ...] = ()
    """Templates and functions that the program may use."""
    schemas: dict[str, str] = {}
    """The JSON Schema files that it names, by program and path."""
    model: str | None = None
    """The model of tasks that name none: the one that was the default when the run began."""
    folder: str | None = None
    """Where it works: scripts run there, and its `weft.toml` holds. None: where it is evaluated."""
    is_reusing: bool = True
    limits: dict[str, float] = {}
    """What the evaluation may use; what is not named is as usual."""
    templates: dict[str, int] = {}
    """The registered templates among the libraries, and their versions."""
    version: str = ""
    """The weft that began the run; empty: one that did not say. Another one may ask models in other words."""
    entry: str | None = None
    """The template that is called with the inputs as arguments; `main` then only shows the call."""

    def programs(self) -> Iterator[Program]:
        """What the libraries define, and then the program itself."""
        yield from (text.definitions() for text in self.libraries)
        yield self.main.read()

    def schema_text(self, path: str, source: str) -> str:
        """The text that the file had when the run was made; raises FileNotFoundError."""
        try:
            return self.schemas[_schema_key(source, path)]
        except KeyError:
            raise FileNotFoundError(f"'{path}' was not stored with the program") from None

    def with_schemas(self, read: ReadSchema) -> "StoredProgram":
        """The program with the schema files that it names; raises InvalidProgram when one cannot be read."""
        found: dict[str, str] = {}
        for program in self.programs():
            for node, path in _schema_paths(program):
                source = node.span.source.name
                try:
                    found[_schema_key(source, path)] = read(path, source)
                except (OSError, UnicodeDecodeError) as error:
                    reason = getattr(error, "strerror", None) or str(error)
                    raise refuse(node.span, "bad-value", f"schema file '{path}': {reason}") from None
        return msgspec.structs.replace(self, schemas=found)


def printed(program: Program, name: str = "<python>") -> StoredText:
    """A program that was built and not read."""
    return StoredText(name, print_program(program), "sexp")


def printed_library(library: TaskLibrary) -> StoredText:
    """The templates of a library."""
    return printed(Program(tuple(definition.template for definition in library)), "<library>")


def main_of(program: StoredProgram, inputs: JsonObject) -> tuple[Program, JsonObject]:
    """Return what is evaluated, and the names that are bound for it."""
    if program.entry is None:
        return program.main.read(), inputs
    # Names that nobody can write: an input must not hide a template or a built-in from the templates.
    keywords = tuple((name, Variable(name=f"\0{name}")) for name in inputs)
    call = FunctionCall(func_name=program.entry, keywords=keywords)
    return Program((call,)), {f"\0{name}": value for name, value in inputs.items()}


def as_params(program: StoredProgram) -> JsonObject:
    """Return the entry of a record's `params`; it notes the version of weft that began the run."""

    program = msgspec.structs.replace(program, version=program.version or __version__)
    return {PROGRAM: msgspec.json.decode(msgspec.json.encode(program))}  # `to_builtins` leaves tuples


def program_of(task: Task) -> StoredProgram:
    """The program of a record; raises NoProgram."""
    stored = (task.params or {}).get(PROGRAM)
    if stored is None:
        raise NoProgram(f"task {task.id} has no program (params.program)")
    try:
        return msgspec.convert(stored, StoredProgram)
    except msgspec.ValidationError as error:
        raise NoProgram(f"the program of task {task.id} cannot be read: {error}") from error


def _schema_key(source: str, path: str) -> str:
    return f"{source}\n{path}"


def _schema_paths(program: Program) -> Iterator[tuple[Node, str]]:
    """The tasks and templates that name a schema file, and the file; the tree may be deep."""
    stack: list[Any] = list(program.forms)
    while stack:
        one = stack.pop()
        if isinstance(one, Template):
            shapes = (one.returns, *(parameter.type for parameter in one.parameters))
            yield from ((one, shape.strip()) for shape in shapes if shape is not None and is_path(shape))
        elif isinstance(one, TaskNode):
            output: OutputFormat | None = one.output_format
            if output is not None and output.schema is not None and is_path(output.schema):
                yield cast(Node, one), output.schema.strip()
        if isinstance(one, Struct):
            stack.extend(getattr(one, name) for name in one.__struct_fields__ if name != "span")
        elif isinstance(one, Sequence) and not isinstance(one, str | bytes):
            stack.extend(one)


def file_text(path: Path, surface: Surface | None = None) -> StoredText:
    """The text of a program file; raises InvalidProgram when it cannot be read."""
    content, surface = read_content(path, surface)  # once: of a pipe there is no second time
    read_bytes(content, str(path), surface)  # says what is wrong with it, with the location
    text = content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    return StoredText(str(path), text, surface)


def with_model(program: StoredProgram, models: ModelsSettings) -> StoredProgram:
    """The program with the model of tasks that name none, as it is called now; None where none is chosen."""
    name = program.model or models.default
    if name is None:
        return program
    with suppress(ModelError):  # which is said when the model is asked, with everything that helps
        name = str(resolved(name, models))
    return structs.replace(program, model=name)


def resolve_workdir(program: StoredProgram, *, has_begun: bool) -> StoredProgram:
    """Return the program where it works: in its own folder if this process accepts it, else here.

    Raises ExecutionFailed when steps of it were performed in a folder that this process does not accept.
    """
    if program.folder is None:
        return program
    problem = _folder_problem(Path(program.folder))
    if problem is None:
        return program
    if has_begun:
        raise ExecutionFailed(f"the run works in {program.folder}, {problem}; resume it there")
    return structs.replace(program, folder=None)


def _folder_problem(folder: Path) -> str | None:
    """Return why this process does not work in a folder, whose `weft.toml` would apply to it.

    It is another machine's, or another user's: only this process's own project, and projects of the user it
    runs as, may decide what it does. In a folder that everybody can write to, as /tmp, anybody can leave a
    `.mcp.json` or a module.
    """
    try:
        found = folder.stat()
        owners = {found.st_uid}
        file = find_project_file(folder)
        if file is not None:
            owners.add(file.stat().st_uid)
    except OSError:
        return "which is not here"
    if not folder.is_dir():
        return "which is not here"
    here = working_folder()
    if folder == here or (file is not None and file == find_project_file(here)):
        return None
    if owners != {os.geteuid()}:
        return "a project of another user"
    return "which every user can write to" if found.st_mode & stat.S_IWOTH else None
