"""Special forms of tasks and templates."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from weft.language.ast import Atomic, Node, Reference, Sequential, TaskCase, TaskCond, TaskNode, Template
from weft.language.fields import REF, RETURNS, TASK_FIELDS, TASK_KINDS, Field, by_keyword, join_output_format
from weft.language.sexp.field_values import read_field, read_shape
from weft.language.sexp.forms import condition, known_keywords, string
from weft.language.sexp.names import Constant, Data, Keyword, List, Name
from weft.language.sexp.parser import FormError, Parser, SpecialForm, head_of
from weft.language.task_fields import Parameter

_PARAMETER_SHAPE = "a parameter is written name, (name default), (name type) or (name type default)"


def parameters(parser: Parser, datum: Data, form: List) -> tuple[Parameter, ...]:
    """Parse the parameters of a template, and note duplicate names."""
    if not isinstance(datum, List) or datum.is_prefix:
        parser.reject_form(form)
    found = [parser.attempt(_read_parameter, one, form) for one in datum.items]
    seen: set[str] = set()
    for written, parameter in zip(datum.items, found, strict=True):
        if parameter is not None and parameter.name in seen:
            parser.note(written.span, "duplicate-name", f"the parameter `{parameter.name}` is defined twice")
        seen.add(parameter.name if parameter is not None else "")
    return tuple(one for one in found if one is not None)


def _read_parameter(parser: Parser, datum: Data, form: List) -> Parameter:
    if isinstance(datum, Name):
        return Parameter(parser.local_name(datum, form))
    if not isinstance(datum, List) or datum.is_prefix or len(datum.items) not in {2, 3}:
        raise FormError(datum.span, "syntax-error", _PARAMETER_SHAPE)
    name = parser.local_name(datum.items[0], form)
    if len(datum.items) == 3:
        return Parameter(name, _read_type(parser, datum.items[1]), constant(datum.items[2]))
    if isinstance(datum.items[1], Name):
        return Parameter(name, _read_type(parser, datum.items[1]), UNSET)
    return Parameter(name, None, constant(datum.items[1]))


def _read_type(parser: Parser, datum: Data) -> str:
    if isinstance(datum, Name):
        return datum.text
    return read_shape(parser, datum, "the type of a parameter")


def constant(datum: Data) -> Any:
    """Return the JSON value of a default: a constant, `(list ...)` or `(dict :key value ...)`."""
    if isinstance(datum, Constant):
        return datum.value
    if isinstance(datum, List):
        if not datum.items:
            return []
        match datum.items[0]:
            case Name(text="list", is_barred=False):
                return [constant(one) for one in datum.items[1:]]
            case Name(text="dict", is_barred=False):
                return _constant_dict(datum)
    message = "a default is a number, a string, true, false, nil, (list ...) or (dict :key ...) of those"
    raise FormError(datum.span, "bad-value", message)


def _constant_dict(datum: List) -> dict[str, Any]:
    keys, values = datum.items[1::2], datum.items[2::2]
    if len(keys) != len(values):
        raise FormError(
            datum.span, "bad-value", "a dict is written (dict :key value ...): a value is missing"
        )
    return {_read_key(key): constant(value) for key, value in zip(keys, values, strict=True)}


def _read_key(datum: Data) -> str:
    if isinstance(datum, Keyword):
        return datum.name
    if isinstance(datum, Constant) and isinstance(datum.value, str):
        return datum.value
    raise FormError(datum.span, "bad-value", "a key of a dict is written :key or as a string")


_TASK = by_keyword([*TASK_FIELDS, REF])
_DEFTASK = by_keyword([*TASK_FIELDS, RETURNS])


def _read_fields(
    parser: Parser, data: Sequence[Data], known: Mapping[str, Field], name: str
) -> tuple[dict[str, Any], list[Data]]:
    """Return the node fields from the keyword arguments, and the positional data; `name` is the form."""
    positional, named = parser.arguments(data)
    values: dict[str, Any] = {}
    for word, datum in known_keywords(parser, named, known, name).items():
        field = known[word]
        values[field.name] = parser.attempt(read_field, datum, field)
    return join_output_format(values), positional


def _note_positional(parser: Parser, positional: Sequence[Data], name: str, where: str = "") -> None:
    for stray in positional:
        parser.note(stray.span, "syntax-error", f"`{name}` takes keywords and their values only{where}")


def _build_task(parser: Parser, form: List) -> Node:
    fields, positional = _read_fields(parser, form.items[1:], _TASK, "task")
    _note_positional(parser, positional, "task")
    return Reference(span=form.span, **fields) if "ref" in fields else Atomic(span=form.span, **fields)


def _build_kind(kind: type[TaskNode]) -> Callable[[Parser, List], Node]:
    """Return the builder of a kind of task with fields of its own; steps are positional."""
    name = TASK_KINDS[kind].form
    known = by_keyword([*TASK_FIELDS, *(one for one in TASK_KINDS[kind].fields if one.kind != "steps")])

    def build(parser: Parser, form: List) -> Node:
        fields, positional = _read_fields(parser, form.items[1:], known, name)
        if kind is Sequential:
            fields["steps"] = parser.expressions(positional)
        else:
            _note_positional(parser, positional, name)
        return kind(span=form.span, **fields)

    return build


def _build_task_cond(parser: Parser, form: List) -> Node:
    positional, named = parser.arguments(form.items[1:])
    if not positional:
        parser.reject_form(form)
    found = known_keywords(parser, named, ("criteria",), "task-cond")
    criteria = parser.attempt(lambda _, one: string(one, ":criteria"), found["criteria"]) if found else None
    cases = [parser.attempt(_read_case, one, form) for one in positional]
    given = tuple(one for one in cases if one is not None)
    return TaskCond(span=form.span, cases=given, criteria=criteria)


def _read_case(parser: Parser, datum: Data, form: List) -> TaskCase:
    if not isinstance(datum, List) or len(datum.items) < 2 or not isinstance(datum.items[0], Constant):
        parser.reject_form(form)
    test = parser.attempt(lambda _, one: condition(one), datum.items[0])
    return TaskCase(test, parser.body(datum.items[1:], form), datum.span)


# Templates


def _build_deftask(parser: Parser, form: List) -> Node:
    word = head_of(form)
    name = parser.defined_name(form.items[1], form)
    declared = parameters(parser, form.items[2], form)
    fields, positional = _read_fields(parser, form.items[3:], _DEFTASK, word)
    _note_positional(parser, positional, word, " after the parameters")
    returns = fields.pop("returns", None)
    body = Atomic(span=form.span, **fields)
    return Template(span=form.span, name=name, parameters=declared, body=body, returns=returns)


def _build_template(parser: Parser, form: List) -> Node:
    name = parser.defined_name(form.items[1], form)
    declared = parameters(parser, form.items[2], form)
    positional, named = parser.arguments(form.items[3:])
    found = known_keywords(parser, named, ("returns",), "template")
    returns = parser.attempt(read_field, found["returns"], RETURNS) if found else None
    body = parser.body(positional, form)
    return Template(span=form.span, name=name, parameters=declared, body=body, returns=returns)


_SHAPES = {
    "sequential": "(sequential :parallel true ... step...)",
    "reduce-task": "(reduce-task :initial e :inner e :reduction e :inputs (...) ...)",
    "script": '(script :argv ("program" ...) ...) or (script :shell "..." ...)',
    "director-evaluator-loop": (
        '(director-evaluator-loop :max-iterations n :director e :evaluator e :condition "..." ...)'
    ),
}

TASK_FORMS = {
    **{
        word: SpecialForm(
            f'({word} name (parameter...) :instructions "..." ...)',
            _build_deftask,
            least=3,
            is_definition=True,
        )
        for word in ("deftask", "defatom")
    },
    "template": SpecialForm(
        '(template name (parameter...) :returns "..." body...)', _build_template, least=4, is_definition=True
    ),
    "task": SpecialForm('(task :instructions "..." ...) or (task :ref "name" ...)', _build_task),
    **{
        one.form: SpecialForm(_SHAPES[one.form], _build_kind(kind))
        for kind, one in TASK_KINDS.items()
        if kind is not Atomic
    },
    "task-cond": SpecialForm('(task-cond :criteria "..." ("condition" e...) ...)', _build_task_cond),
}
