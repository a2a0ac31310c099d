"""Conversion of Python and JSON values to task fields: options of the builder, and settings of calls."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.language.ast import FilePaths, Text
from weft.language.diagnostics import InvalidProgram, invalid_program, nearest
from weft.language.fields import CALL_SETTINGS, SETTINGS, Field, Kind, context_conflict
from weft.language.source import Span
from weft.language.task_fields import ContextOverrides

Reader = Callable[[Field, Any, Span, str], Any]
"""Converts a value: (field, value, location, name of the field in messages). Raises InvalidProgram."""

ToText = Callable[[Any, Span, str], Text]

_NAMES: Mapping[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    tuple: "a list",
    dict: "a dict",
    type(None): "nil",
}


def wrong_type(wanted: str, value: Any, span: Span, what: str) -> InvalidProgram:
    """Return the error for a value of a wrong type."""
    name = _NAMES.get(type(value), f"a Python {type(value).__name__}")
    return invalid_program(span, "wrong-type", f"{what} must be {wanted}, not {name}")


def read_string(field: Field, value: Any, span: Span, what: str) -> str:
    if isinstance(value, str):
        return str(value)
    raise wrong_type("a string", value, span, what)


def read_boolean(field: Field, value: Any, span: Span, what: str) -> bool:
    if isinstance(value, bool):
        return value
    raise wrong_type("true or false", value, span, what)


def read_count(field: Field, value: Any, span: Span, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type("a whole number", value, span, what)
    if value < 1:
        raise invalid_program(span, "bad-value", f"{what} must be at least 1")
    return value


def _read_seconds(field: Field, value: Any, span: Span, what: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise wrong_type("a number of seconds", value, span, what)
    if not 0 < value <= sys.float_info.max:
        raise invalid_program(span, "bad-value", f"{what} must be a number of seconds above 0")
    return float(value)


def _read_choice(field: Field, value: Any, span: Span, what: str) -> str:
    found = (field.choices or {}).get(value) if isinstance(value, str) else None
    if found is not None:
        return found
    words = ", ".join(f'"{one}"' for one in field.words)
    hint = nearest(str(value), field.words)
    raise invalid_program(span, "bad-value", f"{what} must be one of {words}{hint}")


def _read_items(value: Any, span: Span, what: str, items: str) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    raise wrong_type(f"a list of {items}", value, span, what)


def _read_names(field: Field, value: Any, span: Span, what: str) -> tuple[str, ...]:
    return tuple(read_string(field, one, span, what) for one in _read_items(value, span, what, "names"))


def _read_settings(field: Field, value: Any, span: Span, what: str) -> Any:
    """Convert a dict; keys are the keywords of settings or their full names."""
    kind = field.settings or ContextOverrides
    known = {name: one for one in SETTINGS[kind] for name in (one.option, one.name)}
    words = ", ".join(one.option for one in SETTINGS[kind])
    if not isinstance(value, Mapping):
        raise wrong_type(f"a dict with {words}", value, span, what)
    given: dict[str, Any] = {}
    for word, one in value.items():
        if word not in known:
            hint = nearest(str(word), known)
            raise invalid_program(span, "unknown-keyword", f"{what} has no setting '{word}'{hint}")
        if one is not None:
            setting = known[word]
            given[setting.name] = READERS[setting.kind](setting, one, span, f"{what}: {word}")
    made = kind(**given)
    if isinstance(made, ContextOverrides) and (problem := context_conflict(made, span)) is not None:
        raise InvalidProgram([problem])
    return made


def read_files(value: Any, span: Span, what: str, to_text: ToText) -> FilePaths:
    """Convert a list of paths, each `"a.py"` or `{"path": "a.py", "optional": True}`."""
    found = [_read_file(one, span, what, to_text) for one in _read_items(value, span, what, "paths")]
    return FilePaths(
        paths=tuple(path for path, _ in found),
        optional=tuple(n for n, (_, is_optional) in enumerate(found) if is_optional),
    )


def _read_file(value: Any, span: Span, what: str, to_text: ToText) -> tuple[Text, bool]:
    if not isinstance(value, Mapping):
        return to_text(value, span, f"a path in {what}"), False
    is_optional = value.get("optional", False)
    if "path" not in value or value.keys() - {"path", "optional"} or not isinstance(is_optional, bool):
        message = f'a file of {what} must be a path, or a dict with "path" and "optional"'
        raise invalid_program(span, "wrong-type", message)
    return to_text(value["path"], span, f"a path in {what}"), is_optional


def _literal_text(value: Any, span: Span, what: str) -> Text:
    """Return a text without placeholders: the value of an expression is taken as it is."""
    if not isinstance(value, str):
        raise wrong_type("a string", value, span, what)
    return Text(span=span, raw=str(value), parts=(str(value),))


READERS: Mapping[Kind, Reader] = {
    "string": read_string,
    "name": read_string,
    "names": _read_names,
    "boolean": read_boolean,
    "count": read_count,
    "seconds": _read_seconds,
    "choice": _read_choice,
    "settings": _read_settings,
    "files": lambda _, value, span, what: read_files(value, span, what, _literal_text),
}


def read_setting(name: str, value: Any, span: Span) -> tuple[str, Any]:
    """Return the task field that a setting of a call replaces, and its value. Raise InvalidProgram."""
    field = CALL_SETTINGS[name]
    return field.name, READERS[field.kind](field, value, span, f":{name}")
