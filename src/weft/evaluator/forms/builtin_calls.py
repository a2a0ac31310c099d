"""Calls of built-ins, which are resolved at compile time because only visible local names can hide them."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.evaluator.builtins import BUILT_INS
from weft.evaluator.builtins.table import guard_for
from weft.evaluator.compiler import Compiler
from weft.evaluator.environment import Env
from weft.evaluator.forms.error_locations import with_location
from weft.evaluator.functions import BuiltIn, Code
from weft.language.ast import Apply, FunctionCall

LARGE = 1 << 64
"""Results of integer operations below this need no check of their size."""

MIN_COUNTED_ARGUMENTS = 64
"""Number of arguments of a call from which they are counted as operations."""


def compile_built_in_call(compiler: Compiler, node: FunctionCall) -> Code:
    return count_arguments(compiler, node, _compile_call(compiler, node))


def count_arguments(compiler: Compiler, node: FunctionCall | Apply, code: Code) -> Code:
    """Return the code of a call; from MIN_COUNTED_ARGUMENTS on, 16 arguments count as one operation."""
    count = len(node.args) + len(node.keywords)
    if count < MIN_COUNTED_ARGUMENTS:
        return code
    meter, steps = compiler.machine.meter, count >> 4

    def call(env: Env) -> Any:
        try:
            meter.count(steps)
        except Exception as error:
            raise with_location(error, node, env=env) from None
        return code(env)

    return call


def _compile_call(compiler: Compiler, node: FunctionCall) -> Code:
    function = BUILT_INS[node.func_name]
    arguments = [compiler.compile(argument) for argument in node.args]
    if node.keywords or not function.takes(len(arguments)) or function.is_linear:
        return _compile_checked(compiler, node, function, arguments)
    if function.needs_compiler:
        has_two = len(arguments) == 2
        return (_compile_higher_order if has_two else _compile_checked)(compiler, node, function, arguments)
    specialised = _SPECIALISED.get(function.name)
    if specialised is not None and len(arguments) == 2:
        return specialised(function, node, arguments[0], arguments[1])
    return _compile_plain(function, node, arguments)


def _compile_checked(
    compiler: Compiler, node: FunctionCall, function: BuiltIn, arguments: Sequence[Code]
) -> Code:
    """Compile a call that `invoke_built_in` must check or count when it is made."""
    keywords = [(name, compiler.compile(value)) for name, value in node.keywords]

    def call(env: Env) -> Any:
        values = [argument(env) for argument in arguments]
        named = {name: value(env) for name, value in keywords}
        try:
            return compiler.invoke_built_in(function, values, named)
        except Exception as error:
            raise with_location(error, node, function.name, env) from None

    return call


def _compile_higher_order(
    compiler: Compiler, node: FunctionCall, function: BuiltIn, arguments: Sequence[Code]
) -> Code:
    """Compile a call with two arguments of a built-in that needs the compiler, such as `map`.

    It does not use `act(*values)`, which on Python 3.11 uses C stack for every level of recursion.
    """
    act, name = function.act, function.name
    first, second = arguments

    def call(env: Env) -> Any:
        x = first(env)
        y = second(env)
        try:
            return act(compiler, x, y)
        except Exception as error:
            raise with_location(error, node, name, env) from None

    return call


def _compile_plain(function: BuiltIn, node: FunctionCall, arguments: Sequence[Code]) -> Code:
    act, name = guard_for(function, len(arguments)), function.name
    if len(arguments) == 1:
        return _compile_plain_1(act, node, arguments[0])
    if len(arguments) == 2:
        return _compile_plain_2(act, node, arguments[0], arguments[1])

    def call(env: Env) -> Any:
        values = [argument(env) for argument in arguments]
        try:
            return act(*values)
        except Exception as error:
            raise with_location(error, node, name, env) from None

    return call


def _compile_plain_1(act: Callable[..., Any], node: FunctionCall, only: Code) -> Code:
    name = node.func_name

    def call(env: Env) -> Any:
        x = only(env)
        try:
            return act(x)
        except Exception as error:
            raise with_location(error, node, name, env) from None

    return call


def _compile_plain_2(act: Callable[..., Any], node: FunctionCall, first: Code, second: Code) -> Code:
    name = node.func_name

    def call(env: Env) -> Any:
        x = first(env)
        y = second(env)
        try:
            return act(x, y)
        except Exception as error:
            raise with_location(error, node, name, env) from None

    return call


# Fast paths for the most frequent operations on two integers; other values go to the built-in itself.


def _add(function: BuiltIn, node: FunctionCall, first: Code, second: Code) -> Code:
    act = function.act

    def add(env: Env) -> Any:
        x = first(env)
        y = second(env)
        if x.__class__ is int and y.__class__ is int and -LARGE < (value := x + y) < LARGE:
            return value
        try:
            return act(x, y)
        except Exception as error:
            raise with_location(error, node, "+", env) from None

    return add


def _subtract(function: BuiltIn, node: FunctionCall, first: Code, second: Code) -> Code:
    act = function.act

    def subtract(env: Env) -> Any:
        x = first(env)
        y = second(env)
        if x.__class__ is int and y.__class__ is int and -LARGE < (value := x - y) < LARGE:
            return value
        try:
            return act(x, y)
        except Exception as error:
            raise with_location(error, node, "-", env) from None

    return subtract


def _less(function: BuiltIn, node: FunctionCall, first: Code, second: Code) -> Code:
    act = function.act

    def less(env: Env) -> Any:
        x = first(env)
        y = second(env)
        if x.__class__ is int and y.__class__ is int:
            return x < y
        try:
            return act(x, y)
        except Exception as error:
            raise with_location(error, node, "<", env) from None

    return less


def _same(function: BuiltIn, node: FunctionCall, first: Code, second: Code) -> Code:
    act, name = function.act, function.name

    def same(env: Env) -> Any:
        x = first(env)
        y = second(env)
        if x.__class__ is y.__class__ and (x.__class__ is int or x.__class__ is str):
            return x == y
        try:
            return act(x, y)
        except Exception as error:
            raise with_location(error, node, name, env) from None

    return same


_SPECIALISED: dict[str, Callable[[BuiltIn, FunctionCall, Code, Code], Code]] = {
    "+": _add,
    "-": _subtract,
    "<": _less,
    "=": _same,
    "eq?": _same,
    "equal?": _same,
}
