"""Chains of nested subtasks: their depth, their templates and their shared limits."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from weft.evaluator.budget import EvaluationLimits, Scope

MAX_REQUESTED_DEPTH = 20
"""Most levels that a request may set if the author sets none, so that a model cannot remove the limit."""


class Link(Struct, frozen=True):
    """A task of a chain: a template and its inputs."""

    template: str
    digest: str
    """Hash of the template's name and inputs; the same for the same work."""


class Chain(Struct, frozen=True):
    """The position of a task in a chain of subtasks."""

    depth: int
    limit: int
    """The maximum depth of the chain."""
    links: tuple[Link, ...]
    """From the root task of the chain to this one; a task without a template has no link."""
    scope: Scope
    """The shared limits of all subtasks of the chain."""


def make_link(template: str, inputs: Mapping[str, Any]) -> Link:
    """Return the link of a template that is called with these inputs, defaults included."""
    text = msgspec.json.encode([template, inputs], order="sorted")
    return Link(template, hashlib.sha256(text).hexdigest())


def chain_scope(limits: EvaluationLimits, outer: Scope, now: float) -> Scope:
    """Return the scope of the subtasks below a task; its time starts now, and enclosing budgets apply."""
    bounds: dict[str, float] = {"subtasks": limits.subtasks, "turns": limits.subtask_turns}
    return Scope(bounds, outer, seconds=limits.subtask_seconds, now=now)


def depth_limit(chain: Chain | None, *, default: int, of_author: int | None, of_request: int | None) -> int:
    """Return the maximum depth of a chain; `chain` is the one so far, None before the first subtask.

    `max_depth` counts levels below the task that sets it. The author's value replaces the default; without
    one, a request's value does, up to MAX_REQUESTED_DEPTH. All other values can only lower the limit.
    """
    if chain is None:
        if of_author is None:
            return default if of_request is None else min(of_request, MAX_REQUESTED_DEPTH)
        return of_author if of_request is None else min(of_author, of_request)
    own = [chain.depth + levels for levels in (of_author, of_request) if levels is not None]
    return min([chain.limit, *own])
