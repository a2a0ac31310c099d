"""Records of steps and registered templates, and the requests that write them."""

from datetime import datetime

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.record import JsonObject, Task


class Run(Struct, frozen=True):
    """The attempt at a program task that records steps; they are written only while its claim is held."""

    task_id: TaskId
    attempt: int
    task_tree_id: TaskId
    user_id: str | None


class StepChange(Struct, frozen=True):
    """New state of a step to be stored."""

    task: Task
    key: str
    input_hash: str
    reuse_hash: str | None = None
    """The digest by which other runs find the completed step; None: it is not reusable."""
    is_new: bool = True
    """Whether the store does not have the record yet."""
    is_first_child: bool = False
    """Whether this is the first stored step below its parent."""
    is_continued: bool = False
    """Whether this attempt at the run stored the step before, so that its start is already in the log."""
    is_outcome_used: bool = False
    """Whether the program already used the outcome, so that a cancellation of the step is ignored."""
    is_params_only: bool = False
    """Whether only `params` change, even if the step has ended; the step is no longer reusable."""
    has_steps: bool = False
    """Whether the step has steps below it; the open ones end when the step ends."""


class StoredStep(Struct, frozen=True):
    """A step that was read from the store."""

    task: Task
    key: str
    input_hash: str


class WriteSteps(Struct, frozen=True):
    """Store steps of a run in one transaction, except those that have already ended."""

    run: Run
    changes: tuple[StepChange, ...]


class TemplateFacts(Struct, frozen=True, omit_defaults=True):
    """Facts about a template, stored so that its text need not be parsed for them."""

    type: str
    """atomic, sequential, reduce, script, director_evaluator_loop or composite."""
    summary: str = ""
    input_schema: JsonObject = {}
    """JSON Schema (draft-07) of its arguments."""
    names: tuple[str, ...] = ()
    """The names it uses, some of which may be other templates."""
    is_choosing: bool = False
    """Whether it may choose a template at run time, and so needs all templates."""


class NewTemplate(Struct, frozen=True):
    """A template to be registered."""

    name: str
    text: str
    """The source, in S-expressions."""
    facts: TemplateFacts


class RegisteredTemplate(Struct, frozen=True):
    """One version of a template of one owner."""

    name: str
    version: int
    """Counts from 1 and only grows, even if the template was removed meanwhile."""
    user_id: str | None
    text: str
    facts: TemplateFacts
    created_at: datetime
    removed_at: datetime | None = None
    """When the template was removed; set only in the version that was then the newest."""


class AddedTemplate(Struct, frozen=True):
    """A registered template, and whether registering it made a new version."""

    template: RegisteredTemplate
    is_new: bool


class AddTemplates(Struct, frozen=True):
    """Register templates, all or none."""

    templates: tuple[NewTemplate, ...]
    user_id: str | None
    now: datetime


class RemoveTemplate(Struct, frozen=True):
    """Remove a template, so that its name is no longer found; its versions stay."""

    name: str
    user_id: str | None
    now: datetime


class UpdateParams(Struct, frozen=True):
    """Update the params of a running program task, as long as its claim is held."""

    run: Run
    params: JsonObject
    now: datetime
