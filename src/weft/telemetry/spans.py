"""Spans, while somebody collects them. While nobody does, a span is nothing, and nothing is imported.

Whoever collects them has imported `opentelemetry.trace` and set a tracer provider: the program that uses
weft, or the command line (`exporting`).
"""

import os
import sys
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from types import ModuleType, TracebackType
from typing import Any, Literal, Protocol, Self

from weft.secrets.registry import redact

Kind = Literal["internal", "client"]

CONTENT_VARIABLE = "WEFT_OTEL_CONTENT"
TRACER_NAME = "weft"

RESTS = "it comes to rest, and goes on later"
"""What a cancellation says that is no failure of what it ends."""

_NAMES_PROVIDER = "OTEL_PYTHON_TRACER_PROVIDER" in os.environ
"""Whether the API will load a provider by itself when it is asked for one."""


class Span(Protocol):
    """A part of the work that has a beginning and an end; used with `with`."""

    @property
    def is_collected(self) -> bool:
        """Whether somebody will see it: else there is no need to work attributes out."""
        ...

    def set(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes; those that are None are left out."""
        ...

    def fail(self, error_type: str) -> None:
        """Say that it failed, though no error leaves the block."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _Nothing:
    """The span that nobody collects."""

    __slots__ = ()

    is_collected = False

    def set(self, attributes: Mapping[str, Any]) -> None:
        return

    def fail(self, error_type: str) -> None:
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


_NOTHING = _Nothing()


def span(name: str, kind: Kind = "internal", attributes: Callable[[], Mapping[str, Any]] = dict) -> Span:
    """A span around the block, inside of the span that is current; nothing while nobody collects spans.

    The attributes are worked out only when somebody does. An error that leaves the block ends it as failed,
    by its type: messages may quote what was said.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is None or not _is_collected(api):
        return _NOTHING
    return _Collected(api, name, kind, attributes())


def current_context() -> Context | None:
    """What must be current for spans to be inside of the span that is current now; None: nobody collects."""
    api = sys.modules.get("opentelemetry.trace")
    return copy_context() if api is not None and _is_collected(api) else None


def is_content_shown() -> bool:
    """Whether what models are asked and say may be part of spans."""
    return os.environ.get(CONTENT_VARIABLE, "").lower() in ("1", "true", "yes")


def _is_collected(api: ModuleType) -> bool:
    """Whether there is a tracer provider: the API without one gives a proxy."""
    if getattr(api, "_TRACER_PROVIDER", api) is None and not _NAMES_PROVIDER:
        return False  # what `get_tracer_provider` would look at, too, but it takes microseconds
    find = getattr(api, "get_tracer_provider", None)  # it may just be being imported, in another thread
    return find is not None and type(find()).__name__ != "ProxyTracerProvider"


class _Collected:
    __slots__ = ("_api", "_attributes", "_kind", "_name", "_span", "_token")

    def __init__(self, api: ModuleType, name: str, kind: Kind, attributes: Mapping[str, Any]) -> None:
        self._api = api
        self._name = name
        self._kind = kind
        self._attributes = attributes
        self._span: Any = None
        self._token: Any = None

    @property
    def is_collected(self) -> bool:
        return True

    def set(self, attributes: Mapping[str, Any]) -> None:
        self._span.set_attributes(_shown(attributes))

    def fail(self, error_type: str, message: str | None = None) -> None:
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(self._api.Status(self._api.StatusCode.ERROR, message))

    def __enter__(self) -> Self:
        from opentelemetry import context  # whoever collects spans has imported it

        kinds = self._api.SpanKind
        self._span = self._api.get_tracer(TRACER_NAME).start_span(
            redact(self._name),
            kind=kinds.CLIENT if self._kind == "client" else kinds.INTERNAL,
            attributes=_shown(self._attributes),
        )
        self._token = context.attach(self._api.set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from opentelemetry import context

        if error is not None and not is_rest(error):
            message = redact(str(error)) if is_content_shown() else None
            self.fail(error_type(error), message)
        context.detach(self._token)
        self._span.end()


def is_rest(error: BaseException) -> bool:
    """Whether what leaves a block is no failure: the work comes to rest, and goes on later."""
    return getattr(error, "is_rest", False) or (isinstance(error, CancelledError) and error.args == (RESTS,))


def error_type(error: BaseException) -> str:
    """What kind of error it is: the reason of a failure, the code of an error of weft's, else its class."""
    failure = getattr(error, "error", None)
    for holder, name in ((failure, "reason"), (failure, "resource"), (error, "reason"), (error, "code")):
        found = getattr(holder, name, None)
        if isinstance(found, str):
            return found
    return type(error).__qualname__


def _shown(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that have a value, without secrets."""
    return {name: _value(value) for name, value in attributes.items() if value is not None}


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    return [_value(part) for part in value] if isinstance(value, list | tuple) else value
