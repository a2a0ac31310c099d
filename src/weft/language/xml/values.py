"""Inputs, arguments, initial values: a text, a name or path of the environment, or what a task gives."""

import json
import math
import re
from typing import Any, Final

from weft.language.expressions import parse_path
from weft.language.tree import FunctionCall, Input, Literal, Node, Variable
from weft.language.xml.elements import Element
from weft.language.xml.reading import NOTHING, Reading
from weft.language.xml.words import BLANK, IDENTIFIER, shown
from weft.limits import MAX_JSON_DEPTH

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_QUOTED = re.compile(r"""'[^'\\]*'|"[^"\\]*(\\.[^"\\]*)*\"""")
_WORDS: Final = {"true": True, "false": False, "null": None}


def read_inputs(element: Element, reading: Reading, *, is_verbatim: bool) -> tuple[Input, ...]:
    """The inputs of a task, each with a name of its own."""
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
    """The value; None when nothing is written."""
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
    """The value of an argument.

    A bare word is the value of that name where the name is bound, and a text where it is not; numbers, true,
    false, null and quoted texts are themselves, as in placeholders.
    """
    text = element.text.strip(BLANK)
    is_plain = not element.attributes.keys() & {"from", "type"} and not element.children
    if is_plain and IDENTIFIER.fullmatch(text) and text in reading.scope:
        return Variable(span=element.text_span, name=text)
    if is_plain and (text in _WORDS or _NUMBER.fullmatch(text) or _QUOTED.fullmatch(text)):
        return Literal(span=element.text_span, value=_scalar(text))
    value = read_value(element, reading)
    return Literal(span=element.span, value="") if value is None else value


def read_path(element: Element, reading: Reading) -> Node:
    """The value of a name or path."""
    path, span = element.attributes["from"], element.places["from"]
    return reading.found.attempt(lambda: parse_path(path, span), None) or NOTHING


def json_value(text: str) -> Any:
    """What a JSON text says; raises ValueError with the reason. NaN and Infinity are no JSON."""
    opened = deepest = 0
    for bracket in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text):
        opened += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket, 0)
        deepest = max(deepest, opened)
    if deepest > MAX_JSON_DEPTH:
        raise ValueError(f"nested more than {MAX_JSON_DEPTH} deep")
    value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    return value


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word} is no number that JSON has")
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
    """A text; one placeholder and nothing else is its value, of whatever kind."""
    if not element.text.strip(BLANK) and not element.is_preserved and "type" not in element.attributes:
        return None
    text = reading.text(element, is_verbatim=is_verbatim)
    match text.parts:
        case [Node() as node] if not is_verbatim:
            return node
        case [str() as plain]:
            return Literal(span=element.text_span, value=plain)
    return text


def _scalar(text: str) -> Any:
    if text.startswith("'"):
        return text[1:-1]
    try:
        return json_value(text)
    except ValueError:  # a quoted text with an escape that JSON has not
        return text
