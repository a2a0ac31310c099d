"""Built-ins that call functions. `map`, `filter` and `for-each` do so concurrently where these wait."""

from typing import Any

from weft.evaluator.builtins.table import as_list, built_in, want_function
from weft.evaluator.compiler import Compiler
from weft.evaluator.errors import program_error
from weft.evaluator.values import kind_of


def _rows(name: str, lists: tuple[Any, ...]) -> list[Any]:
    """The arguments of each call."""
    given = [as_list(name, items, position) for position, items in enumerate(lists, 1)]
    if len({len(items) for items in given}) > 1:
        lengths = ", ".join(str(len(items)) for items in given)
        raise program_error("bad-value", f"{name} takes lists of the same length; these have {lengths}")
    return list(zip(*given, strict=True))


def _each(compiler: Compiler, name: str, function: Any, lists: tuple[Any, ...]) -> list[Any]:
    """What the function gives for each element, concurrently where it waits."""
    if len(lists) > 1:
        rows = _rows(name, lists)
        return compiler.machine.each(len(rows), lambda index: compiler.invoke(function, rows[index]))
    items = as_list(name, lists[0], 1)
    call = compiler.caller(function)
    return compiler.machine.each(len(items), lambda index: call(items[index]))


@built_in("map", needs_compiler=True)
def map_lists(compiler: Compiler, function: Any, *lists: Any) -> list[Any]:
    """(map f list ...): what f gives for each element; of several lists it gets one element each."""
    want_function("map", function)
    return _each(compiler, "map", function, lists)


@built_in("filter", needs_compiler=True)
def filter_list(compiler: Compiler, function: Any, items: Any) -> list[Any]:
    """(filter f list): the elements for which f gives something true."""
    want_function("filter", function)
    items = as_list("filter", items, 1)
    kept = _each(compiler, "filter", function, (items,))
    return [item for item, is_kept in zip(items, kept, strict=True) if is_kept]


@built_in("for-each", needs_compiler=True)
def for_each(compiler: Compiler, function: Any, *lists: Any) -> None:
    """(for-each f list ...): calls f for each element; nil."""
    want_function("for-each", function)
    _each(compiler, "for-each", function, lists)


@built_in("reduce", needs_compiler=True)
def reduce_list(compiler: Compiler, function: Any, value: Any, items: Any) -> Any:
    """(reduce f init list): (f (f init first) second) ... in order."""
    want_function("reduce", function)
    for item in as_list("reduce", items, 2):
        value = compiler.invoke(function, (value, item))
    return value


@built_in("apply", needs_compiler=True)
def apply(compiler: Compiler, function: Any, *arguments: Any) -> Any:
    """(apply f x ... list): calls f with the values and the elements of the list."""
    want_function("apply", function)
    last = as_list("apply", arguments[-1], len(arguments))
    return compiler.invoke(function, [*arguments[:-1], *last])


@built_in("sort", needs_compiler=True)
def sort(compiler: Compiler, items: Any, function: Any = None) -> list[Any]:
    """(sort list) or (sort list f): numbers or strings, the small first; with f, by what f gives."""
    items = as_list("sort", items)
    if function is None:
        keys = items
    else:
        want_function("sort", function)
        keys = _each(compiler, "sort", function, (items,))
    compiler.machine.meter.count(len(items) >> 4)
    _check_sortable(keys, "the list" if function is None else "what the function gives")
    order = sorted(range(len(items)), key=keys.__getitem__)
    return [items[index] for index in order]


def _check_sortable(keys: list[Any], what: str) -> None:
    """Raise ProgramError unless all keys are numbers, or all are strings."""
    allowed = (str,) if keys and keys[0].__class__ is str else (int, float)
    for position, key in enumerate(keys, 1):
        if key.__class__ not in allowed:
            found = kind_of(key) if position == 1 else f"{kind_of(keys[0])} and {kind_of(key)}"
            message = f"sort orders numbers or strings, not both; {what} has {found} (element {position})"
            raise program_error("wrong-type", message)


@built_in("any", needs_compiler=True)
def any_of(compiler: Compiler, function: Any, *lists: Any) -> bool:
    """(any f list): whether f gives something true for an element; (any list): whether an element is true."""
    return any(_verdicts(compiler, "any", function, lists))


@built_in("all", needs_compiler=True)
def all_of(compiler: Compiler, function: Any, *lists: Any) -> bool:
    """(all f list): whether f gives something true for every element; (all list): whether all are true."""
    return all(_verdicts(compiler, "all", function, lists))


def _verdicts(compiler: Compiler, name: str, function: Any, lists: tuple[Any, ...]) -> list[Any]:
    if not lists:
        return as_list(name, function)
    want_function(name, function)
    return _each(compiler, name, function, lists)
