"""The task library: templates by name, and by how well they match a description."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from weft.errors import RequestError
from weft.language.ast import (
    Atomic,
    DirectorEvaluatorLoop,
    Node,
    Reduce,
    Script,
    Sequential,
    TaskNode,
    Template,
)
from weft.language.diagnostics import nearest
from weft.language.source import Span
from weft.language.task_fields import STANDARD, AtomicTaskSubtype, Parameter


class DuplicateTask(RequestError, ValueError):
    """The name of a template is taken."""

    code = "duplicate-task"

    def __init__(self, *, name: str, first: Span | None) -> None:
        place = f" (first at {first})" if first is not None else ""
        super().__init__(f"task '{name}' is already registered{place}")
        self.name = name


class UnknownTask(RequestError, KeyError):
    """The library has no template of that name."""

    code = "unknown-task"

    def __init__(self, *, name: str, known: Iterator[str]) -> None:
        super().__init__(f"task '{name}' is not in the library{nearest(name, known)}")
        self.name = name

    def __str__(self) -> str:
        """The message; a KeyError would put it into quotes."""
        return self.message


class TaskDefinition(Struct, frozen=True):
    """A template as the library keeps it."""

    name: str
    type: str
    """atomic, sequential, reduce, script, director_evaluator_loop; `composite` for any other body."""
    subtype: str | None
    metadata: dict[str, Any]
    """`parameters`: their names in order; `returns`: the shape, or None; `description`."""
    ast_node: Node
    """The body."""
    parameters: tuple[Parameter, ...]
    template: Template


_TYPES: dict[type[Node], str] = {
    Atomic: "atomic",
    Sequential: "sequential",
    Reduce: "reduce",
    Script: "script",
    DirectorEvaluatorLoop: "director_evaluator_loop",
}


def definition_of(template: Template) -> TaskDefinition:
    """The template as the library keeps it."""
    body = template.body
    task = body if isinstance(body, TaskNode) else None
    return TaskDefinition(
        name=template.name,
        type=_TYPES.get(type(body), "composite"),
        subtype=task.subtype if task is not None else None,
        metadata={
            "parameters": [parameter.name for parameter in template.parameters],
            "returns": template.returns,
            "description": task.description.raw
            if task is not None and task.description is not None
            else None,
        },
        ast_node=body,
        parameters=template.parameters,
        template=template,
    )


def _default_subtype(definition: TaskDefinition) -> str | None:
    return STANDARD if definition.type == "atomic" else None


def open_inputs(definition: TaskDefinition) -> list[str]:
    """The inputs of the body whose text gives way to what a caller passes."""
    body = definition.ast_node
    if not isinstance(body, TaskNode):
        return []
    return [one.name for one in body.inputs if one.is_open]


class TaskLibrary:
    """Templates by name; a name is registered once."""

    def __init__(self) -> None:
        self.tasks: dict[str, TaskDefinition] = {}

    def register_task(self, task_def: TaskDefinition) -> None:
        """Add a definition; raises DuplicateTask when the name is taken."""
        taken = self.tasks.get(task_def.name)
        if taken is not None:
            raise DuplicateTask(name=task_def.name, first=taken.template.span)
        self.tasks[task_def.name] = task_def

    def get_task(self, name: str) -> TaskDefinition:
        """The definition of that name; raises UnknownTask, which is a KeyError too."""
        found = self.tasks.get(name)
        if found is None:
            raise UnknownTask(name=name, known=iter(self.tasks))
        return found

    def find(self, *, task_type: str | None = None, subtype: str | None = None) -> list[TaskDefinition]:
        """Return the definitions of a type and subtype in the order of registration; None: of any.

        An atomic task without a subtype is a `standard` one.
        """
        return [
            one
            for one in self.tasks.values()
            if task_type in (None, one.type) and subtype in (None, one.subtype or _default_subtype(one))
        ]

    def __contains__(self, name: object) -> bool:
        return name in self.tasks

    def __iter__(self) -> Iterator[TaskDefinition]:
        return iter(self.tasks.values())

    def __len__(self) -> int:
        return len(self.tasks)


EVALUATOR: AtomicTaskSubtype = "evaluator"
"""The subtype of templates that judge."""


def words(text: str) -> set[str]:
    """Return the words of a text in small letters; parts of names are words."""
    return set(re.findall(r"[^\W_]+", text.lower()))


def words_of(definition: TaskDefinition) -> set[str]:
    """Return the words that say what a template does."""
    body = definition.ast_node
    criteria = body.criteria if isinstance(body, TaskNode) else None
    return words(f"{definition.name} {definition.metadata.get('description') or ''} {criteria or ''}")


def best_evaluator(definitions: Iterable[TaskDefinition], criteria: str) -> TaskDefinition | None:
    """Return the evaluator that has most words in common with the criteria, of equals the first by name.

    None: no template of subtype `evaluator` has one of the words.
    """
    wanted = words(criteria)
    scored = [
        (-len(wanted & words_of(one)), one.name, one) for one in definitions if one.subtype == EVALUATOR
    ]
    score, _, found = min(scored, default=(0, "", None), key=lambda one: one[:2])
    return found if score else None


def no_evaluator(criteria: str) -> str:
    """Return what to say where criteria match no evaluator."""
    return (
        f"no evaluator is named, and no template of subtype evaluator matches '{criteria}'; "
        "name an evaluator, or give a template of that subtype a word of the criteria"
    )
