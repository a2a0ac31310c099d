"""A program as stored with its run: text, settings and working folder, pinned when it starts."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

from weft.config.sections import ModelsSettings
from weft.config.settings import find_project_file, working_folder
from weft.errors import RequestError
from weft.executors.protocol import ExecutionFailed
from weft.language.ast import (
    Define,
    FunctionCall,
    Node,
    Program,
    TaskNode,
    Template,
    Variable,
    keep_definitions,
)
from weft.language.diagnostics import invalid_program
from weft.language.library import TaskLibrary
from weft.language.reading import Surface, read_bytes, read_text
from weft.language.schemas import ReadSchema, is_path
from weft.language.sexp.printer import print_program
from weft.language.source import NOWHERE
from weft.language.task_fields import OutputFormat
from weft.language.traversal import UsedNames, structs_in, used_names
from weft.llm.errors import ModelError
from weft.llm.models import resolved
from weft.runs.files import read_content, unreadable_file
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
        """Return the syntax tree, parsed on first use in this process; raise InvalidProgram."""
        parsed = _parsed.get(self)
        if parsed is None:
            parsed = _parsed[self] = read_text(self.text, self.name, self.surface)
            size = sum(len(known.text) for known in list(_parsed))
            for oldest in list(_parsed)[:-1] if size > MAX_PARSED_CHARACTERS else ():
                _parsed.pop(oldest, None)
        return parsed


_parsed: dict[StoredText, Program] = {}
"""Syntax trees by source text: the executor gets only a task record from the engine, even in the process that
began the run; and many tasks of a flow may name the same template."""

MAX_PARSED_CHARACTERS = 4_000_000
"""How much source text may have its syntax tree kept: enough for hundreds of programs."""


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

    def schema_text(self, path: str, source: str) -> str:
        """Return the text of a schema file as stored with the run; raise FileNotFoundError."""
        try:
            return self.schemas[_schema_key(source, path)]
        except KeyError:
            raise FileNotFoundError(f"'{path}' was not stored with the program") from None


class LoadedProgram:
    """A stored program with its syntax trees: parsed once, handed on to the checks and the evaluation."""

    def __init__(self, stored: StoredProgram) -> None:
        """Parse all texts; raise InvalidProgram."""
        self.stored = stored
        self.main = stored.main.read()
        self.libraries = tuple(keep_definitions(text.read()) for text in stored.libraries)
        """Templates and functions of the libraries."""

    @cached_property
    def library_forms(self) -> tuple[Node, ...]:
        return tuple(form for library in self.libraries for form in library.forms)

    @property
    def forms(self) -> tuple[Node, ...]:
        """Return the definitions of the libraries, then the forms of the program itself."""
        return (*self.library_forms, *self.main.forms)

    @cached_property
    def definitions(self) -> dict[str, Template | Define]:
        """Return the templates and functions of the program and its libraries, by name."""
        return {form.name: form for form in self.forms if isinstance(form, Template | Define)}

    @cached_property
    def used(self) -> UsedNames:
        return used_names(self.forms)

    def call(self, inputs: JsonObject) -> tuple[Program, JsonObject]:
        """Return the program to evaluate, and its bindings."""
        if self.stored.entry is None:
            return self.main, inputs
        # Names that no program can contain: an input must not shadow a template or a built-in.
        keywords = tuple((name, Variable(name=f"\0{name}")) for name in inputs)
        # Problems are reported where the template is defined: the call is written nowhere.
        span = self.definitions[self.stored.entry].span if self.stored.entry in self.definitions else NOWHERE
        call = FunctionCall(func_name=self.stored.entry, keywords=keywords, span=span)
        return Program((call,)), {f"\0{name}": value for name, value in inputs.items()}

    def replace(self, **changes: Any) -> "LoadedProgram":
        """Return the program with other values in fields of `stored`."""
        return LoadedProgram(structs.replace(self.stored, **changes))

    def with_schemas(self, read: ReadSchema) -> "LoadedProgram":
        """Add the texts of the schema files; raise InvalidProgram if one cannot be read."""
        found: dict[str, str] = {}
        for node, path in _schema_paths(self.forms):
            source = node.span.source.name
            try:
                found[_schema_key(source, path)] = read(path, source)
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                raise invalid_program(node.span, "bad-value", f"schema file '{path}': {reason}") from None
        return self.replace(schemas=found) if found else self


def called_if_only_template(program: LoadedProgram) -> LoadedProgram:
    """Return a program of definitions, among them one template, as a call of this template."""
    forms = program.main.forms
    templates = [form.name for form in forms if isinstance(form, Template)]
    if len(templates) != 1 or keep_definitions(program.main).forms != forms:
        return program
    call = print_text(Program((FunctionCall(func_name=templates[0]),)), "<call>")
    libraries = (program.stored.main, *program.stored.libraries)
    return program.replace(main=call, libraries=libraries, entry=templates[0])


def print_text(program: Program, name: str = "<python>") -> StoredText:
    """Return a program built in Python as source text."""
    return StoredText(name, print_program(program), "sexp")


def print_library(library: TaskLibrary) -> StoredText:
    return print_text(Program(tuple(definition.template for definition in library)), "<library>")


def as_params(program: StoredProgram) -> JsonObject:
    """Return the program as an entry of `params`, with the version of weft that started the run."""
    program = structs.replace(program, version=program.version or __version__)
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


def _schema_paths(forms: Iterable[Node]) -> Iterator[tuple[Node, str]]:
    """Yield tasks and templates that name a schema file, with its path."""
    for one in structs_in(forms):
        if isinstance(one, Template):
            shapes = (one.returns, *(parameter.type for parameter in one.parameters))
            yield from ((one, shape.strip()) for shape in shapes if shape is not None and is_path(shape))
        elif isinstance(one, TaskNode):
            output: OutputFormat | None = one.output_format
            if output is not None and output.schema is not None and is_path(output.schema):
                yield cast(Node, one), output.schema.strip()


def file_text(path: Path, surface: Surface | None = None) -> StoredText:
    """Return the text of a program file; raise InvalidProgram if it cannot be read or parsed."""
    content, surface = read_content(path, surface)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        read_bytes(content, str(path), surface)  # raises InvalidProgram with the location
        raise unreadable_file(path, f"the text is not UTF-8: {error.reason}") from None
    found = StoredText(str(path), text.replace("\r\n", "\n").replace("\r", "\n"), surface)
    found.read()
    return found


def pin_model(name: str | None, models: ModelsSettings) -> str | None:
    """Return the full name of a default model, or of the settings' default; None if neither is set."""
    name = name or models.default
    if name is not None:
        with suppress(ModelError):  # raised again, with a hint, when the model is called
            return str(resolved(name, models))
    return name


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
