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

_OF_MISSING_FILES = frozenset({"unbound-name", "unknown-task"})
"""What a file that cannot be read may be the reason of: not said beside the reason."""


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@click.option(
    "--registered", "is_registered", is_flag=True, help="Know the templates that are registered in the store."
)
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
    """Say what is wrong with programs, before anything is run.

    Files end in .xml, .sexp, .weft or .lisp; of a folder all of them are looked at. They are one library: the
    templates of all files see each other, and with --registered those of the store that no file defines. Exit
    code 0: nothing is wrong; 2: there are problems, and all of them are listed. Inputs that whoever runs a
    file must pass are told on standard error.
    """
    # Imported here: `weft check --help` must not pay for it.
    from weft.cli.display.output import plural, print_json, printable
    from weft.cli.display.problems import print_problems
    from weft.cli.program_args import read_programs
    from weft.language.diagnostics import in_order

    loaded, problems = read_programs(paths, surface)
    registered = _registered(db, user) if is_registered else {}
    checked, inputs = _checked(loaded, problems, registered)
    found = in_order([*problems, *checked])
    if is_json:
        print_json({"problems": [problem.as_json() for problem in found], "inputs": inputs})
    else:
        print_problems(found, to_stderr=False)
        for name, names in inputs.items():
            echo(printable(f"{name}: inputs: {', '.join(names)}"), err=True)
        files = {problem.span.source.name for problem in found} or loaded
        wrong = plural(len(found), "problem") if found else "nothing wrong"
        echo(f"{wrong} in {plural(len(files), 'file')}", err=True)
    return EXIT_INVALID if found else 0


def _checked(
    loaded: "list[LoadedFile]",
    problems: "list[LanguageProblem]",
    registered: "dict[str, TaskDefinition]",
) -> "tuple[list[LanguageProblem], dict[str, list[str]]]":
    """The problems of all programs, each with the templates of the others at hand; the inputs by file."""
    from weft.config.settings import load_settings
    from weft.effects.checks import project_verdict
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
        verdict = project_verdict(
            one.program, library, settings, schemas=schema_file_text, mentioned=mentioned
        )
        found += verdict.problems
        if verdict.inputs:
            inputs[one.name] = list(verdict.inputs)
    return [problem for problem in found if not unread or problem.code not in _OF_MISSING_FILES], inputs


def _registered(db: str | None, user: str | None) -> "dict[str, TaskDefinition]":
    """The templates of the store by name."""
    from weft.app.templates import known_templates
    from weft.cli.invoke import with_app

    return with_app(db, user, known_templates).tasks
