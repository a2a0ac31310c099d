"""The table of task fields, from which all syntaxes, the check, call settings and documentation derive.

A new field is a row of the table here, an attribute of its node in `weft.language.ast`, and the code that
uses it. Readers, printers, the Python builder and weft.xsd have one function per `Kind`, not per field.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, TypedDict, get_args

from msgspec import NODEFAULT, Struct

from weft.language import ast
from weft.language.diagnostics import LanguageProblem
from weft.language.source import Span
from weft.language.task_fields import (
    AccumulationFormat,
    ContextAssembly,
    ContextManagement,
    ContextOverrides,
    FreshContext,
    HistorySettings,
    InheritContext,
    OutputFormat,
)

# fmt: off
Kind = Literal[
    "text", "string", "name", "names", "boolean", "count", "seconds", "choice", "shape",
    "settings", "output", "inputs", "relevance", "files",
    "argv", "shell", "steps", "value", "task", "script", "condition",
]
# fmt: on
"""How the value of a field is written; `text` has placeholders, `string` has none."""


class Field(Struct, frozen=True):
    """A field of a task, or of the settings inside one."""

    name: str
    """The attribute of the node."""
    kind: Kind
    doc: str
    keyword: str
    """The keyword in S-expressions; with `_` for `-` the option in Python."""
    tag: str
    """The element or attribute in XML."""
    xml: Literal["element", "attribute", "both"] = "element"
    choices: Mapping[str, str] | None = None
    """For `choice`: the words, each with the value that it stands for."""
    settings: type[Struct] | None = None
    """For `settings` and `output`: the struct, whose fields are in SETTINGS."""

    @property
    def option(self) -> str:
        """Return the keyword argument of the Python builder."""
        return self.keyword.replace("-", "_")

    @property
    def words(self) -> tuple[str, ...]:
        """Return the values of a choice, without the other words for them."""
        return tuple(dict.fromkeys((self.choices or {}).values()))


def _field(
    name: str, kind: Kind, doc: str, keyword: str | None = None, tag: str | None = None, **more: Any
) -> Field:
    return Field(name, kind, doc, keyword or name.replace("_", "-"), tag or name, **more)


def _choice(
    name: str, words: object, doc: str, keyword: str | None = None, also: Mapping[str, str] | None = None
) -> Field:
    choices = {word: word for word in get_args(words)} | dict(also or {})
    return _field(name, "choice", doc, keyword, choices=choices)


def _history(name: str, kind: Kind, doc: str, word: str) -> Field:
    return _field(name, kind, doc, word, word, xml="attribute")


SETTINGS: Final[Mapping[type[Struct], tuple[Field, ...]]] = {
    OutputFormat: (
        _choice("type", Literal["json", "text"], "How the response is read; json is parsed.", "output"),
        _field("schema", "shape", "A name of a shape, the path of a JSON Schema file, or a JSON Schema."),
    ),
    ContextOverrides: (
        _choice("inherit_context", InheritContext, "What is inherited of the parent's context.", "inherit"),
        _field("accumulate_data", "boolean", "Whether a step sees earlier outputs.", "accumulate"),
        _choice(
            "accumulation_format",
            AccumulationFormat,
            "Whole outputs, or notes only; full is full_output, minimal is notes_only.",
            "format",
            {"full": "full_output", "minimal": "notes_only"},
        ),
        _choice("fresh_context", FreshContext, "Whether context is fetched from memory.", "fresh"),
    ),
    ContextAssembly: (
        _field("primary_elements", "string", "What comes first.", "primary"),
        _field("secondary_elements", "string", "What comes after.", "secondary"),
        _field("excluded_elements", "string", "What is left out.", "excluded"),
    ),
    HistorySettings: (
        _history("use_session_history", "boolean", "Whether earlier turns are sent; true by default.", "use"),
        _history("history_turns_to_include", "count", "How many turns at most.", "turns"),
        _history(
            "record_in_session_history", "boolean", "Whether the turn is recorded; true by default.", "record"
        ),
    ),
}
"""The fields of settings; a setting that is left out has its default."""

TASK_FIELDS: Final = (
    _field("description", "text", "What the task is for; the prompt if there are no instructions."),
    _field("instructions", "text", "The prompt, with placeholders such as {{name}} or {{answer.items[0]}}."),
    _field("system", "text", "The system prompt, with placeholders."),
    _field("model", "string", "The model: provider:name, or an alias of the settings."),
    _field("provider", "string", "Replaces the provider part of the model."),
    _field("criteria", "string", "Criteria by which an evaluator is chosen if a loop names none."),
    _field("subtype", "string", "Refines the type: director, evaluator ...", xml="attribute"),
    _field("output_format", "output", "The format of the response and its shape.", settings=OutputFormat),
    _field("inputs", "inputs", "The inputs of the task, by name."),
    _field("output_slot", "name", "The name that the result is bound to, for later steps."),
    _field("input_source", "name", "The name of the value that the task sees as input."),
    _field(
        "context",
        "settings",
        "What is inherited, accumulated and fetched; what is left out has its default.",
        tag="context_management",
        settings=ContextOverrides,
    ),
    _field("context_relevance", "relevance", "Which inputs belong to the context.", "relevance"),
    _field(
        "context_assembly",
        "settings",
        "What comes first in the context.",
        "assembly",
        settings=ContextAssembly,
    ),
    _field("file_paths", "files", "Which files belong to the context.", "files"),
    _field("history", "settings", "How the session's history is used.", settings=HistorySettings),
    _field("tools", "names", "The tools that the model may call, such as system:read_files."),
    _field("timeout_seconds", "seconds", "The time limit in seconds.", "timeout", "timeout", xml="both"),
    _field(
        "max_depth", "count", "How deep subtasks of the task, or of the tasks inside, may nest.", xml="both"
    ),
    _field("reuse", "boolean", "false: never use the result of an equal, completed task.", xml="both"),
    _field("manual_xml", "boolean", "true: the texts of the task in XML keep all white space."),
    _field("disable_reparsing", "boolean", "true: a response in a wrong format is not requested again."),
)
"""The fields of every kind of task, in the order in which they are printed."""


class TaskOptions(TypedDict, total=False):
    """Keyword arguments of all builders of tasks: the options of TASK_FIELDS, for type checkers."""

    description: str | ast.Text
    instructions: str | ast.Text
    system: str | ast.Text
    subtype: str
    model: str
    provider: str
    criteria: str
    inputs: Mapping[str, Any]
    """Values by name; `...` stands for an input that the caller passes."""
    output: Literal["json", "text"]
    schema: Any
    """A name, a path, a JSON Schema as a dict or text, or a Python type."""
    output_slot: str
    input_source: str
    context: Mapping[str, Any]
    """`inherit`, `accumulate`, `format`, `fresh`."""
    relevance: Mapping[str, bool]
    assembly: Mapping[str, str]
    """`primary`, `secondary`, `excluded`."""
    files: Sequence[str | Mapping[str, str | bool]] | Mapping[str, str]
    """A list of paths, or a dict with `command`, `description` or `context_description`."""
    history: Mapping[str, Any]
    """`use`, `turns`, `record`."""
    tools: Sequence[str]
    timeout: float
    """In seconds."""
    max_depth: int
    reuse: bool
    manual_xml: bool
    disable_reparsing: bool


ContextKind = Literal["atomic", "sequential", "script", "reduce", "director_evaluator_loop", "subtask"]
"""The kinds of task with default settings; `subtask` is an atomic task that another task spawned."""


class TaskKind(Struct, frozen=True):
    """A kind of task: its names, and the fields that only it has."""

    name: ContextKind
    """The `type` in XML."""
    form: str
    """The form in S-expressions."""
    fields: tuple[Field, ...] = ()


TASK_KINDS: Final[Mapping[type[ast.TaskNode], TaskKind]] = {
    ast.Atomic: TaskKind("atomic", "task"),
    ast.Sequential: TaskKind(
        "sequential",
        "sequential",
        (
            _field("steps", "steps", "The steps in order."),
            _field(
                "is_parallel",
                "boolean",
                "true: the steps run concurrently and do not use each other's outputs.",
                "parallel",
                "parallel",
                xml="both",
            ),
        ),
    ),
    ast.Reduce: TaskKind(
        "reduce",
        "reduce-task",
        (
            _field("initial_value", "value", "The start of the fold; null by default.", "initial"),
            _field("inner_task", "task", "Runs for every input, which it sees as input.", "inner"),
            _field(
                "reduction_task",
                "task",
                "Folds the results; sees current_result, accumulator and original_input.",
                "reduction",
            ),
        ),
    ),
    ast.Script: TaskKind(
        "script",
        "script",
        (
            _field("argv", "argv", "The command that is run.", tag="command"),
            _field("shell", "shell", "The command that a shell runs.", tag="command"),
        ),
    ),
    ast.DirectorEvaluatorLoop: TaskKind(
        "director_evaluator_loop",
        "director-evaluator-loop",
        (
            _field("max_iterations", "count", "The most iterations; 5 by default.", xml="both"),
            _field(
                "director",
                "task",
                "Sees user_query, evaluation_feedback, current_iteration and max_iterations.",
            ),
            _field("script", "script", "A script between director and evaluator.", tag="script_execution"),
            _field(
                "evaluator",
                "task",
                "Sees director_result and the script's output; its JSON has success and feedback.",
            ),
            _field("termination_condition", "condition", "Ends the loop if it is true.", "condition"),
        ),
    ),
}
"""The kinds of task. A Reference is not among them: its template decides."""

REF: Final = _field("ref", "string", "The name of a template in the task library.", xml="attribute")
RETURNS: Final = _field("returns", "shape", "The shape of the result.", xml="both")

REQUEST_FIELDS: Final = ("system", "file_paths", "history", "tools")
"""Fields of the request to a model: only atomic tasks have them."""

CALL_SETTINGS: Final = {
    field.keyword: field
    for field in TASK_FIELDS
    if field.name in ("file_paths", "context", "history", "model")
}
"""Keywords that set task fields in a call; a parameter of the same name takes precedence."""

_OF_REFERENCE: Final = frozenset({"inputs", "output_slot", "input_source"})
"""Fields of a reference itself; all others replace those of the template."""


def by_keyword(fields: Iterable[Field]) -> dict[str, Field]:
    """Return the fields by keyword; the parts of an output format have keywords of their own."""
    flat = (SETTINGS[OutputFormat] if field.kind == "output" else (field,) for field in fields)
    return {field.keyword: field for group in flat for field in group}


def join_output_format(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of fields by name, with the parts of an output format joined to one field."""
    kind, schema = values.pop("type", None), values.pop("schema", None)
    if kind is not None or schema is not None:
        values["output_format"] = OutputFormat(kind or "json", schema)
    return values


@cache
def defaults_of(kind: type[Struct]) -> Mapping[str, Any]:
    """Return the default of each field of a struct, NODEFAULT for a required one."""
    # `msgspec.structs.fields` would resolve annotations, and some exist only for type checkers.
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    return dict(zip(names, (NODEFAULT,) * (len(names) - len(defaults)) + defaults, strict=True))


def set_fields(node: Struct, fields: Iterable[Field]) -> Iterator[tuple[Field, Any]]:
    """Yield the fields of a node or of settings that differ from their defaults, with their values."""
    defaults = defaults_of(type(node))
    for field in fields:
        value = getattr(node, field.name)
        if value != defaults[field.name]:
            yield field, value


def replaced_fields(node: ast.Reference) -> dict[str, Any]:
    """Return the fields of a reference that replace those of its template."""
    found = {field.name: value for field, value in set_fields(node, TASK_FIELDS)}
    return {name: value for name, value in found.items() if name not in _OF_REFERENCE}


def misplaced(node: ast.Node, names: Iterable[str]) -> str | None:
    """Describe those of the named fields that this kind of task cannot have; None: all fit."""
    found = [name for name in names if name in REQUEST_FIELDS]
    if (
        not found
        or isinstance(node, ast.Atomic)
        or not isinstance(node, ast.TaskNode)
        or type(node) not in TASK_KINDS
    ):
        return None
    verb, them = ("is", "it") if len(found) == 1 else ("are", "them")
    where = "" if isinstance(node, ast.Script) else f"; write {them} on the tasks inside"
    return (
        f"{', '.join(found)} {verb} for atomic tasks, and this is a {TASK_KINDS[type(node)].name} task{where}"
    )


_TEXTS: Final = tuple(field.name for field in TASK_FIELDS if field.kind == "text")


def texts_of(node: ast.TaskNode) -> list[ast.Text]:
    """Return the texts of a task that may have placeholders."""
    files = node.file_paths
    found = [getattr(node, name) for name in _TEXTS]
    if files is not None:
        found += [files.text, *files.paths]
    if isinstance(node, ast.Script):
        found += [node.shell, *node.argv]
    return [text for text in found if text is not None]


DEFAULTS: Final[Mapping[ContextKind, ContextManagement]] = {
    "atomic": ContextManagement("full", False, "notes_only", "disabled"),
    "sequential": ContextManagement("full", True, "notes_only", "disabled"),
    "script": ContextManagement("full", False, "notes_only", "disabled"),
    "reduce": ContextManagement("none", True, "notes_only", "enabled"),
    "director_evaluator_loop": ContextManagement("none", True, "notes_only", "enabled"),
    "subtask": ContextManagement("none", False, "notes_only", "enabled"),
}


def merge_context(kind: ContextKind, overrides: ContextOverrides) -> ContextManagement:
    """Return the defaults of the kind with the overrides, which must not conflict."""
    defaults = DEFAULTS[kind]
    inherit = overrides.inherit_context or defaults.inherit_context
    fresh = overrides.fresh_context or defaults.fresh_context
    if fresh == "enabled" and inherit != "none":  # a default that conflicts with an override gives way
        if overrides.inherit_context is None:
            inherit = "none"
        else:
            fresh = "disabled"
    accumulate = overrides.accumulate_data
    return ContextManagement(
        inherit_context=inherit,
        accumulate_data=defaults.accumulate_data if accumulate is None else accumulate,
        accumulation_format=overrides.accumulation_format or defaults.accumulation_format,
        fresh_context=fresh,
    )


def context_conflict(overrides: ContextOverrides, span: Span) -> LanguageProblem | None:
    """Return the problem of settings that exclude each other, or None.

    Only two explicit settings can conflict: the default of an omitted one adapts to the other.
    """
    inherit = overrides.inherit_context
    if overrides.fresh_context != "enabled" or inherit is None or inherit == "none":
        return None
    message = (
        f'fresh_context "enabled" excludes inherit_context "{inherit}": a task that fetches fresh context '
        'inherits none; write inherit_context "none", or fresh_context "disabled"'
    )
    return LanguageProblem(span, "context-conflict", message)
