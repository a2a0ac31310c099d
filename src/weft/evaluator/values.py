"""Values of the language: types, text, JSON, parts and equality."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from weft.evaluator.errors import exhausted, program_error
from weft.evaluator.functions import BuiltIn, Closure
from weft.evaluator.results import TaskResult
from weft.language.ast import Symbol
from weft.language.diagnostics import nearest
from weft.language.library import TaskDefinition, TaskLibrary
from weft.limits import MAX_JSON_DEPTH, MAX_VALUE_SIZE, MAX_WALKED_PARTS

_KINDS: dict[type, str] = {
    type(None): "nil",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    Symbol: "a symbol",
    list: "a list",
    dict: "a dict",
    Closure: "a function",
    BuiltIn: "a function",
    TaskDefinition: "a task",
    TaskResult: "a task result",
    TaskLibrary: "the task library",
}


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def kind_of(value: Any) -> str:
    """Return the type of a value as the language names it, with an article."""
    return _KINDS.get(type(value), f"a Python {type(value).__name__}")


def is_number(value: Any) -> bool:
    """Return whether a value is an int or a float, but not a boolean."""
    return value.__class__ is int or value.__class__ is float


def to_json(value: Any) -> Any:
    """Return the value as plain JSON: task results as objects, symbols as strings. Raise ProgramError."""
    check_finite(value)
    return plain(value, fields_of)


SCALARS = frozenset({type(None), bool, int, float, str})
_PARTS = SCALARS | {list, dict}


def scan_json(value: Any, most: int = MAX_VALUE_SIZE) -> tuple[bool, int]:
    """Return whether a value is plain JSON of at most `most` parts and not too deep, and the parts counted.

    Several times as fast as `to_json`, because the types of all items of a list are checked at once.
    """
    if value.__class__ in SCALARS:
        return True, 1
    level = [value]
    seen = 0
    for _ in range(MAX_JSON_DEPTH):
        below: list[Any] = []
        for one in level:
            items = one.values() if one.__class__ is dict else one
            if one.__class__ not in (list, dict):
                return False, seen
            seen += len(items)
            kinds = set(map(type, items))
            if seen > most or not kinds <= _PARTS:
                return False, seen
            if list in kinds or dict in kinds:
                below.extend(item for item in items if item.__class__ is list or item.__class__ is dict)
        if not below:
            return True, seen
        level = below
    return False, seen


def plain(value: Any, of_result: Callable[[TaskResult], Any]) -> Any:
    """Return a plain JSON copy; `of_result` converts task results. Raise ProgramError for a function."""
    if value.__class__ in SCALARS:
        return value
    if value.__class__ is list:
        return [plain(item, of_result) for item in value]
    if value.__class__ is dict:
        return {key: plain(item, of_result) for key, item in value.items()}
    if value.__class__ is TaskResult:
        return plain(of_result(value), of_result)
    if value.__class__ is Symbol:
        return str(value)
    raise program_error("wrong-type", f"{kind_of(value)} cannot be converted to JSON")


def json_text(value: Any) -> str:
    return _encode(to_json(value))


def to_text(value: Any) -> str:
    """Return the value as text: strings as they are, task results as their content, else JSON."""
    if isinstance(value, str):
        return str(value)
    if value.__class__ is int:
        return str(value)  # equal to its JSON, in a tenth of the time
    if value.__class__ is TaskResult:
        return str(value.content)
    if value.__class__ is Closure or value.__class__ is BuiltIn:
        return repr(value)
    if value.__class__ is TaskDefinition:
        return f"#<task {value.name}>"
    if value.__class__ is TaskLibrary:
        return "#<task library>"
    return json_text(value)


def fields_of(result: TaskResult) -> dict[str, Any]:
    """Return the fields of a task result, with the specification's names."""
    fields: dict[str, Any] = {
        "content": result.content,
        "status": result.status,
        "criteria": result.criteria,
        "notes": result.notes,
    }
    if result.parsed_content is not UNSET:
        fields["parsedContent"] = result.parsed_content
    return fields


_RESULT_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(TaskResult))


def part_of(value: Any, key: Any, default: Any = None) -> Any:
    """Return a part of a dict, list or task result; `default` if it is missing or an index is negative."""
    if value.__class__ is dict:
        return value.get(key, default) if isinstance(key, str) else default
    if value.__class__ is list:
        return value[key] if key.__class__ is int and 0 <= key < len(value) else default
    if value.__class__ is TaskResult:
        if key in _RESULT_FIELDS:
            return fields_of(value).get(key)
        return part_of(value.parsed_content, key, default)
    return default


_MISSING = object()


def follow(value: Any, path: tuple[str | int, ...], name: str) -> Any:
    """Return the part at the end of a path. Raise ProgramError (`missing-field`), which shows `name`."""
    walked = name
    for key in path:
        found = part_of(value, key, _MISSING)
        if found is _MISSING:
            raise _missing(value, key, walked)
        value = found
        walked += f"[{key}]" if isinstance(key, int) else f".{key}"
    return value


def _missing(value: Any, key: str | int, walked: str) -> Exception:
    if isinstance(key, int):
        what = f"an element {key}" if value.__class__ is list else f"elements: it is {kind_of(value)}"
        return program_error("missing-field", f"{walked} does not have {what}")
    if value.__class__ is TaskResult:
        known = [*_RESULT_FIELDS, *(value.parsed_content if value.parsed_content.__class__ is dict else ())]
    elif value.__class__ is dict:
        known = list(value)
    else:
        return program_error("missing-field", f"{walked} has no fields: it is {kind_of(value)}")
    return program_error("missing-field", f"{walked} has no field '{key}'{nearest(key, known)}")


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal: 1 equals 1.0, true is not 1, a symbol is not a string."""
    pairs = [(one, other)]
    walked = 0
    while pairs:
        left, right = pairs.pop()
        if left is right:
            continue
        if not _may_be_equal(left, right):
            return False
        if left.__class__ is list:
            pairs.extend(zip(left, right, strict=True))
            walked += len(left)
        elif left.__class__ is dict:
            pairs.extend((left[key], right[key]) for key in left)
            walked += len(left)
        if walked > MAX_WALKED_PARTS:
            raise exhausted("size", f"more than {MAX_WALKED_PARTS} parts to compare", limit=MAX_WALKED_PARTS)
    return True


def _may_be_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal, provided that their items are; items are not compared."""
    kind = left.__class__
    if kind is not right.__class__:
        return is_number(left) and is_number(right) and bool(left == right)
    if kind is list:
        return len(left) == len(right)
    if kind is dict:
        return bool(left.keys() == right.keys())
    if kind is TaskResult:
        return are_equal(fields_of(left), fields_of(right))
    return bool(left == right)


def key_of(value: Any) -> tuple[Any, ...]:
    """Return a hashable key that equal values share; a flat tuple, so that values may nest deeply."""
    key: list[Any] = []
    pending = [value]
    while pending:
        one = pending.pop()
        if len(key) + len(pending) > MAX_WALKED_PARTS:
            raise exhausted("size", f"a value of more than {MAX_WALKED_PARTS} parts", limit=MAX_WALKED_PARTS)
        if one.__class__ is TaskResult:
            one = fields_of(one)
        if one.__class__ is list:
            key.append(("list", len(one)))
            pending.extend(one)
        elif one.__class__ is dict:
            key.append(("dict", tuple(sorted(one))))
            pending.extend(one[name] for name in sorted(one))
        else:
            key.append((None if is_number(one) else one.__class__, one))
    return tuple(key)


def check_finite(value: Any, size: int = MAX_VALUE_SIZE) -> None:
    """Raise ProgramError if the value exceeds the limits of size or depth."""
    level = [value]
    depth = total = 0
    while level:
        depth += 1
        total += len(level)
        below: list[Any] = []
        for one in level:
            if one.__class__ is list:
                below.extend(one)
            elif one.__class__ is dict:
                below.extend(one.values())
            elif one.__class__ is TaskResult:
                below.extend(fields_of(one).values())
            elif one.__class__ is str:
                total += len(one)
            if total + len(below) > size:
                raise exhausted("size", f"a value of more than {size} parts and characters", limit=size)
        if depth > MAX_JSON_DEPTH + 1:
            raise exhausted("depth", f"a value nested deeper than {MAX_JSON_DEPTH}", limit=MAX_JSON_DEPTH)
        level = below
