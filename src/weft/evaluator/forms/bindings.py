"""Forms that read, bind and assign names, and literal values."""

from contextlib import ExitStack
from typing import Any

from weft.evaluator.compiler import Compiler, Form
from weft.evaluator.environment import Env
from weft.evaluator.errors import ProgramError
from weft.evaluator.forms.error_locations import unbound, with_location
from weft.evaluator.functions import Closure, Code, new_frame
from weft.evaluator.values import follow, to_text
from weft.language.ast import Assign, Begin, Datum, Define, Lambda, Let, Literal, Node, Quote, Text, Variable
from weft.language.builtins import is_reserved
from weft.language.diagnostics import invalid_program
from weft.language.source import Span


def check_definable(name: str, span: Span) -> None:
    """Raise InvalidProgram if a name cannot be defined globally. Local names may hide a built-in."""
    if is_reserved(name):
        raise invalid_program(
            span, "reserved-name", f"'{name}' is built in and cannot be defined as anything else"
        )


def check_distinct(names: tuple[str, ...], span: Span) -> None:
    """Raise InvalidProgram if a name is bound twice in the same binding list."""
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid_program(span, "duplicate-name", f"'{twice}' is bound twice")


def compile_literal(compiler: Compiler, node: Literal, is_tail: bool) -> Code:
    value = node.value
    return lambda env: value


def compile_quote(compiler: Compiler, node: Quote, is_tail: bool) -> Code:
    value = _datum(node.datum)
    return lambda env: value


def _datum(datum: Datum) -> Any:
    return [_datum(item) for item in datum] if isinstance(datum, tuple) else datum


def compile_name(name: str, node: Node) -> Code:
    """Compile the use of a name by a node."""

    def read(env: Env) -> Any:
        try:
            return env[name]
        except NameError:
            raise unbound(name, env, node) from None

    return read


def compile_variable(compiler: Compiler, node: Variable, is_tail: bool) -> Code:
    name, path = node.name, node.path
    read = compile_name(name, node)

    def read_part(env: Env) -> Any:
        value = read(env)
        try:
            return follow(value, path, name)
        except ProgramError as error:
            raise with_location(error, node, env=env) from None

    return read_part if path else read


def compile_text(compiler: Compiler, node: Text, is_tail: bool) -> Code:
    parts = [part if isinstance(part, str) else compiler.compile(part) for part in node.parts]
    if all(isinstance(part, str) for part in parts):
        value = "".join(part for part in parts if isinstance(part, str))
        return lambda env: value
    meter = compiler.machine.meter

    def fill(env: Env) -> str:
        pieces = [part if isinstance(part, str) else to_text(part(env)) for part in parts]
        try:
            meter.check_size(sum(map(len, pieces)))
        except ProgramError as error:
            raise with_location(error, node, env=env) from None
        return "".join(pieces)

    return fill


def compile_define(compiler: Compiler, node: Define, is_tail: bool) -> Code:
    check_definable(node.name, node.span)
    name, value = node.name, compiler.compile(node.value)

    def define(env: Env) -> None:
        env[name] = value(env)

    def bind(env: Env) -> Any:
        bound = env[name] = value(env)
        return bound

    return bind if node.gives_value else define


def compile_assign(compiler: Compiler, node: Assign, is_tail: bool) -> Code:
    if not compiler.hides(node.name):
        check_definable(node.name, node.span)
    name, value = node.name, compiler.compile(node.value)

    def assign(env: Env) -> None:
        new = value(env)
        try:
            env.find(name)[name] = new
        except NameError:
            raise unbound(name, env, node) from None

    return assign


def compile_lambda(compiler: Compiler, node: Lambda, is_tail: bool) -> Code:
    check_distinct(node.parameters, node.span)
    parameters, name, span = node.parameters, node.name, node.span
    with compiler.hiding(parameters):
        body = compiler.compile(node.body, is_tail=True)
    return lambda env: Closure(parameters, body, env, name=name, span=span)


def compile_let(compiler: Compiler, node: Let, is_tail: bool) -> Code:
    names = tuple(name for name, _ in node.bindings)
    if not node.is_sequential:
        check_distinct(names, node.span)
    with ExitStack() as hidden:
        bindings = []
        for name, value in node.bindings:
            bindings.append((name, compiler.compile(value)))
            if node.is_sequential:
                hidden.enter_context(compiler.hiding((name,)))
        hidden.enter_context(compiler.hiding(names))
        body = compiler.compile(node.body, is_tail=is_tail)

    def let(env: Env) -> Any:
        inner = new_frame(Env)
        inner.outer = env
        for name, value in bindings:
            inner[name] = value(env)
        return body(inner)

    def let_in_order(env: Env) -> Any:
        for name, value in bindings:
            inner = new_frame(Env)
            inner.outer = env
            inner[name] = value(
                env
            )  # a closure created here does not see its own name; only `define` allows that
            env = inner
        return body(env) if bindings else body(Env(outer=env))

    return let_in_order if node.is_sequential else let


def compile_begin(compiler: Compiler, node: Begin, is_tail: bool) -> Code:
    if not node.items:
        return lambda env: None
    first = [compiler.compile(item) for item in node.items[:-1]]
    last = compiler.compile(node.items[-1], is_tail=is_tail)

    def run(env: Env) -> Any:
        for item in first:
            item(env)
        return last(env)

    return run if first else last


NAME_FORMS: dict[type[Node], Form] = {
    Literal: compile_literal,
    Quote: compile_quote,
    Variable: compile_variable,
    Text: compile_text,
    Define: compile_define,
    Assign: compile_assign,
    Lambda: compile_lambda,
    Let: compile_let,
    Begin: compile_begin,
}
