"""Printer of tasks and templates."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET

from weft.language.ast import (
    Atomic,
    Begin,
    DirectorEvaluatorLoop,
    FilePaths,
    Input,
    Node,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskCond,
    TaskNode,
    Template,
    Text,
)
from weft.language.sexp.layout import (
    Layout,
    form,
    listing,
    number_text,
    pair,
    scalar_text,
    seconds_text,
    string_text,
)
from weft.language.sexp.names import keyword_text, name_text, type_text
from weft.language.task_fields import ContextAssembly, ContextOverrides, HistorySettings, Parameter

ToLayout = Callable[[Node], Layout]
"""Returns the layout of any node."""

Field = tuple[str, Layout | None]
"""A keyword and its value; None: the keyword is omitted."""


def _pairs(*fields: Field) -> list[Layout]:
    return [pair(f":{keyword}", value) for keyword, value in fields if value is not None]


def _string(value: str | None) -> str | None:
    return None if value is None else string_text(value)


def _text(value: Text | None) -> str | None:
    return None if value is None else string_text(value.raw)


def _name(value: str | None) -> str | None:
    return None if value is None else name_text(value)


def _boolean(value: bool | None, *, default: bool | None) -> str | None:
    return None if value is default else scalar_text(value)


def _number(value: int | None) -> str | None:
    return None if value is None else number_text(value)


def _node(value: Node | None, to_layout: ToLayout) -> Layout | None:
    return None if value is None else to_layout(value)


def _task_pairs(node: TaskNode, to_layout: ToLayout) -> list[Layout]:
    """Lay out the fields that every kind of task has, without those that have their default."""
    output = node.output_format
    return _pairs(
        ("description", _text(node.description)),
        ("instructions", _text(node.instructions)),
        ("system", _text(node.system)),
        ("model", _string(node.model)),
        ("provider", _string(node.provider)),
        ("criteria", _string(node.criteria)),
        ("subtype", _string(node.subtype)),
        ("output", None if output is None else string_text(output.type)),
        ("schema", None if output is None else _string(output.schema)),
        ("inputs", _inputs(node.inputs, to_layout)),
        ("output-slot", _name(node.output_slot)),
        ("input-source", _name(node.input_source)),
        ("context", _context(node.context)),
        ("relevance", _relevance(node.context_relevance)),
        ("assembly", _assembly(node.context_assembly)),
        ("files", _files(node.file_paths)),
        ("history", _history(node.history)),
        ("tools", listing([*map(string_text, node.tools)]) if node.tools else None),
        ("timeout", None if node.timeout_seconds is None else seconds_text(node.timeout_seconds)),
        ("max-depth", _number(node.max_depth)),
        ("reuse", _boolean(node.reuse, default=None)),
        ("manual-xml", _boolean(node.manual_xml, default=False)),
        ("disable-reparsing", _boolean(node.disable_reparsing, default=False)),
    )


def _inputs(inputs: tuple[Input, ...], to_layout: ToLayout) -> Layout | None:
    if not inputs:
        return None
    return listing(
        [
            listing([name_text(one.name), *([] if one.value is None else [to_layout(one.value)])])
            for one in inputs
        ]
    )


def _context(context: ContextOverrides) -> Layout | None:
    if context == ContextOverrides():
        return None
    return listing(
        _pairs(
            ("inherit", _string(context.inherit_context)),
            ("accumulate", _boolean(context.accumulate_data, default=None)),
            ("format", _string(context.accumulation_format)),
            ("fresh", _string(context.fresh_context)),
        )
    )


def _relevance(relevance: tuple[tuple[str, bool], ...]) -> Layout | None:
    if not relevance:
        return None
    return listing([listing([name_text(name), scalar_text(is_relevant)]) for name, is_relevant in relevance])


def _assembly(assembly: ContextAssembly | None) -> Layout | None:
    if assembly is None:
        return None
    return listing(
        _pairs(
            ("primary", _string(assembly.primary_elements)),
            ("secondary", _string(assembly.secondary_elements)),
            ("excluded", _string(assembly.excluded_elements)),
        )
    )


def _files(files: FilePaths | None) -> Layout | None:
    if files is None:
        return None
    if files.text is None:
        texts = [string_text(path.raw) for path in files.paths]
        return listing(
            [f"({text} :optional true)" if n in files.optional else text for n, text in enumerate(texts)]
        )
    return listing(_pairs((files.source.replace("_", "-"), string_text(files.text.raw))))


def _history(history: HistorySettings | None) -> Layout | None:
    if history is None:
        return None
    return listing(
        _pairs(
            ("use", _boolean(history.use_session_history, default=True)),
            ("turns", _number(history.history_turns_to_include)),
            ("record", _boolean(history.record_in_session_history, default=True)),
        )
    )


# Kinds of task


def _script(node: Script, to_layout: ToLayout) -> Layout:
    argv = listing([string_text(word.raw) for word in node.argv]) if node.argv else None
    return form(
        "script", *_pairs(("argv", argv), ("shell", _text(node.shell))), *_task_pairs(node, to_layout)
    )


def _sequential(node: Sequential, to_layout: ToLayout) -> Layout:
    parallel = _pairs(("parallel", _boolean(node.is_parallel, default=False)))
    steps = [to_layout(one) for one in node.steps]
    return form("sequential", *parallel, *_task_pairs(node, to_layout), *steps)


def _reduce(node: Reduce, to_layout: ToLayout) -> Layout:
    parts = _pairs(
        ("initial", _node(node.initial_value, to_layout)),
        ("inner", _node(node.inner_task, to_layout)),
        ("reduction", _node(node.reduction_task, to_layout)),
    )
    return form("reduce-task", *_task_pairs(node, to_layout), *parts)


def _director_loop(node: DirectorEvaluatorLoop, to_layout: ToLayout) -> Layout:
    ending = node.termination_condition
    parts = _pairs(
        ("max-iterations", _number(node.max_iterations)),
        ("director", _node(node.director, to_layout)),
        ("script", _node(node.script, to_layout)),
        ("evaluator", _node(node.evaluator, to_layout)),
        ("condition", None if ending is None else string_text(ending.text)),
    )
    return form("director-evaluator-loop", *_task_pairs(node, to_layout), *parts)


def _reference(node: Reference, to_layout: ToLayout) -> Layout:
    return form("task", *_pairs(("ref", string_text(node.ref))), *_task_pairs(node, to_layout))


def _task_cond(node: TaskCond, to_layout: ToLayout) -> Layout:
    cases = [form(string_text(case.test.text), *_body(case.body, to_layout)) for case in node.cases]
    criteria = [] if node.criteria is None else _pairs(("criteria", string_text(node.criteria)))
    return form("task-cond", *criteria, *cases)


def _body(node: Node, to_layout: ToLayout) -> list[Layout]:
    items = node.items if isinstance(node, Begin) and len(node.items) > 1 else (node,)
    return [to_layout(one) for one in items]


# Templates


def _template(node: Template, to_layout: ToLayout) -> Layout:
    head: list[Layout] = [name_text(node.name), listing([_parameter(one) for one in node.parameters])]
    returns = _pairs(("returns", _string(node.returns)))
    if isinstance(node.body, Atomic):
        return form("deftask", *head, *returns, *_task_pairs(node.body, to_layout), on_first_line=3)
    return form("template", *head, *returns, *_body(node.body, to_layout), on_first_line=3)


def _parameter(parameter: Parameter) -> Layout:
    kind = [] if parameter.type is None else [type_text(parameter.type)]
    default = [] if parameter.default is UNSET else [_constant(parameter.default)]
    name = name_text(parameter.name)
    return listing([name, *kind, *default]) if kind or default else name


def _constant(value: Any) -> Layout:
    """Lay out a JSON value as the default of a parameter."""
    if isinstance(value, Mapping):
        return form("dict", *[pair(_key(key), _constant(one)) for key, one in value.items()])
    if isinstance(value, list | tuple):
        return form("list", *[_constant(one) for one in value])
    return scalar_text(value)


def _key(key: str) -> str:
    return keyword_text(key) if key else '""'


TASK_LAYOUTS: Mapping[type[Node], Callable[[Any, ToLayout], Layout]] = {
    Atomic: lambda node, to_layout: form("task", *_task_pairs(node, to_layout)),
    Script: _script,
    Sequential: _sequential,
    Reduce: _reduce,
    DirectorEvaluatorLoop: _director_loop,
    Reference: _reference,
    TaskCond: _task_cond,
    Template: _template,
}
