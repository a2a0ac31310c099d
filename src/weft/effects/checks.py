"""Static checks of a program with the tools and models of a project's settings."""

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from weft.config.sections import ToolsSettings
from weft.config.settings import ProjectSettings
from weft.language.ast import Define, Node, Program, Template
from weft.language.check import CheckResult, analyze_program
from weft.language.diagnostics import InvalidProgram, LanguageProblem, sort_problems
from weft.language.library import TaskLibrary, definition_of
from weft.language.schemas import ReadSchema
from weft.language.traversal import reachable_definitions
from weft.llm.models import model_name_problem

Definition = Template | Define

HARMLESS = frozenset({"unused-parameter"})
"""Problems that `weft check` and `weft library add` report, but that do not prevent a run."""


SYSTEM_TOOLS = (
    "system:get_context",
    "system:list_directory",
    "system:read_files",
    "system:request_user_input",
    "system:run_script",
    "system:spawn_subtask",
    "system:write_file",
)


class ToolNames(Collection[str]):
    """Tool names that `weft check` accepts.

    Tools of MCP servers are known only after connecting, tools of Python modules after importing them. So any
    name is accepted that could come from a configured server or module.
    """

    def __init__(self, settings: ToolsSettings, registered: Iterable[str] = ()) -> None:
        """Initialize; `registered` are the functions of this process registered with `@weft.tool`."""
        self._settings = settings
        self._known = {*SYSTEM_TOOLS, *(f"executor:{name}" for name in settings.executors), *registered}

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        kind, _, path = name.partition(":")
        if kind == "mcp":
            servers = self._servers
            return servers is None or path.partition(":")[0] in servers
        if kind in ("system", "executor"):
            return name in self._known
        return name in self._known or bool(self._settings.modules)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._known))

    def __len__(self) -> int:
        return len(self._known)

    @cached_property
    def _servers(self) -> frozenset[str] | None:
        """Return the MCP servers of the project; None if their file cannot be read."""
        try:
            document = json.loads(Path(self._settings.mcp).read_bytes())
            return frozenset(document["mcpServers"])
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError, LookupError, TypeError):
            return None


class KnownNames(Struct, frozen=True):
    """Names that a program may use without defining them; None: not known before the program runs."""

    tools: Collection[str] | None = None
    models: Callable[[str], str | None] | None = None
    """Returns the problem of a model name, None if it is valid."""
    schemas: ReadSchema | None = None


def project_names(settings: ProjectSettings, schemas: ReadSchema | None = None) -> KnownNames:
    """Return the tools and models that programs of a project can name."""
    functions = sys.modules.get("weft.tools.functions")  # not imported: that would cost every check 0.1 s
    registered = () if functions is None else functions.registered.names()
    return KnownNames(
        ToolNames(settings.tools, registered),
        lambda name: model_name_problem(name, settings.models),
        schemas,
    )


def check_program(
    program: Program, library: TaskLibrary, known: KnownNames, mentioned: frozenset[str] = frozenset()
) -> CheckResult:
    """Check a program with a library. All commands use this function, so that they accept the same programs.

    See `analyze_program` for `mentioned`.
    """
    return analyze_program(
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
    """Raise InvalidProgram with all problems found by the checks, including missing inputs.

    `definitions` are templates and functions outside of the program; those that it can reach are checked
    too. `given` are the names of its inputs.
    """
    reached = reachable_definitions(program.forms, {form.name: form for form in definitions})
    library = library_of(form for form in definitions if form.name not in reached)
    functions = frozenset(form.name for form in definitions if isinstance(form, Define))
    whole = Program((*reached.values(), *program.forms))
    verdict = check_program(whole, library, known, frozenset(given) | functions)
    missing = [
        LanguageProblem(span, "unbound-name", f"the input '{name}' is not given")
        for name, span in verdict.inputs.items()
        if name not in given
    ]
    problems = missing + [one for one in verdict.problems if one.code not in HARMLESS]
    if problems:
        raise InvalidProgram(sort_problems(problems))


def library_of(forms: Iterable[Node]) -> TaskLibrary:
    """Return a library of the templates among the forms."""
    library = TaskLibrary()
    for form in forms:
        if isinstance(form, Template):
            library.register_task(definition_of(form))
    return library
