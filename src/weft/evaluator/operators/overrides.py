"""Settings of a task that a call or a reference replaces."""

from collections.abc import Mapping
from typing import Any

import msgspec

from weft.evaluator.errors import ProgramError
from weft.evaluator.operators.steps import mistake
from weft.language.call_settings import BadSetting, read_setting
from weft.language.context import context_conflict
from weft.language.request_fields import misplaced
from weft.language.spans import Span
from weft.language.task_fields import ContextOverrides
from weft.language.tree import Node, Reference, TaskNode

_NOT_REPLACED = frozenset({"span", "inputs", "output_slot", "input_source", "ref"})
"""Fields that a reference has for itself."""


def settings_of_call(keywords: Mapping[str, Any], span: Span) -> dict[str, Any]:
    """The fields of a task that the keywords of a call replace; raises ProgramError for bad values."""
    try:
        return dict(read_setting(name, value, span) for name, value in keywords.items())
    except BadSetting as error:
        raise _refused(error.message, error.code, span) from None


def settings_of_reference(node: Reference) -> dict[str, Any]:
    """The fields that are written on a reference."""
    plain = Reference(ref=node.ref)
    names = [field.name for field in msgspec.structs.fields(TaskNode) if field.name not in _NOT_REPLACED]
    return {name: getattr(node, name) for name in names if getattr(node, name) != getattr(plain, name)}


def replaced(body: Node, changes: Mapping[str, Any], span: Span) -> Node:
    """The body of a template with other settings; raises ProgramError when it is no task."""
    if not changes:
        return body
    if not isinstance(body, TaskNode):
        raise _refused(
            "settings were given, but the body of the template is no single task", "bad-value", span
        )
    misfit = misplaced(body, changes)
    if misfit is not None:
        raise _refused(misfit, "bad-value", span)
    changes = dict(changes)
    if "context" in changes:
        changes["context"] = joined(body.context, changes["context"])
        problem = context_conflict(changes["context"], span)
        if problem is not None:
            raise _refused(problem.message, problem.code, span)
    return msgspec.structs.replace(body, **changes)


def joined(own: ContextOverrides, new: ContextOverrides) -> ContextOverrides:
    """Settings one by one: the new ones win, and an old one that would exclude a new one is dropped."""
    merged = {
        name: getattr(own, name) if getattr(new, name) is None else getattr(new, name)
        for name in ContextOverrides.__struct_fields__
    }
    if new.fresh_context == "enabled" and new.inherit_context is None:
        merged["inherit_context"] = None
    if new.inherit_context in ("full", "subset") and new.fresh_context is None:
        merged["fresh_context"] = None
    return ContextOverrides(**merged)


def _refused(message: str, code: str, span: Span) -> ProgramError:
    return mistake(code, message, span)
