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
from weft.language.ast import FunctionCall, Node, Program, TaskNode, Template, Variable, keep_definitions
from weft.language.diagnostics import invalid_program
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
    """The record of the run has no readable program."""

    code = "no-program"


class StoredText(Struct, frozen=True, omit_defaults=True):
    """A source text, its syntax, and its name for messages."""

    name: str
    text: str
    surface: Surface | None = None

    def read(self) -> Program:
        """Parse the text; raise InvalidProgram."""
        return read_text(self.text, self.name, self.surface)

    def definitions(self) -> Program:
        """Parse the text as a library: only its templates and functions."""
        return keep_definitions(self.read())


class StoredProgram(Struct, frozen=True, omit_defaults=True):
    """A program and all settings of its run, except the inputs."""

    main: StoredText
    libraries: tuple[StoredText, ...] = ()
    """Sources of templates and functions that the program may use."""
    schemas: dict[str, str] = {}
    """Texts of the JSON Schema files that it names, by source and path."""
    model: str | None = None
    """Model for tasks that name no model: the default when the run started."""
    folder: str | None = None
    """Working folder: scripts run there, and its `weft.toml` applies. None: the folder of the worker."""
    is_reusing: bool = True
    limits: dict[str, float] = {}
    """Budget of the evaluation; missing entries have their defaults."""
    templates: dict[str, int] = {}
    """Versions of the registered templates among the libraries, by name."""
    version: str = ""
    """Version of weft that started the run; empty if unknown. Other versions may word prompts differently."""
    entry: str | None = None
    """Template to call with the inputs as arguments; `main` then only displays the call."""

    def programs(self) -> Iterator[Program]:
        """Yield the definitions of the libraries, then the program itself."""
        yield from (text.definitions() for text in self.libraries)
        yield self.main.read()

    def schema_text(self, path: str, source: str) -> str:
        """Return the text of a schema file as stored with the run; raise FileNotFoundError."""
        try:
            return self.schemas[_schema_key(source, path)]
        except KeyError:
            raise FileNotFoundError(f"'{path}' was not stored with the program") from None

    def with_schemas(self, read: ReadSchema) -> "StoredProgram":
        """Add the texts of the schema files; raise InvalidProgram if one cannot be read."""
        found: dict[str, str] = {}
        for program in self.programs():
            for node, path in _schema_paths(program):
                source = node.span.source.name
                try:
                    found[_schema_key(source, path)] = read(path, source)
                except (OSError, UnicodeDecodeError) as error:
                    reason = getattr(error, "strerror", None) or str(error)
                    raise invalid_program(node.span, "bad-value", f"schema file '{path}': {reason}") from None
        return msgspec.structs.replace(self, schemas=found)


def print_text(program: Program, name: str = "<python>") -> StoredText:
    """Return a program built in Python as source text."""
    return StoredText(name, print_program(program), "sexp")


def print_library(library: TaskLibrary) -> StoredText:
    return print_text(Program(tuple(definition.template for definition in library)), "<library>")


def main_of(program: StoredProgram, inputs: JsonObject) -> tuple[Program, JsonObject]:
    """Return the program to evaluate, and its bindings."""
    if program.entry is None:
        return program.main.read(), inputs
    # Names that no program can contain: an input must not shadow a template or a built-in.
    keywords = tuple((name, Variable(name=f"\0{name}")) for name in inputs)
    call = FunctionCall(func_name=program.entry, keywords=keywords)
    return Program((call,)), {f"\0{name}": value for name, value in inputs.items()}


def as_params(program: StoredProgram) -> JsonObject:
    """Return the program as an entry of `params`, with the version of weft that started the run."""
    program = msgspec.structs.replace(program, version=program.version or __version__)
    return {PROGRAM: msgspec.json.decode(msgspec.json.encode(program))}  # `to_builtins` leaves tuples


def program_of(task: Task) -> StoredProgram:
    """Return the program of a record; raise NoProgram."""
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
    """Yield tasks and templates that name a schema file, with its path; iterative, as trees may be deep."""
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
    """Return the text of a program file; raise InvalidProgram if it cannot be read or parsed."""
    content, surface = read_content(path, surface)  # read once: a pipe cannot be read again
    read_bytes(content, str(path), surface)  # raises InvalidProgram with the location of each problem
    text = content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    return StoredText(str(path), text, surface)


def with_model(program: StoredProgram, models: ModelsSettings) -> StoredProgram:
    """Return the program with its default model resolved now; unchanged if no default is set."""
    name = program.model or models.default
    if name is None:
        return program
    with suppress(ModelError):  # raised again, with a hint, when the model is called
        name = str(resolved(name, models))
    return structs.replace(program, model=name)


def resolve_workdir(program: StoredProgram, *, has_begun: bool) -> StoredProgram:
    """Return the program with its own working folder if this worker accepts it, else with the worker's.

    Raise ExecutionFailed if steps were already performed in a folder that this worker does not accept.
    """
    if program.folder is None:
        return program
    problem = _folder_problem(Path(program.folder))
    if problem is None:
        return program
    if has_begun:
        raise ExecutionFailed(f"the run works in {program.folder}, {problem}; resume it from that folder")
    return structs.replace(program, folder=None)


def _folder_problem(folder: Path) -> str | None:
    """Return why this worker refuses to work in a folder, or None.

    A folder's `weft.toml` decides what the worker does there, so the folder must belong to the worker's own
    project or user. In a folder that everybody can write to, such as /tmp, anybody can leave a `.mcp.json`
    or a module.
    """
    try:
        found = folder.stat()
        owners = {found.st_uid}
        file = find_project_file(folder)
        if file is not None:
            owners.add(file.stat().st_uid)
    except OSError:
        return "which does not exist here"
    if not folder.is_dir():
        return "which does not exist here"
    here = working_folder()
    if folder == here or (file is not None and file == find_project_file(here)):
        return None
    if owners != {os.geteuid()}:
        return "which belongs to another user"
    return "which every user can write to" if found.st_mode & stat.S_IWOTH else None
