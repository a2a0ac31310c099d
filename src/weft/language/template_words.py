"""How much a template has to do with some words: the same words in its name, description and criteria."""

import re
from collections.abc import Iterable

from weft.language.library import TaskDefinition
from weft.language.task_fields import AtomicTaskSubtype
from weft.language.tree import TaskNode

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
