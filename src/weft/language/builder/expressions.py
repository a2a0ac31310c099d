"""Builders of expressions, named after the S-expression forms.

Names reserved by Python end in `_`: `if_`, `map_`, `list_`. Arguments are nodes or JSON values; the default
`...` means that an argument is omitted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from weft.language import ast
from weft.language.builder.nodes import (
    as_body,
    as_condition,
    as_keywords,
    as_name,
    as_node,
    as_nodes,
    as_text,
    definable,
    here,
    inside,
)
from weft.language.cel import parse_path
from weft.language.diagnostics import invalid_program, nearest
from weft.language.task_fields import BUDGETS

# Values and names


def var(path: str) -> ast.Variable:
    """Build a variable, or a path into its value: `var("answer.items[0]")`.

    A name that is not a path (`empty?`, `system:read_files`) is used as it is.
    """
    if not any(mark in path for mark in ".["):
        return ast.Variable(span=here(), name=path)
    return parse_path(path, inside(here(), "var", path))


def text(raw: str) -> ast.Text:
    """Build a text with placeholders."""
    return as_text(raw, here(), "text")


def quote(datum: Any) -> ast.Quote:
    """Build a quoted datum: a constant, a `symbol`, or a list of data."""
    return ast.Quote(span=here(), datum=_datum(datum))


def symbol(name: str) -> ast.Symbol:
    """Build a quoted name, for `quote`."""
    return ast.Symbol(name)


def _datum(datum: Any) -> ast.Datum:
    return tuple(_datum(one) for one in datum) if isinstance(datum, list | tuple) else datum


# Branches


def if_(test: Any, then: Any, otherwise: Any = ...) -> ast.If:
    """Build `(if test then otherwise)`; without `otherwise` the value is nil."""
    last = None if otherwise is ... else as_node(otherwise)
    return ast.If(span=here(), test=as_node(test), then=as_node(then), otherwise=last)


def cond(*clauses: Sequence[Any], otherwise: Any = ...) -> ast.Cond:
    """Build `(cond (test e...) ... (else e...))`; a clause is `(test, e, ...)`."""
    return ast.Cond(
        span=here(),
        clauses=tuple(ast.Clause(as_node(test), as_body(body) if body else None) for test, *body in clauses),
        otherwise=None if otherwise is ... else as_node(otherwise),
    )


def and_(*items: Any) -> ast.And:
    """Build `(and e...)`: the first false value, or the last value."""
    return ast.And(span=here(), items=as_nodes(items))


def or_(*items: Any) -> ast.Or:
    """Build `(or e...)`: the first true value, or the last value."""
    return ast.Or(span=here(), items=as_nodes(items))


def condition(written: str) -> ast.Condition:
    """Build a condition in the supported subset of CEL: `condition("output.errors > 0")`."""
    return as_condition(written, here())


# Bindings and functions


def let(bindings: Mapping[str, Any], *body: Any) -> ast.Let:
    """Build `(let ((name e) ...) e...)`: all values are computed before the names are bound."""
    return ast.Let(span=here(), bindings=as_keywords(dict(bindings)), body=as_body(body))


def let_star(bindings: Mapping[str, Any] | Sequence[tuple[str, Any]], *body: Any) -> ast.Let:
    """Build `(let* ((name e) ...) e...)`: values see the names before them; pairs may bind a name twice."""
    pairs = bindings.items() if isinstance(bindings, Mapping) else bindings
    bound = tuple((name, as_node(value)) for name, value in pairs)
    return ast.Let(span=here(), bindings=bound, body=as_body(body), is_sequential=True)


def define(name: str, value: Any) -> ast.Define:
    """Build `(define name e)`; a `lambda_` without a name gets this name."""
    node = as_node(value)
    if isinstance(node, ast.Lambda) and node.name is None:
        node = ast.Lambda(span=node.span, parameters=node.parameters, body=node.body, name=name)
    return ast.Define(span=here(), name=definable(name, here()), value=node)


def bind(name: str, value: Any) -> ast.Define:
    """Build `(bind name e)`: like `define`, but it returns the value."""
    return msgspec.structs.replace(define(name, value), gives_value=True)


def set_(name: str | ast.Variable, value: Any) -> ast.Assign:
    """Build `(set! name e)`."""
    return ast.Assign(span=here(), name=as_name(name, here()), value=as_node(value))


def lambda_(parameters: Sequence[str], *body: Any) -> ast.Lambda:
    """Build `(lambda (name ...) e...)`."""
    return ast.Lambda(span=here(), parameters=tuple(parameters), body=as_body(body))


def begin(*items: Any) -> ast.Begin:
    """Build `(begin e...)`."""
    return ast.Begin(span=here(), items=as_nodes(items))


def call(name: str, *arguments: Any, **keywords: Any) -> ast.FunctionCall:
    """Build a call by name of a closure, template, tool or built-in: `call("+", 1, 2)`."""
    return ast.FunctionCall(
        span=here(), func_name=name, args=as_nodes(arguments), keywords=as_keywords(keywords)
    )


def apply(function: Any, *arguments: Any, **keywords: Any) -> ast.Apply:
    """Build a call of the value of an expression."""
    return ast.Apply(
        span=here(), function=as_node(function), args=as_nodes(arguments), keywords=as_keywords(keywords)
    )


def list_(*items: Any) -> ast.FunctionCall:
    """Build `(list e...)`."""
    return call("list", *items)


def dict_(**items: Any) -> ast.FunctionCall:
    """Build `(dict :key e ...)`."""
    return call("dict", **items)


def map_(function: Any, *lists: Any) -> ast.FunctionCall:
    """Build `(map f xs)`; calls run concurrently while they wait for effects."""
    return call("map", function, *lists)


def filter_(function: Any, items: Any) -> ast.FunctionCall:
    """Build `(filter f xs)`."""
    return call("filter", function, items)


def reduce_(function: Any, initial: Any, items: Any) -> ast.FunctionCall:
    """Build `(reduce f initial xs)`; the operator over tasks is `reduce_task`."""
    return call("reduce", function, initial, items)


def for_each(function: Any, *lists: Any) -> ast.FunctionCall:
    """Build `(for-each f xs)`."""
    return call("for-each", function, *lists)


# Control


def try_(body: Any, name: str, *handler: Any) -> ast.Try:
    """Build `(try e (catch name e...))`; the handler sees the failed TaskResult as `name`."""
    return ast.Try(span=here(), body=as_node(body), name=name, handler=as_body(handler))


def loop(count: Any, body: Any) -> ast.Loop:
    """Build `(loop n e)`; the value is that of the last iteration."""
    return ast.Loop(span=here(), count=as_node(count), body=as_node(body))


def iterative_loop(
    *, max_iterations: Any, initial: Any, executor: Any, controller: Any, validator: Any = ...
) -> ast.IterativeLoop:
    """Build `(iterative-loop :max-iterations n :initial e :executor f :validator f :controller f)`."""
    return ast.IterativeLoop(
        span=here(),
        max_iterations=as_node(max_iterations),
        initial=as_node(initial),
        executor=as_node(executor),
        validator=None if validator is ... else as_node(validator),
        controller=as_node(controller),
    )


def parallel(*items: Any) -> ast.Parallel:
    """Build `(parallel e ...)`: evaluate the expressions concurrently and return the list of their values."""
    return ast.Parallel(span=here(), items=as_nodes(items))


def with_timeout(seconds: Any, *body: Any) -> ast.WithTimeout:
    """Build `(with-timeout seconds e...)`."""
    return ast.WithTimeout(span=here(), seconds=as_node(seconds), body=as_body(body))


def with_budget(*body: Any, **limits: Any) -> ast.WithBudget:
    """Build `(with-budget (:steps n :calls n :tokens n :cost x) e...)`."""
    span = here()
    for name in limits:
        if name not in BUDGETS:
            raise invalid_program(span, "unknown-keyword", f"unknown budget '{name}'{nearest(name, BUDGETS)}")
    if len(body) > 1 and isinstance(body[0], dict):  # a dict of budgets, which would have no effect as a body
        raise invalid_program(
            span, "wrong-type", "pass budgets as keyword arguments: with_budget(body, steps=100)"
        )
    return ast.WithBudget(span=span, limits=as_keywords(limits), body=as_body(body))


def get_context(**keywords: Any) -> ast.GetContext:
    """Build `(get-context :query "..." ...)`.

    Keywords: `query`, `inputs`, `strategy`, `inherited`, `previous`, `limit`, `rerank`,
    `template_description`, `template_type` and `template_subtype`.
    """
    named = {name.replace("_", "-"): value for name, value in keywords.items()}
    return ast.GetContext(span=here(), keywords=as_keywords(named))


def node(value: Any) -> ast.Node:
    """Build the node of a JSON value; lists and dicts may contain nodes."""
    return as_node(value)
