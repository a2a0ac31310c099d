"""Readers of the values of task fields, one for each kind of field."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from weft.language.ast import FilePaths, Input, Script, Text
from weft.language.diagnostics import InvalidProgram, nearest
from weft.language.fields import SETTINGS, Field, Kind, context_conflict
from weft.language.sexp.forms import condition, known_keywords, string, text
from weft.language.sexp.names import Constant, Data, Keyword, List, Name, keyword_text
from weft.language.sexp.parser import FormError, Parser
from weft.language.task_fields import ContextOverrides

Reader = Callable[[Parser, Data, Field, str], Any]
"""Converts a datum, or raises FormError: (parser, datum, field, name of the field in messages)."""


def read_field(parser: Parser, datum: Data, field: Field, what: str | None = None) -> Any:
    """Return the value of a field. Raise FormError or InvalidProgram."""
    return _READERS[field.kind](parser, datum, field, what or keyword_text(field.keyword))


def _read_name(parser: Parser, datum: Data, field: Field, what: str) -> str:
    """Read a name, which may be written as a string."""
    return datum.text if isinstance(datum, Name) else string(datum, what)


def _read_boolean(datum: Data, what: str) -> bool:
    if isinstance(datum, Constant) and isinstance(datum.value, bool):
        return datum.value
    raise FormError(datum.span, "bad-value", f"{what} is true or false")


def _read_count(parser: Parser, datum: Data, field: Field, what: str) -> int:
    value = datum.value if isinstance(datum, Constant) else None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise FormError(datum.span, "bad-value", f"{what} is a whole number, at least 1")


def _read_seconds(parser: Parser, datum: Data, field: Field, what: str) -> float:
    value = datum.value if isinstance(datum, Constant) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max:
        return float(value)
    raise FormError(datum.span, "bad-value", f"{what} is a number of seconds above 0")


def _read_choice(parser: Parser, datum: Data, field: Field, what: str) -> str:
    written = string(datum, what)
    found = (field.choices or {}).get(written)
    if found is not None:
        return found
    words = ", ".join(f'"{one}"' for one in field.words)
    raise FormError(datum.span, "bad-value", f"{what} is one of {words}{nearest(written, field.words)}")


def read_shape(parser: Parser, datum: Data, what: str) -> str:
    """Read a name, a path, or a JSON Schema, which is stored without spaces."""
    written = string(datum, what)
    if not written.lstrip().startswith("{"):
        return written
    try:
        return json.dumps(json.loads(written), separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        raise FormError(datum.span, "bad-value", f"{what} is not JSON: {error}") from error


def _read_items(
    parser: Parser, datum: Data, item: Callable[[Parser, Data], Any], what: str
) -> tuple[Any, ...]:
    """Read a list, and note the problems of every item; an invalid item becomes None."""
    if not isinstance(datum, List) or datum.is_prefix:
        raise FormError(datum.span, "bad-value", f"{what} is a list in parentheses")
    return tuple([parser.attempt(item, one) for one in datum.items])


def _read_keywords(parser: Parser, datum: Data, known: Collection[str], what: str) -> dict[str, Data]:
    """Read a list of keywords and values."""
    if not isinstance(datum, List) or datum.is_prefix:
        shape = " ".join(f"{keyword_text(name)} ..." for name in known)
        raise FormError(datum.span, "bad-value", f"{what} is written ({shape})")
    positional, named = parser.arguments(datum.items)
    for stray in positional:
        parser.note(stray.span, "syntax-error", f"{what} has keywords and their values only")
    return known_keywords(parser, named, known, what)


def _read_settings(parser: Parser, datum: Data, field: Field, what: str) -> Any:
    """Read `(:inherit "none" :accumulate true ...)` into the struct of the settings."""
    kind = field.settings or ContextOverrides
    known = {one.keyword: one for one in SETTINGS[kind]}
    given: dict[str, Any] = {}
    for word, value in _read_keywords(parser, datum, known, what).items():
        setting = known[word]
        read = parser.attempt(read_field, value, setting)
        if read is not None:
            given[setting.name] = read
    made = kind(**given)
    if isinstance(made, ContextOverrides) and (problem := context_conflict(made, datum.span)) is not None:
        raise InvalidProgram([problem])
    return made


_SOURCES: Mapping[str, Any] = {
    "command": "command",
    "description": "description",
    "context-description": "context_description",
}


def _read_files(parser: Parser, datum: Data, field: Field, what: str) -> FilePaths:
    """Read `("a.py" ("{{b}}" :optional true))`, or a `:command`, `:description` or `:context-description`."""
    if not isinstance(datum, List) or not any(isinstance(one, Keyword) for one in datum.items):
        found = [one for one in _read_items(parser, datum, _read_path, what) if one is not None]
        optional = tuple(n for n, (_, is_optional) in enumerate(found) if is_optional)
        return FilePaths("literal", tuple(path for path, _ in found), optional=optional)
    named = _read_keywords(parser, datum, _SOURCES, what)
    if len(named) != 1:
        message = f"{what} is a list of paths, or has one of :command, :description and :context-description"
        raise FormError(datum.span, "bad-value", message)
    [(source, value)] = named.items()
    return FilePaths(_SOURCES[source], (), text(value, f":{source} of {what}"))


def _read_path(parser: Parser, datum: Data) -> tuple[Text, bool]:
    """Read `"a.py"`, or `("a.py" :optional true)` for a file that may be missing."""
    what = "a path in :files"
    if not isinstance(datum, List):
        return text(datum, what), False
    positional, named = parser.arguments(datum.items)
    found = known_keywords(parser, named, ("optional",), what)
    if len(positional) != 1:
        raise FormError(datum.span, "bad-value", f'{what} is written "a.py" or ("a.py" :optional true)')
    is_optional = "optional" in found and _read_boolean(found["optional"], f":optional of {what}")
    return text(positional[0], what), is_optional


def _read_entry(what: str, datum: Data, lengths: set[int]) -> tuple[str, list[Data]]:
    """Return the name and the remaining items of a list of allowed length; `what` is the error message."""
    if isinstance(datum, List) and len(datum.items) in lengths:
        name = datum.items[0]
        if isinstance(name, Name) and not datum.is_prefix:
            return name.text, datum.items[1:]
    raise FormError(datum.span, "syntax-error", what)


def _read_relevance(parser: Parser, datum: Data) -> tuple[str, bool]:
    name, [value] = _read_entry("an entry of :relevance is written (input true) or (input false)", datum, {2})
    return name, _read_boolean(value, f"the relevance of `{name}`")


def _read_input(parser: Parser, datum: Data) -> Input:
    name, values = _read_entry(
        "an input is written (name expression), or (name) if it is passed", datum, {1, 2}
    )
    return Input(name, parser.expression(values[0]) if values else None, datum.span)


def _read_unique(
    parser: Parser, datum: Data, item: Callable[[Parser, Data], Any], what: str
) -> tuple[Any, ...]:
    """Read a list of inputs or of (name, value) pairs, and note duplicate names."""
    found = [one for one in _read_items(parser, datum, item, what) if one is not None]
    names = [one.name if isinstance(one, Input) else one[0] for one in found]
    for name, count in Counter(names).items():
        if count > 1:
            parser.note(datum.span, "duplicate-name", f"{what} names `{name}` {count} times")
    return tuple(found)


def _read_argv(parser: Parser, datum: Data, field: Field, what: str) -> tuple[Text, ...]:
    words = _read_items(parser, datum, lambda _, one: text(one, "a word of :argv"), what)
    if not words:
        raise FormError(datum.span, "bad-value", ":argv begins with the executable to run")
    return words


def _read_script(parser: Parser, datum: Data, field: Field, what: str) -> Script:
    node = parser.expression(datum)
    if not isinstance(node, Script):
        raise FormError(datum.span, "bad-value", f"{what} is written (script ...)")
    return node


_READERS: Mapping[Kind, Reader] = {
    "text": lambda _, datum, field, what: text(datum, what),
    "string": lambda _, datum, field, what: string(datum, what),
    "name": _read_name,
    "names": lambda parser, datum, field, what: _read_items(
        parser, datum, lambda _, one: string(one, "a tool"), what
    ),
    "boolean": lambda _, datum, field, what: _read_boolean(datum, what),
    "count": _read_count,
    "seconds": _read_seconds,
    "choice": _read_choice,
    "shape": lambda parser, datum, field, what: read_shape(parser, datum, what),
    "settings": _read_settings,
    "inputs": lambda parser, datum, field, what: _read_unique(parser, datum, _read_input, what),
    "relevance": lambda parser, datum, field, what: _read_unique(parser, datum, _read_relevance, what),
    "files": _read_files,
    "argv": _read_argv,
    "shell": lambda _, datum, field, what: text(datum, what),
    "value": lambda parser, datum, field, what: parser.expression(datum),
    "task": lambda parser, datum, field, what: parser.expression(datum),
    "script": _read_script,
    "condition": lambda _, datum, field, what: condition(datum),
}
