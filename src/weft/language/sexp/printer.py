"""Printer of syntax trees as S-expressions that parse to the same tree."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET, Struct

from weft.language import ast
from weft.language.diagnostics import invalid_program
from weft.language.fields import REF, RETURNS, SETTINGS, TASK_FIELDS, TASK_KINDS, Field, Kind, set_fields
from weft.language.sexp.forms import LOOP_PARTS
from weft.language.sexp.layout import (
    Layout,
    form,
    listing,
    number_text,
    pair,
    render,
    scalar_text,
    seconds_text,
    string_text,
)
from weft.language.sexp.names import escape, keyword_text, name_text, path_text, type_text
from weft.language.sexp.program import SPECIAL_FORMS
from weft.language.task_fields import Parameter
from weft.language.traversal import raise_recursion_limit


def print_program(program: ast.Program) -> str:
    """Return the source text of a program, with an empty line between forms."""
    return "\n".join(print_node(one) + "\n" for one in program.forms)


def print_node(node: ast.Node) -> str:
    """Return the source text of a node, without a final line break."""
    try:
        with raise_recursion_limit():
            return render(_layout(node))
    except RecursionError as error:
        raise invalid_program(
            node.span, "program-too-deep", "the tree is nested too deeply to be printed"
        ) from error


def _layout(node: ast.Node) -> Layout:
    return _LAYOUTS[type(node)](node)


def _all(nodes: tuple[ast.Node, ...]) -> list[Layout]:
    return [_layout(one) for one in nodes]


def _body(node: ast.Node) -> list[Layout]:
    """Lay out the expressions of a body; several need no `begin`, which the parser adds."""
    return _all(node.items) if isinstance(node, ast.Begin) and len(node.items) > 1 else [_layout(node)]


def _keywords(pairs: tuple[tuple[str, ast.Node], ...]) -> list[Layout]:
    return [pair(keyword_text(name), _layout(value)) for name, value in pairs]


def _datum(datum: ast.Datum, opening: str = "(") -> Layout:
    if isinstance(datum, tuple):
        return listing([_datum(one) for one in datum], opening=opening)
    if not isinstance(datum, ast.Symbol):
        return scalar_text(datum)
    return keyword_text(datum[1:]) if datum[:1] == ":" and len(datum) > 1 else name_text(datum)


def _quote(node: ast.Quote) -> Layout:
    if isinstance(node.datum, tuple):
        return _datum(node.datum, opening="'(")
    return f"'{_datum(node.datum)}"


def _cond(node: ast.Cond) -> Layout:
    clauses: list[Layout] = [
        listing([_layout(one.test), *([] if one.body is None else _body(one.body))]) for one in node.clauses
    ]
    if node.otherwise is not None:
        clauses.append(form("else", *_body(node.otherwise)))
    return form("cond", *clauses)


def _let(node: ast.Let) -> Layout:
    bindings = listing([listing([name_text(name), _layout(value)]) for name, value in node.bindings])
    return form("let*" if node.is_sequential else "let", bindings, *_body(node.body), on_first_line=2)


def _define(node: ast.Define) -> Layout:
    value, word = node.value, "bind" if node.gives_value else "define"
    if isinstance(value, ast.Lambda) and value.name == node.name:
        target = listing([name_text(node.name), *map(name_text, value.parameters)])
        return form(word, target, *_body(value.body), on_first_line=2)
    return form(word, name_text(node.name), _layout(value), on_first_line=2)


def _lambda(node: ast.Lambda) -> Layout:
    return form("lambda", listing([*map(name_text, node.parameters)]), *_body(node.body), on_first_line=2)


def _function_call(node: ast.FunctionCall) -> Layout:
    name = node.func_name
    head = escape(name, mark="|") if name in SPECIAL_FORMS else name_text(name)
    return form(head, *_all(node.args), *_keywords(node.keywords))


def _apply(node: ast.Apply) -> Layout:
    head = _layout(node.function)
    is_plain_name = isinstance(node.function, ast.Variable) and not node.function.path
    if is_plain_name or isinstance(node.function, ast.Literal):
        head = form("begin", head)  # a plain name would be read as a call by name, a literal rejected
    return form(head, *_all(node.args), *_keywords(node.keywords))


def _iterative_loop(node: ast.IterativeLoop) -> Layout:
    parts = [(name, getattr(node, name.replace("-", "_"))) for name in LOOP_PARTS]
    return form("iterative-loop", *_keywords(tuple(one for one in parts if one[1] is not None)))


def _if(node: ast.If) -> Layout:
    otherwise = [] if node.otherwise is None else [_layout(node.otherwise)]
    return form("if", _layout(node.test), _layout(node.then), *otherwise, on_first_line=2)


def _try(node: ast.Try) -> Layout:
    handler = form("catch", name_text(node.name), *_body(node.handler), on_first_line=2)
    return form("try", _layout(node.body), handler)


# Tasks


def _pairs(node: Struct, fields: tuple[Field, ...]) -> list[Layout]:
    """Lay out the fields of a node or of settings, without those that have their default."""
    found: list[Layout] = []
    for field, value in set_fields(node, fields):
        if field.kind == "output":
            found += _pairs(value, SETTINGS[type(value)])
        elif field.kind != "steps":
            found.append(pair(f":{field.keyword}", _FIELD_LAYOUTS[field.kind](value)))
    return found


def _settings(settings: Struct) -> Layout:
    return listing(_pairs(settings, SETTINGS[type(settings)]))


def _inputs(inputs: tuple[ast.Input, ...]) -> Layout:
    return listing(
        [
            listing([name_text(one.name), *([] if one.value is None else [_layout(one.value)])])
            for one in inputs
        ]
    )


def _relevance(relevance: tuple[tuple[str, bool], ...]) -> Layout:
    return listing([listing([name_text(name), scalar_text(is_relevant)]) for name, is_relevant in relevance])


def _files(files: ast.FilePaths) -> Layout:
    if files.text is not None:
        return listing([pair(keyword_text(files.source.replace("_", "-")), string_text(files.text.raw))])
    texts = [string_text(path.raw) for path in files.paths]
    return listing(
        [f"({text} :optional true)" if n in files.optional else text for n, text in enumerate(texts)]
    )


_FIELD_LAYOUTS: Mapping[Kind, Callable[[Any], Layout]] = {
    "text": lambda text: string_text(text.raw),
    "string": string_text,
    "name": name_text,
    "names": lambda names: listing([*map(string_text, names)]),
    "boolean": scalar_text,
    "count": number_text,
    "seconds": seconds_text,
    "choice": string_text,
    "shape": string_text,
    "settings": _settings,
    "inputs": _inputs,
    "relevance": _relevance,
    "files": _files,
    "argv": lambda words: listing([string_text(word.raw) for word in words]),
    "shell": lambda text: string_text(text.raw),
    "value": _layout,
    "task": _layout,
    "script": _layout,
    "condition": lambda condition: string_text(condition.text),
}


def _task(node: ast.TaskNode) -> Layout:
    kind = TASK_KINDS[type(node)]
    own, common = _pairs(node, kind.fields), _pairs(node, TASK_FIELDS)
    if isinstance(node, ast.Reduce | ast.DirectorEvaluatorLoop):  # their fields are whole tasks
        own, common = common, own
    return form(kind.form, *own, *common, *_all(getattr(node, "steps", ())))


def _reference(node: ast.Reference) -> Layout:
    return form("task", *_pairs(node, (REF,)), *_pairs(node, TASK_FIELDS))


def _task_cond(node: ast.TaskCond) -> Layout:
    cases = [form(string_text(case.test.text), *_body(case.body)) for case in node.cases]
    criteria = [] if node.criteria is None else [pair(":criteria", string_text(node.criteria))]
    return form("task-cond", *criteria, *cases)


def _template(node: ast.Template) -> Layout:
    head: list[Layout] = [name_text(node.name), listing([_parameter(one) for one in node.parameters])]
    head += _pairs(node, (RETURNS,))
    if isinstance(node.body, ast.Atomic):
        return form("deftask", *head, *_pairs(node.body, TASK_FIELDS), on_first_line=3)
    return form("template", *head, *_body(node.body), on_first_line=3)


def _parameter(parameter: Parameter) -> Layout:
    kind = [] if parameter.type is None else [type_text(parameter.type)]
    default = [] if parameter.default is UNSET else [_constant(parameter.default)]
    name = name_text(parameter.name)
    return listing([name, *kind, *default]) if kind or default else name


def _constant(value: Any) -> Layout:
    """Lay out a JSON value as the default of a parameter."""
    if isinstance(value, Mapping):
        pairs = [pair(keyword_text(key) if key else '""', _constant(one)) for key, one in value.items()]
        return form("dict", *pairs)
    if isinstance(value, list | tuple):
        return form("list", *[_constant(one) for one in value])
    return scalar_text(value)


_LAYOUTS: Mapping[type[ast.Node], Callable[[Any], Layout]] = {
    ast.Literal: lambda node: scalar_text(node.value),
    ast.Quote: _quote,
    ast.Variable: lambda node: path_text(node.name, node.path),
    ast.Text: lambda node: form("fill", scalar_text(node.raw)),
    ast.Condition: lambda node: form("condition", scalar_text(node.text)),
    ast.If: _if,
    ast.Cond: _cond,
    ast.And: lambda node: form("and", *_all(node.items)),
    ast.Or: lambda node: form("or", *_all(node.items)),
    ast.Let: _let,
    ast.Define: _define,
    ast.Assign: lambda node: form("set!", name_text(node.name), _layout(node.value), on_first_line=2),
    ast.Lambda: _lambda,
    ast.Begin: lambda node: form("begin", *_all(node.items)),
    ast.FunctionCall: _function_call,
    ast.Apply: _apply,
    ast.Try: _try,
    ast.Loop: lambda node: form("loop", _layout(node.count), _layout(node.body), on_first_line=2),
    ast.IterativeLoop: _iterative_loop,
    ast.Parallel: lambda node: form("parallel", *_all(node.items)),
    ast.WithTimeout: lambda node: form(
        "with-timeout", _layout(node.seconds), *_body(node.body), on_first_line=2
    ),
    ast.WithBudget: lambda node: form(
        "with-budget", listing(_keywords(node.limits)), *_body(node.body), on_first_line=2
    ),
    ast.GetContext: lambda node: form("get-context", *_keywords(node.keywords)),
    **dict.fromkeys(TASK_KINDS, _task),
    ast.Reference: _reference,
    ast.TaskCond: _task_cond,
    ast.Template: _template,
}
