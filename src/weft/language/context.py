"""Context settings: the defaults of each kind of task, what the author wrote, and the rule between them."""

from collections.abc import Mapping
from typing import Final, Literal

from weft.language.problems import InvalidProgram, LanguageProblem
from weft.language.spans import Span
from weft.language.task_fields import ContextManagement, ContextOverrides, FreshContext, InheritContext

ContextKind = Literal["atomic", "sequential", "script", "reduce", "director_evaluator_loop", "subtask"]
"""The kinds of task that have defaults; `subtask` is an atomic task that another one spawned."""

DEFAULTS: Final[Mapping[ContextKind, ContextManagement]] = {
    "atomic": ContextManagement("full", False, "notes_only", "disabled"),
    "sequential": ContextManagement("full", True, "notes_only", "disabled"),
    "script": ContextManagement("full", False, "notes_only", "disabled"),
    "reduce": ContextManagement("none", True, "notes_only", "enabled"),
    "director_evaluator_loop": ContextManagement("none", True, "notes_only", "enabled"),
    "subtask": ContextManagement("none", False, "notes_only", "enabled"),
}


def merged_context(kind: ContextKind, overrides: ContextOverrides, span: Span) -> ContextManagement:
    """The settings in force; raises InvalidProgram when the author wrote two that exclude each other."""
    problem = context_conflict(overrides, span)
    if problem is not None:
        raise InvalidProgram([problem])
    defaults = DEFAULTS[kind]
    inherit, fresh = _agreeing(overrides, defaults)
    accumulate = overrides.accumulate_data
    return ContextManagement(
        inherit_context=inherit,
        accumulate_data=defaults.accumulate_data if accumulate is None else accumulate,
        accumulation_format=overrides.accumulation_format or defaults.accumulation_format,
        fresh_context=fresh,
    )


def context_conflict(overrides: ContextOverrides, span: Span) -> LanguageProblem | None:
    """The problem with settings that exclude each other; None: there is none.

    Only settings that are both written can conflict: one that is left out follows the other.
    """
    inherit = overrides.inherit_context
    if overrides.fresh_context != "enabled" or inherit is None or inherit == "none":
        return None
    message = (
        f'fresh_context "enabled" excludes inherit_context "{inherit}": a task that fetches fresh context '
        'inherits none; write inherit_context "none", or fresh_context "disabled"'
    )
    return LanguageProblem(span, "context-conflict", message)


def _agreeing(
    overrides: ContextOverrides, defaults: ContextManagement
) -> tuple[InheritContext, FreshContext]:
    """What is inherited and whether more is fetched: a default gives way to what was written beside it."""
    inherit = overrides.inherit_context or defaults.inherit_context
    fresh = overrides.fresh_context or defaults.fresh_context
    if fresh == "enabled" and inherit != "none":
        return ("none", fresh) if overrides.inherit_context is None else (inherit, "disabled")
    return inherit, fresh
