"""Built-ins that call functions: concurrently if these wait, except for `reduce` and `apply`."""

from typing import Any

from weft.evaluator.builtins.table import as_list, built_in, require_function
from weft.evaluator.compiler import Compiler
from weft.evaluator.errors import program_error
from weft.evaluator.values import kind_of


def _rows(name: str, lists: tuple[Any, ...]) -> list[Any]:
    given = [as_list(name, items, position) for position, items in enumerate(lists, 1)]
    if len({len(items) for items in given}) > 1:
        lengths = ", ".join(str(len(items)) for items in given)
        raise program_error("bad-value", f"{name} takes lists of the same length; these have {lengths}")
    return list(zip(*given, strict=True))


def _call_each(compiler: Compiler, name: str, function: Any, lists: tuple[Any, ...]) -> list[Any]:
    """Call the function for each element, concurrently if it waits, and return the results."""
    if len(lists) > 1:
        rows = _rows(name, lists)
        return compiler.machine.each(len(rows), lambda index: compiler.invoke(function, rows[index]))
    items = as_list(name, lists[0], 1)
    call = compiler.make_caller(function)
    return compiler.machine.each(len(items), lambda index: call(items[index]))


@built_in("map", "(map f list ...)", needs_compiler=True)
def map_lists(compiler: Compiler, function: Any, *lists: Any) -> list[Any]:
    """Return the results of f for each element; of several lists, f gets one element each."""
    require_function("map", function)
    return _call_each(compiler, "map", function, lists)


@built_in("filter", "(filter f list)", needs_compiler=True)
def filter_list(compiler: Compiler, function: Any, items: Any) -> list[Any]:
    """Return the elements for which f returns a true value."""
    require_function("filter", function)
    items = as_list("filter", items, 1)
    kept = _call_each(compiler, "filter", function, (items,))
    return [item for item, is_kept in zip(items, kept, strict=True) if is_kept]


@built_in("for-each", "(for-each f list ...)", needs_compiler=True)
def for_each(compiler: Compiler, function: Any, *lists: Any) -> None:
    """Call f for each element; return nil."""
    require_function("for-each", function)
    _call_each(compiler, "for-each", function, lists)


@built_in("reduce", "(reduce f init list)", needs_compiler=True)
def reduce_list(compiler: Compiler, function: Any, value: Any, items: Any) -> Any:
    """Fold the list from the left: (f (f init first) second) ..."""
    require_function("reduce", function)
    for item in as_list("reduce", items, 2):
        value = compiler.invoke(function, (value, item))
    return value


@built_in("apply", "(apply f x ... list)", needs_compiler=True)
def apply(compiler: Compiler, function: Any, *arguments: Any) -> Any:
    """Call f with the values and the elements of the list."""
    require_function("apply", function)
    last = as_list("apply", arguments[-1], len(arguments))
    return compiler.invoke(function, [*arguments[:-1], *last])


@built_in("sort", "(sort list) or (sort list f)", needs_compiler=True)
def sort(compiler: Compiler, items: Any, function: Any = None) -> list[Any]:
    """Sort numbers or strings in ascending order; with f, by its results."""
    items = as_list("sort", items)
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


@built_in("any", "(any f list) or (any list)", needs_compiler=True)
def any_of(compiler: Compiler, function: Any, *lists: Any) -> bool:
    """Return whether f is true for an element, or whether an element is true."""
    return any(_results(compiler, "any", function, lists))


@built_in("all", "(all f list) or (all list)", needs_compiler=True)
def all_of(compiler: Compiler, function: Any, *lists: Any) -> bool:
    """Return whether f is true for every element, or every element is true."""
    return all(_results(compiler, "all", function, lists))


def _results(compiler: Compiler, name: str, function: Any, lists: tuple[Any, ...]) -> list[Any]:
    if not lists:
        return as_list(name, function)
    require_function(name, function)
    return _call_each(compiler, name, function, lists)
