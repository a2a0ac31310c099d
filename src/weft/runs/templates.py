"""Registered templates in programs: find those that a program needs, and call one by name."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from weft.errors import EXIT_NOT_FOUND, RequestError
from weft.language.ast import Define, FunctionCall, Program, Template, Variable
from weft.language.builtins import RESERVED_NAMES
from weft.language.diagnostics import invalid_program, nearest
from weft.language.sexp.printer import print_program
from weft.runs.program import LoadedProgram, StoredProgram, StoredText
from weft.store.models import RegisteredTemplate
from weft.store.protocol import Owner, TaskStore


class UnknownTemplate(RequestError):
    """The store has no registered template of that name, or not that version of it."""

    code = "unknown-template"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, name: str, *, hint: str = "") -> None:
        super().__init__(f"no template '{name}' is registered{hint}")
        self.name = name


class TemplateName(Struct, frozen=True):
    """The name of a template, optionally with a version: `review`, `review@2`."""

    name: str
    version: int | None = None


def read_name(text: str) -> TemplateName:
    """Parse a template name with an optional `@version`."""
    name, _, version = text.rpartition("@")
    if name and version.isascii() and version.isdigit():
        return TemplateName(name, int(version))
    return TemplateName(text)


async def find_template(store: TaskStore, text: str, *, user_id: str | None) -> RegisteredTemplate:
    """Return an owner's template, by default the newest version; raise UnknownTemplate."""
    wanted, owner = read_name(text), Owner(user_id)
    if wanted.version is None:
        for found in await store.templates(owner=owner, names=[wanted.name]):
            return found
        raise UnknownTemplate(text, hint=await _hint(store, wanted.name, owner))
    versions = await store.template_versions(wanted.name, owner=owner)
    for found in versions:
        if found.version == wanted.version:
            return found
    hint = f"; the newest version is {versions[-1].version}" if versions else ""
    raise UnknownTemplate(text, hint=hint or await _hint(store, wanted.name, owner))


async def _hint(store: TaskStore, name: str, owner: Owner) -> str:
    versions = await store.template_versions(name, owner=owner)
    if versions:
        newest = versions[-1].version
        return f": it was removed; '{name}@{newest}' was its newest version"
    return nearest(name, [one.name for one in await store.templates(owner=owner)])


async def call_program(
    store: TaskStore, template: RegisteredTemplate, arguments: Collection[str]
) -> LoadedProgram:
    """Return a program that calls a template with its inputs as arguments, and has all templates it needs."""
    keywords = tuple((name, Variable(name=name)) for name in arguments)
    shown = print_program(Program((FunctionCall(func_name=template.name, keywords=keywords),)))
    program = LoadedProgram(StoredProgram(StoredText("<call>", shown, "sexp"), entry=template.name))
    return await _with_needed(store, program, [template], user_id=template.user_id)


async def with_templates(
    store: TaskStore, program: LoadedProgram, *, user_id: str | None, inputs: Collection[str] = ()
) -> LoadedProgram:
    """Return the program with the registered templates that it uses and does not define."""
    if not wants_templates(program, inputs):
        return program
    names = None if program.used.is_choosing else _wanted_names(program, inputs)
    found = await store.templates(owner=Owner(user_id), names=names)
    first = [one for one in found if one.name not in program.definitions]
    return await _with_needed(store, program, first, user_id=user_id)


def wants_templates(program: LoadedProgram, inputs: Collection[str] = ()) -> bool:
    """Return whether the program may use registered templates: names that it does not define, or any."""
    return program.used.is_choosing or bool(_wanted_names(program, inputs))


def _wanted_names(program: LoadedProgram, inputs: Collection[str]) -> frozenset[str]:
    used = program.used
    return (used.called | (used.mentioned - frozenset(inputs))) - program.definitions.keys() - RESERVED_NAMES


async def _with_needed(
    store: TaskStore, program: LoadedProgram, first: Sequence[RegisteredTemplate], *, user_id: str | None
) -> LoadedProgram:
    """Return the program with these templates and those that they need in turn."""
    own = program.definitions
    found = {one.name: one for one in first}
    asked = set(found)
    more: Sequence[RegisteredTemplate] = first
    while more:
        if any(one.facts.is_choosing for one in more):
            more = [one for one in await store.templates(owner=Owner(user_id)) if one.name not in own]
        else:
            names = {name for one in more for name in one.facts.names} - asked
            asked |= names
            more = await store.templates(owner=Owner(user_id), names=names) if names else ()
        more = [one for one in more if one.name not in found]
        found |= {one.name: one for one in more}
    kept = [one for one in found.values() if not _is_defined(one, own)]
    return program.replace(
        libraries=(*map(stored_text, kept), *program.stored.libraries),
        templates={one.name: one.version for one in kept},
    )


def stored_text(template: RegisteredTemplate) -> StoredText:
    return StoredText(f"{template.name}@{template.version}", template.text, "sexp")


def _is_defined(template: RegisteredTemplate, own: Mapping[str, Template | Define]) -> bool:
    """Return whether the program defines the template itself.

    Raise InvalidProgram if its own definition differs: registered templates that use the name mean the
    registered one.
    """
    mine = own.get(template.name)
    if mine is None:
        return False
    if print_program(Program((mine,))) != template.text:
        message = (
            f"the program defines '{template.name}', but a registered template that it uses needs the "
            f"registered '{template.name}'; rename yours"
        )
        raise invalid_program(mine.span, "duplicate-name", message)
    return True
