"""Records of steps and of registered templates, as stores return them."""

from datetime import datetime

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.record import JsonObject, Task


class Run(Struct, frozen=True):
    """The attempt at a task that is evaluated: only as long as it holds may steps be written."""

    task_id: TaskId
    attempt: int
    task_tree_id: TaskId
    user_id: str | None


class StepChange(Struct, frozen=True):
    """A step as it is to be stored from now on."""

    task: Task
    key: str
    input_hash: str
    reuse_hash: str | None = None
    """What other runs find it by once it is completed; None: it is not for them."""
    is_new: bool = True
    """Whether the store does not have the record yet."""
    is_first_child: bool = False
    """Whether nothing below its parent was stored before."""
    is_continued: bool = False
    """Whether this attempt at the run has stored the step before: the log says already that it began."""
    is_late_to_cancel: bool = False
    """Whether the program has gone on with the outcome: who cancelled the step came too late."""
    is_mark: bool = False
    """Whether only `params` change, of a step that has ended however; no other run finds it any more."""
    has_steps: bool = False
    """Whether steps were stored below it: those that are open when it ends, end with it."""


class StoredStep(Struct, frozen=True):
    """A step as it was found."""

    task: Task
    key: str
    input_hash: str


class WriteSteps(Struct, frozen=True):
    """Store steps of a run, all or none."""

    run: Run
    changes: tuple[StepChange, ...]


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
