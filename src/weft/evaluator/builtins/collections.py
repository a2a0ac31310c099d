"""Built-ins for lists, dicts and JSON. Both are immutable; a built-in that changes one returns a new one."""

from collections.abc import Mapping
from typing import Any

import msgspec

from weft.evaluator.builtins.arithmetic import add, require_numbers
from weft.evaluator.builtins.table import built_in, check_size, declare_all, wrong_type
from weft.evaluator.compiler import Compiler
from weft.evaluator.errors import program_error
from weft.evaluator.results import TaskResult
from weft.evaluator.values import are_equal, check_finite, json_text, key_of, part_of
from weft.language.ast import Symbol
from weft.limits import MAX_WALKED_PARTS

# Lists


def _require_some(name: str, items: list[Any]) -> list[Any]:
    if not items:
        raise program_error("bad-value", f"{name} of an empty list")
    return items


def _element(items: list[Any], index: int) -> Any:
    return items[index] if -len(items) <= index < len(items) else None


@built_in("append", is_linear=True)
def append(*lists: list[Any]) -> list[Any]:
    check_size("append", sum(map(len, lists)))
    return [item for items in lists for item in items]


@built_in("range", needs_compiler=True)
def make_range(compiler: Compiler, start: Any, stop: Any = None, step: Any = 1) -> list[int]:
    given = (start,) if stop is None else (start, stop, step)
    for position, value in enumerate(given):
        if value.__class__ is not int:
            raise wrong_type("range", "integers" if len(given) > 1 else "an integer", value, position)
    if step == 0:
        raise program_error("bad-value", "the step of range must not be 0")
    numbers = range(start) if stop is None else range(start, stop, step)
    count = (numbers[-1] - numbers[0]) // numbers.step + 1 if numbers else 0
    check_size("range", count)
    compiler.machine.meter.count(count >> 2)  # counted for the memory of the new integers, not for the time
    return list(numbers)


@built_in("member", is_linear=True)
def member(value: Any, items: list[Any]) -> Any:
    for index, item in enumerate(items):
        if are_equal(item, value):
            return items[index:]
    return False


@built_in("contains?", is_linear=True)
def contains(values: Any, value: Any) -> bool:
    if values.__class__ is list:
        return any(are_equal(item, value) for item in values)
    if values.__class__ is dict:
        return isinstance(value, str) and value in values
    if values is not None and value.__class__ is not str:
        raise wrong_type("contains?", "strings", value, 1)
    return values is not None and value in values


@built_in("take", is_linear=True)
def take(items: list[Any], count: int) -> list[Any]:
    return items[: _require_count("take", count)]


@built_in("drop", is_linear=True)
def drop(items: list[Any], count: int) -> list[Any]:
    return items[_require_count("drop", count) :]


def _require_count(name: str, count: int) -> int:
    if count < 0:
        raise program_error("bad-value", f"{name} takes a count that is not negative; this is {count}")
    return count


@built_in("flatten", is_linear=True)
def flatten(items: list[Any]) -> list[Any]:
    flat: list[Any] = []
    walked = 0
    pending = [iter(items)]
    while pending:
        for item in pending[-1]:
            walked += 1
            if item.__class__ is list:
                pending.append(iter(item))
                break
            flat.append(item)
        else:
            pending.pop()
        check_size("flatten", walked, MAX_WALKED_PARTS)
    return flat


@built_in("unique", is_linear=True)
def unique(items: list[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for item in items:
        found.setdefault(key_of(item), item)
    return list(found.values())


@built_in("sum", is_linear=True)
def total(items: list[Any]) -> Any:
    require_numbers("sum", items)
    return add(*items)


declare_all(
    {
        "list": lambda *values: list(values),
        "car": lambda items: _require_some("car", items)[0],
        "first": lambda items: _element(items, 0),
        "second": lambda items: _element(items, 1),
        "third": lambda items: _element(items, 2),
        "last": lambda items: _element(items, -1),
        "nth": lambda items, index: items[index] if 0 <= index < len(items) else None,
        "length": lambda value: 0 if value is None else len(value),
    }
)
declare_all(
    {
        "cons": lambda value, items: [value, *items],
        "cdr": lambda items: _require_some("cdr", items)[1:],
        "rest": lambda items: items[1:],
        "reverse": lambda items: items[::-1],
        "zip": lambda *lists: [list(items) for items in zip(*lists, strict=False)],
    },
    is_linear=True,
)


# Dicts and JSON


def _put(name: str, made: dict[str, Any], values: tuple[Any, ...], first: int) -> dict[str, Any]:
    """Add keys and values, given in turn, to a dict; `first` is the position of the first key."""
    if len(values) % 2:
        message = f"{name} takes pairs of keys and values, not {len(values)} arguments"
        raise program_error("wrong-arity", message)
    for at in range(0, len(values), 2):
        key = values[at]
        if key.__class__ is not str and key.__class__ is not Symbol:
            raise wrong_type(name, "strings as keys", key, at + first)
        made[str(key)] = values[at + 1]
    return made


@built_in("dict", takes_keywords=True)
def make_dict(*pairs: Any, keywords: Mapping[str, Any] | None = None) -> dict[str, Any]:
    made = _put("dict", {}, pairs, 0)
    return {**made, **keywords} if keywords else made


@built_in("get")
def get(value: Any, key: Any, default: Any = None) -> Any:
    return part_of(value, str(key) if key.__class__ is Symbol else key, default)


@built_in("get-in")
def get_in(value: Any, path: list[Any]) -> Any:
    for key in path:
        value = part_of(value, str(key) if key.__class__ is Symbol else key)
    return value


@built_in("dissoc", is_linear=True)
def dissoc(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    removed = {str(key) for key in keys}
    return {key: part for key, part in value.items() if key not in removed}


@built_in("merge", is_linear=True)
def merge(*dicts: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for value in dicts:
        made.update(value)
    return made


@built_in("json-parse", is_linear=True)
def json_parse(text: Any) -> Any:
    if text.__class__ is TaskResult:
        text = text.content
    check_size("json-parse", len(text))
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise program_error("bad-value", f"json-parse: {error}") from None
    except RecursionError:
        raise program_error("bad-value", "json-parse: nested too deeply") from None
    check_finite(value)
    return value


declare_all({"has-key?": lambda value, key: str(key) in value})
declare_all(
    {
        "assoc": lambda value, *pairs: _put("assoc", dict(value or ()), pairs, 1),
        "keys": list,
        "values": lambda value: list(value.values()),
        "items": lambda value: [[key, part] for key, part in value.items()],
        "json-string": json_text,
    },
    is_linear=True,
)
