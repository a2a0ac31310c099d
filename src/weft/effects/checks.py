"""The static checks of a program with what a project's settings make known."""

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from weft.config.sections import ModelsSettings, ToolsSettings
from weft.effects.tools import ToolNames
from weft.language.ast import Define, Node, Program, Template
from weft.language.check import Verdict, verdict_on
from weft.language.diagnostics import InvalidProgram, LanguageProblem, in_order
from weft.language.library import TaskLibrary, definition_of
from weft.language.schemas import ReadSchema
from weft.language.traversal import used_names
from weft.llm.models import model_name_problem

Definition = Template | Define

HARMLESS = frozenset({"unused-parameter"})
"""Problems that `weft check` and the library tell, and that keep no program from running."""


class KnownNames(Struct, frozen=True):
    """What a program may name and does not define: None where it cannot be known before it runs."""

    tools: Collection[str] | None = None
    models: Callable[[str], str | None] | None = None
    """What is wrong with the name of a model; None: nothing."""
    schemas: ReadSchema | None = None


class NamesTools(Protocol):
    """Settings that say which models and tools there are."""

    @property
    def models(self) -> ModelsSettings:
        """The models, and how they are asked."""
        ...

    @property
    def tools(self) -> ToolsSettings:
        """The tools, and what they may reach."""
        ...


def project_names(settings: NamesTools, schemas: ReadSchema | None = None) -> KnownNames:
    """Return what the settings of a project make known."""
    return KnownNames(
        ToolNames(settings.tools, _registered_tools()),
        lambda name: model_name_problem(name, settings.models),
        schemas,
    )


def _registered_tools() -> frozenset[str]:
    """Return the tools made with `@weft.tool`: none where nobody has imported what makes them."""
    functions = sys.modules.get("weft.tools.functions")  # to import it here would cost every check 0.1 s
    return frozenset() if functions is None else functions.registered.names()


def project_verdict(
    program: Program,
    library: TaskLibrary,
    settings: NamesTools,
    *,
    schemas: ReadSchema | None = None,
    mentioned: frozenset[str] = frozenset(),
) -> Verdict:
    """Return what the checks say of a program beside a library, with the tools and models of the settings.

    `schemas` and `mentioned` are as for `verdict_on`.
    """
    return _verdict(program, library, project_names(settings, schemas), mentioned)


def _verdict(program: Program, library: TaskLibrary, known: KnownNames, mentioned: frozenset[str]) -> Verdict:
    """Every check made for a person ends here, so that no command accepts what another one refuses."""
    return verdict_on(
        program,
        library,
        tools=known.tools,
        models=known.models,
        schemas=known.schemas,
        mentioned=mentioned,
    )


def require_valid(
    program: Program,
    definitions: Sequence[Definition],
    known: KnownNames,
    given: Collection[str],
) -> None:
    """Raise InvalidProgram with everything that is known to be wrong, and with the inputs that are missing.

    Of `definitions`, the templates and functions around the program, those that it can reach are checked
    with it: what it calls is run as well. `given` are the names of its inputs.
    """
    reached = reached_definitions(program, definitions)
    library = library_of(form for form in definitions if form.name not in reached)
    functions = frozenset(form.name for form in definitions if isinstance(form, Define))
    whole = Program((*reached.values(), *program.forms))
    verdict = _verdict(whole, library, known, frozenset(given) | functions)
    missing = [
        LanguageProblem(span, "unbound-name", f"the input '{name}' is not given")
        for name, span in verdict.inputs.items()
        if name not in given
    ]
    problems = missing + [one for one in verdict.problems if one.code not in HARMLESS]
    if problems:
        raise InvalidProgram(in_order(problems))


def reached_definitions(program: Program, definitions: Iterable[Definition]) -> dict[str, Definition]:
    """Return the definitions that a program can come to run by name, in their order."""
    named = {form.name: form for form in definitions}
    reached: set[str] = set()
    forms: Sequence[Node] = program.forms
    while forms:
        used = used_names(forms)
        wanted = named.keys() if used.is_choosing else (used.called | used.mentioned) & named.keys()
        fresh = wanted - reached
        reached |= fresh
        forms = [named[name] for name in fresh]
    return {name: form for name, form in named.items() if name in reached}


def library_of(forms: Iterable[Node]) -> TaskLibrary:
    """The templates among the forms, as a library that a program is checked with."""
    library = TaskLibrary()
    for form in forms:
        if isinstance(form, Template):
            library.register_task(definition_of(form))
    return library
