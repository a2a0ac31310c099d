"""Programs and libraries from files; the suffix tells the syntax."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from weft.config.paths import read_start
from weft.language.ast import Program, Template, keep_definitions
from weft.language.builtins import is_reserved
from weft.language.diagnostics import InvalidProgram, LanguageProblem, invalid_program, sort_problems
from weft.language.library import TaskLibrary, definition_of
from weft.language.reading import Surface, read_bytes
from weft.language.source import Source, Span
from weft.limits import MAX_PROGRAM_CHARACTERS

SUFFIXES: dict[str, Surface] = {".xml": "xml", ".sexp": "sexp", ".weft": "sexp", ".lisp": "sexp"}

MAX_PROGRAM_BYTES = 4 * MAX_PROGRAM_CHARACTERS
"""Maximum size of a program file. One more byte is read, so that the parsers refuse a longer file."""


SHIPPED = {
    "aider": Path(__file__).parents[1] / "integrations" / "aider" / "templates",
    "prompts": Path(__file__).parents[1] / "llm" / "shipped_templates",
}
"""Libraries shipped with weft."""


class LoadedFile(Struct, frozen=True):
    """A file and the program parsed from it."""

    name: str
    program: Program
    mentioned: frozenset[str] = frozenset()
    """Names in forms that could not be parsed."""


def read_file(path: Path, surface: Surface | None = None) -> Program:
    """Parse a program file; raise InvalidProgram, also if it cannot be read."""
    content, surface = read_content(path, surface)
    return read_bytes(content, str(path), surface)


def read_content(path: Path, surface: Surface | None = None) -> tuple[bytes, Surface]:
    """Return the bytes of a program file and its syntax; raise InvalidProgram if it cannot be read."""
    surface = surface or SUFFIXES.get(path.suffix.lower())
    if surface is None:
        raise unreadable_file(path, f"unknown file type; the name must end in {', '.join(SUFFIXES)}")
    try:
        return read_start(path, MAX_PROGRAM_BYTES + 1), surface
    except (OSError, ValueError) as error:
        raise unreadable_file(path, getattr(error, "strerror", None) or str(error)) from None


def schema_file_text(path: str, source: str) -> str:
    """Return the text of a schema file; `path` is relative to `source`, the program that names it."""
    return read_start(Path(source).parent / path, MAX_PROGRAM_CHARACTERS).decode("utf-8")


def library_path(name: str | Path) -> Path:
    """Return the file or folder of a library; `weft:NAME` is one shipped with weft."""
    kind, _, shipped = str(name).partition(":")
    if kind != "weft":
        return Path(name)
    folder = SHIPPED.get(shipped)
    if folder is None:
        known = ", ".join(f"weft:{name}" for name in SHIPPED)
        raise unreadable_file(Path(name), f"weft ships no such library; choose one of {known}")
    return folder


def find_files(path: Path) -> list[Path]:
    """Return the path itself, or all program files below a folder, sorted by name.

    Hidden files and folders are skipped. Raise InvalidProgram for a folder without program files.
    """
    try:
        if not path.is_dir():
            return [path]
        found = sorted(file for file in path.rglob("*") if _is_program_file(file, path))
    except OSError as error:
        raise unreadable_file(path, error.strerror or str(error)) from None
    if not found:
        raise unreadable_file(path, f"the folder has no program files ({', '.join(SUFFIXES)})")
    return found


def load_files(
    paths: Iterable[Path], surface: Surface | None = None
) -> tuple[list[LoadedFile], list[LanguageProblem]]:
    """Return the programs of files and folders, each file once, and the problems of invalid files."""
    loaded: dict[Path, LoadedFile | None] = {}
    problems: list[LanguageProblem] = []
    for path in paths:
        try:
            files = find_files(path)
        except InvalidProgram as error:
            problems += error.found
            continue
        for file in files:
            key = file.absolute()
            if key not in loaded:
                loaded[key] = _load(file, surface, problems)
    return [one for one in loaded.values() if one is not None], problems


def load_library(path: str | Path, library: TaskLibrary | None = None) -> TaskLibrary:
    """Add the templates of a file, or of all files in a folder, to `library` or to a new library.

    Either all templates are added, or InvalidProgram is raised with the problems of all files. Other forms
    (a `define`, a call at the end) are ignored. `weft:aider` and `weft:prompts` are shipped with weft.
    """
    library = library if library is not None else TaskLibrary()
    for template in templates_of(_load_valid([library_path(path)], library)):
        library.register_task(definition_of(template))
    return library


def load_definitions(paths: Sequence[Path]) -> Program:
    """Return the templates and functions of files and folders as one program without effects.

    Raise InvalidProgram with the problems of all files.
    """
    loaded = _load_valid(paths, TaskLibrary())
    return Program(tuple(form for one in loaded for form in keep_definitions(one.program).forms))


def _load_valid(paths: Iterable[Path], library: TaskLibrary) -> list[LoadedFile]:
    loaded, problems = load_files(paths)
    problems += name_problems(templates_of(loaded), library)
    if problems:
        raise InvalidProgram(sort_problems(problems))
    return loaded


def templates_of(loaded: Iterable[LoadedFile]) -> list[Template]:
    return [form for one in loaded for form in one.program.forms if isinstance(form, Template)]


def _load(file: Path, surface: Surface | None, problems: list[LanguageProblem]) -> LoadedFile | None:
    try:
        return LoadedFile(str(file), read_file(file, surface))
    except InvalidProgram as error:
        problems += error.found
        return partly_loaded(str(file), error)


def partly_loaded(name: str, error: InvalidProgram) -> LoadedFile | None:
    """Return what could be parsed of a file; None if nothing could."""
    partial = error.partial
    return None if partial is None else LoadedFile(name, partial.program, partial.mentioned)


def name_problems(templates: Sequence[Template], library: TaskLibrary) -> list[LanguageProblem]:
    """Return a problem for each template with the name of another template or of a built-in."""
    problems = []
    spans = {definition.name: definition.template.span for definition in library}
    for template in templates:
        name = template.name
        if name in spans:
            message = f"template '{name}' is defined twice; first at {spans[name]}"
            problems.append(LanguageProblem(template.span, "duplicate-name", message))
        elif is_reserved(name):
            message = f"'{name}' is a built-in; choose another name for the template"
            problems.append(LanguageProblem(template.span, "reserved-name", message))
        spans.setdefault(name, template.span)
    return problems


def _is_program_file(file: Path, folder: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix.lower() in SUFFIXES and not is_hidden and file.is_file()


def unreadable_file(path: Path, reason: str) -> InvalidProgram:
    return invalid_program(Span(Source(str(path), ""), 1, 0), "unreadable-file", reason)
