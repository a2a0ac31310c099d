"""Readers of the values of task fields: strings, numbers, lists, settings."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, get_args

from weft.language.ast import FilePaths, Input, Text
from weft.language.diagnostics import InvalidProgram, nearest
from weft.language.fields import context_conflict
from weft.language.sexp.forms import known_keywords, string, text
from weft.language.sexp.names import Constant, Data, Keyword, List, Name, keyword_text
from weft.language.sexp.parser import FormError, Parser
from weft.language.task_fields import (
    AccumulationFormat,
    ContextAssembly,
    ContextOverrides,
    FreshContext,
    HistorySettings,
    InheritContext,
)

Reader = Callable[[Parser, Data], Any]
"""Converts the datum of one field, or raises FormError. `what` is the name of the field in messages."""

_FORMAT_ALIASES = {"full": "full_output", "minimal": "notes_only"}
_FILE_SOURCES = {
    "command": "command",
    "description": "description",
    "context-description": "context_description",
}


def a_string(what: str) -> Reader:
    return lambda _, datum: string(datum, what)


def a_text(what: str) -> Reader:
    return lambda _, datum: text(datum, what)


def a_name(what: str) -> Reader:
    """Return a reader of names, which may be written as strings."""

    def read(_: Parser, datum: Data) -> str:
        return datum.text if isinstance(datum, Name) else string(datum, what)

    return read


def a_boolean(what: str) -> Reader:
    def read(_: Parser, datum: Data) -> bool:
        if isinstance(datum, Constant) and isinstance(datum.value, bool):
            return datum.value
        raise FormError(datum.span, "bad-value", f"{what} is true or false")

    return read


def a_count(what: str, *, least: int = 1) -> Reader:
    def read(_: Parser, datum: Data) -> int:
        value = datum.value if isinstance(datum, Constant) else None
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        raise FormError(datum.span, "bad-value", f"{what} is a whole number, at least {least}")

    return read


def a_duration(what: str) -> Reader:
    """Return a reader of a positive number of seconds."""

    def read(_: Parser, datum: Data) -> float:
        value = datum.value if isinstance(datum, Constant) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max:
            return float(value)
        raise FormError(datum.span, "bad-value", f"{what} is a number of seconds above 0")

    return read


def one_of(what: str, known: tuple[str, ...], aliases: dict[str, str] | None = None) -> Reader:
    """Return a reader of strings that must be one of `known` or an alias."""

    def read(_: Parser, datum: Data) -> str:
        written = string(datum, what)
        word = (aliases or {}).get(written, written)
        if word in known:
            return word
        choices = ", ".join(f'"{one}"' for one in known)
        raise FormError(datum.span, "bad-value", f"{what} is one of {choices}{nearest(written, known)}")

    return read


def a_list_of(item: Reader, what: str) -> Reader:
    """Return a reader of lists. It notes the problems of every item; an invalid item becomes None."""

    def read(parser: Parser, datum: Data) -> tuple[Any, ...]:
        if not isinstance(datum, List) or datum.is_prefix:
            raise FormError(datum.span, "bad-value", f"{what} is a list in parentheses")
        return tuple([parser.attempt(item, one) for one in datum.items])

    return read


def a_shape(what: str) -> Reader:
    """Return a reader of shapes: a name, a path, or a JSON Schema, which is stored without spaces."""

    def read(_: Parser, datum: Data) -> str:
        written = string(datum, what)
        if not written.lstrip().startswith("{"):
            return written
        try:
            schema = json.loads(written)
            return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
        except (ValueError, RecursionError) as error:
            raise FormError(datum.span, "bad-value", f"{what} is not JSON: {error}") from error

    return read


def _read_settings(parser: Parser, datum: Data, readers: dict[str, Reader], what: str) -> dict[str, Any]:
    """Read a list of keywords and values into a dict by keyword."""
    if not isinstance(datum, List) or datum.is_prefix:
        shape = " ".join(f"{keyword_text(name)} ..." for name in readers)
        raise FormError(datum.span, "bad-value", f"{what} is written ({shape})")
    positional, named = parser.arguments(datum.items)
    for stray in positional:
        parser.note(stray.span, "syntax-error", f"{what} has keywords and their values only")
    found = known_keywords(parser, named, tuple(readers), what)
    return {name: parser.attempt(readers[name], value) for name, value in found.items()}


_CONTEXT: dict[str, Reader] = {
    "inherit": one_of(":inherit", get_args(InheritContext)),
    "accumulate": a_boolean(":accumulate"),
    "format": one_of(":format", get_args(AccumulationFormat), _FORMAT_ALIASES),
    "fresh": one_of(":fresh", get_args(FreshContext)),
}


def context(parser: Parser, datum: Data) -> ContextOverrides:
    """Read `(:inherit "none" :accumulate true :format "full_output" :fresh "enabled")`."""
    found = _read_settings(parser, datum, _CONTEXT, ":context")
    overrides = ContextOverrides(
        found.get("inherit"), found.get("accumulate"), found.get("format"), found.get("fresh")
    )
    if problem := context_conflict(overrides, datum.span):
        raise InvalidProgram([problem])
    return overrides


_ASSEMBLY = {name: a_string(f":{name}") for name in ("primary", "secondary", "excluded")}


def assembly(parser: Parser, datum: Data) -> ContextAssembly:
    """Read `(:primary "..." :secondary "..." :excluded "...")`."""
    found = _read_settings(parser, datum, _ASSEMBLY, ":assembly")
    return ContextAssembly(**{f"{name}_elements": value for name, value in found.items()})


_HISTORY: dict[str, Reader] = {
    "use": a_boolean(":use"),
    "turns": a_count(":turns"),
    "record": a_boolean(":record"),
}


def history(parser: Parser, datum: Data) -> HistorySettings:
    """Read `(:use true :turns 3 :record false)`."""
    found = _read_settings(parser, datum, _HISTORY, ":history")
    return HistorySettings(found.get("use", True), found.get("turns"), found.get("record", True))


_path = a_text("a path in :files")
_is_optional = a_boolean(":optional of a path in :files")


def _read_path_entry(parser: Parser, datum: Data) -> tuple[Text, bool]:
    """Read `"a.py"`, or `("a.py" :optional true)` for a file that may be missing."""
    if not isinstance(datum, List):
        return _path(parser, datum), False
    positional, named = parser.arguments(datum.items)
    found = known_keywords(parser, named, ("optional",), "a path in :files")
    if len(positional) != 1:
        raise FormError(
            datum.span, "bad-value", 'a path in :files is written "a.py" or ("a.py" :optional true)'
        )
    return _path(parser, positional[0]), "optional" in found and _is_optional(parser, found["optional"])


_files = a_list_of(_read_path_entry, ":files")


def files(parser: Parser, datum: Data) -> FilePaths:
    """Read `("a.py" ("{{b}}" :optional true))`, or a `:command`, `:description` or `:context-description`."""
    if not isinstance(datum, List) or not any(isinstance(one, Keyword) for one in datum.items):
        found = [one for one in _files(parser, datum) if one is not None]
        optional = tuple(n for n, (_, is_optional) in enumerate(found) if is_optional)
        return FilePaths("literal", tuple(path for path, _ in found), optional=optional)
    readers = {name: a_text(f":{name} of :files") for name in _FILE_SOURCES}
    named: dict[str, Text] = _read_settings(parser, datum, readers, ":files")
    if len(named) != 1:
        raise FormError(
            datum.span,
            "bad-value",
            ":files is a list of paths, or has one of :command, :description and :context-description",
        )
    [(source, value)] = named.items()
    return FilePaths(_FILE_SOURCES[source], (), value)  # type: ignore[arg-type]


def _read_entry(what: str, datum: Data, lengths: set[int]) -> tuple[str, list[Data]]:
    """Return the name and the remaining items of a list of allowed length; `what` is the error message."""
    if isinstance(datum, List) and len(datum.items) in lengths:
        name = datum.items[0]
        if isinstance(name, Name) and not datum.is_prefix:
            return name.text, datum.items[1:]
    raise FormError(datum.span, "syntax-error", what)


def relevance(parser: Parser, datum: Data) -> tuple[tuple[str, bool], ...]:
    """Read `((code true) (style false))`."""
    return _read_unique(parser, datum, _read_relevance_entry, ":relevance")


def _read_relevance_entry(parser: Parser, datum: Data) -> tuple[str, bool]:
    name, [value] = _read_entry("an entry of :relevance is written (input true) or (input false)", datum, {2})
    return name, a_boolean(f"the relevance of `{name}`")(parser, value)


def inputs(parser: Parser, datum: Data) -> tuple[Input, ...]:
    """Read `((name expression) (name))`; the caller passes an input without an expression."""
    return _read_unique(parser, datum, _read_input, ":inputs")


def _read_input(parser: Parser, datum: Data) -> Input:
    name, values = _read_entry(
        "an input is written (name expression), or (name) if it is passed", datum, {1, 2}
    )
    return Input(name, parser.expression(values[0]) if values else None, datum.span)


def _read_unique(parser: Parser, datum: Data, item: Reader, what: str) -> tuple[Any, ...]:
    """Read a list of inputs or of (name, value) pairs, and note duplicate names."""
    found = [one for one in a_list_of(item, what)(parser, datum) if one is not None]
    names = [one.name if isinstance(one, Input) else one[0] for one in found]
    for name, count in Counter(names).items():
        if count > 1:
            parser.note(datum.span, "duplicate-name", f"{what} names `{name}` {count} times")
    return tuple(found)
