"""Task library of a store: read templates from files, check, register, list and remove them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from weft.clock import Clock
from weft.config.settings import Settings
from weft.effects.checks import check_program, library_of, project_names
from weft.errors import RequestError
from weft.executors.registry import BUILT_IN_IDS, ExecutorRegistry
from weft.language.ast import Program, Template
from weft.language.builtins import RESERVED_NAMES
from weft.language.diagnostics import InvalidProgram, LanguageProblem, sort_problems
from weft.language.library import TaskLibrary, definition_of
from weft.language.schemas import argument_schema, with_inlined_schemas
from weft.language.sexp.printer import print_program
from weft.language.traversal import used_names
from weft.runs.files import library_path, load_files, name_problems, schema_file_text, templates_of
from weft.runs.templates import UnknownTemplate, find_template, read_name, stored_text
from weft.store.models import AddedTemplate, NewTemplate, TemplateFacts
from weft.store.models import RegisteredTemplate as RegisteredTemplate
from weft.store.protocol import Owner, TaskStore
from weft.tasks.record import MAX_METHOD_CHARACTERS


class TemplateInUse(RequestError):
    """A template cannot be removed because other registered templates use it."""

    code = "template-in-use"

    def __init__(self, name: str, users: Sequence[str]) -> None:
        super().__init__(
            f"'{name}' is used by {', '.join(users)}; remove those first, or force the removal (--force)"
        )
        self.name = name
        self.users = tuple(users)


class ReadTemplates(Struct, frozen=True):
    """Templates read from files, ready to be registered."""

    templates: tuple[Template, ...]
    left_out: int
    """Number of other forms in the files, which are not registered."""


def read_templates(paths: Iterable[str | Path]) -> ReadTemplates:
    """Read the templates of files and folders; raise InvalidProgram with all problems."""
    loaded, problems = load_files(map(library_path, paths))
    templates = templates_of(loaded)
    problems += name_problems(templates, TaskLibrary())
    found = []
    for template in templates:
        try:
            found.append(with_inlined_schemas(template, schema_file_text))
        except InvalidProgram as error:
            problems += error.found
    if problems:
        raise InvalidProgram(sort_problems(problems))
    forms = sum(len(one.program.forms) for one in loaded)
    return ReadTemplates(tuple(found), forms - len(found))


class TemplateLibrary:
    """The registered templates of a store, used on behalf of one owner."""

    def __init__(
        self,
        store: TaskStore,
        owner: Owner,
        settings: Settings,
        load_executors: Callable[[], ExecutorRegistry],
        clock: Clock,
    ) -> None:
        """Initialize; `load_executors` returns the executors of this process."""
        self._store = store
        self._owner = owner
        self._user_id = owner.user_id
        self._settings = settings
        self._load_executors = load_executors
        self._clock = clock

    async def add(self, templates: Sequence[Template]) -> Sequence[AddedTemplate]:
        """Register templates for the owner, all or none; raise InvalidProgram with all problems."""
        problems = [
            *_bad_names(templates, self._load_executors()),
            *_find_problems(templates, await self.find_all(), self._settings),
        ]
        if problems:
            raise InvalidProgram(sort_problems(problems))
        new = [
            NewTemplate(one.name, print_program(Program((one,))), template_facts(one)) for one in templates
        ]
        return await self._store.add_templates(new, user_id=self._user_id, now=self._clock.now())

    async def list(self) -> Sequence[RegisteredTemplate]:
        """Return the newest version of every template of the owner; for the operator, of all owners."""
        return await self._store.templates(owner=self._owner)

    async def find_all(self, names: Collection[str] | None = None) -> Sequence[RegisteredTemplate]:
        """Return the templates that tasks of the owner can name: all, or only those with the given names."""
        return await self._store.templates(owner=Owner(self._user_id), names=names)

    async def find(self, names: Iterable[str]) -> dict[str, RegisteredTemplate]:
        """Return the templates of the given names or versions (`review@2`) that exist, by name."""
        found = {}
        for name in dict.fromkeys(names):
            with suppress(UnknownTemplate):
                found[name] = await find_template(self._store, name, user_id=self._user_id)
        return found

    async def is_known(self, method: str) -> bool:
        """Return whether a method of tasks is the name or a version of a template, of any owner."""
        return bool(await self._store.known_templates([read_name(method).name]))

    async def show(self, name: str) -> tuple[RegisteredTemplate, Sequence[RegisteredTemplate]]:
        """Return the template NAME or NAME@VERSION of the owner, and all versions of NAME."""
        template = await find_template(self._store, name, user_id=self._user_id)
        return template, await self._store.template_versions(template.name, owner=Owner(self._user_id))

    async def remove(self, name: str, *, is_forced: bool = False) -> RegisteredTemplate:
        """Remove a template, so that only NAME@VERSION finds its versions.

        Raise UnknownTemplate, or TemplateInUse if other templates use it, unless `is_forced`.
        """
        users = [one.name for one in await self.find_all() if name in one.facts.names]
        if users and not is_forced:
            raise TemplateInUse(name, users)
        removed = await self._store.remove_template(name, user_id=self._user_id, now=self._clock.now())
        if removed is None:
            await find_template(self._store, name, user_id=self._user_id)  # raises if the name is unknown
            raise UnknownTemplate(name, hint=": a single version cannot be removed, give the name only")
        return removed

    async def for_checks(self) -> TaskLibrary:
        """Return the templates of the owner as a library for checks."""
        return library_of(form for one in await self.find_all() for form in stored_text(one).read().forms)


def template_facts(template: Template) -> TemplateFacts:
    """Return the facts that a store keeps about a template besides its text."""
    definition = definition_of(template)
    used = used_names([template.body])
    own = {template.name, *(parameter.name for parameter in template.parameters)}
    return TemplateFacts(
        type=definition.type,
        summary=" ".join(str(definition.metadata["description"] or "").split()),
        input_schema=argument_schema(template),
        names=tuple(sorted((used.called | used.mentioned) - own - RESERVED_NAMES)),
        is_choosing=used.is_choosing,
    )


def _find_problems(
    templates: Sequence[Template], registered: Sequence[RegisteredTemplate], settings: Settings
) -> list[LanguageProblem]:
    """Check new templates, and registered ones that use them, against all registered templates."""
    new = {template.name for template in templates}
    others: list[Template] = []
    users: list[Template] = []
    for one in registered:
        if one.name in new:
            continue
        (template,) = (form for form in stored_text(one).read().forms if isinstance(form, Template))
        (others if new.isdisjoint(one.facts.names) else users).append(template)
    program = Program((*templates, *users))
    return check_program(program, library_of(others), project_names(settings)).problems


def _bad_names(templates: Sequence[Template], executors: ExecutorRegistry) -> list[LanguageProblem]:
    """Return problems of names that a task could not use as its method."""
    problems = []
    for template in templates:
        name, reason = template.name, None
        if name in BUILT_IN_IDS or executors.find(name) is not None:
            reason = "is the name of an executor (schemas.method)"
        elif read_name(name).version is not None:
            reason = "ends like a version (@NUMBER)"
        elif len(name) > MAX_METHOD_CHARACTERS or not name.isprintable():
            reason = f"is longer than {MAX_METHOD_CHARACTERS} characters, or has unprintable characters"
        if reason is not None:
            message = f"'{name}' cannot be the name of a registered template: it {reason}"
            problems.append(LanguageProblem(template.span, "reserved-name", message))
    return problems
