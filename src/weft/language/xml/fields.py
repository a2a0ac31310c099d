"""Fields of XML tasks: a reader for each kind of field, and the values of inputs, commands and schemas."""

import json
import math
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final

import jsonschema_rs
from msgspec import UNSET, UnsetType

from weft.language.ast import FilePaths, FunctionCall, Input, Literal, Node, Text, Variable
from weft.language.cel import parse_path
from weft.language.diagnostics import nearest
from weft.language.fields import SETTINGS, TASK_FIELDS, Field, Kind, context_conflict
from weft.language.schemas import NAMED_SCHEMAS, parse_shape
from weft.language.task_fields import ContextOverrides, OutputFormat
from weft.language.xml.elements import Element
from weft.language.xml.reader import NOTHING, Reading, plain_text
from weft.language.xml.text import BLANK, IDENTIFIER, shown
from weft.limits import MAX_JSON_DEPTH

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_QUOTED = re.compile(r"""'[^'\\]*'|"[^"\\]*(\\.[^"\\]*)*\"""")
_LITERAL_WORDS: Final = {"true": True, "false": False, "null": None}


def read_inputs(element: Element, reading: Reading, *, is_verbatim: bool) -> tuple[Input, ...]:
    """Parse the inputs of a task, and report duplicate names."""
    inputs: dict[str, Input] = {}
    holder = element.child("inputs")
    for child in holder.children if holder is not None else ():
        if "name" not in child.attributes:
            continue
        name = reading.name(child, child.attributes["name"], "input")
        if name in inputs:
            line = inputs[name].span.line
            message = f"input '{name}' is given twice, first on line {line}; input names must be unique"
            reading.found.note(child.span, "duplicate-name", message)
        inputs[name] = Input(name, read_value(child, reading, is_verbatim=is_verbatim), child.span)
    return tuple(inputs.values())


def read_value(element: Element, reading: Reading, *, is_verbatim: bool = False) -> Node | None:
    """Parse the value of an element: a text, `from="..."`, or one child; None if it is empty."""
    text = element.text.strip(BLANK)
    ways = bool(text) + len(element.children) + ("from" in element.attributes)
    if ways > 1:
        message = f'<{element.tag}> has one value: a text, from="..." or one element; this one has {ways}'
        reading.found.note(element.span, "bad-value", message)
        return NOTHING
    if element.children:
        return reading.node(element.children[0])
    if "from" in element.attributes:
        return read_path(element, reading)
    if element.attributes.get("type") == "json":
        return _read_json(element, text, reading)
    return _read_text(element, reading, is_verbatim=is_verbatim)


def read_argument(element: Element, reading: Reading) -> Node:
    """Parse the value of an argument.

    A bare word is a variable if the name is bound, otherwise a text. Numbers, true, false, null and quoted
    texts are literals, as in placeholders.
    """
    text = element.text.strip(BLANK)
    is_plain = not element.attributes.keys() & {"from", "type"} and not element.children
    if is_plain and IDENTIFIER.fullmatch(text) and text in reading.scope:
        return Variable(span=element.text_span, name=text)
    if is_plain and (text in _LITERAL_WORDS or _NUMBER.fullmatch(text) or _QUOTED.fullmatch(text)):
        return Literal(span=element.text_span, value=_parse_scalar(text))
    value = read_value(element, reading)
    return Literal(span=element.span, value="") if value is None else value


def read_path(element: Element, reading: Reading) -> Node:
    """Parse the name or path in the `from` attribute."""
    path, span = element.attributes["from"], element.value_spans["from"]
    return reading.found.attempt(lambda: parse_path(path, span), None) or NOTHING


def json_value(text: str) -> Any:
    """Parse a JSON text; raise ValueError with the reason, also for NaN and Infinity."""
    opened = deepest = 0
    for bracket in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text):
        opened += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket, 0)
        deepest = max(deepest, opened)
    if deepest > MAX_JSON_DEPTH:
        raise ValueError(f"nested more than {MAX_JSON_DEPTH} deep")
    value = json.loads(text, parse_constant=_parse_finite, parse_float=_parse_finite)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # raises for a lone surrogate
    return value


def _parse_finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word} is not a JSON number")
    return number


def _read_json(element: Element, text: str, reading: Reading) -> Node:
    try:
        value = json_value(text)
    except ValueError as error:
        message = f"<{element.tag}> of type json is not JSON: {error}; found '{shown(text)}'"
        reading.found.note(element.span, "bad-value", message)
        return NOTHING
    if isinstance(value, list | dict):
        argument = Literal(span=element.text_span, value=text)
        return FunctionCall(span=element.text_span, func_name="json-parse", args=(argument,))
    return Literal(span=element.text_span, value=value)


def _read_text(element: Element, reading: Reading, *, is_verbatim: bool) -> Node | None:
    """Parse a text; None if it is empty. A text that is a single placeholder becomes that node."""
    if not element.text.strip(BLANK) and not element.is_preserved and "type" not in element.attributes:
        return None
    text = reading.text(element, is_verbatim=is_verbatim)
    match text.parts:
        case [Node() as node] if not is_verbatim:
            return node
        case [str() as plain]:
            return Literal(span=element.text_span, value=plain)
    return text


def _parse_scalar(text: str) -> Any:
    if text.startswith("'"):
        return text[1:-1]
    try:
        return json_value(text)
    except ValueError:  # a quoted text with an escape that is not JSON's
        return text


def read_shape(element: Element, text: str, what: str, reading: Reading, others: str = "") -> str | None:
    """Return the name of a schema; report an unknown name and return None. `others` can be given instead."""
    name = text.strip(BLANK)
    if name in NAMED_SCHEMAS:
        return name
    message = f"{what} '{shown(name)}' is unknown: expected {', '.join(NAMED_SCHEMAS)}{others}"
    reading.found.note(element.span, "bad-value", message + nearest(shown(name), NAMED_SCHEMAS))
    return None


def read_schema(element: Element, text: str, reading: Reading) -> str | None:
    """Return a schema name, the path of a JSON Schema file, or a JSON Schema without spaces.

    Report anything else and return None.
    """
    written = text.strip(BLANK)
    if written.startswith("{"):
        return _read_json_schema(element, written, reading)
    if written.endswith(".json") and "\n" not in written:
        return written
    return read_shape(element, written, "schema", reading, ", the path of a .json file, or a JSON Schema")


def read_default(element: Element, text: str, shape: str | None, reading: Reading) -> Any | UnsetType:
    """Parse the default of a parameter: a text if its type is missing or string, else JSON.

    Report a default that does not match the type and return UNSET.
    """
    if shape is None or shape == "string":
        return text
    try:
        value = json_value(text)
    except ValueError:
        value = UNSET
    if value is not UNSET and not parse_shape(shape).violations(value):
        return value
    reading.found.note(element.span, "wrong-type", f"default '{shown(text)}' is not of type {shape}")
    return UNSET


def _read_json_schema(element: Element, written: str, reading: Reading) -> str | None:
    try:
        schema = json_value(written)
        jsonschema_rs.validator_for(schema, offline=True)  # otherwise it fetches the URL in `$schema`
    except jsonschema_rs.ValidationError as error:
        reading.found.note(element.span, "bad-value", f"not a JSON Schema: {shown(error.message)}")
        return None
    except ValueError as error:
        reading.found.note(element.span, "bad-value", f"the schema is neither a name nor JSON: {error}")
        return None
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


_PLACEHOLDER = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_SHELL_WORD = re.compile(r"[|&;]+|[0-9]?(>>?|<)&?\S*")


def read_command(element: Element, reading: Reading) -> dict[str, Any]:
    """Return the field `argv` or `shell` of a Script as a dict; empty if there is no command."""
    text = element.text.strip(BLANK)
    if reading.boolean(element, "shell"):
        if text and not element.children:
            return {"shell": reading.text(element)}
        message = '<command shell="true"> has the text the shell runs, and no <arg>s'
        reading.found.note(element.span, "bad-value", message)
        return {}
    if element.children and text:
        message = "<command> has either text or <arg>s; put every argument in an <arg>"
        reading.found.note(element.span, "bad-value", message)
    if element.children:
        return {"argv": tuple(reading.text(child) for child in element.children)}
    if not text:
        reading.missing(
            element, '<command> is empty; write <arg>s, a line of words, or shell="true" and a text'
        )
        return {}
    words = _split_words(element, text, reading)
    return {"argv": tuple(reading.placeholders(part, element.text_span) for part in words)}


def _split_words(element: Element, text: str, reading: Reading) -> list[str]:
    """Split a command line into words as a shell would, with placeholders kept whole. Report shell syntax."""
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[0])
        return f"\0{len(held) - 1}\0"  # XML does not allow NUL, so no text contains it

    try:
        words = shlex.split(_PLACEHOLDER.sub(hold, text))
    except ValueError as error:
        reading.found.note(element.span, "syntax-error", f"<command> cannot be split into words: {error}")
        return []
    for part in words:
        if _SHELL_WORD.fullmatch(part):
            message = (
                f"'{part}' is shell syntax, but no shell runs this command: write shell=\"true\", "
                "or <arg>s if it is an argument"
            )
            reading.found.note(element.span, "bad-value", message)
    return [re.sub("\0([0-9]+)\0", lambda found: held[int(found[1])], part) for part in words]


_TOOL = re.compile(r"[^\W\d][\w.-]*(:[^\W\d][\w.-]*)?")


def read_common_fields(element: Element, reading: Reading) -> dict[str, Any]:
    """Return the fields that every kind of task has, by name; those that are not written are left out."""
    is_verbatim = reading.boolean(element, "manual_xml") is True
    values: dict[str, Any] = {"span": element.span}
    for field in TASK_FIELDS:
        value: Any
        if field.kind == "text":
            value = _read_prompt(element, reading, field, is_verbatim=is_verbatim)
        elif field.kind == "inputs":
            value = read_inputs(element, reading, is_verbatim=is_verbatim)
        else:
            value = _READERS[field.kind](element, reading, field)
        if value is not None:
            values[field.name] = value
    return values


def _read_prompt(element: Element, reading: Reading, field: Field, *, is_verbatim: bool) -> Text | None:
    child = element.child(field.tag)
    if child is None or not child.text.strip(BLANK):
        return None
    return reading.text(child, is_verbatim=is_verbatim)


def _read_string(element: Element, reading: Reading, field: Field) -> str | None:
    child = element.child(field.tag)
    text = element.attributes.get(field.tag) if child is None else plain_text(child)
    return text or None


def _read_name(element: Element, reading: Reading, field: Field) -> str | None:
    text = reading.setting(element, field.tag)
    return reading.name(element, text, field.tag) if text else None


def _read_settings(element: Element, reading: Reading, field: Field) -> Any:
    """Return settings as written; a setting is a child or an attribute of the element of the settings."""
    holder, kind = element.child(field.tag), field.settings
    if holder is None or kind is None:
        return None
    read = {one.name: _READERS[one.kind](holder, reading, one) for one in SETTINGS[kind]}
    made = kind(**{name: value for name, value in read.items() if value is not None})
    if isinstance(made, ContextOverrides) and (problem := context_conflict(made, holder.span)) is not None:
        reading.found.add([problem])
    return made


def _read_output_format(element: Element, reading: Reading, field: Field) -> OutputFormat | None:
    """Return the format and schema of the response."""
    holder = element.child(field.tag)
    if holder is None or "type" not in holder.attributes:
        return None
    attribute, inside = holder.attributes.get("schema"), holder.text.strip(BLANK)
    if attribute is not None and inside:
        message = "the schema is given twice, as an attribute and as text; remove one"
        reading.found.note(holder.span, "duplicate-name", message)
    written = inside if attribute is None else attribute
    schema = read_schema(holder, written, reading) if written or attribute is not None else None
    is_json = holder.attributes["type"] == "json"
    if schema not in (None, "string") and not is_json:
        message = f'schema "{shown(str(schema))}" needs type="json": a response of type text is a string'
        reading.found.note(holder.span, "bad-value", message)
    return OutputFormat("json" if is_json else "text", schema)


def _read_file_paths(element: Element, reading: Reading, field: Field) -> FilePaths | None:
    """Return the files for the context; the children must match the `source` attribute."""
    holder = element.child(field.tag)
    if holder is None:
        return None
    source: Any = holder.attributes.get("source", "literal")
    wanted = "path" if source == "literal" else source
    for child in holder.children:
        if child.tag != wanted:
            message = (
                f'<file_paths source="{source}"> has <{wanted}> and no <{child.tag}>; '
                f'write source="{"literal" if child.tag == "path" else child.tag}"'
            )
            reading.found.note(child.span, "bad-value", message)
            return None
    if not holder.children:
        reading.missing(holder, f'<file_paths source="{source}"> needs a <{wanted}>')
        return None
    texts = tuple(reading.text(child) for child in holder.children)
    if source != "literal":
        return FilePaths(source, text=texts[0])
    optional = [n for n, child in enumerate(holder.children) if reading.boolean(child, "optional")]
    return FilePaths(source, paths=texts, optional=tuple(optional))


def _read_relevance(element: Element, reading: Reading, field: Field) -> tuple[tuple[str, bool], ...] | None:
    """Return the names of inputs, each with whether it belongs to the context."""
    holder = element.child(field.tag)
    found: dict[str, bool] = {}
    for child in holder.children if holder is not None else ():
        if {"name", "include"} <= child.attributes.keys():
            name = reading.name(child, child.attributes["name"], "input")
            if name in found:
                message = f"input '{name}' is given twice in <context_relevance>; remove one"
                reading.found.note(child.span, "duplicate-name", message)
            found[name] = child.attributes["include"] == "true"
    return tuple(found.items())


def _read_names(element: Element, reading: Reading, field: Field) -> tuple[str, ...] | None:
    holder = element.child(field.tag)
    if holder is None:
        return None
    names = re.findall(r"[^\s,]+", holder.text)
    for name in names:
        if not _TOOL.fullmatch(name):
            message = f"'{shown(name)}' is not the name of a tool, such as system:read_files"
            reading.found.note(holder.span, "bad-value", message)
    return tuple(dict.fromkeys(names))


_READERS: Final[Mapping[Kind, Callable[[Element, Reading, Field], Any]]] = {
    "string": _read_string,
    "name": _read_name,
    "names": _read_names,
    "boolean": lambda element, reading, field: reading.boolean(element, field.tag),
    "count": lambda element, reading, field: reading.count(element, field.tag),
    "seconds": lambda element, reading, field: reading.seconds(element, field.tag),
    "choice": lambda element, reading, field: (field.choices or {}).get(
        reading.setting(element, field.tag) or ""
    ),
    "settings": _read_settings,
    "output": _read_output_format,
    "relevance": _read_relevance,
    "files": _read_file_paths,
}
