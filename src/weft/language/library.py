"""The task library: a registry of templates, and the choice of an evaluator by criteria."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from weft.errors import RequestError
from weft.language.ast import Node, TaskNode, Template
from weft.language.diagnostics import nearest
from weft.language.fields import TASK_KINDS
from weft.language.source import Span
from weft.language.task_fields import STANDARD, AtomicTaskSubtype, Parameter


class DuplicateTask(RequestError, ValueError):
    """A template with this name is already registered."""

    code = "duplicate-task"

    def __init__(self, *, name: str, first: Span | None) -> None:
        location = f" (first at {first})" if first is not None else ""
        super().__init__(f"task '{name}' is already registered{location}")
        self.name = name


class UnknownTask(RequestError, KeyError):
    """The task library has no template with this name."""

    code = "unknown-task"

    def __init__(self, *, name: str, known: Iterator[str]) -> None:
        super().__init__(f"task '{name}' is not in the library{nearest(name, known)}")
        self.name = name

    def __str__(self) -> str:
        """Return the message without the quotes that KeyError adds."""
        return self.message


class TaskDefinition(Struct, frozen=True):
    """A registered template."""

    name: str
    type: str
    """atomic, sequential, reduce, script, director_evaluator_loop, or `composite` for any other body."""
    subtype: str | None
    metadata: dict[str, Any]
    """`parameters` (names in order), `returns` (shape or None) and `description`."""
    ast_node: Node
    """The body of the template."""
    parameters: tuple[Parameter, ...]
    template: Template


def definition_of(template: Template) -> TaskDefinition:
    """Convert a template to the form in which it is registered."""
    body = template.body
    task = body if isinstance(body, TaskNode) else None
    kind = None if task is None else TASK_KINDS.get(type(task))
    return TaskDefinition(
        name=template.name,
        type="composite" if kind is None else kind.name,
        subtype=task.subtype if task is not None else None,
        metadata={
            "parameters": [parameter.name for parameter in template.parameters],
            "returns": template.returns,
            "description": task.description.raw if task and task.description else None,
        },
        ast_node=body,
        parameters=template.parameters,
        template=template,
    )


def open_inputs(template: Template) -> dict[str, bool]:
    """Return the inputs of the body that a caller may pass; True: required, unless it is a global name."""
    body = template.body
    if not isinstance(body, TaskNode):
        return {}
    return {one.name: one.value is None for one in body.inputs if one.is_open}


class TaskLibrary:
    """Templates by name. A name can be registered only once."""

    def __init__(self) -> None:
        self.tasks: dict[str, TaskDefinition] = {}

    def register_task(self, task_def: TaskDefinition) -> None:
        """Add a definition. Raise DuplicateTask if its name is already registered."""
        existing = self.tasks.get(task_def.name)
        if existing is not None:
            raise DuplicateTask(name=task_def.name, first=existing.template.span)
        self.tasks[task_def.name] = task_def

    def get_task(self, name: str) -> TaskDefinition:
        """Return the definition with this name. Raise UnknownTask, which is also a KeyError."""
        found = self.tasks.get(name)
        if found is None:
            raise UnknownTask(name=name, known=iter(self.tasks))
        return found

    def find(self, *, task_type: str | None = None, subtype: str | None = None) -> list[TaskDefinition]:
        """Return the definitions of a type and subtype in the order of registration; None matches any.

        An atomic task without a subtype counts as `standard`.
        """
        defaults = {"atomic": STANDARD}
        return [
            one
            for one in self.tasks.values()
            if task_type in (None, one.type) and subtype in (None, one.subtype or defaults.get(one.type))
        ]

    def __contains__(self, name: object) -> bool:
        return name in self.tasks

    def __iter__(self) -> Iterator[TaskDefinition]:
        return iter(self.tasks.values())

    def __len__(self) -> int:
        return len(self.tasks)


EVALUATOR: AtomicTaskSubtype = "evaluator"
"""The subtype of templates that judge a result."""


def words(text: str) -> set[str]:
    """Return the words of a text in lower case; underscores separate words."""
    return set(re.findall(r"[^\W_]+", text.lower()))


def words_of(definition: TaskDefinition) -> set[str]:
    """Return the words of a template's name, description and criteria."""
    body = definition.ast_node
    criteria = body.criteria if isinstance(body, TaskNode) else None
    return words(f"{definition.name} {definition.metadata.get('description') or ''} {criteria or ''}")


def best_evaluator(definitions: Iterable[TaskDefinition], criteria: str) -> TaskDefinition | None:
    """Return the evaluator template with the most words in common with the criteria, the first by name.

    Return None if no template of subtype `evaluator` has any of the words.
    """
    wanted = words(criteria)
    scored = [
        (-len(wanted & words_of(one)), one.name, one) for one in definitions if one.subtype == EVALUATOR
    ]
    score, _, found = min(scored, default=(0, "", None), key=lambda one: one[:2])
    return found if score else None


def no_evaluator(criteria: str) -> str:
    """Return the error message for criteria that match no evaluator."""
    return (
        f"no evaluator is named, and no template of subtype evaluator matches '{criteria}'; "
        "name an evaluator, or use a word of the criteria in the name or description of such a template"
    )
