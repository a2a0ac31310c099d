"""Calls of built-ins, closures, templates and tools.

In tail position a call returns a frame; elsewhere the code from `_compile_non_tail` runs it. Calls with one,
two and three arguments have their own code, because programs spend most of their time in calls.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from weft.evaluator.budget import Meter
from weft.evaluator.compiler import Compiler, Form, order_arguments
from weft.evaluator.environment import Env
from weft.evaluator.errors import TaskFailed
from weft.evaluator.forms.bindings import compile_name
from weft.evaluator.forms.builtin_calls import compile_built_in_call, count_arguments
from weft.evaluator.forms.error_locations import unbound, with_location
from weft.evaluator.functions import Closure, Code, Frame, new_frame
from weft.language.ast import Apply, FunctionCall, Node
from weft.language.builtins import BUILT_IN_NAMES

Completion = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]
"""Calls any function: (function, arguments, keyword arguments) -> value, or the frame of a tail call."""

_UNBOUND: Final[Any] = object()


def compile_function_call(compiler: Compiler, node: FunctionCall, is_tail: bool) -> Code:
    """Compile a call by name: of a closure, a template, a tool, or a built-in."""
    if node.func_name in BUILT_IN_NAMES and not compiler.hides(node.func_name):
        return compile_built_in_call(compiler, node)
    arguments = [compiler.compile(argument) for argument in node.args]
    complete = _completion(compiler, node)
    if ":" in node.func_name:
        call = _compile_namespaced_call(compiler, node, arguments, complete)
    elif node.keywords or not 1 <= len(arguments) <= 3:
        call = _compile_call(compiler, node, compile_name(node.func_name, node), arguments, complete)
    else:
        specialised = (_compile_call_1, _compile_call_2, _compile_call_3)[len(arguments) - 1]
        call = specialised(compiler.machine.meter, node, arguments, complete)
    call = count_arguments(compiler, node, call)
    return call if is_tail else _compile_non_tail(call, node)


def compile_apply(compiler: Compiler, node: Apply, is_tail: bool) -> Code:
    """Compile a call of the value of an expression."""
    arguments = [compiler.compile(argument) for argument in node.args]
    function = compiler.compile(node.function)
    call = count_arguments(
        compiler, node, _compile_call(compiler, node, function, arguments, _completion(compiler, node))
    )
    return call if is_tail else _compile_non_tail(call, node)


def _compile_non_tail(call: Code, node: Node) -> Code:
    """Return code for a call outside of tail position: it runs pending tail calls until there is a value."""

    def run(env: Env) -> Any:
        try:
            value = call(env)
            while value.__class__ is Frame:
                value = value.code(value)
        except RecursionError as error:
            raise with_location(error, node, env=env) from None
        return value

    return run


def _compile_call(
    compiler: Compiler,
    node: FunctionCall | Apply,
    function: Code,
    arguments: Sequence[Code],
    complete: Completion,
) -> Code:
    keywords = [(name, compiler.compile(value)) for name, value in node.keywords]

    def call(env: Env) -> Any:
        called = function(env)
        values = [argument(env) for argument in arguments]
        return complete(called, values, {keyword: value(env) for keyword, value in keywords})

    return call


def _compile_namespaced_call(
    compiler: Compiler, node: FunctionCall, arguments: Sequence[Code], complete: Completion
) -> Code:
    """Compile a call of a name with a namespace: a local binding, else a template, else a tool."""
    name = node.func_name
    keywords = [(keyword, compiler.compile(value)) for keyword, value in node.keywords]

    def call(env: Env) -> Any:
        try:
            bound = env[name]
        except NameError:
            bound = _UNBOUND
        values = [argument(env) for argument in arguments]
        named = {keyword: value(env) for keyword, value in keywords}
        if bound is not _UNBOUND:
            return complete(bound, values, named)
        try:
            return compiler.call_tool(compiler, name, values, named, node.span)
        except Exception as error:
            raise with_location(error, node, name, env) from None

    return call


def _completion(compiler: Compiler, node: FunctionCall | Apply) -> Completion:
    """Return a function that makes any call, for those that no specialised code handles."""
    meter = compiler.machine.meter

    def complete(called: Any, values: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        try:
            if called.__class__ is not Closure:
                return compiler.invoke(called, values, keywords, node.span)
            meter.count(1)
            return called.frame(order_arguments(called, values, keywords) if keywords else values)
        except Exception as error:
            raise with_location(error, node) from None

    return complete


def _compile_call_1(
    meter: Meter, node: FunctionCall, arguments: Sequence[Code], complete: Completion
) -> Code:
    name = node.func_name
    (first,) = arguments

    def call(env: Env) -> Any:
        try:
            function = env[name]
        except NameError:
            raise unbound(name, env, node) from None
        x = first(env)
        if function.__class__ is not Closure or function.arity != 1:
            return complete(function, (x,), {})
        frame = new_frame(Frame)
        frame[function.parameters[0]] = x
        frame.outer = function.env
        frame.code = function.code
        meter.left -= 1
        if meter.left < 0:
            _refill(meter, node)
        return frame

    return call


def _compile_call_2(
    meter: Meter, node: FunctionCall, arguments: Sequence[Code], complete: Completion
) -> Code:
    name = node.func_name
    first, second = arguments

    def call(env: Env) -> Any:
        try:
            function = env[name]
        except NameError:
            raise unbound(name, env, node) from None
        x = first(env)
        y = second(env)
        if function.__class__ is not Closure or function.arity != 2:
            return complete(function, (x, y), {})
        frame = new_frame(Frame)
        frame[function.parameters[0]] = x
        frame[function.parameters[1]] = y
        frame.outer = function.env
        frame.code = function.code
        meter.left -= 1
        if meter.left < 0:
            _refill(meter, node)
        return frame

    return call


def _compile_call_3(
    meter: Meter, node: FunctionCall, arguments: Sequence[Code], complete: Completion
) -> Code:
    name = node.func_name
    first, second, third = arguments

    def call(env: Env) -> Any:
        try:
            function = env[name]
        except NameError:
            raise unbound(name, env, node) from None
        x = first(env)
        y = second(env)
        z = third(env)
        if function.__class__ is not Closure or function.arity != 3:
            return complete(function, (x, y, z), {})
        frame = new_frame(Frame)
        frame[function.parameters[0]] = x
        frame[function.parameters[1]] = y
        frame[function.parameters[2]] = z
        frame.outer = function.env
        frame.code = function.code
        meter.left -= 1
        if meter.left < 0:
            _refill(meter, node)
        return frame

    return call


def _refill(meter: Meter, node: Node) -> None:
    try:
        meter.refill()
    except TaskFailed as error:
        raise with_location(error, node) from None


CALL_FORMS: dict[type[Node], Form] = {FunctionCall: compile_function_call, Apply: compile_apply}
