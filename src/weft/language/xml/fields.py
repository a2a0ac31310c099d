"""Fields of XML tasks: inputs, schemas, commands, context, files."""

import json
import math
import re
import shlex
from typing import Any, Final

import jsonschema_rs
from msgspec import UNSET, UnsetType

from weft.language.ast import FilePaths, FunctionCall, Input, Literal, Node, Text, Variable
from weft.language.cel import parse_path
from weft.language.diagnostics import nearest
from weft.language.fields import context_conflict
from weft.language.schemas import NAMED_SCHEMAS, parse_shape
from weft.language.task_fields import (
    AccumulationFormat,
    ContextAssembly,
    ContextOverrides,
    HistorySettings,
    OutputFormat,
)
from weft.language.xml.elements import Element
from weft.language.xml.reader import NOTHING, Reading, child_text, plain_text
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
            reading.found.add(child.span, "duplicate-name", message)
        inputs[name] = Input(name, read_value(child, reading, is_verbatim=is_verbatim), child.span)
    return tuple(inputs.values())


def read_value(element: Element, reading: Reading, *, is_verbatim: bool = False) -> Node | None:
    """Parse the value of an element: a text, `from="..."`, or one child; None if it is empty."""
    text = element.text.strip(BLANK)
    ways = bool(text) + len(element.children) + ("from" in element.attributes)
    if ways > 1:
        message = f'<{element.tag}> has one value: a text, from="..." or one element; this one has {ways}'
        reading.found.add(element.span, "bad-value", message)
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
        reading.found.add(element.span, "bad-value", message)
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


def read_shape(element: Element, text: str, what: str, reading: Reading) -> str | None:
    """Return the name of a schema; report an unknown name and return None."""
    name = text.strip(BLANK)
    if name in NAMED_SCHEMAS:
        return name
    message = f"{what} '{shown(name)}' is unknown: expected {', '.join(NAMED_SCHEMAS)}"
    reading.found.add(element.span, "bad-value", message + nearest(shown(name), NAMED_SCHEMAS))
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
    if written in NAMED_SCHEMAS:
        return written
    message = (
        f"schema '{shown(written)}' is unknown: expected {', '.join(NAMED_SCHEMAS)}, the path of a .json "
        "file, or a JSON Schema"
    )
    reading.found.add(element.span, "bad-value", message + nearest(shown(written), NAMED_SCHEMAS))
    return None


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
    reading.found.add(element.span, "wrong-type", f"default '{shown(text)}' is not of type {shape}")
    return UNSET


def _read_json_schema(element: Element, written: str, reading: Reading) -> str | None:
    try:
        schema = json_value(written)
        jsonschema_rs.validator_for(schema, offline=True)  # otherwise it fetches the URL in `$schema`
    except jsonschema_rs.ValidationError as error:
        reading.found.add(element.span, "bad-value", f"not a JSON Schema: {shown(error.message)}")
        return None
    except ValueError as error:
        reading.found.add(element.span, "bad-value", f"the schema is neither a name nor JSON: {error}")
        return None
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


_PLACEHOLDER = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_SHELL_WORD = re.compile(r"[|&;]+|[0-9]?(>>?|<)&?\S*")


def read_command(element: Element, reading: Reading) -> dict[str, Any]:
    """Return the field `argv` or `shell` of a Script as a dict; empty if there is no command."""
    text = element.text.strip(BLANK)
    if reading.boolean(element, "shell"):
        return {"shell": _read_shell(element, text, reading)}
    if element.children and text:
        message = "<command> has either text or <arg>s; put every argument in an <arg>"
        reading.found.add(element.span, "bad-value", message)
    if element.children:
        return {"argv": tuple(reading.text(child) for child in element.children)}
    if not text:
        reading.missing(
            element, '<command> is empty; write <arg>s, a line of words, or shell="true" and a text'
        )
        return {}
    return {
        "argv": tuple(
            reading.placeholders(part, element.text_span) for part in _split_words(element, text, reading)
        )
    }


def refuse_placeholders(element: Element, text: Text, reading: Reading) -> None:
    """Report placeholders in a shell command line: values must not become part of it."""
    if any(not isinstance(part, str) for part in text.parts):
        message = (
            f"a placeholder cannot stand in the text of a <{element.tag}> that a shell runs: values reach it "
            'as environment variables; write "$name" for the input of that name'
        )
        reading.found.add(element.span, "bad-value", message)


def _read_shell(element: Element, text: str, reading: Reading) -> Text | None:
    if element.children or not text:
        message = '<command shell="true"> has the text the shell runs, and no <arg>s'
        reading.found.add(element.span, "bad-value", message)
        return None
    command = reading.text(element)
    refuse_placeholders(element, command, reading)
    return command


def _split_words(element: Element, text: str, reading: Reading) -> list[str]:
    """Split a command line into words as a shell would, with placeholders kept whole. Report shell syntax."""
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[0])
        return f"\0{len(held) - 1}\0"  # XML does not allow NUL, so no text contains it

    try:
        words = shlex.split(_PLACEHOLDER.sub(hold, text))
    except ValueError as error:
        reading.found.add(element.span, "syntax-error", f"<command> cannot be split into words: {error}")
        return []
    for part in words:
        if _SHELL_WORD.fullmatch(part):
            message = (
                f"'{part}' is shell syntax, but no shell runs this command: write shell=\"true\", "
                "or <arg>s if it is an argument"
            )
            reading.found.add(element.span, "bad-value", message)
    return [re.sub("\0([0-9]+)\0", lambda found: held[int(found[1])], part) for part in words]


_FORMATS: Final[dict[str, AccumulationFormat]] = {
    "full_output": "full_output",
    "notes_only": "notes_only",
    "full": "full_output",
    "minimal": "notes_only",
}
_TOOL = re.compile(r"[^\W\d][\w.-]*(:[^\W\d][\w.-]*)?")


def read_context(element: Element, reading: Reading) -> ContextOverrides:
    """Return the context settings as written, and report conflicts between them."""
    holder = element.child("context_management")
    if holder is None:
        return ContextOverrides()
    written: Any = {name: child_text(holder, name) for name in ("inherit_context", "fresh_context")}
    overrides = ContextOverrides(
        **written,
        accumulate_data=reading.boolean(holder, "accumulate_data"),
        accumulation_format=_FORMATS.get(child_text(holder, "accumulation_format") or ""),
    )
    problem = context_conflict(overrides, holder.span)
    if problem is not None:
        reading.found.note(problem)
    return overrides


def read_output_format(element: Element, reading: Reading) -> OutputFormat | None:
    """Return the format and schema of the response."""
    holder = element.child("output_format")
    if holder is None or "type" not in holder.attributes:
        return None
    attribute, inside = holder.attributes.get("schema"), holder.text.strip(BLANK)
    if attribute is not None and inside:
        message = "the schema is given twice, as an attribute and as text; remove one"
        reading.found.add(holder.span, "duplicate-name", message)
    written = inside if attribute is None else attribute
    schema = read_schema(holder, written, reading) if written or attribute is not None else None
    is_json = holder.attributes["type"] == "json"
    if schema not in (None, "string") and not is_json:
        message = f'schema "{shown(str(schema))}" needs type="json": a response of type text is a string'
        reading.found.add(holder.span, "bad-value", message)
    return OutputFormat("json" if is_json else "text", schema)


def read_file_paths(element: Element, reading: Reading) -> FilePaths | None:
    """Return the files for the context; the children must match the `source` attribute."""
    holder = element.child("file_paths")
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
            reading.found.add(child.span, "bad-value", message)
            return None
    if not holder.children:
        reading.missing(holder, f'<file_paths source="{source}"> needs a <{wanted}>')
        return None
    texts = tuple(reading.text(child) for child in holder.children)
    if source == "literal":
        optional = [n for n, child in enumerate(holder.children) if reading.boolean(child, "optional")]
        return FilePaths(source, paths=texts, optional=tuple(optional))
    if source == "command":
        refuse_placeholders(holder.children[0], texts[0], reading)
    return FilePaths(source, text=texts[0])


def read_relevance(element: Element, reading: Reading) -> tuple[tuple[str, bool], ...]:
    """Return the names of inputs, each with whether it belongs to the context."""
    holder = element.child("context_relevance")
    found: dict[str, bool] = {}
    for child in holder.children if holder is not None else ():
        if {"name", "include"} <= child.attributes.keys():
            name = reading.name(child, child.attributes["name"], "input")
            if name in found:
                message = f"input '{name}' is given twice in <context_relevance>; remove one"
                reading.found.add(child.span, "duplicate-name", message)
            found[name] = child.attributes["include"] == "true"
    return tuple(found.items())


def read_assembly(element: Element) -> ContextAssembly | None:
    """Return the author's guidance on the order of the context."""
    holder = element.child("context_assembly")
    if holder is None:
        return None
    texts = {child.tag: plain_text(child) for child in holder.children}
    return ContextAssembly(**texts)


def read_history(element: Element, reading: Reading) -> HistorySettings | None:
    """Return which part of the session's history is used and recorded."""
    holder = element.child("history")
    if holder is None:
        return None
    return HistorySettings(
        use_session_history=reading.boolean(holder, "use") is not False,
        history_turns_to_include=reading.count(holder, "turns"),
        record_in_session_history=reading.boolean(holder, "record") is not False,
    )


def read_tools(element: Element, reading: Reading) -> tuple[str, ...]:
    holder = element.child("tools")
    names = re.findall(r"[^\s,]+", holder.text) if holder is not None else []
    for name in names:
        if holder is not None and not _TOOL.fullmatch(name):
            message = f"'{shown(name)}' is not the name of a tool, such as system:read_files"
            reading.found.add(holder.span, "bad-value", message)
    return tuple(dict.fromkeys(names))
