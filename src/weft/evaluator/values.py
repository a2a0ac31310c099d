"""Values of the language: their kinds, their text, their JSON, their parts, whether they are equal."""

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
    """What a value is, in the words of the language."""
    return _KINDS.get(type(value), f"a Python {type(value).__name__}")


def is_number(value: Any) -> bool:
    """Whether it is an int or a float; booleans are none."""
    return value.__class__ is int or value.__class__ is float


def to_json(value: Any) -> Any:
    """The value as plain JSON: task results as objects, symbols as strings; functions are refused."""
    check_finite(value)
    return plain(value, fields_of)


SCALARS = frozenset({type(None), bool, int, float, str})
_PARTS = SCALARS | {list, dict}


def look_at(value: Any, most: int = MAX_VALUE_SIZE) -> tuple[bool, int]:
    """Whether a value is plain JSON, of a size and depth that can be written down; how many parts were seen.

    Several times as fast as a copy: the kinds of all items of a list are looked at in one go.
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
    """A copy that is plain JSON; `of_result` says what a task result becomes. Functions are refused."""
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
    raise program_error("wrong-type", f"{kind_of(value)} has no JSON")


def json_text(value: Any) -> str:
    """The JSON text of a value."""
    return _encode(to_json(value))


def to_text(value: Any) -> str:
    """The value where text is wanted: strings as they are, task results as their content, else JSON."""
    if isinstance(value, str):
        return str(value)
    if value.__class__ is int:
        return str(value)  # as JSON says it, in a tenth of the time
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
    """The fields of a task result by the specification's names."""
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
    """A part of a dict, list or task result; `default` when there is none. Negative indexes are none."""
    if value.__class__ is dict:
        return value.get(key, default) if isinstance(key, str) else default
    if value.__class__ is list:
        return value[key] if key.__class__ is int and 0 <= key < len(value) else default
    if value.__class__ is TaskResult:
        if key in _RESULT_FIELDS:
            return fields_of(value).get(key)
        return part_of(value.parsed_content, key, default)
    return default


_NOTHING = object()


def follow(value: Any, path: tuple[str | int, ...], name: str) -> Any:
    """The part of a value at the end of a path; raises ProgramError (`missing-field`) where there is none."""
    walked = name
    for key in path:
        found = part_of(value, key, _NOTHING)
        if found is _NOTHING:
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
    """Equality of the language: 1 is 1.0, true is not 1, a symbol no string; lists and dicts by content."""
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
    """Whether two values are equal as far as can be said without their parts."""
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
    """Something hashable that equal values have in common; flat, however deep the value is."""
    key: list[Any] = []
    rest = [value]
    while rest:
        one = rest.pop()
        if len(key) + len(rest) > MAX_WALKED_PARTS:
            raise exhausted("size", f"a value of more than {MAX_WALKED_PARTS} parts", limit=MAX_WALKED_PARTS)
        if one.__class__ is TaskResult:
            one = fields_of(one)
        if one.__class__ is list:
            key.append(("list", len(one)))
            rest.extend(one)
        elif one.__class__ is dict:
            key.append(("dict", tuple(sorted(one))))
            rest.extend(one[name] for name in sorted(one))
        else:
            key.append((None if is_number(one) else one.__class__, one))
    return tuple(key)


def check_finite(value: Any, size: int = MAX_VALUE_SIZE) -> None:
    """Raise ProgramError unless the value is of a size and depth that can be written down."""
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
