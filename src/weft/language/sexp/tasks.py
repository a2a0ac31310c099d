"""Special forms of tasks and templates."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from weft.language.ast import (
    Atomic,
    DirectorEvaluatorLoop,
    Node,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskCase,
    TaskCond,
    Template,
    Text,
)
from weft.language.sexp.field_values import (
    Reader,
    a_boolean,
    a_count,
    a_duration,
    a_list_of,
    a_name,
    a_shape,
    a_string,
    a_text,
    assembly,
    context,
    files,
    history,
    inputs,
    one_of,
    relevance,
)
from weft.language.sexp.forms import condition, known_keywords, string
from weft.language.sexp.names import Constant, Data, Keyword, List, Name
from weft.language.sexp.parser import FormError, Parser, SpecialForm
from weft.language.task_fields import OutputFormat, Parameter

_PARAMETER_SHAPE = "a parameter is written name, (name default), (name type) or (name type default)"


def parameters(parser: Parser, datum: Data, form: List) -> tuple[Parameter, ...]:
    """Parse the parameters of a template, and note duplicate names."""
    if not isinstance(datum, List) or datum.is_prefix:
        parser.reject_form(form)
    found = [
        parser.attempt(lambda parser, one: _read_parameter(parser, one, form), one) for one in datum.items
    ]
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
    shape: str = a_shape("the type of a parameter")(parser, datum)
    return shape


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


FIELDS: Mapping[str, tuple[str, Reader]] = {
    "description": ("description", a_text(":description")),
    "instructions": ("instructions", a_text(":instructions")),
    "system": ("system", a_text(":system")),
    "model": ("model", a_string(":model")),
    "provider": ("provider", a_string(":provider")),
    "criteria": ("criteria", a_string(":criteria")),
    "subtype": ("subtype", a_string(":subtype")),
    "output": ("output", one_of(":output", ("json", "text"))),
    "schema": ("schema", a_shape(":schema")),
    "inputs": ("inputs", inputs),
    "output-slot": ("output_slot", a_name(":output-slot")),
    "input-source": ("input_source", a_name(":input-source")),
    "context": ("context", context),
    "relevance": ("context_relevance", relevance),
    "assembly": ("context_assembly", assembly),
    "files": ("file_paths", files),
    "history": ("history", history),
    "tools": ("tools", a_list_of(a_string("a tool"), ":tools")),
    "timeout": ("timeout_seconds", a_duration(":timeout")),
    "max-depth": ("max_depth", a_count(":max-depth")),
    "reuse": ("reuse", a_boolean(":reuse")),
    "manual-xml": ("manual_xml", a_boolean(":manual-xml")),
    "disable-reparsing": ("disable_reparsing", a_boolean(":disable-reparsing")),
}
"""Fields of every kind of task: keyword, node field, reader. `output` and `schema` share `output_format`."""


def _read_expression(parser: Parser, datum: Data) -> Node:
    return parser.expression(datum)


def _read_shell(parser: Parser, datum: Data) -> Text:
    command: Text = a_text(":shell")(parser, datum)
    if any(isinstance(part, Node) for part in command.parts):
        message = (
            "a placeholder in :shell would be part of a command line; "
            "use the environment variable of the input: $name"
        )
        raise FormError(datum.span, "bad-value", message)
    return command


def _read_argv(parser: Parser, datum: Data) -> tuple[Text, ...]:
    words: tuple[Text, ...] = a_list_of(a_text("a word of :argv"), ":argv")(parser, datum)
    if not words:
        raise FormError(datum.span, "bad-value", ":argv begins with the executable to run")
    return words


def _read_loop_script(parser: Parser, datum: Data) -> Script | None:
    node = parser.expression(datum)
    if not isinstance(node, Script):
        raise FormError(datum.span, "bad-value", ":script is written (script ...)")
    return node


_REF = {"ref": ("ref", a_string(":ref"))}
_RETURNS = {"returns": ("returns", a_shape(":returns"))}
_SCRIPT = {"argv": ("argv", _read_argv), "shell": ("shell", _read_shell)}
_SEQUENTIAL = {"parallel": ("is_parallel", a_boolean(":parallel"))}
_REDUCE = {
    "initial": ("initial_value", _read_expression),
    "inner": ("inner_task", _read_expression),
    "reduction": ("reduction_task", _read_expression),
}
_LOOP = {
    "max-iterations": ("max_iterations", a_count(":max-iterations")),
    "director": ("director", _read_expression),
    "evaluator": ("evaluator", _read_expression),
    "script": ("script", _read_loop_script),
    "condition": ("termination_condition", lambda _, datum: condition(datum)),
}


def _read_fields(
    parser: Parser, form: List, data: Sequence[Data], more: Mapping[str, tuple[str, Reader]], name: str
) -> tuple[dict[str, Any], list[Data]]:
    """Return the node fields from the keyword arguments, and the positional data.

    `more` are the fields that only this kind of task has; `name` is the form, for messages.
    """
    positional, named = parser.arguments(data)
    known = {**FIELDS, **more}
    found = known_keywords(parser, named, tuple(known), name)
    fields = {known[word][0]: parser.attempt(known[word][1], datum) for word, datum in found.items()}
    kind, schema = fields.pop("output", None), fields.pop("schema", None)
    if kind is not None or schema is not None:
        fields["output_format"] = OutputFormat(kind or "json", schema)
    return fields, positional


def _note_positional(parser: Parser, positional: Sequence[Data], name: str, where: str = "") -> None:
    for stray in positional:
        parser.note(stray.span, "syntax-error", f"`{name}` takes keywords and their values only{where}")


def _require_fields(form: List, fields: Mapping[str, Any], name: str, *needed: tuple[str, str]) -> None:
    missing = [keyword for field, keyword in needed if field not in fields]
    if missing:
        raise FormError(form.span, "missing-field", f"`{name}` needs {' and '.join(missing)}")


def _require_prompt(form: List, fields: Mapping[str, Any], name: str) -> None:
    if "instructions" not in fields and "description" not in fields:
        raise FormError(
            form.span,
            "missing-field",
            f"`{name}` needs :instructions or :description: the prompt for the model",
        )


def _build_task(parser: Parser, form: List) -> Node:
    fields, positional = _read_fields(parser, form, form.items[1:], _REF, "task")
    _note_positional(parser, positional, "task")
    if "ref" in fields:
        return Reference(span=form.span, **fields)
    _require_prompt(form, fields, "task")
    return Atomic(span=form.span, **fields)


def _build_script(parser: Parser, form: List) -> Node:
    fields, positional = _read_fields(parser, form, form.items[1:], _SCRIPT, "script")
    _note_positional(parser, positional, "script")
    if "argv" in fields and "shell" in fields:
        raise FormError(form.span, "bad-value", "`script` takes :argv or :shell, not both")
    return Script(span=form.span, **fields)


def _build_sequential(parser: Parser, form: List) -> Node:
    fields, positional = _read_fields(parser, form, form.items[1:], _SEQUENTIAL, "sequential")
    if not positional:
        raise FormError(form.span, "missing-field", "`sequential` needs at least one step")
    return Sequential(span=form.span, steps=parser.expressions(positional), **fields)


def _build_reduce(parser: Parser, form: List) -> Node:
    fields, positional = _read_fields(parser, form, form.items[1:], _REDUCE, "reduce-task")
    _note_positional(parser, positional, "reduce-task")
    _require_fields(form, fields, "reduce-task", ("inner_task", ":inner"), ("reduction_task", ":reduction"))
    return Reduce(span=form.span, **fields)


def _build_director_loop(parser: Parser, form: List) -> Node:
    name = "director-evaluator-loop"
    fields, positional = _read_fields(parser, form, form.items[1:], _LOOP, name)
    _note_positional(parser, positional, name)
    _require_fields(form, fields, name, ("director", ":director"))
    if "evaluator" not in fields and "criteria" not in fields:
        raise FormError(form.span, "missing-field", f"`{name}` needs :evaluator, or :criteria to find one by")
    return DirectorEvaluatorLoop(span=form.span, **fields)


def _build_task_cond(parser: Parser, form: List) -> Node:
    positional, named = parser.arguments(form.items[1:])
    if not positional:
        parser.reject_form(form)
    found = known_keywords(parser, named, ("criteria",), "task-cond")
    criteria = parser.attempt(lambda _, one: string(one, ":criteria"), found["criteria"]) if found else None
    cases = [parser.attempt(lambda parser, one: _read_case(parser, one, form), one) for one in positional]
    given = tuple(one for one in cases if one is not None)
    return TaskCond(span=form.span, cases=given, criteria=criteria)


def _read_case(parser: Parser, datum: Data, form: List) -> TaskCase:
    if not isinstance(datum, List) or len(datum.items) < 2 or not isinstance(datum.items[0], Constant):
        parser.reject_form(form)
    test = parser.attempt(lambda _, one: condition(one), datum.items[0])
    return TaskCase(test, parser.body(datum.items[1:], form), datum.span)


# Templates


def _build_deftask(name: str) -> Callable[[Parser, List], Node]:
    def build(parser: Parser, form: List) -> Node:
        if len(form.items) < 3:
            parser.reject_form(form)
        template = parser.defined_name(form.items[1], form)
        declared = parameters(parser, form.items[2], form)
        fields, positional = _read_fields(parser, form, form.items[3:], _RETURNS, name)
        _note_positional(parser, positional, name, " after the parameters")
        _require_prompt(form, fields, name)
        returns = fields.pop("returns", None)
        body = Atomic(span=form.span, **fields)
        return Template(span=form.span, name=template, parameters=declared, body=body, returns=returns)

    return build


def _build_template(parser: Parser, form: List) -> Node:
    if len(form.items) < 4:
        parser.reject_form(form)
    name = parser.defined_name(form.items[1], form)
    declared = parameters(parser, form.items[2], form)
    positional, named = parser.arguments(form.items[3:])
    found = known_keywords(parser, named, ("returns",), "template")
    returns = parser.attempt(a_shape(":returns"), found["returns"]) if found else None
    body = parser.body(positional, form)
    return Template(span=form.span, name=name, parameters=declared, body=body, returns=returns)


_DEFTASK_SHAPE = '({} name (parameter...) :instructions "..." ...)'

TASK_FORMS = {
    "deftask": SpecialForm(_DEFTASK_SHAPE.format("deftask"), _build_deftask("deftask"), is_definition=True),
    "defatom": SpecialForm(_DEFTASK_SHAPE.format("defatom"), _build_deftask("defatom"), is_definition=True),
    "template": SpecialForm(
        '(template name (parameter...) :returns "..." body...)', _build_template, is_definition=True
    ),
    "task": SpecialForm('(task :instructions "..." ...) or (task :ref "name" ...)', _build_task),
    "script": SpecialForm('(script :argv ("program" ...) ...) or (script :shell "..." ...)', _build_script),
    "sequential": SpecialForm("(sequential :parallel true ... step...)", _build_sequential),
    "reduce-task": SpecialForm(
        "(reduce-task :initial e :inner e :reduction e :inputs (...) ...)", _build_reduce
    ),
    "director-evaluator-loop": SpecialForm(
        '(director-evaluator-loop :max-iterations n :director e :evaluator e :condition "..." ...)',
        _build_director_loop,
    ),
    "task-cond": SpecialForm('(task-cond :criteria "..." ("condition" e...) ...)', _build_task_cond),
}
