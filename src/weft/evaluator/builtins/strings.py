"""Built-ins for strings."""

import re
from collections.abc import Iterator
from typing import Any

from weft.evaluator.builtins.table import as_list, built_in, check_size, require_type
from weft.evaluator.errors import program_error
from weft.evaluator.values import to_text

_NUMBER = re.compile(r"\s*[+-]?(\d+|\d+\.\d*|\.\d+|(\d+\.?\d*|\.\d+)[eE][+-]?\d+)\s*", re.ASCII)


@built_in("string", "(string x)", is_linear=True)
def string(value: Any) -> str:
    """Return x as text: a string itself, the content of a task result, else JSON."""
    return to_text(value)


@built_in("string-append", "(string-append s ...)", is_linear=True)
def string_append(*values: Any) -> str:
    """Concatenate the strings."""
    require_type("string", "string-append", *values)
    check_size("string-append", sum(map(len, values)))
    return "".join(values)


@built_in("string-length", "(string-length s)")
def string_length(value: Any) -> int:
    """Return the number of characters."""
    require_type("string", "string-length", value)
    return len(value)


@built_in("substring", "(substring s from to)", is_linear=True)
def substring(value: Any, start: Any, end: Any = None) -> str:
    """Return the characters from one position up to another, or to the end."""
    require_type("string", "substring", value)
    end = len(value) if end is None else end
    require_type("integer", "substring", start, end, first=1)
    if not 0 <= start <= end <= len(value):
        raise program_error("bad-value", f"substring {start} to {end} of a string of {len(value)} characters")
    return str(value[start:end])


@built_in("string-upcase", "(string-upcase s)", is_linear=True)
def string_upcase(value: Any) -> str:
    """Convert to upper case."""
    require_type("string", "string-upcase", value)
    return str(value.upper())


@built_in("string-downcase", "(string-downcase s)", is_linear=True)
def string_downcase(value: Any) -> str:
    """Convert to lower case."""
    require_type("string", "string-downcase", value)
    return str(value.lower())


@built_in("string-trim", "(string-trim s)", is_linear=True)
def string_trim(value: Any) -> str:
    """Remove white space at both ends."""
    require_type("string", "string-trim", value)
    return str(value.strip())


@built_in("string-split", "(string-split s sep)", is_linear=True)
def string_split(value: Any, separator: Any = None) -> list[str]:
    """Split at the separator, or into words without one."""
    require_type("string", "string-split", value)
    if separator is None:
        return list(value.split())
    require_type("string", "string-split", separator, first=1)
    if not separator:
        raise program_error("bad-value", "string-split takes a separator that is not empty")
    return list(value.split(separator))


@built_in("string-join", "(string-join list sep)", is_linear=True)
def string_join(items: Any, separator: Any = "") -> str:
    """Join the elements as text, with the separator between them."""
    items = as_list("string-join", items)
    require_type("string", "string-join", separator, first=1)
    texts = [to_text(item) for item in items]
    check_size("string-join", sum(map(len, texts)) + len(separator) * len(texts))
    return str(separator.join(texts))


@built_in("string-replace", "(string-replace s old new)", is_linear=True)
def string_replace(value: Any, old: Any, new: Any) -> str:
    """Replace every `old` by `new`."""
    require_type("string", "string-replace", value, old, new)
    if not old:
        raise program_error("bad-value", "string-replace takes something to replace; the second is empty")
    check_size("string-replace", len(value) + value.count(old) * (len(new) - len(old)))
    return str(value.replace(old, new))


@built_in("string-contains?", "(string-contains? s part)", is_linear=True)
def string_contains(value: Any, part: Any) -> bool:
    """Return whether the string contains the part."""
    require_type("string", "string-contains?", value, part)
    return part in value


@built_in("starts-with?", "(starts-with? s part)")
def starts_with(value: Any, part: Any) -> bool:
    """Return whether the string begins with the part."""
    require_type("string", "starts-with?", value, part)
    return bool(value.startswith(part))


@built_in("ends-with?", "(ends-with? s part)")
def ends_with(value: Any, part: Any) -> bool:
    """Return whether the string ends with the part."""
    require_type("string", "ends-with?", value, part)
    return bool(value.endswith(part))


@built_in("string->number", "(string->number s)", is_linear=True)
def string_to_number(value: Any) -> int | float | None:
    """Parse a number, or return nil."""
    require_type("string", "string->number", value)
    if len(value) > 4_000 or not _NUMBER.fullmatch(value):
        return None
    text = value.strip()
    if text.lstrip("+-").isdigit():
        return int(text)
    number = float(text)
    return number if number - number == 0 else None


@built_in("number->string", "(number->string n)")
def number_to_string(value: Any) -> str:
    """Return the number as text."""
    require_type("number", "number->string", value)
    return to_text(value)


@built_in("format", "(format s x ...)", is_linear=True)
def format_text(template: Any, *values: Any) -> str:
    """Replace each {} by the next value; {{ and }} are literal braces."""
    require_type("string", "format", template)
    pieces = re.split(r"(\{\{|\}\}|\{\})", template)
    remaining = iter(values)
    texts: list[str] = []
    for piece in pieces:
        if piece == "{}":
            texts.append(_next_text(remaining, len(values)))
        else:
            texts.append({"{{": "{", "}}": "}"}.get(piece, piece))
    if next(remaining, remaining) is not remaining:
        raise program_error(
            "wrong-arity", f"format has fewer {{}} than the {len(values)} values it was given"
        )
    check_size("format", sum(map(len, texts)))
    return "".join(texts)


def _next_text(values: Iterator[Any], count: int) -> str:
    for value in values:
        return to_text(value)
    raise program_error("wrong-arity", f"format has more {{}} than the {count} values it was given")
