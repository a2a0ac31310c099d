"""Errors of an evaluation, and TaskError as XML."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from weft.errors import EXIT_UNAVAILABLE, AuthorError
from weft.evaluator.results import (
    ResourceExhaustion,
    TaskError,
    TaskFailure,
    TaskResult,
    ValidationFailure,
    XmlParseFailure,
    is_unavailable,
)
from weft.language.diagnostics import MAX_SHOWN, InvalidProgram, LanguageProblem
from weft.language.source import NOWHERE, Span
from weft.secrets.registry import redact_struct

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree.ElementTree import Element

_ORDER = ("resource", "reason", "message", "path", "invalidModel", "location", "metrics", "details")
"""Fields in the order of the schema; `violations`, `content` and `notes` follow."""

_INVALID_IN_XML = "[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""Matches characters that XML does not allow; compiled on first use, as that takes milliseconds."""


def error_xml(error: TaskError) -> str:
    """Return the error as an XML document that is valid by `error_schema`."""
    # Imported here: slow to import, and few failures are written as XML.
    from xml.etree import ElementTree as ET

    fields: dict[str, Any] = msgspec.to_builtins(error)
    root = ET.Element("task_error")
    parent = ET.SubElement(root, fields.pop("type").lower())
    for name in (*_ORDER, "violations", "content", "notes"):
        if fields.get(name) is not None:
            _add(ET.SubElement, parent, name, fields[name])
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")


def error_schema() -> str:
    return Path(__file__).with_name("task_error.xsd").read_text(encoding="utf-8")


def _add(new: "Callable[..., Element]", parent: "Element", name: str, value: Any) -> None:
    if isinstance(value, list):
        for one in value:
            new(parent, "violation").text = _text(str(one))
        return
    element = new(parent, "invalid_model" if name == "invalidModel" else name)
    if not isinstance(value, dict):
        element.text = _text(value if isinstance(value, str) else json.dumps(value))
        return
    for key, fact in value.items():
        is_text = isinstance(fact, str)
        one = new(element, "fact", {"name": _text(key), "type": "text" if is_text else "json"})
        one.text = _text(fact if is_text else json.dumps(fact, ensure_ascii=False))


def _text(value: str) -> str:
    return re.sub(_INVALID_IN_XML, "\ufffd", value)


class TaskFailed(AuthorError):
    """A task failed, or an expression failed at run time. `try` catches it as a FAILED TaskResult."""

    code = "task-failed"
    exit_code = 1

    def __init__(self, error: TaskError, *, span: Span = NOWHERE, code: str = "task-failed") -> None:
        # All failures pass through here on the way to `catch`, records and people: secrets are removed here.
        error = redact_struct(error)
        self.problem = LanguageProblem(span, code, error.message)
        super().__init__(error.message if span is NOWHERE else self.problem.excerpt())
        self.error = error
        if isinstance(error, TaskFailure) and is_unavailable({"details": error.details}):
            self.exit_code = EXIT_UNAVAILABLE
        self.span = span
        self.step_key: str | None = None
        """The step that failed or was rejected; None if the failure has no step."""
        self.is_timing_dependent = False
        """Whether it cancelled concurrent branches, so that another error might come first on replay."""

    def caused_by(self, cause: "TaskFailed") -> Self:
        """Copy `step_key` and `is_timing_dependent` of the cause, and return this error."""
        self.step_key, self.is_timing_dependent = cause.step_key, cause.is_timing_dependent
        return self

    def result(self) -> TaskResult:
        """Return the failed result that `catch` receives."""
        error: dict[str, Any] = msgspec.to_builtins(self.error)
        notes = {**(error.get("notes") or {}), "error": error}
        return TaskResult(content=self.error.content or "", status="FAILED", notes=notes)

    def as_xml(self) -> str:
        """Return the TaskError as XML by the specification; `weft schema task-error` prints the schema."""
        return error_xml(self.error)

    def problems(self) -> list[dict[str, Any]]:
        return [] if self.span is NOWHERE else [self.problem.as_json()]

    def at(self, span: Span, expression: str | None = None, **facts: Any) -> Self:
        """Return a copy of the error with the location, the failed expression if it is known, and details."""
        error = self.error
        if isinstance(error, TaskFailure):
            details = {"code": self.problem.code, "failing_expression": expression, "place": str(span)}
            if expression is None:
                del details["failing_expression"]
            details |= facts
            error = msgspec.structs.replace(error, details={**details, **(error.details or {})})
        return self._with(error, span)

    @property
    def lacks_expression(self) -> bool:
        """Return whether the error has a location and details, but no failing expression among them."""
        details = getattr(self.error, "details", None) or {"failing_expression": None}
        return self.span is not NOWHERE and "failing_expression" not in details

    def with_expression(self, expression: str) -> Self:
        details = {**(getattr(self.error, "details", None) or {}), "failing_expression": expression}
        return self._with(msgspec.structs.replace(self.error, details=details), self.span)

    def _with(self, error: TaskError, span: Span) -> Self:
        return type(self)(error, span=span, code=self.problem.code).caused_by(self)

    def with_details(self, **facts: Any) -> Self:
        """Return a copy of the error with further details; existing details are kept.

        Only a TASK_FAILURE has details. An exceeded budget is returned unchanged.
        """
        error = self.error
        if not isinstance(error, TaskFailure) or isinstance(self, BudgetExceeded):
            return self
        details = {**facts, **(error.details or {})}
        return self._with(msgspec.structs.replace(error, details=details), self.span)


def program_failure(error: InvalidProgram) -> TaskError:
    """Return the TaskError of a program that cannot be evaluated."""
    first = error.found[0]
    location = None if first.span is NOWHERE else str(first.span)
    if error.xml_fault == "malformed":
        return XmlParseFailure(first.message, location=location)
    more = f" (and {len(error.found) - 1} more)" if len(error.found) > 1 else ""
    message = f"{first.message}{more}"
    if error.xml_fault == "invalid":
        violations = [str(problem) for problem in error.found[:MAX_SHOWN]]
        return TaskFailure("xml_validation_failure", message, details={"violations": violations})
    return ValidationFailure(message, path=location, invalid_model=first.code == "unknown-model" or None)


class EvaluationAborted(Exception):
    """The whole evaluation must end: tools must not handle the error, and models do not see it."""


class ProgramError(TaskFailed):
    """The program failed at run time: unbound name, wrong arity, wrong type or bad value."""

    code = "program-error"


class BudgetExceeded(TaskFailed):
    """A budget is used up. A `try` inside the scope of the budget does not catch it."""

    code = "budget-exceeded"
    scope: Any = None
    """The scope of the budget."""
    is_in_pure_code = False
    """Whether a time limit was reached in pure code, not while an effect was running."""

    def _with(self, error: TaskError, span: Span) -> Self:
        located = super()._with(error, span)
        located.scope, located.is_in_pure_code = self.scope, self.is_in_pure_code
        return located


def program_error(code: str, message: str) -> ProgramError:
    """Return an error of the program; the caller adds the location."""
    return ProgramError(TaskFailure(reason="input_validation_failure", message=message), code=code)


def exhausted(resource: str, message: str, **metrics: float) -> ProgramError:
    """Return the error for a reached limit of size or depth. Unlike a budget, any `try` catches it."""
    error = ResourceExhaustion(resource=resource, message=message, metrics=metrics or None)
    return ProgramError(error, code=f"{resource}-exhausted")
