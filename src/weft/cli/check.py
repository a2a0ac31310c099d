"""`weft check`."""

from typing import TYPE_CHECKING

import click

from weft.cli.invoke import echo
from weft.cli.options import store_options, surface_option
from weft.errors import EXIT_INVALID

if TYPE_CHECKING:
    from weft.language.diagnostics import LanguageProblem
    from weft.language.library import TaskDefinition
    from weft.language.reading import Surface
    from weft.runs.files import LoadedFile

_UNREADABLE_FILE_CODES = frozenset({"unbound-name", "unknown-task"})
"""Codes of problems that an unreadable file may cause; not reported if a file could not be read."""


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@click.option("--registered", "is_registered", is_flag=True, help="Also use the templates of the store.")
@surface_option
@store_options
def check(
    paths: tuple[str, ...],
    surface: "Surface | None",
    is_registered: bool,
    db: str | None,
    user: str | None,
    is_json: bool,
) -> int:
    """Check programs for problems without running them.

    Lists every problem with file, line and column. A folder stands for all its files that end in .xml, .sexp,
    .weft or .lisp. All files are checked as one library: they can use each other's templates, and with
    --registered those of the store. The inputs that a program requires are printed to standard error. Exit
    code 0: no problems; 2: problems found.

    \b
    Examples:
      weft check review.xml
      weft check templates/ --registered
    """
    # Imported here: keeps --help fast.
    from weft.cli.display.output import plural, print_json, printable
    from weft.cli.display.problems import print_problems
    from weft.cli.program_args import read_programs
    from weft.language.diagnostics import sort_problems

    loaded, problems = read_programs(paths, surface)
    registered = _registered(db, user) if is_registered else {}
    checked, inputs = _check_programs(loaded, problems, registered)
    found = sort_problems([*problems, *checked])
    if is_json:
        print_json({"problems": [problem.as_json() for problem in found], "inputs": inputs})
    else:
        print_problems(found, to_stderr=False)
        for name, names in inputs.items():
            echo(printable(f"{name}: inputs: {', '.join(names)}"), err=True)
        files = {problem.span.source.name for problem in found} or loaded
        summary = f"{plural(len(files), 'file')} checked, no problems"
        if found:
            summary = f"{plural(len(found), 'problem')} in {plural(len(files), 'file')}"
        echo(summary, err=True)
    return EXIT_INVALID if found else 0


def _check_programs(
    loaded: "list[LoadedFile]",
    problems: "list[LanguageProblem]",
    registered: "dict[str, TaskDefinition]",
) -> "tuple[list[LanguageProblem], dict[str, list[str]]]":
    """Return the problems of all programs, which can use each other's templates, and their inputs by file."""
    from weft.config.settings import load_settings
    from weft.effects.checks import check_project_program
    from weft.language.library import TaskLibrary, definition_of
    from weft.runs.files import schema_file_text, templates_of

    owners: dict[str, tuple[LoadedFile, TaskDefinition]] = {}
    for one in loaded:
        for template in templates_of([one]):
            owners.setdefault(template.name, (one, definition_of(template)))
    mentioned = frozenset().union(*(one.mentioned for one in loaded))
    unread = {problem.span.source.name for problem in problems} - {one.name for one in loaded}
    settings = load_settings()
    found = []
    inputs: dict[str, list[str]] = {}
    for one in loaded:
        library = TaskLibrary()
        own = {name for name, (owner, _) in owners.items() if owner is one}
        others = {name: known for name, (_, known) in owners.items() if name not in own}
        library.tasks = {name: known for name, known in registered.items() if name not in own} | others
        verdict = check_project_program(
            one.program, library, settings, schemas=schema_file_text, mentioned=mentioned
        )
        found += verdict.problems
        if verdict.inputs:
            inputs[one.name] = list(verdict.inputs)
    return [problem for problem in found if not unread or problem.code not in _UNREADABLE_FILE_CODES], inputs


def _registered(db: str | None, user: str | None) -> "dict[str, TaskDefinition]":
    from weft.app.templates import known_templates
    from weft.cli.invoke import with_app

    return with_app(db, user, known_templates).tasks
