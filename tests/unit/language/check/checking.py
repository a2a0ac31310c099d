"""Checks of texts, for tests."""

from weft.language.check import check_program
from weft.language.diagnostics import InvalidProgram, LanguageProblem
from weft.language.library import TaskLibrary
from weft.language.sexp import read_program
from weft.language.source import Source

TOOLS = frozenset({"system:read_files"})


def model_problem(model: str) -> str | None:
    """Only one model is known."""
    return None if model == "local:auto" else f"there is no model '{model}'"


def problems(text: str, library: TaskLibrary | None = None) -> list[LanguageProblem]:
    """Return what the reader or the check finds wrong with a text."""
    try:
        program = read_program(Source("example", text))
    except InvalidProgram as error:
        return list(error.found)
    return check_program(program, library, tools=TOOLS, models=model_problem)


def messages(text: str, library: TaskLibrary | None = None) -> list[str]:
    return [str(problem) for problem in problems(text, library)]


def codes(text: str, library: TaskLibrary | None = None) -> list[str]:
    return [problem.code for problem in problems(text, library)]
