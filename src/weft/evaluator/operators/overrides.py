"""Settings of a task that a call or a reference replaces."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from weft.evaluator.errors import ProgramError
from weft.evaluator.operators.steps import mistake
from weft.language.context import context_conflict
from weft.language.request_fields import misplaced
from weft.language.spans import Span
from weft.language.suggestions import nearest
from weft.language.task_fields import ContextOverrides, FilePaths, HistorySettings
from weft.language.tree import Node, Reference, TaskNode, Text

CALL_SETTINGS = frozenset({"files", "context", "history", "model"})
"""What every task call takes besides its arguments; a parameter of that name comes first."""

_CONTEXT_WORDS = {
    "inherit": "inherit_context",
    "accumulate": "accumulate_data",
    "format": "accumulation_format",
    "fresh": "fresh_context",
}
_HISTORY_WORDS = {
    "use": "use_session_history",
    "turns": "history_turns_to_include",
    "record": "record_in_session_history",
}
_NOT_REPLACED = frozenset({"span", "inputs", "output_slot", "input_source", "ref"})
"""Fields that a reference has for itself."""


def settings_of_call(keywords: Mapping[str, Any], span: Span) -> dict[str, Any]:
    """The fields of a task that the keywords of a call replace; raises ProgramError for bad values."""
    found: dict[str, Any] = {}
    for name, value in keywords.items():
        match name:
            case "model":
                found["model"] = _text(value, name, span)
            case "files":
                found["file_paths"] = _files(value, span)
            case "context":
                found["context"] = _settings(value, ContextOverrides, _CONTEXT_WORDS, name, span)
            case "history":
                found["history"] = _settings(value, HistorySettings, _HISTORY_WORDS, name, span)
    return found


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
        changes["context"] = _joined(body.context, changes["context"])
        problem = context_conflict(changes["context"], span)
        if problem is not None:
            raise _refused(problem.message, problem.code, span)
    return msgspec.structs.replace(body, **changes)


def _joined(own: ContextOverrides, new: ContextOverrides) -> ContextOverrides:
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


def _files(value: Any, span: Span) -> FilePaths:
    if not isinstance(value, list | tuple) or not all(isinstance(path, str) for path in value):
        raise _refused(":files takes a list of paths", "wrong-type", span)
    return FilePaths(paths=tuple(Text(span=span, raw=path, parts=(str(path),)) for path in value))


def _text(value: Any, name: str, span: Span) -> str:
    if not isinstance(value, str):
        raise _refused(f":{name} takes a string", "wrong-type", span)
    return str(value)


def _settings(value: Any, kind: type[Struct], words: Mapping[str, str], name: str, span: Span) -> Any:
    """A struct of settings from a dict that uses its names or the short words for them."""
    if not isinstance(value, dict):
        raise _refused(f":{name} takes a dict of settings", "wrong-type", span)
    fields = kind.__struct_fields__
    given: dict[str, Any] = {}
    for word, setting in value.items():
        field = words.get(word, word)
        if field not in fields:
            hint = nearest(word, [*words, *fields])
            raise _refused(f":{name} has no setting '{word}'{hint}", "unknown-keyword", span)
        given[field] = setting
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _refused(f":{name} has a bad value: {error}", "bad-value", span) from None


def _refused(message: str, code: str, span: Span) -> ProgramError:
    return mistake(code, message, span)
