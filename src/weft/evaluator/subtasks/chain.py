"""The chain of subtasks that a task is part of: how deep it is, what is under way, what it may use."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from weft.evaluator.budget import EvaluationLimits, Scope

MAX_REQUESTED_DEPTH = 20
"""How many levels a request may ask for where no author has said anything: a model does not lift every bound
by a number."""


class Link(Struct, frozen=True):
    """A task of a chain: a template and what it was given."""

    template: str
    digest: str
    """Of the template's name and the inputs: the same work has the same one."""


class Chain(Struct, frozen=True):
    """Where in a chain of subtasks a task stands."""

    depth: int
    limit: int
    """How deep the chain may get."""
    links: tuple[Link, ...]
    """From the task that nobody spawned to this one; a task without a template has no link."""
    scope: Scope
    """What all subtasks of the chain may use together."""


def link(template: str, inputs: Mapping[str, Any]) -> Link:
    """The link of a template that is called with these inputs, defaults included."""
    text = msgspec.json.encode([template, inputs], order="sorted")
    return Link(template, hashlib.sha256(text).hexdigest())


def chain_scope(limits: EvaluationLimits, outer: Scope, now: float) -> Scope:
    """What the subtasks below a task may use; its time begins now, and the budgets around pay."""
    bounds: dict[str, float] = {"subtasks": limits.subtasks, "turns": limits.subtask_turns}
    return Scope(bounds, outer, seconds=limits.subtask_seconds, now=now)


def depth_limit(chain: Chain | None, *, default: int, of_author: int | None, of_request: int | None) -> int:
    """How deep a chain may get below a task.

    `max_depth` counts levels below the task that says it. An author's replaces the default, a request's too,
    up to a bound; but whoever is further in can only lower what was said further out.
    """
    if chain is None:
        if of_author is None:
            return default if of_request is None else min(of_request, MAX_REQUESTED_DEPTH)
        return of_author if of_request is None else min(of_author, of_request)
    own = [chain.depth + levels for levels in (of_author, of_request) if levels is not None]
    return min([chain.limit, *own])
