"""What task nodes are made of besides nodes: context settings, output format, files, parameters."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

InheritContext = Literal["full", "none", "subset"]
AccumulationFormat = Literal["full_output", "notes_only"]
FreshContext = Literal["enabled", "disabled"]
FileSource = Literal["literal", "command", "description", "context_description"]

IMPLICIT_INPUT = "input"
"""What a task reads `input_source` as, and the inner task of a reduce each of its inputs."""

AtomicTaskSubtype = Literal["standard", "subtask", "director", "evaluator", "associative_matching"]
"""The subtypes of atomic tasks that the specification names. Authors may write others."""

STANDARD: AtomicTaskSubtype = "standard"
"""What an atomic task without a subtype is."""

AIDER_SUBTYPES: dict[str, Literal["automatic", "interactive"]] = {
    "aider_automatic": "automatic",
    "aider_interactive": "interactive",
}
"""Subtypes of atomic tasks that the program aider does, and how."""

BUDGETS = ("steps", "calls", "tokens", "cost")
"""What `with-budget` can bound."""


QUESTIONS = (
    *("query", "inputs", "strategy", "inherited", "previous", "limit", "rerank"),
    *("template-description", "template-type", "template-subtype"),
)
"""The keywords of `get-context`."""

STRATEGIES: tuple[Literal["content", "metadata"], ...] = ("content", "metadata")
"""Where `get-context` can look: in the text of files, or only at what they are called and about."""

MAX_PIECES = 1_000
"""How many pieces of files `get-context` can ask for."""


NO_QUESTION = "get-context needs something to look for: a :query, :inputs, :inherited or :previous"
"""What is said of a query that asks nothing."""


def question_problem(name: str, value: object) -> str | None:
    """What is wrong with the value of a keyword of `get-context`; None: nothing, or it takes any."""
    if name == "limit" and value is not None and not (type(value) is int and 1 <= value <= MAX_PIECES):
        return f":limit is a whole number from 1 to {MAX_PIECES}"
    if name == "strategy" and value not in STRATEGIES:
        known = " or ".join(f'"{one}"' for one in STRATEGIES)
        return f":strategy is {known}" + (f", not '{value}'" if isinstance(value, str) else "")
    if name == "query" and isinstance(value, str) and not value.strip():
        return ":query is blank; say what to look for"
    return None


class ContextOverrides(Struct, frozen=True):
    """The part of `context_management` that an author wrote; None: left out."""

    inherit_context: InheritContext | None = None
    accumulate_data: bool | None = None
    accumulation_format: AccumulationFormat | None = None
    fresh_context: FreshContext | None = None


class ContextManagement(Struct, frozen=True):
    """Settings in force: defaults of the operator with the author's overrides (`merged_context`)."""

    inherit_context: InheritContext
    accumulate_data: bool
    accumulation_format: AccumulationFormat
    fresh_context: FreshContext


class OutputFormat(Struct, frozen=True):
    """`output_format`. The schema is a name (`string[]`), a path of a JSON Schema file, or a JSON Schema."""

    type: Literal["json", "text"]
    schema: str | None = None
    """As written: a name, a path, or a JSON Schema as JSON text (normalised: sorted keys, no spaces)."""


class ContextAssembly(Struct, frozen=True):
    """`context_assembly`: guidance for what comes first; free text, as written."""

    primary_elements: str | None = None
    secondary_elements: str | None = None
    excluded_elements: str | None = None


class HistorySettings(Struct, frozen=True):
    """`HistoryConfigSettings` of the specification."""

    use_session_history: bool = True
    history_turns_to_include: int | None = None
    record_in_session_history: bool = True


class Parameter(Struct, frozen=True):
    """A parameter of a template."""

    name: str
    type: str | None = None
    """A shape as of `schema`; None: any value."""
    default: Any | UnsetType = UNSET
    """JSON; UNSET: the argument is required."""

    @property
    def is_required(self) -> bool:
        """Whether a call must pass it."""
        return self.default is UNSET
