"""The static checks of a program with what a project's settings make known."""

from collections.abc import Iterable

from weft.language.check import Verdict, verdict_on
from weft.language.library import TaskLibrary, definition_of
from weft.language.tree import Node, Program, Template
from weft.llm.model_names import model_name_problem
from weft.project_tools import ToolNames
from weft.settings import Settings


def project_verdict(
    program: Program,
    library: TaskLibrary,
    settings: Settings,
    *,
    mentioned: frozenset[str] = frozenset(),
) -> Verdict:
    """What the checks say of a program beside a library, with the tools and the models of the settings.

    Whoever checks a program for a person asks here, so that nothing passes in one place that is refused in
    another. `mentioned` is as for `verdict_on`.
    """
    return verdict_on(
        program,
        library,
        tools=ToolNames(settings.tools),
        models=lambda name: model_name_problem(name, settings.models),
        mentioned=mentioned,
    )


def library_of(forms: Iterable[Node]) -> TaskLibrary:
    """The templates among the forms, as a library that a program is checked with."""
    library = TaskLibrary()
    for form in forms:
        if isinstance(form, Template):
            library.register_task(definition_of(form))
    return library
