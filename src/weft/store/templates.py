"""Templates that are registered in a store: every version of each, kept for good."""

from datetime import datetime

from msgspec import Struct

from weft.store.steps import Run
from weft.tasks.record import JsonObject


class TemplateFacts(Struct, frozen=True, omit_defaults=True):
    """What is known of a template without reading its text."""

    type: str
    """atomic, sequential, reduce, script, director_evaluator_loop or composite."""
    summary: str = ""
    input_schema: JsonObject = {}
    """Of its arguments: JSON Schema draft-07."""
    names: tuple[str, ...] = ()
    """The names it uses; some of them may be those of other templates."""
    is_choosing: bool = False
    """Whether it may choose a template while it runs: then it needs all of them."""


class NewTemplate(Struct, frozen=True):
    """A template to be registered."""

    name: str
    text: str
    """As S-expressions."""
    facts: TemplateFacts


class RegisteredTemplate(Struct, frozen=True):
    """One version of a template of one owner."""

    name: str
    version: int
    """Counts from 1; it only grows, also when the template was removed meanwhile."""
    user_id: str | None
    text: str
    facts: TemplateFacts
    created_at: datetime
    removed_at: datetime | None = None
    """Set when the template was removed while this was its newest version."""


class AddedTemplate(Struct, frozen=True):
    """A template as it is registered now, and whether that is a version that was not there before."""

    template: RegisteredTemplate
    is_new: bool


class AddTemplates(Struct, frozen=True):
    """Register templates, all or none."""

    templates: tuple[NewTemplate, ...]
    user_id: str | None
    now: datetime


class RemoveTemplate(Struct, frozen=True):
    """Let a template be found by its name no more."""

    name: str
    user_id: str | None
    now: datetime


class KeepParams(Struct, frozen=True):
    """Change the params of a task that is evaluated, as long as the attempt at it holds."""

    run: Run
    params: JsonObject
    now: datetime
