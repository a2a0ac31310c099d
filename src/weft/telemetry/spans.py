"""Spans for OpenTelemetry. While spans are not collected, they do nothing and import nothing.

Spans are collected if the application that embeds weft, or the command line (`exporting`), has imported
`opentelemetry.trace` and set a tracer provider.
"""

import os
import sys
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from types import ModuleType, TracebackType
from typing import Any, Literal, Self

from weft.secrets.registry import redact

Kind = Literal["internal", "client"]

CONTENT_VARIABLE = "WEFT_OTEL_CONTENT"
TRACER_NAME = "weft"

SUSPENDED = "suspended, to be resumed later"
"""The message with which a task is cancelled to suspend it; such a cancellation is not a failure."""

_HAS_NAMED_PROVIDER = "OTEL_PYTHON_TRACER_PROVIDER" in os.environ
"""Whether a variable names a provider that the OpenTelemetry API loads when it is first used."""


class Span:
    """A span of work, used with `with`. One of this class is not collected: every method does nothing."""

    __slots__ = ()

    is_collected = False
    """Whether the span is collected; if not, attributes need not be computed."""

    def set(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes, except those that are None."""

    def fail(self, error_type: str) -> None:
        """Mark the span as failed, although no exception leaves the block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


_NULL_SPAN = Span()


def span(name: str, kind: Kind = "internal", attributes: Callable[[], Mapping[str, Any]] = dict) -> Span:
    """Return a child of the current span for a `with` block; it does nothing while spans are not collected.

    `attributes` is called only if spans are collected. An exception that leaves the block marks the span as
    failed, with the error type. Its message, which may quote prompts, is added only if content is shown.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is None or not _is_collected(api):
        return _NULL_SPAN
    return _CollectedSpan(api, name, kind, attributes())


def current_context() -> Context | None:
    """Return a context in which spans are children of the current span; None if spans are not collected."""
    api = sys.modules.get("opentelemetry.trace")
    return copy_context() if api is not None and _is_collected(api) else None


def is_content_shown() -> bool:
    """Return whether spans contain prompts and responses: `WEFT_OTEL_CONTENT` is 1, true or yes."""
    return os.environ.get(CONTENT_VARIABLE, "").lower() in ("1", "true", "yes")


def _is_collected(api: ModuleType) -> bool:
    """Return whether a tracer provider is set; without one the API returns a proxy."""
    if getattr(api, "_TRACER_PROVIDER", api) is None and not _HAS_NAMED_PROVIDER:
        return False  # a shortcut: a call of `get_tracer_provider` takes microseconds
    find = getattr(api, "get_tracer_provider", None)  # another thread may be importing the module
    return find is not None and type(find()).__name__ != "ProxyTracerProvider"


class _CollectedSpan(Span):
    """A span that OpenTelemetry collects."""

    __slots__ = ("_api", "_attributes", "_kind", "_name", "_span", "_token")

    is_collected = True

    def __init__(self, api: ModuleType, name: str, kind: Kind, attributes: Mapping[str, Any]) -> None:
        self._api = api
        self._name = name
        self._kind = kind
        self._attributes = attributes
        self._span: Any = None
        self._token: Any = None

    def set(self, attributes: Mapping[str, Any]) -> None:
        self._span.set_attributes(_redact_attributes(attributes))

    def fail(self, error_type: str, message: str | None = None) -> None:
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(self._api.Status(self._api.StatusCode.ERROR, message))

    def __enter__(self) -> Self:
        from opentelemetry import context  # already imported where spans are collected

        kinds = self._api.SpanKind
        self._span = self._api.get_tracer(TRACER_NAME).start_span(
            redact(self._name),
            kind=kinds.CLIENT if self._kind == "client" else kinds.INTERNAL,
            attributes=_redact_attributes(self._attributes),
        )
        self._token = context.attach(self._api.set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from opentelemetry import context

        if error is not None and not is_suspension(error):
            message = redact(str(error)) if is_content_shown() else None
            self.fail(error_type(error), message)
        context.detach(self._token)
        self._span.end()


def is_suspension(error: BaseException) -> bool:
    """Return whether the exception suspends the work, which is not a failure."""
    return getattr(error, "is_suspension", False) or (
        isinstance(error, CancelledError) and error.args == (SUSPENDED,)
    )


def error_type(error: BaseException) -> str:
    """Return the reason or resource of a task failure, the code of a weft error, or the class name."""
    failure = getattr(error, "error", None)
    for holder, name in ((failure, "reason"), (failure, "resource"), (error, "reason"), (error, "code")):
        found = getattr(holder, name, None)
        if isinstance(found, str):
            return found
    return type(error).__qualname__


def _redact_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are not None, with secrets redacted."""
    return {name: _redact_value(value) for name, value in attributes.items() if value is not None}


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    return [_redact_value(part) for part in value] if isinstance(value, list | tuple) else value
