"""Strings."""

import re
from typing import Any

from weft.evaluator.builtins.table import as_list, built_in, check_size, want
from weft.evaluator.errors import program_error
from weft.evaluator.values import to_text

_NUMBER = re.compile(r"\s*[+-]?(\d+|\d+\.\d*|\.\d+|(\d+\.?\d*|\.\d+)[eE][+-]?\d+)\s*", re.ASCII)


@built_in("string", is_linear=True)
def string(value: Any) -> str:
    """(string x): x as text: a string itself, a task result its content, else its JSON."""
    return to_text(value)


@built_in("string-append", is_linear=True)
def string_append(*values: Any) -> str:
    """(string-append s ...): the strings as one."""
    want("string", "string-append", *values)
    check_size("string-append", sum(map(len, values)))
    return "".join(values)


@built_in("string-length")
def string_length(value: Any) -> int:
    """(string-length s): how many characters it has."""
    want("string", "string-length", value)
    return len(value)


@built_in("substring", is_linear=True)
def substring(value: Any, start: Any, end: Any = None) -> str:
    """(substring s from to): the characters from one position up to another; without `to`, up to the end."""
    want("string", "substring", value)
    end = len(value) if end is None else end
    want("integer", "substring", start, end, first=1)
    if not 0 <= start <= end <= len(value):
        raise program_error("bad-value", f"substring {start} to {end} of a string of {len(value)} characters")
    return str(value[start:end])


@built_in("string-upcase", is_linear=True)
def string_upcase(value: Any) -> str:
    """(string-upcase s): in capital letters."""
    want("string", "string-upcase", value)
    return str(value.upper())


@built_in("string-downcase", is_linear=True)
def string_downcase(value: Any) -> str:
    """(string-downcase s): in small letters."""
    want("string", "string-downcase", value)
    return str(value.lower())


@built_in("string-trim", is_linear=True)
def string_trim(value: Any) -> str:
    """(string-trim s): without white space at both ends."""
    want("string", "string-trim", value)
    return str(value.strip())


@built_in("string-split", is_linear=True)
def string_split(value: Any, separator: Any = None) -> list[str]:
    """(string-split s sep): the parts between the separators; without one, the words."""
    want("string", "string-split", value)
    if separator is None:
        return list(value.split())
    want("string", "string-split", separator, first=1)
    if not separator:
        raise program_error("bad-value", "string-split takes a separator that is not empty")
    return list(value.split(separator))


@built_in("string-join", is_linear=True)
def string_join(items: Any, separator: Any = "") -> str:
    """(string-join list sep): the elements as text, the separator between them."""
    items = as_list("string-join", items)
    want("string", "string-join", separator, first=1)
    texts = [to_text(item) for item in items]
    check_size("string-join", sum(map(len, texts)) + len(separator) * len(texts))
    return str(separator.join(texts))


@built_in("string-replace", is_linear=True)
def string_replace(value: Any, old: Any, new: Any) -> str:
    """(string-replace s old new): with every `old` replaced."""
    want("string", "string-replace", value, old, new)
    if not old:
        raise program_error("bad-value", "string-replace takes something to replace; the second is empty")
    check_size("string-replace", len(value) + value.count(old) * (len(new) - len(old)))
    return str(value.replace(old, new))


@built_in("string-contains?", is_linear=True)
def string_contains(value: Any, part: Any) -> bool:
    """(string-contains? s part): whether the part is in it."""
    want("string", "string-contains?", value, part)
    return part in value


@built_in("starts-with?")
def starts_with(value: Any, part: Any) -> bool:
    """(starts-with? s part): whether it begins with the part."""
    want("string", "starts-with?", value, part)
    return bool(value.startswith(part))


@built_in("ends-with?")
def ends_with(value: Any, part: Any) -> bool:
    """(ends-with? s part): whether it ends with the part."""
    want("string", "ends-with?", value, part)
    return bool(value.endswith(part))


@built_in("string->number", is_linear=True)
def string_to_number(value: Any) -> int | float | None:
    """(string->number s): the number that is written there; nil when it is none."""
    want("string", "string->number", value)
    if len(value) > 4_000 or not _NUMBER.fullmatch(value):
        return None
    text = value.strip()
    if text.lstrip("+-").isdigit():
        return int(text)
    number = float(text)
    return number if number - number == 0 else None


@built_in("number->string")
def number_to_string(value: Any) -> str:
    """(number->string n): the number as text."""
    want("number", "number->string", value)
    return to_text(value)


@built_in("format", is_linear=True)
def format_text(template: Any, *values: Any) -> str:
    """(format s x ...): the text with each {} replaced by the next value; {{ and }} are braces."""
    want("string", "format", template)
    pieces = re.split(r"(\{\{|\}\}|\{\})", template)
    rest = iter(values)
    texts: list[str] = []
    for piece in pieces:
        if piece == "{}":
            texts.append(_next(rest, template, len(values)))
        else:
            texts.append({"{{": "{", "}}": "}"}.get(piece, piece))
    if next(rest, rest) is not rest:
        raise program_error(
            "wrong-arity", f"format has fewer {{}} than the {len(values)} values it was given"
        )
    check_size("format", sum(map(len, texts)))
    return "".join(texts)


def _next(rest: Any, template: str, count: int) -> str:
    for value in rest:
        return to_text(value)
    raise program_error("wrong-arity", f"format has more {{}} than the {count} values it was given")
