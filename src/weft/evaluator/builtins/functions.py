"""Built-ins that call functions. `map`, `filter` and `for-each` do so concurrently where these wait."""

from typing import Any

from weft.evaluator.builtins.table import built_in, want, want_function, wrong_type
from weft.evaluator.compiler import Compiler
from weft.evaluator.errors import program_error


def _rows(name: str, lists: tuple[Any, ...]) -> list[Any]:
    """The arguments of each call."""
    want("list", name, *lists, first=1)
    if len({len(items) for items in lists}) > 1:
        lengths = ", ".join(str(len(items)) for items in lists)
        raise program_error("bad-value", f"{name} takes lists of the same length; these have {lengths}")
    return list(zip(*lists, strict=True))


def _each(compiler: Compiler, name: str, function: Any, lists: tuple[Any, ...]) -> list[Any]:
    """What the function gives for each element, concurrently where it waits."""
    if len(lists) > 1:
        rows = _rows(name, lists)
        return compiler.machine.each(len(rows), lambda index: compiler.invoke(function, rows[index]))
    (items,) = lists
    want("list", name, items, first=1)
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
    want("list", "reduce", items, first=2)
    for item in items:
        value = compiler.invoke(function, (value, item))
    return value


@built_in("apply", needs_compiler=True)
def apply(compiler: Compiler, function: Any, *arguments: Any) -> Any:
    """(apply f x ... list): calls f with the values and the elements of the list."""
    want_function("apply", function)
    want("list", "apply", arguments[-1], first=len(arguments))
    return compiler.invoke(function, [*arguments[:-1], *arguments[-1]])


@built_in("sort", needs_compiler=True)
def sort(compiler: Compiler, items: Any, function: Any = None) -> list[Any]:
    """(sort list) or (sort list f): numbers or strings, the small first; with f, by what f gives."""
    want("list", "sort", items)
    if function is None:
        keys = items
    else:
        want_function("sort", function)
        keys = _each(compiler, "sort", function, (items,))
    compiler.machine.meter.count(len(items) >> 4)
    kind = "string" if keys and keys[0].__class__ is str else "number"
    allowed = (str,) if kind == "string" else (int, float)
    for key in keys:
        if key.__class__ not in allowed:
            raise wrong_type(
                "sort",
                "numbers only or strings only" if not function else "numbers or strings as keys",
                key,
                0,
            )
    order = sorted(range(len(items)), key=keys.__getitem__)
    return [items[index] for index in order]


@built_in("any", needs_compiler=True)
def any_of(compiler: Compiler, function: Any, items: Any = None) -> bool:
    """(any f list): whether f gives something true for an element; (any list): whether an element is true."""
    return any(_verdicts(compiler, "any", function, items))


@built_in("all", needs_compiler=True)
def all_of(compiler: Compiler, function: Any, items: Any = None) -> bool:
    """(all f list): whether f gives something true for every element; (all list): whether all are true."""
    return all(_verdicts(compiler, "all", function, items))


def _verdicts(compiler: Compiler, name: str, function: Any, items: Any) -> list[Any]:
    if function.__class__ is list and items is None:
        return function
    want_function(name, function)
    return _each(compiler, name, function, (items,))
