"""Fields of tasks and of task calls, and the rules for context settings."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from weft.language.ast import (
    Atomic,
    DirectorEvaluatorLoop,
    FilePaths,
    Node,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskNode,
    Text,
)
from weft.language.diagnostics import InvalidProgram, LanguageProblem, nearest
from weft.language.source import Span
from weft.language.task_fields import (
    ContextManagement,
    ContextOverrides,
    FreshContext,
    HistorySettings,
    InheritContext,
)

REQUEST_FIELDS: Final = ("system", "file_paths", "history", "tools")
"""Fields of the request to a model: only atomic tasks have them."""

_OTHER_KINDS: Final[dict[type[Node], str]] = {
    Script: "script",
    Sequential: "sequential",
    Reduce: "reduce",
    DirectorEvaluatorLoop: "director_evaluator_loop",
}


def misplaced_fields(node: TaskNode) -> str | None:
    """Describe request fields that this kind of task cannot have; None: all fit, or it is a reference."""
    plain = Reference(ref="")
    return misplaced(node, [name for name in REQUEST_FIELDS if getattr(node, name) != getattr(plain, name)])


def misplaced(node: Node, names: Iterable[str]) -> str | None:
    """Describe those of the named fields that this kind of task cannot have; None: all fit."""
    found = [name for name in names if name in REQUEST_FIELDS]
    if not found or isinstance(node, Atomic) or type(node) not in _OTHER_KINDS:
        return None
    verb, them = ("is", "it") if len(found) == 1 else ("are", "them")
    where = "" if isinstance(node, Script) else f"; write {them} on the tasks inside"
    return f"{', '.join(found)} {verb} for atomic tasks, and this is a {_OTHER_KINDS[type(node)]} task{where}"


CALL_SETTINGS = ("files", "context", "history", "model")
"""Keywords that set task fields in a call; a parameter of the same name takes precedence."""

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


class BadSetting(Exception):
    """A setting of a call has an invalid value."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def read_setting(name: str, value: Any, span: Span) -> tuple[str, Any]:
    """Return the task field that a call setting replaces, and its value. Raise BadSetting."""
    match name:
        case "model":
            return "model", _text(value)
        case "files":
            return "file_paths", _files(value, span)
        case "context":
            return "context", _settings(value, ContextOverrides, _CONTEXT_WORDS, name)
        case _:
            return "history", _history(value)


def _files(value: Any, span: Span) -> FilePaths:
    if not isinstance(value, list | tuple):
        raise BadSetting("wrong-type", ":files takes a list of paths")
    found = [_file(one) for one in value]
    return FilePaths(
        paths=tuple(Text(span=span, raw=path, parts=(path,)) for path, _ in found),
        optional=tuple(n for n, (_, is_optional) in enumerate(found) if is_optional),
    )


def _file(value: Any) -> tuple[str, bool]:
    """Return a path and whether it may be missing, from `"a.py"` or `(dict :path "a.py" :optional true)`."""
    if isinstance(value, str):
        return str(value), False
    if isinstance(value, dict) and value.keys() <= {"path", "optional"}:
        path, is_optional = value.get("path"), value.get("optional", False)
        if isinstance(path, str) and isinstance(is_optional, bool):
            return str(path), is_optional
    raise BadSetting("wrong-type", ":files takes a list of paths, or of (dict :path PATH :optional true)")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadSetting("wrong-type", ":model takes a string")
    return str(value)


def _history(value: Any) -> HistorySettings:
    history: HistorySettings = _settings(value, HistorySettings, _HISTORY_WORDS, "history")
    if history.history_turns_to_include is not None and history.history_turns_to_include < 1:
        message = ":history: turns is a whole number, at least 1; use (:use false) for no history"
        raise BadSetting("bad-value", message)
    return history


def _settings(value: Any, kind: type[Struct], words: Mapping[str, str], name: str) -> Any:
    """Convert a dict to a struct of settings; keys are field names or the short words for them."""
    if not isinstance(value, dict):
        raise BadSetting("wrong-type", f":{name} takes a dict of settings")
    fields = kind.__struct_fields__
    given: dict[str, Any] = {}
    for word, setting in value.items():
        field = words.get(word, word)
        if field not in fields:
            hint = nearest(word, [*words, *fields])
            raise BadSetting("unknown-keyword", f":{name} has no setting '{word}'{hint}")
        given[field] = setting
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise BadSetting("bad-value", f":{name} has a bad value: {error}") from None


ContextKind = Literal["atomic", "sequential", "script", "reduce", "director_evaluator_loop", "subtask"]
"""The kinds of task with default settings; `subtask` is an atomic task that another task spawned."""

DEFAULTS: Final[Mapping[ContextKind, ContextManagement]] = {
    "atomic": ContextManagement("full", False, "notes_only", "disabled"),
    "sequential": ContextManagement("full", True, "notes_only", "disabled"),
    "script": ContextManagement("full", False, "notes_only", "disabled"),
    "reduce": ContextManagement("none", True, "notes_only", "enabled"),
    "director_evaluator_loop": ContextManagement("none", True, "notes_only", "enabled"),
    "subtask": ContextManagement("none", False, "notes_only", "enabled"),
}


def merge_context(kind: ContextKind, overrides: ContextOverrides, span: Span) -> ContextManagement:
    """Return the defaults of the kind with the overrides. Raise InvalidProgram for conflicting overrides."""
    problem = context_conflict(overrides, span)
    if problem is not None:
        raise InvalidProgram([problem])
    defaults = DEFAULTS[kind]
    inherit, fresh = _resolve_inherit_and_fresh(overrides, defaults)
    accumulate = overrides.accumulate_data
    return ContextManagement(
        inherit_context=inherit,
        accumulate_data=defaults.accumulate_data if accumulate is None else accumulate,
        accumulation_format=overrides.accumulation_format or defaults.accumulation_format,
        fresh_context=fresh,
    )


def context_conflict(overrides: ContextOverrides, span: Span) -> LanguageProblem | None:
    """Return the problem of settings that exclude each other, or None.

    Only two explicit settings can conflict: the default of an omitted one adapts to the other.
    """
    inherit = overrides.inherit_context
    if overrides.fresh_context != "enabled" or inherit is None or inherit == "none":
        return None
    message = (
        f'fresh_context "enabled" excludes inherit_context "{inherit}": a task that fetches fresh context '
        'inherits none; write inherit_context "none", or fresh_context "disabled"'
    )
    return LanguageProblem(span, "context-conflict", message)


def _resolve_inherit_and_fresh(
    overrides: ContextOverrides, defaults: ContextManagement
) -> tuple[InheritContext, FreshContext]:
    """Return `inherit_context` and `fresh_context`; a default that conflicts with an override gives way."""
    inherit = overrides.inherit_context or defaults.inherit_context
    fresh = overrides.fresh_context or defaults.fresh_context
    if fresh == "enabled" and inherit != "none":
        return ("none", fresh) if overrides.inherit_context is None else (inherit, "disabled")
    return inherit, fresh
