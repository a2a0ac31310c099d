"""Calls of built-ins. Their names are hidden only where that can be seen, so they are found when compiled."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.evaluator.builtins import BUILT_INS
from weft.evaluator.compiler import Compiler
from weft.evaluator.environment import Env
from weft.evaluator.forms.error_locations import with_location
from weft.evaluator.functions import BuiltIn, Code
from weft.language.ast import Apply, FunctionCall

LARGE = 1 << 64
"""Below this, the result of an operation on integers needs no further look."""

MANY = 64
"""Arguments of a call from which on they are counted."""


def compile_built_in_call(compiler: Compiler, node: FunctionCall) -> Code:
    return counted(compiler, node, _compiled(compiler, node))


def counted(compiler: Compiler, node: FunctionCall | Apply, code: Code) -> Code:
    """The code of a call; one with very many arguments counts them, 16 as a step."""
    count = len(node.args) + len(node.keywords)
    if count < MANY:
        return code
    meter, steps = compiler.machine.meter, count >> 4

    def call(env: Env) -> Any:
        try:
            meter.count(steps)
        except Exception as error:
            raise with_location(error, node, env=env) from None
        return code(env)

    return call


def _compiled(compiler: Compiler, node: FunctionCall) -> Code:
    function = BUILT_INS[node.func_name]
    arguments = [compiler.compile(argument) for argument in node.args]
    if node.keywords or not function.takes(len(arguments)) or function.is_linear:
        return _checked(compiler, node, function, arguments)
    if function.needs_compiler:
        is_plain = len(arguments) == 2
        return (_calling_back if is_plain else _checked)(compiler, node, function, arguments)
    written_out = _WRITTEN_OUT.get(function.name)
    if written_out is not None and len(arguments) == 2:
        return written_out(function, node, arguments[0], arguments[1])
    return _plain(function, node, arguments)


def _checked(compiler: Compiler, node: FunctionCall, function: BuiltIn, arguments: Sequence[Code]) -> Code:
    """A call that has keywords, counts more than its arguments, or is wrong."""
    keywords = [(name, compiler.compile(value)) for name, value in node.keywords]

    def call(env: Env) -> Any:
        values = [argument(env) for argument in arguments]
        named = {name: value(env) for name, value in keywords}
        try:
            return compiler.invoke_built_in(function, values, named)
        except Exception as error:
            raise with_location(error, node, function.name, env) from None

    return call


def _calling_back(
    compiler: Compiler, node: FunctionCall, function: BuiltIn, arguments: Sequence[Code]
) -> Code:
    """A call of `map` and its like with a function and one list.

    Not as `act(*values)`: on Python 3.11 that takes C stack for every level of a recursion through it.
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


def _plain(function: BuiltIn, node: FunctionCall, arguments: Sequence[Code]) -> Code:
    act, name = function.act, function.name
    if len(arguments) == 1:
        return _plain_1(function, node, arguments[0])
    if len(arguments) == 2:
        return _plain_2(function, node, arguments[0], arguments[1])

    def call(env: Env) -> Any:
        values = [argument(env) for argument in arguments]
        try:
            return act(*values)
        except Exception as error:
            raise with_location(error, node, name, env) from None

    return call


def _plain_1(function: BuiltIn, node: FunctionCall, only: Code) -> Code:
    act, name = function.act, function.name

    def call(env: Env) -> Any:
        x = only(env)
        try:
            return act(x)
        except Exception as error:
            raise with_location(error, node, name, env) from None

    return call


def _plain_2(function: BuiltIn, node: FunctionCall, first: Code, second: Code) -> Code:
    act, name = function.act, function.name

    def call(env: Env) -> Any:
        x = first(env)
        y = second(env)
        try:
            return act(x, y)
        except Exception as error:
            raise with_location(error, node, name, env) from None

    return call


# The operations that loops are made of, on two integers; anything else goes to the built-in itself.


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


_WRITTEN_OUT: dict[str, Callable[[BuiltIn, FunctionCall, Code, Code], Code]] = {
    "+": _add,
    "-": _subtract,
    "<": _less,
    "=": _same,
    "eq?": _same,
    "equal?": _same,
}
