"""Printer of syntax trees as S-expressions that parse to the same tree."""

from collections.abc import Callable, Mapping
from typing import Any

from weft.language.ast import (
    And,
    Apply,
    Assign,
    Begin,
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
    Literal,
    Loop,
    Node,
    Or,
    Parallel,
    Program,
    Quote,
    Symbol,
    Text,
    Try,
    Variable,
    WithBudget,
    WithTimeout,
)
from weft.language.diagnostics import invalid_program
from weft.language.sexp.layout import Layout, form, listing, pair, render, scalar_text
from weft.language.sexp.names import escape, keyword_text, name_text, path_text
from weft.language.sexp.program import SPECIAL_FORMS
from weft.language.sexp.task_printer import TASK_LAYOUTS
from weft.language.traversal import raise_recursion_limit


def print_program(program: Program) -> str:
    """Return the source text of a program, with an empty line between forms."""
    return "\n".join(print_node(one) + "\n" for one in program.forms)


def print_node(node: Node) -> str:
    """Return the source text of a node, without a final line break."""
    try:
        with raise_recursion_limit():
            return render(_layout(node))
    except RecursionError as error:
        raise invalid_program(
            node.span, "program-too-deep", "the tree is nested too deeply to be printed"
        ) from error


def _layout(node: Node) -> Layout:
    kind = type(node)
    if kind in TASK_LAYOUTS:
        return TASK_LAYOUTS[kind](node, _layout)
    return _LAYOUTS[kind](node)


def _all(nodes: tuple[Node, ...]) -> list[Layout]:
    return [_layout(one) for one in nodes]


def _body(node: Node) -> list[Layout]:
    """Lay out the expressions of a body; several need no `begin`, which the parser adds."""
    return _all(node.items) if isinstance(node, Begin) and len(node.items) > 1 else [_layout(node)]


def _keywords(pairs: tuple[tuple[str, Node], ...]) -> list[Layout]:
    return [pair(keyword_text(name), _layout(value)) for name, value in pairs]


def _datum(datum: Datum, opening: str = "(") -> Layout:
    if isinstance(datum, tuple):
        return listing([_datum(one) for one in datum], opening=opening)
    if not isinstance(datum, Symbol):
        return scalar_text(datum)
    return keyword_text(datum[1:]) if datum[:1] == ":" and len(datum) > 1 else name_text(datum)


def _quote(node: Quote) -> Layout:
    if isinstance(node.datum, tuple):
        return _datum(node.datum, opening="'(")
    return f"'{_datum(node.datum)}"


def _cond(node: Cond) -> Layout:
    clauses: list[Layout] = [
        listing([_layout(one.test), *([] if one.body is None else _body(one.body))]) for one in node.clauses
    ]
    if node.otherwise is not None:
        clauses.append(form("else", *_body(node.otherwise)))
    return form("cond", *clauses)


def _let(node: Let) -> Layout:
    bindings = listing([listing([name_text(name), _layout(value)]) for name, value in node.bindings])
    return form("let*" if node.is_sequential else "let", bindings, *_body(node.body), on_first_line=2)


def _define(node: Define) -> Layout:
    value, word = node.value, "bind" if node.gives_value else "define"
    if isinstance(value, Lambda) and value.name == node.name:
        target = listing([name_text(node.name), *map(name_text, value.parameters)])
        return form(word, target, *_body(value.body), on_first_line=2)
    return form(word, name_text(node.name), _layout(value), on_first_line=2)


def _lambda(node: Lambda) -> Layout:
    return form("lambda", listing([*map(name_text, node.parameters)]), *_body(node.body), on_first_line=2)


def _function_call(node: FunctionCall) -> Layout:
    name = node.func_name
    head = escape(name, mark="|") if name in SPECIAL_FORMS else name_text(name)
    return form(head, *_all(node.args), *_keywords(node.keywords))


def _apply(node: Apply) -> Layout:
    head = _layout(node.function)
    is_plain_name = isinstance(node.function, Variable) and not node.function.path
    if is_plain_name or isinstance(node.function, Literal):
        head = form("begin", head)  # a plain name would be read as a call by name, a literal rejected
    return form(head, *_all(node.args), *_keywords(node.keywords))


def _iterative_loop(node: IterativeLoop) -> Layout:
    parts = (
        ("max-iterations", node.max_iterations),
        ("initial", node.initial),
        ("executor", node.executor),
        ("validator", node.validator),
        ("controller", node.controller),
    )
    return form("iterative-loop", *_keywords(tuple((name, part) for name, part in parts if part is not None)))


def _if(node: If) -> Layout:
    otherwise = [] if node.otherwise is None else [_layout(node.otherwise)]
    return form("if", _layout(node.test), _layout(node.then), *otherwise, on_first_line=2)


def _try(node: Try) -> Layout:
    handler = form("catch", name_text(node.name), *_body(node.handler), on_first_line=2)
    return form("try", _layout(node.body), handler)


_LAYOUTS: Mapping[type[Node], Callable[[Any], Layout]] = {
    Literal: lambda node: scalar_text(node.value),
    Quote: _quote,
    Variable: lambda node: path_text(node.name, node.path),
    Text: lambda node: form("fill", scalar_text(node.raw)),
    Condition: lambda node: form("condition", scalar_text(node.text)),
    If: _if,
    Cond: _cond,
    And: lambda node: form("and", *_all(node.items)),
    Or: lambda node: form("or", *_all(node.items)),
    Let: _let,
    Define: _define,
    Assign: lambda node: form("set!", name_text(node.name), _layout(node.value), on_first_line=2),
    Lambda: _lambda,
    Begin: lambda node: form("begin", *_all(node.items)),
    FunctionCall: _function_call,
    Apply: _apply,
    Try: _try,
    Loop: lambda node: form("loop", _layout(node.count), _layout(node.body), on_first_line=2),
    IterativeLoop: _iterative_loop,
    Parallel: lambda node: form("parallel", *_all(node.items)),
    WithTimeout: lambda node: form("with-timeout", _layout(node.seconds), *_body(node.body), on_first_line=2),
    WithBudget: lambda node: form(
        "with-budget", listing(_keywords(node.limits)), *_body(node.body), on_first_line=2
    ),
    GetContext: lambda node: form("get-context", *_keywords(node.keywords)),
}
