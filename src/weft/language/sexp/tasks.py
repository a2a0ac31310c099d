"""Special forms of tasks and templates, and parameters."""

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
from weft.language.sexp.parser import Parser, Refused, SpecialForm
from weft.language.task_fields import OutputFormat, Parameter

_SHAPE = "a parameter is written name, (name default), (name type) or (name type default)"


def parameters(former: Parser, datum: Data, form: List) -> tuple[Parameter, ...]:
    """The parameters of a template; a name may be used once."""
    if not isinstance(datum, List) or datum.is_prefix:
        former.misshapen(form)
    found = [former.attempt(lambda former, one: _parameter(former, one, form), one) for one in datum.items]
    seen: set[str] = set()
    for written, parameter in zip(datum.items, found, strict=True):
        if parameter is not None and parameter.name in seen:
            former.note(written.span, "duplicate-name", f"the parameter `{parameter.name}` is there twice")
        seen.add(parameter.name if parameter is not None else "")
    return tuple(one for one in found if one is not None)


def _parameter(former: Parser, datum: Data, form: List) -> Parameter:
    if isinstance(datum, Name):
        return Parameter(former.local_name(datum, form))
    if not isinstance(datum, List) or datum.is_prefix or len(datum.items) not in {2, 3}:
        raise Refused(datum.span, "syntax-error", _SHAPE)
    name = former.local_name(datum.items[0], form)
    if len(datum.items) == 3:
        return Parameter(name, _type(former, datum.items[1]), constant(datum.items[2]))
    if isinstance(datum.items[1], Name):
        return Parameter(name, _type(former, datum.items[1]), UNSET)
    return Parameter(name, None, constant(datum.items[1]))


def _type(former: Parser, datum: Data) -> str:
    if isinstance(datum, Name):
        return datum.text
    shape: str = a_shape("the type of a parameter")(former, datum)
    return shape


def constant(datum: Data) -> Any:
    """The JSON value that a default is: a constant, `(list ...)` or `(dict :key value ...)`."""
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
    raise Refused(datum.span, "bad-value", message)


def _constant_dict(datum: List) -> dict[str, Any]:
    keys, values = datum.items[1::2], datum.items[2::2]
    if len(keys) != len(values):
        raise Refused(datum.span, "bad-value", "a dict is written (dict :key value ...): a value is missing")
    return {_key(key): constant(value) for key, value in zip(keys, values, strict=True)}


def _key(datum: Data) -> str:
    if isinstance(datum, Keyword):
        return datum.name
    if isinstance(datum, Constant) and isinstance(datum.value, str):
        return datum.value
    raise Refused(datum.span, "bad-value", "a key of a dict is written :key or as a string")


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
"""What every kind of task can say: keyword, field of the node (but output and schema: one field), reader."""


def _expression(former: Parser, datum: Data) -> Node:
    return former.expression(datum)


def _shell(former: Parser, datum: Data) -> Text:
    command: Text = a_text(":shell")(former, datum)
    if any(isinstance(part, Node) for part in command.parts):
        message = "a placeholder in :shell would join a command line; inputs are environment variables: $name"
        raise Refused(datum.span, "bad-value", message)
    return command


def _argv(former: Parser, datum: Data) -> tuple[Text, ...]:
    words: tuple[Text, ...] = a_list_of(a_text("a word of :argv"), ":argv")(former, datum)
    if not words:
        raise Refused(datum.span, "bad-value", ":argv begins with the program to run")
    return words


def _script_of_loop(former: Parser, datum: Data) -> Script | None:
    node = former.expression(datum)
    if not isinstance(node, Script):
        raise Refused(datum.span, "bad-value", ":script is written (script ...)")
    return node


_REF = {"ref": ("ref", a_string(":ref"))}
_RETURNS = {"returns": ("returns", a_shape(":returns"))}
_SCRIPT = {"argv": ("argv", _argv), "shell": ("shell", _shell)}
_SEQUENTIAL = {"parallel": ("is_parallel", a_boolean(":parallel"))}
_REDUCE = {
    "initial": ("initial_value", _expression),
    "inner": ("inner_task", _expression),
    "reduction": ("reduction_task", _expression),
}
_LOOP = {
    "max-iterations": ("max_iterations", a_count(":max-iterations")),
    "director": ("director", _expression),
    "evaluator": ("evaluator", _expression),
    "script": ("script", _script_of_loop),
    "condition": ("termination_condition", lambda _, datum: condition(datum)),
}


def _task_fields(
    former: Parser, form: List, data: Sequence[Data], more: Mapping[str, tuple[str, Reader]], name: str
) -> tuple[dict[str, Any], list[Data]]:
    """The fields of a node by what was written with keywords, and the data without a keyword."""
    positional, named = former.arguments(data)
    known = {**FIELDS, **more}
    found = known_keywords(former, named, tuple(known), name)
    fields = {known[word][0]: former.attempt(known[word][1], datum) for word, datum in found.items()}
    kind, schema = fields.pop("output", None), fields.pop("schema", None)
    if kind is not None or schema is not None:
        fields["output_format"] = OutputFormat(kind or "json", schema)
    return fields, positional


def _only_keywords(former: Parser, positional: Sequence[Data], name: str, where: str = "") -> None:
    for stray in positional:
        former.note(stray.span, "syntax-error", f"`{name}` takes keywords and their values only{where}")


def _need(form: List, fields: Mapping[str, Any], name: str, *needed: tuple[str, str]) -> None:
    missing = [keyword for field, keyword in needed if field not in fields]
    if missing:
        raise Refused(form.span, "missing-field", f"`{name}` needs {' and '.join(missing)}")


def _need_prompt(form: List, fields: Mapping[str, Any], name: str) -> None:
    if "instructions" not in fields and "description" not in fields:
        raise Refused(
            form.span,
            "missing-field",
            f"`{name}` needs :instructions or :description: what is asked of the model",
        )


def _task(former: Parser, form: List) -> Node:
    fields, positional = _task_fields(former, form, form.items[1:], _REF, "task")
    _only_keywords(former, positional, "task")
    if "ref" in fields:
        return Reference(span=form.span, **fields)
    _need_prompt(form, fields, "task")
    return Atomic(span=form.span, **fields)


def _script(former: Parser, form: List) -> Node:
    fields, positional = _task_fields(former, form, form.items[1:], _SCRIPT, "script")
    _only_keywords(former, positional, "script")
    if "argv" in fields and "shell" in fields:
        raise Refused(form.span, "bad-value", "`script` has :argv or :shell, not both")
    return Script(span=form.span, **fields)


def _sequential(former: Parser, form: List) -> Node:
    fields, positional = _task_fields(former, form, form.items[1:], _SEQUENTIAL, "sequential")
    if not positional:
        raise Refused(form.span, "missing-field", "`sequential` needs at least one step")
    return Sequential(span=form.span, steps=former.expressions(positional), **fields)


def _reduce(former: Parser, form: List) -> Node:
    fields, positional = _task_fields(former, form, form.items[1:], _REDUCE, "reduce-task")
    _only_keywords(former, positional, "reduce-task")
    _need(form, fields, "reduce-task", ("inner_task", ":inner"), ("reduction_task", ":reduction"))
    return Reduce(span=form.span, **fields)


def _director_loop(former: Parser, form: List) -> Node:
    name = "director-evaluator-loop"
    fields, positional = _task_fields(former, form, form.items[1:], _LOOP, name)
    _only_keywords(former, positional, name)
    _need(form, fields, name, ("director", ":director"))
    if "evaluator" not in fields and "criteria" not in fields:
        raise Refused(form.span, "missing-field", f"`{name}` needs :evaluator, or :criteria to find one by")
    return DirectorEvaluatorLoop(span=form.span, **fields)


def _task_cond(former: Parser, form: List) -> Node:
    positional, named = former.arguments(form.items[1:])
    if not positional:
        former.misshapen(form)
    found = known_keywords(former, named, ("criteria",), "task-cond")
    criteria = former.attempt(lambda _, one: string(one, ":criteria"), found["criteria"]) if found else None
    cases = [former.attempt(lambda former, one: _case(former, one, form), one) for one in positional]
    given = tuple(one for one in cases if one is not None)
    return TaskCond(span=form.span, cases=given, criteria=criteria)


def _case(former: Parser, datum: Data, form: List) -> TaskCase:
    if not isinstance(datum, List) or len(datum.items) < 2 or not isinstance(datum.items[0], Constant):
        former.misshapen(form)
    test = former.attempt(lambda _, one: condition(one), datum.items[0])
    return TaskCase(test, former.body(datum.items[1:], form), datum.span)


# Templates


def _deftask(name: str) -> Callable[[Parser, List], Node]:
    def build(former: Parser, form: List) -> Node:
        if len(form.items) < 3:
            former.misshapen(form)
        template = former.defined_name(form.items[1], form)
        taken = parameters(former, form.items[2], form)
        fields, positional = _task_fields(former, form, form.items[3:], _RETURNS, name)
        _only_keywords(former, positional, name, " after the parameters")
        _need_prompt(form, fields, name)
        returns = fields.pop("returns", None)
        body = Atomic(span=form.span, **fields)
        return Template(span=form.span, name=template, parameters=taken, body=body, returns=returns)

    return build


def _template(former: Parser, form: List) -> Node:
    if len(form.items) < 4:
        former.misshapen(form)
    name = former.defined_name(form.items[1], form)
    taken = parameters(former, form.items[2], form)
    positional, named = former.arguments(form.items[3:])
    found = known_keywords(former, named, ("returns",), "template")
    returns = former.attempt(a_shape(":returns"), found["returns"]) if found else None
    body = former.body(positional, form)
    return Template(span=form.span, name=name, parameters=taken, body=body, returns=returns)


_DEFTASK_SHAPE = '({} name (parameter...) :instructions "..." ...)'

TASK_FORMS = {
    "deftask": SpecialForm(_DEFTASK_SHAPE.format("deftask"), _deftask("deftask"), is_definition=True),
    "defatom": SpecialForm(_DEFTASK_SHAPE.format("defatom"), _deftask("defatom"), is_definition=True),
    "template": SpecialForm(
        '(template name (parameter...) :returns "..." body...)', _template, is_definition=True
    ),
    "task": SpecialForm('(task :instructions "..." ...) or (task :ref "name" ...)', _task),
    "script": SpecialForm('(script :argv ("program" ...) ...) or (script :shell "..." ...)', _script),
    "sequential": SpecialForm("(sequential :parallel true ... step...)", _sequential),
    "reduce-task": SpecialForm("(reduce-task :initial e :inner e :reduction e :inputs (...) ...)", _reduce),
    "director-evaluator-loop": SpecialForm(
        '(director-evaluator-loop :max-iterations n :director e :evaluator e :condition "..." ...)',
        _director_loop,
    ),
    "task-cond": SpecialForm('(task-cond :criteria "..." ("condition" e...) ...)', _task_cond),
}
