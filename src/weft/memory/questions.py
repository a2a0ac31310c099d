"""A `ContextQuery` as what is looked for: which of its texts take part, and how much each counts."""

import json
from collections.abc import Iterator
from typing import Any

from weft.evaluator.effects import ContextQuery
from weft.language.task_fields import STRATEGIES
from weft.memory.protocol import Query, QueryPart

MAX_PART_CHARACTERS = 4_000
"""How much of a text takes part: the beginning says what it is about, the rest only costs time."""

QUERY, DESCRIPTION = 1.0, 1.0
BESIDE_QUERY = 0.5
"""What the description counts where a query says more exactly what is wanted."""
INPUT = 0.5
SURROUNDINGS = 0.3
"""Inherited context and earlier outputs say what it is about, but less what is wanted now."""


def question_of(query: ContextQuery, *, limit: int, roots: tuple[str, ...] = ()) -> Query:
    """What the matcher is asked. Raises ValueError for a strategy that there is not."""
    if query.matching_strategy not in STRATEGIES:
        known = " or ".join(STRATEGIES)
        raise ValueError(f"the matching strategy is {known}; this is '{query.matching_strategy}'")
    return Query(parts=tuple(_parts(query)), strategy=query.matching_strategy, limit=limit, roots=roots)


def _parts(query: ContextQuery) -> Iterator[QueryPart]:
    has_query = bool(query.query and query.query.strip())
    texts = [
        (query.query, QUERY),
        (query.template_description, BESIDE_QUERY if has_query else DESCRIPTION),
        *((text_of(value), INPUT) for value in query.inputs.values()),
        (query.inherited_context, SURROUNDINGS),
        (query.previous_outputs, SURROUNDINGS),
    ]
    for text, weight in texts:
        if text and text.strip():
            yield QueryPart(text[:MAX_PART_CHARACTERS], weight)


def text_of(value: Any) -> str:
    """An input as text that can be looked for."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def title_of(query: ContextQuery) -> str:
    """The query in one short line, for summaries."""
    text = " ".join((query.query or query.template_description or "").split())
    return text if len(text) <= 80 else f"{text[:79]}…"
