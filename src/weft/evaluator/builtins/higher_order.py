"""Built-ins that call functions: concurrently if these wait, except for `reduce` and `apply`."""

from typing import Any

from weft.evaluator.builtins.table import built_in, require_function, require_items
from weft.evaluator.compiler import Compiler
from weft.evaluator.errors import program_error
from weft.evaluator.values import kind_of


def _rows(name: str, lists: tuple[Any, ...]) -> list[Any]:
    given = [require_items(name, items, position) for position, items in enumerate(lists, 1)]
    if len({len(items) for items in given}) > 1:
        lengths = ", ".join(str(len(items)) for items in given)
        raise program_error("bad-value", f"{name} takes lists of the same length; these have {lengths}")
    return list(zip(*given, strict=True))


def _call_each(compiler: Compiler, name: str, function: Any, lists: tuple[Any, ...]) -> list[Any]:
    """Call the function for each element, concurrently if it waits, and return the results."""
    if len(lists) > 1:
        rows = _rows(name, lists)
        return compiler.machine.each(len(rows), lambda index: compiler.invoke(function, rows[index]))
    items = require_items(name, lists[0], 1)
    call = compiler.make_caller(function)
    return compiler.machine.each(len(items), lambda index: call(items[index]))


@built_in("map", needs_compiler=True)
def map_lists(compiler: Compiler, function: Any, *lists: Any) -> list[Any]:
    require_function("map", function)
    return _call_each(compiler, "map", function, lists)


@built_in("filter", needs_compiler=True)
def filter_list(compiler: Compiler, function: Any, items: Any) -> list[Any]:
    require_function("filter", function)
    items = require_items("filter", items, 1)
    kept = _call_each(compiler, "filter", function, (items,))
    return [item for item, is_kept in zip(items, kept, strict=True) if is_kept]


@built_in("for-each", needs_compiler=True)
def for_each(compiler: Compiler, function: Any, *lists: Any) -> None:
    require_function("for-each", function)
    _call_each(compiler, "for-each", function, lists)


@built_in("reduce", needs_compiler=True)
def reduce_list(compiler: Compiler, function: Any, value: Any, items: Any) -> Any:
    require_function("reduce", function)
    for item in require_items("reduce", items, 2):
        value = compiler.invoke(function, (value, item))
    return value


@built_in("apply", needs_compiler=True)
def apply(compiler: Compiler, function: Any, *arguments: Any) -> Any:
    require_function("apply", function)
    last = require_items("apply", arguments[-1], len(arguments))
    return compiler.invoke(function, [*arguments[:-1], *last])


@built_in("sort", needs_compiler=True)
def sort(compiler: Compiler, items: Any, function: Any = None) -> list[Any]:
    items = require_items("sort", items)
    if function is None:
        keys = items
    else:
        require_function("sort", function)
        keys = _call_each(compiler, "sort", function, (items,))
    compiler.machine.meter.count(len(items) >> 4)
    _check_sortable(keys, "the list" if function is None else "the result of the function")
    order = sorted(range(len(items)), key=keys.__getitem__)
    return [items[index] for index in order]


def _check_sortable(keys: list[Any], what: str) -> None:
    """Raise ProgramError unless all keys are numbers or all are strings."""
    allowed = (str,) if keys and keys[0].__class__ is str else (int, float)
    for position, key in enumerate(keys, 1):
        if key.__class__ not in allowed:
            found = kind_of(key) if position == 1 else f"{kind_of(keys[0])} and {kind_of(key)}"
            message = f"sort orders numbers or strings, not both; {what} has {found} (element {position})"
            raise program_error("wrong-type", message)


@built_in("any", needs_compiler=True)
def any_of(compiler: Compiler, function: Any, *lists: Any) -> bool:
    return any(_results(compiler, "any", function, lists))


@built_in("all", needs_compiler=True)
def all_of(compiler: Compiler, function: Any, *lists: Any) -> bool:
    return all(_results(compiler, "all", function, lists))


def _results(compiler: Compiler, name: str, function: Any, lists: tuple[Any, ...]) -> list[Any]:
    if not lists:
        return require_items(name, function)
    require_function(name, function)
    return _call_each(compiler, name, function, lists)
