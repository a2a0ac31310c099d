"""Special forms other than tasks: branches, bindings, functions, loops, limits."""

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from weft.language import ast
from weft.language.cel import parse_condition, parse_text
from weft.language.diagnostics import nearest
from weft.language.sexp.names import Constant, Data, Keyword, List, Name, keyword_text
from weft.language.sexp.parser import FormError, Parser, SpecialForm
from weft.language.source import Span
from weft.language.task_fields import BUDGETS, QUESTIONS

LOOP_PARTS = ("max-iterations", "initial", "executor", "validator", "controller")


def string(datum: Data, what: str) -> str:
    """Return the value of a string datum. Raise FormError for any other datum."""
    if isinstance(datum, Constant) and isinstance(datum.value, str):
        return datum.value
    raise FormError(datum.span, "bad-value", f"{what} is a string in double quotes")


def text(datum: Data, what: str) -> ast.Text:
    """Parse the placeholders of a string datum."""
    return parse_text(string(datum, what), _span_inside(datum.span))


def condition(datum: Data) -> ast.Condition:
    """Return the condition in a string datum. Raise InvalidProgram if it cannot be parsed."""
    written = string(datum, "a condition")
    parse_condition(written, _span_inside(datum.span))
    return ast.Condition(span=datum.span, text=written)


def _span_inside(span: Span) -> Span:
    """Return the location of the first character inside the quotes."""
    return Span(span.source, span.line, span.column + 1)


def known_keywords(
    parser: Parser, named: Sequence[tuple[Keyword, Data]], known: Collection[str], form: str
) -> dict[str, Data]:
    """Return the arguments by keyword, and note keywords that the form does not have."""
    found = {}
    for keyword, value in named:
        if keyword.name in known:
            found[keyword.name] = value
        else:
            message = f"`{form}` has no `{keyword_text(keyword.name)}`"
            parser.note(
                keyword.span,
                "unknown-keyword",
                message + (nearest(keyword.name, known) or f"; it has {_join_keywords(known)}"),
            )
    return found


def _join_keywords(keywords: Iterable[str]) -> str:
    return " ".join(map(keyword_text, keywords))


# Branches


def _build_if(parser: Parser, form: List) -> ast.Node:
    test, then, *otherwise = parser.expressions(form.items[1:])
    return ast.If(span=form.span, test=test, then=then, otherwise=otherwise[0] if otherwise else None)


def _build_cond(parser: Parser, form: List) -> ast.Node:
    clauses: list[ast.Clause] = []
    otherwise: ast.Node | None = None
    for datum in form.items[1:]:
        if not isinstance(datum, List) or not datum.items:
            parser.reject_form(form)
        test, *remaining = datum.items
        if otherwise is not None:
            raise FormError(datum.span, "syntax-error", "`else` must be the last clause of a `cond`")
        if isinstance(test, Name) and test.text == "else" and not test.is_barred:
            otherwise = parser.body(remaining, form)
        else:
            node = parser.expression(test)
            clauses.append(ast.Clause(node, parser.body(remaining, form) if remaining else None))
    return ast.Cond(span=form.span, clauses=tuple(clauses), otherwise=otherwise)


def _build_items(
    kind: type[ast.And] | type[ast.Or] | type[ast.Parallel],
) -> Callable[[Parser, List], ast.Node]:
    def build(parser: Parser, form: List) -> ast.Node:
        return kind(span=form.span, items=parser.expressions(form.items[1:]))

    return build


def _build_begin(parser: Parser, form: List) -> ast.Node:
    items = [parser.expression(one, is_in_body=True) for one in form.items[1:]]
    return ast.Begin(span=form.span, items=tuple(items))


# Bindings


def _build_let(*, is_sequential: bool) -> Callable[[Parser, List], ast.Node]:
    def build(parser: Parser, form: List) -> ast.Node:
        if not isinstance(form.items[1], List):
            parser.reject_form(form)
        bindings = tuple([_read_binding(parser, one, form) for one in form.items[1].items])
        if not is_sequential:
            _note_duplicates(parser, form.items[1].items, [name for name, _ in bindings])
        body = parser.body(form.items[2:], form)
        return ast.Let(span=form.span, bindings=bindings, body=body, is_sequential=is_sequential)

    return build


def _read_binding(parser: Parser, datum: Data, form: List) -> tuple[str, ast.Node]:
    if not isinstance(datum, List) or len(datum.items) != 2:
        parser.reject_form(form)
    return parser.local_name(datum.items[0], form), parser.expression(datum.items[1])


def _note_duplicates(parser: Parser, data: Sequence[Data], names: Sequence[str]) -> None:
    """Note names that are bound twice in the same list."""
    seen: set[str] = set()
    for datum, name in zip(data, names, strict=True):
        if name in seen:
            parser.note(datum.span, "duplicate-name", f"`{name}` is bound twice")
        seen.add(name)


def _build_define(parser: Parser, form: List) -> ast.Define:
    target, *remaining = form.items[1:]
    if isinstance(target, List):
        if not target.items:
            parser.reject_form(form)
        name = parser.defined_name(target.items[0], form)
        parameters = _read_parameters(parser, target.items[1:], form)
        body = parser.body(remaining, form)
        closure = ast.Lambda(span=form.span, parameters=parameters, body=body, name=name)
        return ast.Define(span=form.span, name=name, value=closure)
    if len(remaining) != 1:
        parser.reject_form(form)
    return ast.Define(
        span=form.span, name=parser.defined_name(target, form), value=parser.expression(remaining[0])
    )


def _build_bind(parser: Parser, form: List) -> ast.Node:
    return msgspec.structs.replace(_build_define(parser, form), gives_value=True)


def _build_set(parser: Parser, form: List) -> ast.Node:
    name = parser.local_name(form.items[1], form)
    return ast.Assign(span=form.span, name=name, value=parser.expression(form.items[2]))


def _build_lambda(parser: Parser, form: List) -> ast.Node:
    if not isinstance(form.items[1], List):
        parser.reject_form(form)
    parameters = _read_parameters(parser, form.items[1].items, form)
    return ast.Lambda(span=form.span, parameters=parameters, body=parser.body(form.items[2:], form))


def _read_parameters(parser: Parser, data: Sequence[Data], form: List) -> tuple[str, ...]:
    names = tuple([parser.local_name(one, form) for one in data])
    _note_duplicates(parser, data, names)
    return names


# Control


def _build_try(parser: Parser, form: List) -> ast.Node:
    handler = form.items[2]
    if not isinstance(handler, List) or len(handler.items) < 3:
        parser.reject_form(form)
    word, name, *remaining = handler.items
    if not (isinstance(word, Name) and word.text == "catch"):
        parser.reject_form(form)
    body = parser.expression(form.items[1])
    return ast.Try(
        span=form.span, body=body, name=parser.local_name(name, form), handler=parser.body(remaining, form)
    )


def _build_loop(parser: Parser, form: List) -> ast.Node:
    count, body = parser.expressions(form.items[1:])
    return ast.Loop(span=form.span, count=count, body=body)


def _build_iterative_loop(parser: Parser, form: List) -> ast.Node:
    positional, named = parser.arguments(form.items[1:])
    if positional:
        parser.reject_form(form)
    found = known_keywords(parser, named, LOOP_PARTS, "iterative-loop")
    parts = {name.replace("-", "_"): parser.expression(value) for name, value in found.items()}
    missing = [name for name in LOOP_PARTS if name not in found and name != "validator"]
    if missing:
        raise FormError(form.span, "missing-field", f"`iterative-loop` needs {_join_keywords(missing)}")
    return ast.IterativeLoop(span=form.span, validator=parts.pop("validator", None), **parts)


def _build_with_timeout(parser: Parser, form: List) -> ast.Node:
    seconds = parser.expression(form.items[1])
    return ast.WithTimeout(span=form.span, seconds=seconds, body=parser.body(form.items[2:], form))


def _build_with_budget(parser: Parser, form: List) -> ast.Node:
    if not isinstance(form.items[1], List):
        parser.reject_form(form)
    positional, named = parser.arguments(form.items[1].items)
    if positional or not named:
        parser.reject_form(form)
    found = known_keywords(parser, named, BUDGETS, "with-budget")
    limits = tuple([(name, parser.expression(value)) for name, value in found.items()])
    return ast.WithBudget(span=form.span, limits=limits, body=parser.body(form.items[2:], form))


def _build_get_context(parser: Parser, form: List) -> ast.Node:
    positional, named = parser.arguments(form.items[1:])
    if positional:
        parser.reject_form(form)
    found = known_keywords(parser, named, QUESTIONS, "get-context")
    return ast.GetContext(
        span=form.span, keywords=tuple([(name, parser.expression(value)) for name, value in found.items()])
    )


PLAIN_FORMS = {
    "quote": SpecialForm(
        "(quote datum)",
        lambda parser, form: ast.Quote(span=form.span, datum=parser.quoted(form.items[1])),
        least=2,
        most=2,
    ),
    "if": SpecialForm("(if test then) or (if test then otherwise)", _build_if, least=3, most=4),
    "cond": SpecialForm("(cond (test e...) ... (else e...))", _build_cond),
    "and": SpecialForm("(and e...)", _build_items(ast.And)),
    "or": SpecialForm("(or e...)", _build_items(ast.Or)),
    "let": SpecialForm("(let ((name value) ...) body...)", _build_let(is_sequential=False), least=3),
    "let*": SpecialForm("(let* ((name value) ...) body...)", _build_let(is_sequential=True), least=3),
    "define": SpecialForm(
        "(define name e) or (define (name parameter...) body...)", _build_define, is_definition=True, least=3
    ),
    "bind": SpecialForm("(bind name e)", _build_bind, is_definition=True, least=3),
    "set!": SpecialForm("(set! name e)", _build_set, least=3, most=3),
    "lambda": SpecialForm("(lambda (parameter...) body...)", _build_lambda, least=3),
    "begin": SpecialForm("(begin e...)", _build_begin),
    "progn": SpecialForm("(progn e...)", _build_begin),
    "try": SpecialForm("(try e (catch name e...))", _build_try, least=3, most=3),
    "loop": SpecialForm("(loop count e)", _build_loop, least=3, most=3),
    "iterative-loop": SpecialForm(
        "(iterative-loop :max-iterations n :initial e :executor f :validator f :controller f)",
        _build_iterative_loop,
    ),
    "parallel": SpecialForm("(parallel e...)", _build_items(ast.Parallel)),
    "with-timeout": SpecialForm("(with-timeout seconds e...)", _build_with_timeout, least=3),
    "with-budget": SpecialForm(
        "(with-budget (:steps n :calls n :tokens n :cost x) e...)", _build_with_budget, least=3
    ),
    "get-context": SpecialForm(
        '(get-context :query "..." :inputs d :strategy "..." :inherited s :previous s :limit n :rerank b'
        " :template-description s :template-type s :template-subtype s)",
        _build_get_context,
    ),
    "condition": SpecialForm(
        '(condition "output.errors > 0")', lambda _, form: condition(form.items[1]), least=2, most=2
    ),
    "fill": SpecialForm(
        '(fill "text with {{placeholders}}")',
        lambda _, form: text(form.items[1], "the text of `fill`"),
        least=2,
        most=2,
    ),
}
