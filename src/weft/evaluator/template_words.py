"""How much a template has to do with some words: the same words in its name, description and criteria."""

import re

from weft.language.library import TaskDefinition
from weft.language.tree import TaskNode


def words(text: str) -> set[str]:
    """The words of a text, in small letters; parts of names are words."""
    return set(re.findall(r"[^\W_]+", text.lower()))


def words_of(definition: TaskDefinition) -> set[str]:
    """The words that say what a template does."""
    body = definition.ast_node
    criteria = body.criteria if isinstance(body, TaskNode) else None
    return words(f"{definition.name} {definition.metadata.get('description') or ''} {criteria or ''}")
