"""What every call of a task takes besides its arguments: `:files`, `:context`, `:history`, `:model`."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from weft.language.spans import Span
from weft.language.suggestions import nearest
from weft.language.task_fields import ContextOverrides, FilePaths, HistorySettings
from weft.language.tree import Text

CALL_SETTINGS = ("files", "context", "history", "model")
"""Their names; a parameter of that name comes first."""

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
    """A setting of a call has a value that it cannot have."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def read_setting(name: str, value: Any, span: Span) -> tuple[str, Any]:
    """The field of a task that a setting replaces, and its value; raises BadSetting."""
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
    """Return a path, and whether it may be missing: `"a.py"` or `(dict :path "a.py" :optional true)`."""
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
        message = ":history: turns is a whole number, at least 1; (:use false) shows the task nothing"
        raise BadSetting("bad-value", message)
    return history


def _settings(value: Any, kind: type[Struct], words: Mapping[str, str], name: str) -> Any:
    """A struct of settings from a dict that uses its names or the short words for them."""
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
