"""TaskResult, the TaskError union, DataContext and matches, named as in the specification."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

ReturnStatus = Literal["COMPLETE", "CONTINUATION", "FAILED"]

TaskFailureReason = Literal[
    "context_retrieval_failure",
    "context_matching_failure",
    "context_parsing_failure",
    "xml_validation_failure",
    "output_format_failure",
    "execution_timeout",
    "execution_halted",
    "subtask_failure",
    "input_validation_failure",
    "template_not_found",
    "tool_execution_error",
    "llm_error",
    "dependency_error",
    "connection_error",
    "protocol_error",
    "configuration_error",
    "unexpected_error",
]
FAILURE_REASONS: tuple[str, ...] = get_args(TaskFailureReason)


class ResourceExhaustion(
    Struct, frozen=True, tag="RESOURCE_EXHAUSTION", tag_field="type", omit_defaults=True
):
    """A budget or context window is used up."""

    resource: str
    """turns, context, output (specification); steps, calls, depth, size, tokens, cost, subtasks (weft)."""
    message: str
    metrics: dict[str, float] | None = None
    content: str | None = None
    notes: dict[str, Any] | None = None
    """The usage so far, if a model was called."""


class TaskFailure(Struct, frozen=True, tag="TASK_FAILURE", tag_field="type", omit_defaults=True):
    """A task could not do its work."""

    reason: TaskFailureReason
    message: str
    content: str | None = None
    notes: dict[str, Any] | None = None
    details: dict[str, Any] | None = None
    """`TaskFailureDetails`: failing_expression, script_stdout, failedStep, totalSteps, partialResults ..."""


def is_unavailable(error: Mapping[str, Any]) -> bool:
    """Return whether a task or its subtask failed because a model or the network was unavailable.

    A later retry may then succeed. `error` is a TaskError as JSON.
    """
    details = error.get("details")
    while isinstance(details, Mapping):
        if details.get("is_transient") is True:
            return True
        inner = details.get("subtaskError")
        details = inner.get("details") if isinstance(inner, Mapping) else None
    return False


class InvalidOutput(Struct, frozen=True, tag="INVALID_OUTPUT", tag_field="type", omit_defaults=True):
    """A result does not match the return type of its template."""

    message: str
    content: str | None = None
    violations: list[str] | None = None


class ValidationFailure(Struct, frozen=True, tag="VALIDATION_ERROR", tag_field="type", omit_defaults=True):
    """A program, template or argument is invalid."""

    message: str
    path: str | None = None
    invalid_model: bool | None = field(default=None, name="invalidModel")
    content: str | None = None


class XmlParseFailure(Struct, frozen=True, tag="XML_PARSE_ERROR", tag_field="type", omit_defaults=True):
    """A text is not well-formed XML."""

    message: str
    location: str | None = None
    content: str | None = None


TaskError = ResourceExhaustion | TaskFailure | InvalidOutput | ValidationFailure | XmlParseFailure


class TaskResult(Struct, frozen=True, omit_defaults=True):
    """The result of a task; snake_case here, the specification's names in JSON."""

    content: str
    status: ReturnStatus
    criteria: str | None = None
    parsed_content: Any | UnsetType = field(default=UNSET, name="parsedContent")
    notes: dict[str, Any] = field(default_factory=dict)
    """Free-form; `error` holds the TaskError of a failed task, as JSON."""

    @property
    def value(self) -> Any:
        """Return the parsed content, else the content."""
        return self.content if self.parsed_content is UNSET else self.parsed_content

    def with_notes(self, **notes: Any) -> "TaskResult":
        return msgspec.structs.replace(self, notes={**self.notes, **notes})


class ValueResult(TaskResult, frozen=True, omit_defaults=True):
    """The result of a template with a plain value as its body; the call returns the value itself.

    A type instead of a note, because the response of a model may contain any notes.
    """


def error_of(result: TaskResult) -> TaskError:
    """Return the error of a failed result: `notes.error`, else one made from its content."""
    try:
        error: TaskError = msgspec.convert(result.notes.get("error"), TaskError)
    except msgspec.ValidationError:
        message = result.content or "the task failed without a message"
        return TaskFailure("unexpected_error", message, content=result.content, notes=result.notes or None)
    return error


class MatchItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item of context: a file, a match of memory, a binding, the output of an earlier step."""

    id: str
    content: str
    content_type: str
    relevance_score: float = 1.0
    source_path: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class DataContext(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Context that was found for a task, and when."""

    retrieved_at: datetime | None = None
    source_query: str | None = None
    items: tuple[MatchItem, ...] = ()
    overall_summary: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class AssociativeMatchResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a memory query."""

    context_summary: str
    matches: tuple[MatchItem, ...] = ()
    """The most relevant first."""
    error: str | None = None
    """Why the result is empty or incomplete."""
