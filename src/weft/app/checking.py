"""Check programs without running them: the use case of `weft check`."""

from collections.abc import Mapping, Sequence

from weft.config.settings import Settings
from weft.effects.checks import check_program, project_names
from weft.language.diagnostics import LanguageProblem
from weft.language.library import TaskDefinition, TaskLibrary, definition_of
from weft.runs.files import LoadedFile, schema_file_text, templates_of

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
