"""Built-ins for lists. Lists are immutable; a built-in that changes a list returns a new one."""

from typing import Any

from weft.evaluator.builtins.arithmetic import add
from weft.evaluator.builtins.table import (
    as_list,
    built_in,
    check_size,
    require_numbers,
    require_type,
    wrong_type,
)
from weft.evaluator.compiler import Compiler
from weft.evaluator.errors import program_error
from weft.evaluator.values import are_equal, key_of
from weft.limits import MAX_WALKED_PARTS


@built_in("list", "(list x ...)")
def make_list(*values: Any) -> list[Any]:
    """Create a list of the values."""
    return list(values)


@built_in("cons", "(cons x list)", is_linear=True)
def cons(value: Any, items: Any) -> list[Any]:
    """Return the list with x added at the front."""
    return [value, *as_list("cons", items, 1)]


@built_in("car", "(car list)")
def car(items: Any) -> Any:
    """Return the first element; fail on an empty list."""
    items = as_list("car", items)
    if not items:
        raise program_error("bad-value", "car of an empty list")
    return items[0]


@built_in("cdr", "(cdr list)", is_linear=True)
def cdr(items: Any) -> list[Any]:
    """Return the list without its first element; fail on an empty list."""
    items = as_list("cdr", items)
    if not items:
        raise program_error("bad-value", "cdr of an empty list")
    return list(items[1:])


@built_in("rest", "(rest list)", is_linear=True)
def rest(items: Any) -> list[Any]:
    """Return the list without its first element; empty for an empty list."""
    items = as_list("rest", items)
    return list(items[1:])


def _declare_element(name: str, index: int) -> None:
    def element(items: Any) -> Any:
        items = as_list(name, items)
        return items[index] if -len(items) <= index < len(items) else None

    element.__doc__ = f"Return the {name} element, or nil."
    built_in(name, f"({name} list)")(element)


for _name, _index in (("first", 0), ("second", 1), ("third", 2), ("last", -1)):
    _declare_element(_name, _index)


@built_in("nth", "(nth list n)")
def nth(items: Any, index: Any) -> Any:
    """Return element n, counted from 0, or nil."""
    items = as_list("nth", items)
    require_type("integer", "nth", index, first=1)
    return items[index] if 0 <= index < len(items) else None


@built_in("length", "(length x)")
def length(value: Any) -> int:
    """Return the number of elements of a list or dict, or of characters of a string."""
    if value.__class__ in (list, dict, str):
        return len(value)
    if value is None:
        return 0
    raise wrong_type("length", "a list, a dict or a string", value, 0)


@built_in("append", "(append list ...)", is_linear=True)
def append(*lists: Any) -> list[Any]:
    """Concatenate the lists."""
    given = [as_list("append", items, position) for position, items in enumerate(lists)]
    check_size("append", sum(map(len, given)))
    return [item for items in given for item in items]


@built_in("reverse", "(reverse list)", is_linear=True)
def reverse(items: Any) -> list[Any]:
    """Return the list in reverse order."""
    items = as_list("reverse", items)
    return list(items[::-1])


@built_in("range", "(range n), (range from to) or (range from to step)", needs_compiler=True)
def make_range(compiler: Compiler, start: Any, stop: Any = None, step: Any = 1) -> list[int]:
    """Return the integers before the end."""
    require_type("integer", "range", start, *(() if stop is None else (stop, step)))
    if step == 0:
        raise program_error("bad-value", "the step of range must not be 0")
    numbers = range(start) if stop is None else range(start, stop, step)
    count = (numbers[-1] - numbers[0]) // numbers.step + 1 if numbers else 0
    check_size("range", count)
    compiler.machine.meter.count(count >> 2)  # counted for the memory of the new integers, not for the time
    return list(numbers)


@built_in("member", "(member x list)", is_linear=True)
def member(value: Any, items: Any) -> Any:
    """Return the list from the first element that equals x, or false."""
    items = as_list("member", items, 1)
    for index, item in enumerate(items):
        if are_equal(item, value):
            return items[index:]
    return False


@built_in("contains?", "(contains? xs x)", is_linear=True)
def contains(values: Any, value: Any) -> bool:
    """Return whether a list has the element, a dict the key, a string the part."""
    if values.__class__ is list:
        return any(are_equal(item, value) for item in values)
    if values.__class__ is dict:
        return isinstance(value, str) and value in values
    if values is None:
        return False
    require_type("string", "contains?", values, value)
    return value in values


@built_in("take", "(take list n)", is_linear=True)
def take(items: Any, count: Any) -> list[Any]:
    """Return the first n elements."""
    items = as_list("take", items)
    _require_count("take", count)
    return list(items[:count])


@built_in("drop", "(drop list n)", is_linear=True)
def drop(items: Any, count: Any) -> list[Any]:
    """Return the list without its first n elements."""
    items = as_list("drop", items)
    _require_count("drop", count)
    return list(items[count:])


def _require_count(name: str, count: Any) -> None:
    require_type("integer", name, count, first=1)
    if count < 0:
        raise program_error("bad-value", f"{name} takes a count that is not negative; this is {count}")


@built_in("flatten", "(flatten list)", is_linear=True)
def flatten(items: Any) -> list[Any]:
    """Return the elements of the list and of all nested lists."""
    items = as_list("flatten", items)
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


@built_in("zip", "(zip list ...)", is_linear=True)
def zip_lists(*lists: Any) -> list[list[Any]]:
    """Return lists of all first elements, all second ones ..., up to the shortest list."""
    given = [as_list("zip", items, position) for position, items in enumerate(lists)]
    return [list(items) for items in zip(*given, strict=False)]


@built_in("unique", "(unique list)", is_linear=True)
def unique(items: Any) -> list[Any]:
    """Return each element once, in order."""
    items = as_list("unique", items)
    found: dict[Any, Any] = {}
    for item in items:
        found.setdefault(key_of(item), item)
    return list(found.values())


@built_in("sum", "(sum list)", is_linear=True)
def total(items: Any) -> Any:
    """Return the sum of the numbers in the list."""
    items = as_list("sum", items)
    require_numbers("sum", items)
    return add(*items)
