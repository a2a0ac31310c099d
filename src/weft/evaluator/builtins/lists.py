"""Lists. A list is never changed: every built-in gives a new one."""

from typing import Any

from weft.evaluator.builtins.arithmetic import add
from weft.evaluator.builtins.table import as_list, built_in, check_size, want, want_numbers, wrong_type
from weft.evaluator.compiler import Compiler
from weft.evaluator.errors import program_error
from weft.evaluator.values import are_equal, key_of
from weft.limits import MAX_WALKED_PARTS


@built_in("list")
def make_list(*values: Any) -> list[Any]:
    """(list x ...): a list of the values."""
    return list(values)


@built_in("cons", is_linear=True)
def cons(value: Any, items: Any) -> list[Any]:
    """(cons x list): the list with x before it."""
    return [value, *as_list("cons", items, 1)]


@built_in("car")
def car(items: Any) -> Any:
    """(car list): the first element; an empty list has none."""
    items = as_list("car", items)
    if not items:
        raise program_error("bad-value", "car of an empty list")
    return items[0]


@built_in("cdr", is_linear=True)
def cdr(items: Any) -> list[Any]:
    """(cdr list): the list without its first element; an empty list has none."""
    items = as_list("cdr", items)
    if not items:
        raise program_error("bad-value", "cdr of an empty list")
    return list(items[1:])


@built_in("rest", is_linear=True)
def rest(items: Any) -> list[Any]:
    """(rest list): the list without its first element, if there is one."""
    items = as_list("rest", items)
    return list(items[1:])


def _element(name: str, index: int) -> None:
    def element(items: Any) -> Any:
        items = as_list(name, items)
        return items[index] if -len(items) <= index < len(items) else None

    element.__doc__ = f"({name} list): the {name} element, nil when there is none."
    built_in(name)(element)


for _name, _index in (("first", 0), ("second", 1), ("third", 2), ("last", -1)):
    _element(_name, _index)


@built_in("nth")
def nth(items: Any, index: Any) -> Any:
    """(nth list n): the element with the number n, from 0; nil when there is none."""
    items = as_list("nth", items)
    want("integer", "nth", index, first=1)
    return items[index] if 0 <= index < len(items) else None


@built_in("length")
def length(value: Any) -> int:
    """(length x): how many elements a list or dict has, or characters a string."""
    if value.__class__ in (list, dict, str):
        return len(value)
    if value is None:
        return 0
    raise wrong_type("length", "a list, a dict or a string", value, 0)


@built_in("append", is_linear=True)
def append(*lists: Any) -> list[Any]:
    """(append list ...): the lists as one."""
    given = [as_list("append", items, position) for position, items in enumerate(lists)]
    check_size("append", sum(map(len, given)))
    return [item for items in given for item in items]


@built_in("reverse", is_linear=True)
def reverse(items: Any) -> list[Any]:
    """(reverse list): from the last to the first."""
    items = as_list("reverse", items)
    return list(items[::-1])


@built_in("range", needs_compiler=True)
def make_range(compiler: Compiler, start: Any, stop: Any = None, step: Any = 1) -> list[int]:
    """(range n), (range from to) or (range from to step): integers up to but not with the end."""
    want("integer", "range", start, *(() if stop is None else (stop, step)))
    if step == 0:
        raise program_error("bad-value", "the step of range is a whole number other than 0; this is 0")
    numbers = range(start) if stop is None else range(start, stop, step)
    count = (numbers[-1] - numbers[0]) // numbers.step + 1 if numbers else 0
    check_size("range", count)
    compiler.machine.meter.count(count >> 2)  # each is a new integer: not the time counts but the memory
    return list(numbers)


@built_in("member", is_linear=True)
def member(value: Any, items: Any) -> Any:
    """(member x list): the list from the first element that equals x on; false when there is none."""
    items = as_list("member", items, 1)
    for index, item in enumerate(items):
        if are_equal(item, value):
            return items[index:]
    return False


@built_in("contains?", is_linear=True)
def contains(values: Any, value: Any) -> bool:
    """(contains? xs x): whether a list has the element, a dict the key, a string the part."""
    if values.__class__ is list:
        return any(are_equal(item, value) for item in values)
    if values.__class__ is dict:
        return isinstance(value, str) and value in values
    if values is None:
        return False
    want("string", "contains?", values, value)
    return value in values


@built_in("take", is_linear=True)
def take(items: Any, count: Any) -> list[Any]:
    """(take list n): the first n elements, or all there are."""
    items = as_list("take", items)
    _want_count("take", count)
    return list(items[:count])


@built_in("drop", is_linear=True)
def drop(items: Any, count: Any) -> list[Any]:
    """(drop list n): the list without its first n elements."""
    items = as_list("drop", items)
    _want_count("drop", count)
    return list(items[count:])


def _want_count(name: str, count: Any) -> None:
    want("integer", name, count, first=1)
    if count < 0:
        raise program_error("bad-value", f"{name} takes a count from 0; this is {count}")


@built_in("flatten", is_linear=True)
def flatten(items: Any) -> list[Any]:
    """(flatten list): the elements of the list and of all lists in it, however deep."""
    items = as_list("flatten", items)
    flat: list[Any] = []
    walked = 0
    rest = [iter(items)]
    while rest:
        for item in rest[-1]:
            walked += 1
            if item.__class__ is list:
                rest.append(iter(item))
                break
            flat.append(item)
        else:
            rest.pop()
        check_size("flatten", walked, MAX_WALKED_PARTS)
    return flat


@built_in("zip", is_linear=True)
def zip_lists(*lists: Any) -> list[list[Any]]:
    """(zip list ...): lists of the first elements, of the second ones ... as far as all lists go."""
    given = [as_list("zip", items, position) for position, items in enumerate(lists)]
    return [list(items) for items in zip(*given, strict=False)]


@built_in("unique", is_linear=True)
def unique(items: Any) -> list[Any]:
    """(unique list): each element once, in order."""
    items = as_list("unique", items)
    found: dict[Any, Any] = {}
    for item in items:
        found.setdefault(key_of(item), item)
    return list(found.values())


@built_in("sum", is_linear=True)
def total(items: Any) -> Any:
    """(sum list): the sum of the numbers in the list."""
    items = as_list("sum", items)
    want_numbers("sum", items)
    return add(*items)
