"""Builders of expressions: what the forms of S-expressions say, under their names.

A name that Python keeps for itself ends in `_`: `if_`, `map_`, `list_`. Arguments are nodes or JSON values.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from weft.language.ast import (
    And,
    Apply,
    Assign,
    Begin,
    Clause,
    Cond,
    Condition,
    Datum,
    Define,
    FunctionCall,
    GetContext,
    If,
    IterativeLoop,
    Lambda,
    Let,
    Loop,
    Node,
    Or,
    Parallel,
    Quote,
    Symbol,
    Text,
    Try,
    Variable,
    WithBudget,
    WithTimeout,
)
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
from weft.language.diagnostics import nearest, refuse
from weft.language.task_fields import BUDGETS

# Values and names


def var(path: str) -> Variable:
    """The value of a name, or of a part of it: `var("answer.items[0]")`.

    A name that is no path (`empty?`, `system:read_files`) is that name.
    """
    if not any(mark in path for mark in ".["):
        return Variable(span=here(), name=path)
    return parse_path(path, inside(here(), "var", path))


def text(raw: str) -> Text:
    """A text with placeholders."""
    return as_text(raw, here(), "text")


def quote(datum: Any) -> Quote:
    """A datum as it is; lists may be nested. `symbol` makes a name in it."""
    return Quote(span=here(), datum=_datum(datum))


def symbol(name: str) -> Symbol:
    """A quoted name, for `quote`."""
    return Symbol(name)


def _datum(datum: Any) -> Datum:
    return tuple(_datum(one) for one in datum) if isinstance(datum, list | tuple) else datum


# Branches


def if_(test: Any, then: Any, otherwise: Any = ...) -> If:
    """`(if test then otherwise)`; without `otherwise` the value is nil."""
    last = None if otherwise is ... else as_node(otherwise)
    return If(span=here(), test=as_node(test), then=as_node(then), otherwise=last)


def cond(*clauses: Sequence[Any], otherwise: Any = ...) -> Cond:
    """`(cond (test e...) ... (else e...))`: a clause is `(test, e, ...)`."""
    return Cond(
        span=here(),
        clauses=tuple(Clause(as_node(test), as_body(body) if body else None) for test, *body in clauses),
        otherwise=None if otherwise is ... else as_node(otherwise),
    )


def and_(*items: Any) -> And:
    """The first false value, or the last one."""
    return And(span=here(), items=as_nodes(items))


def or_(*items: Any) -> Or:
    """The first true value, or the last one."""
    return Or(span=here(), items=as_nodes(items))


def condition(written: str) -> Condition:
    """A condition in the subset of CEL: `condition("output.errors > 0")`."""
    return as_condition(written, here())


# Bindings and functions


def let(bindings: Mapping[str, Any], *body: Any) -> Let:
    """`(let ((name e) ...) e...)`: all values first, then the names."""
    return Let(span=here(), bindings=as_keywords(dict(bindings)), body=as_body(body))


def let_star(bindings: Mapping[str, Any] | Sequence[tuple[str, Any]], *body: Any) -> Let:
    """`(let* ((name e) ...) e...)`: each sees those before it; pairs may bind a name twice."""
    pairs = bindings.items() if isinstance(bindings, Mapping) else bindings
    bound = tuple((name, as_node(value)) for name, value in pairs)
    return Let(span=here(), bindings=bound, body=as_body(body), is_sequential=True)


def define(name: str, value: Any) -> Define:
    """`(define name e)`; of a `lambda_` without a name it is its name too."""
    node = as_node(value)
    if isinstance(node, Lambda) and node.name is None:
        node = Lambda(span=node.span, parameters=node.parameters, body=node.body, name=name)
    return Define(span=here(), name=definable(name, here()), value=node)


def bind(name: str, value: Any) -> Define:
    """`(bind name e)`: as `define`, and its value is that of the name."""
    return msgspec.structs.replace(define(name, value), gives_value=True)


def set_(name: str | Variable, value: Any) -> Assign:
    """`(set! name e)`."""
    return Assign(span=here(), name=as_name(name, here()), value=as_node(value))


def lambda_(parameters: Sequence[str], *body: Any) -> Lambda:
    """`(lambda (name ...) e...)`."""
    return Lambda(span=here(), parameters=tuple(parameters), body=as_body(body))


def begin(*items: Any) -> Begin:
    """`(begin e...)`."""
    return Begin(span=here(), items=as_nodes(items))


def call(name: str, *arguments: Any, **keywords: Any) -> FunctionCall:
    """A call by name of a closure, template, tool or built-in: `call("+", 1, 2)`."""
    return FunctionCall(span=here(), func_name=name, args=as_nodes(arguments), keywords=as_keywords(keywords))


def apply(function: Any, *arguments: Any, **keywords: Any) -> Apply:
    """A call of what an expression gives."""
    return Apply(
        span=here(), function=as_node(function), args=as_nodes(arguments), keywords=as_keywords(keywords)
    )


def list_(*items: Any) -> FunctionCall:
    """`(list e...)`."""
    return call("list", *items)


def dict_(**items: Any) -> FunctionCall:
    """`(dict :key e ...)`."""
    return call("dict", **items)


def map_(function: Any, *lists: Any) -> FunctionCall:
    """`(map f xs)`: concurrently where the function waits."""
    return call("map", function, *lists)


def filter_(function: Any, items: Any) -> FunctionCall:
    """`(filter f xs)`."""
    return call("filter", function, items)


def reduce_(function: Any, initial: Any, items: Any) -> FunctionCall:
    """`(reduce f initial xs)`; the operator over tasks is `reduce_task`."""
    return call("reduce", function, initial, items)


def for_each(function: Any, *lists: Any) -> FunctionCall:
    """`(for-each f xs)`."""
    return call("for-each", function, *lists)


# Control


def try_(body: Any, name: str, *handler: Any) -> Try:
    """`(try e (catch name e...))`."""
    return Try(span=here(), body=as_node(body), name=name, handler=as_body(handler))


def loop(count: Any, body: Any) -> Loop:
    """`(loop n e)`: the last value."""
    return Loop(span=here(), count=as_node(count), body=as_node(body))


def iterative_loop(
    *, max_iterations: Any, initial: Any, executor: Any, controller: Any, validator: Any = ...
) -> IterativeLoop:
    """`(iterative-loop :max-iterations n :initial e :executor f :validator f :controller f)`."""
    return IterativeLoop(
        span=here(),
        max_iterations=as_node(max_iterations),
        initial=as_node(initial),
        executor=as_node(executor),
        validator=None if validator is ... else as_node(validator),
        controller=as_node(controller),
    )


def parallel(*items: Any) -> Parallel:
    """`(parallel e ...)`: the values as a list, evaluated concurrently."""
    return Parallel(span=here(), items=as_nodes(items))


def with_timeout(seconds: Any, *body: Any) -> WithTimeout:
    """`(with-timeout seconds e...)`."""
    return WithTimeout(span=here(), seconds=as_node(seconds), body=as_body(body))


def with_budget(*body: Any, **limits: Any) -> WithBudget:
    """`(with-budget (:steps n :calls n :tokens n :cost x) e...)`."""
    span = here()
    for name in limits:
        if name not in BUDGETS:
            raise refuse(span, "unknown-keyword", f"'{name}' is no budget{nearest(name, BUDGETS)}")
    if len(body) > 1 and isinstance(body[0], dict):  # as a value it would be for nothing
        raise refuse(span, "wrong-type", "budgets are keywords: with_budget(body, steps=100)")
    return WithBudget(span=span, limits=as_keywords(limits), body=as_body(body))


def get_context(**keywords: Any) -> GetContext:
    """`(get-context :query "..." :inputs d :strategy "..." :inherited s :previous s :limit n :rerank b)`.

    Also `template_description`, `template_type` and `template_subtype`.
    """
    named = {name.replace("_", "-"): value for name, value in keywords.items()}
    return GetContext(span=here(), keywords=as_keywords(named))


def node(value: Any) -> Node:
    """The node of a JSON value; lists and dicts may hold nodes."""
    return as_node(value)
