"""Read the programs named on the command line: files, folders, standard input."""

from collections.abc import Sequence
from pathlib import Path

from weft.cli.options import read_input
from weft.language.ast import Program
from weft.language.diagnostics import InvalidProgram, LanguageProblem
from weft.language.reading import Surface, read_bytes
from weft.runs.files import LoadedFile, load_files, partly_loaded, read_file

STDIN = "-"


def read_programs(
    paths: Sequence[str], surface: Surface | None
) -> tuple[list[LoadedFile], list[LanguageProblem]]:
    """Read programs from files, folders and standard input; return them and their syntax problems."""
    loaded, problems = load_files([Path(path) for path in paths if path != STDIN], surface)
    if STDIN in paths:
        try:
            loaded.append(LoadedFile("<stdin>", read_stdin(surface)))
        except InvalidProgram as error:
            problems += error.found
            part = partly_loaded("<stdin>", error)
            loaded += [part] if part is not None else []
    return loaded, problems


def read_one(path: str, surface: Surface | None) -> Program:
    return read_stdin(surface) if path == STDIN else read_file(Path(path), surface)


def read_stdin(surface: Surface | None) -> Program:
    return read_bytes(read_input(STDIN), "<stdin>", surface)
