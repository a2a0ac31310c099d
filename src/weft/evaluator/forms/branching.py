"""Forms that choose: if, cond, and, or, try, conditions."""

from typing import Any

from weft.evaluator.branches import is_of_outer_scope
from weft.evaluator.compiler import Code, Compiler, Form
from weft.evaluator.env import Env
from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.forms.places import placed
from weft.language.tree import And, Cond, If, Node, Or, Try

CAUGHT_STEPS = 50
"""What an error that is caught counts: to make it, with its place and text, takes the time of many calls."""


def compile_if(compiler: Compiler, node: If, is_tail: bool) -> Code:
    test = compiler.compile(node.test)
    then = compiler.compile(node.then, is_tail=is_tail)
    if node.otherwise is None:
        return lambda env: then(env) if test(env) else None
    otherwise = compiler.compile(node.otherwise, is_tail=is_tail)
    return lambda env: then(env) if test(env) else otherwise(env)


def compile_cond(compiler: Compiler, node: Cond, is_tail: bool) -> Code:
    clauses = [
        (
            compiler.compile(clause.test),
            None if clause.body is None else compiler.compile(clause.body, is_tail=is_tail),
        )
        for clause in node.clauses
    ]
    otherwise = None if node.otherwise is None else compiler.compile(node.otherwise, is_tail=is_tail)

    def choose(env: Env) -> Any:
        for test, body in clauses:
            value = test(env)
            if value:
                return value if body is None else body(env)
        return None if otherwise is None else otherwise(env)

    return choose


def compile_and(compiler: Compiler, node: And, is_tail: bool) -> Code:
    if not node.items:
        return lambda env: True
    first = [compiler.compile(item) for item in node.items[:-1]]
    last = compiler.compile(node.items[-1], is_tail=is_tail)

    def both(env: Env) -> Any:
        for item in first:
            value = item(env)
            if not value:
                return value
        return last(env)

    return both if first else last


def compile_or(compiler: Compiler, node: Or, is_tail: bool) -> Code:
    if not node.items:
        return lambda env: False
    first = [compiler.compile(item) for item in node.items[:-1]]
    last = compiler.compile(node.items[-1], is_tail=is_tail)

    def either(env: Env) -> Any:
        for item in first:
            value = item(env)
            if value:
                return value
        return last(env)

    return either if first else last


def compile_try(compiler: Compiler, node: Try, is_tail: bool) -> Code:
    name, machine, meter = node.name, compiler.machine, compiler.machine.meter
    body = compiler.compile(node.body)  # not in tail position: it must end inside the `try`
    with compiler.hiding((name,)):
        handler = compiler.compile(node.handler, is_tail=is_tail)

    def attempt(env: Env) -> Any:
        try:
            return machine.attempt(lambda: body(env))
        except TaskFailed as error:
            if is_of_outer_scope(error):
                raise
            failed = error.result()
        try:
            meter.count(CAUGHT_STEPS)
        except BudgetExceeded as error:
            raise placed(error, node, env=env) from None
        return handler(Env((name,), (failed,), env))

    return attempt


BRANCHING_FORMS: dict[type[Node], Form] = {
    If: compile_if,
    Cond: compile_cond,
    And: compile_and,
    Or: compile_or,
    Try: compile_try,
}
