"""Fields of task nodes that are not nodes: context settings, output format, history, parameters."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

InheritContext = Literal["full", "none", "subset"]
AccumulationFormat = Literal["full_output", "notes_only"]
FreshContext = Literal["enabled", "disabled"]
FileSource = Literal["literal", "command", "description", "context_description"]

IMPLICIT_INPUT = "input"
"""The name under which a task sees `input_source`, and the inner task of a reduce the current input."""

AtomicTaskSubtype = Literal["standard", "subtask", "director", "evaluator", "associative_matching"]
"""The subtypes of atomic tasks that the specification names. Authors may write others."""

STANDARD: AtomicTaskSubtype = "standard"
"""The subtype of an atomic task that names no subtype."""

AIDER_SUBTYPES: dict[str, Literal["automatic", "interactive"]] = {
    "aider_automatic": "automatic",
    "aider_interactive": "interactive",
}
"""Subtypes of atomic tasks that aider performs, with the mode in which it runs."""

BUDGETS = ("steps", "calls", "tokens", "cost")
"""The limits that `with-budget` accepts."""


QUESTIONS = (
    *("query", "inputs", "strategy", "inherited", "previous", "limit", "rerank"),
    *("template-description", "template-type", "template-subtype"),
)
"""The keywords of `get-context`."""

STRATEGIES: tuple[Literal["content", "metadata"], ...] = ("content", "metadata")
"""What `get-context` searches: the text of files, or only their names and descriptions."""

MAX_PIECES = 1_000
"""The largest `:limit` of `get-context`, which counts pieces of files."""


NO_CONTEXT_QUERY = "get-context needs something to look for: a :query, :inputs, :inherited or :previous"
"""The error message for a `get-context` without keywords."""


def validate_context_keyword(name: str, value: object) -> str | None:
    """Return the error message for an invalid value of a `get-context` keyword, or None if it is valid."""
    if name == "limit" and value is not None and not (type(value) is int and 1 <= value <= MAX_PIECES):
        return f":limit is a whole number from 1 to {MAX_PIECES}"
    if name == "strategy" and value not in STRATEGIES:
        known = " or ".join(f'"{one}"' for one in STRATEGIES)
        return f":strategy is {known}" + (f", not '{value}'" if isinstance(value, str) else "")
    if name == "query" and isinstance(value, str) and not value.strip():
        return ":query is blank; say what to look for"
    return None


class ContextOverrides(Struct, frozen=True):
    """The explicit settings of `context_management`; None: omitted."""

    inherit_context: InheritContext | None = None
    accumulate_data: bool | None = None
    accumulation_format: AccumulationFormat | None = None
    fresh_context: FreshContext | None = None


class ContextManagement(Struct, frozen=True):
    """The effective settings: defaults of the task kind with the author's overrides (`merge_context`)."""

    inherit_context: InheritContext
    accumulate_data: bool
    accumulation_format: AccumulationFormat
    fresh_context: FreshContext


class OutputFormat(Struct, frozen=True):
    """`output_format`. The schema is a name (`string[]`), a path of a JSON Schema file, or a JSON Schema."""

    type: Literal["json", "text"]
    schema: str | None = None
    """A name, a path, or the text of a JSON Schema (stored without spaces)."""


class ContextAssembly(Struct, frozen=True):
    """`context_assembly`: free text that guides which elements of the context come first."""

    primary_elements: str | None = None
    secondary_elements: str | None = None
    excluded_elements: str | None = None


class HistorySettings(Struct, frozen=True):
    """How a task uses the session's history (`HistoryConfigSettings` of the specification)."""

    use_session_history: bool = True
    history_turns_to_include: int | None = None
    """How many of the last turns; None: all."""
    record_in_session_history: bool = True


class Parameter(Struct, frozen=True):
    """A parameter of a template."""

    name: str
    type: str | None = None
    """A shape, written like `schema`; None: any value."""
    default: Any | UnsetType = UNSET
    """A JSON value; UNSET: the argument is required."""

    @property
    def is_required(self) -> bool:
        return self.default is UNSET
