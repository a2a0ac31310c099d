"""Converts exceptions of provider clients to ModelError. Imports pydantic-ai, so import it lazily."""

from typing import Any

import httpx2
from pydantic_ai import exceptions as theirs

from weft.evaluator.results import TaskFailureReason
from weft.llm.errors import ContextTooLong, InvalidModel, ModelError
from weft.llm.providers.access import Access
from weft.llm.providers.client import Redactor
from weft.llm.providers.response_limits import MOST_BYTES, ResponseCapture

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
"""HTTP statuses below 500 that are transient; those from 500 on all are."""

_CUT_MESSAGE = "Streamed response ended without"
"""pydantic-ai's message for a stream that was cut between two events."""

_MALFORMED = (theirs.UnexpectedModelBehavior, ValueError, LookupError, TypeError, AttributeError)
"""Exceptions of clients for malformed responses: no choices, no content, a field of the wrong type."""


class Failures:
    """Converts the exceptions of one model to ModelError, with messages that contain no key."""

    def __init__(self, model: str, access: Access, redactor: Redactor) -> None:
        self._model = model
        self._access = access
        self._redactor = redactor

    def error(self, exception: Exception, partial_text: str | None, capture: ResponseCapture) -> ModelError:
        """Return the ModelError for an exception of a request; `partial_text` was received before it."""
        if isinstance(exception, ModelError):
            return exception
        if capture.is_too_large:
            return self._too_large(partial_text, capture)
        if capture.is_redirect:
            return self._redirected(capture)
        if any(isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout) for cause in _chain(exception)):
            return self._connection_failed(exception, partial_text)  # a timeout before anything was sent
        if isinstance(exception, theirs.ModelAPIError):
            return self._provider_error(exception, partial_text, capture)
        if isinstance(exception, httpx2.TimeoutException | TimeoutError):
            return self._timed_out(partial_text, capture)
        if isinstance(exception, httpx2.DecodingError):
            return self._invalid_response(partial_text, capture)
        if isinstance(exception, httpx2.TransportError | ConnectionError):
            return self._connection_failed(exception, partial_text)
        if isinstance(exception, theirs.UserError):
            return self._error("configuration_error", exception.message)
        if isinstance(exception, theirs.ContentFilterError):
            return self._error("llm_error", f"refused by a content filter: {exception.message}")
        if isinstance(exception, _MALFORMED):
            return self._invalid_response(partial_text, capture)
        return self._error("unexpected_error", f"{type(exception).__name__} during the request")

    def empty_response(self) -> ModelError:
        return self._error(
            "protocol_error", "the response is empty: no text and no tool call", is_transient=True
        )

    def _provider_error(
        self, exception: theirs.ModelAPIError, partial: str | None, capture: ResponseCapture
    ) -> ModelError:
        match exception:
            case theirs.ModelTimeoutError() | theirs.ModelRequestTimeout():
                return self._timed_out(partial, capture)
            case theirs.ModelConnectionError():
                return self._connection_failed(exception, partial)
            case theirs.ModelContextWindowExceededError():
                text = (
                    f"{self._model}: the request exceeds the context window: {_provider_message(exception)}"
                )
                return ContextTooLong("llm_error", self._redactor.message(text))
            case theirs.ModelQuotaExceededError():
                return self._refused("llm_error", exception, "the quota of the account is used up")
            case theirs.ModelAuthenticationError():
                variable = self._access.key_variable
                what = f"the key in {variable} is not accepted" if variable else "the server requires a key"
                return self._refused("configuration_error", exception, what)
            case theirs.ModelNotFoundError():
                suggested = getattr(exception, "suggested_model_id", None)
                what = f"unknown model{f'; did you mean {suggested!r}?' if suggested else ''}"
                refused = self._refused("configuration_error", exception, what)
                return InvalidModel(refused.reason, refused.message)
            case theirs.ModelHTTPError(status_code=status) if status >= 500 or status in _TRANSIENT_STATUSES:
                wait = exception.retry_after
                return self._error(
                    "llm_error",
                    f"status {status}: {_provider_message(exception)}",
                    is_transient=True,
                    retry_after_seconds=None if wait is None else max(0.0, wait),
                    partial_text=partial,
                )
            case theirs.ModelHTTPError():
                return self._refused("llm_error", exception, "refused")
        if exception.message.startswith(_CUT_MESSAGE):
            return self._cut(partial)
        if exception.in_stream:
            message = _provider_message(exception)
            return self._error("llm_error", message, is_transient=True, partial_text=partial)
        return self._invalid_response(partial, capture)

    def _refused(self, reason: TaskFailureReason, exception: theirs.ModelAPIError, what: str) -> ModelError:
        status = getattr(exception, "status_code", None)
        shown = f" (status {status})" if status else ""
        return self._error(reason, f"{what}{shown}: {_provider_message(exception)}", status=status)

    def _timed_out(self, partial: str | None, capture: ResponseCapture) -> ModelError:
        seconds = f"{self._access.settings.timeout_seconds:g} seconds"
        what = f"no response for {seconds}"
        if partial:
            what = f"the response stalled for {seconds}"
        elif capture.size:
            what = f"{what}: {capture.size:,} bytes arrived, but no complete response"
        return self._error("connection_error", what, is_transient=True, partial_text=partial)

    def _too_large(self, partial: str | None, capture: ResponseCapture) -> ModelError:
        what = f"the response is longer than {MOST_BYTES // 1024**2} MiB, more than a model ever sends"
        if capture.size <= MOST_BYTES:
            what = f"the response has no end of an event in its last {capture.event_bytes:,} bytes"
        return self._error("protocol_error", what, partial_text=partial)

    def _redirected(self, capture: ResponseCapture) -> ModelError:
        return self._error(
            "protocol_error",
            f"status {capture.status}: it redirects to {capture.target}, which is not followed; "
            "set base_url to the address of the provider, or check whether the network requires a login",
            is_charged=False,
        )

    def _cut(self, partial: str | None) -> ModelError:
        return self._error(
            "connection_error", "the response was cut off", is_transient=True, partial_text=partial
        )

    def _connection_failed(self, exception: Exception, partial: str | None) -> ModelError:
        """Return the error of a connection that failed, or was cut after it was established."""
        names = {type(cause).__name__ for cause in _chain(exception)}
        if names & {"RemoteProtocolError", "ReadError", "IncompleteRead", "ConnectionResetError"}:
            return self._cut(partial)
        where = f" at {self._access.base_url}" if self._access.base_url else ""
        return self._error(
            "connection_error", f"cannot be reached{where}", is_transient=True, is_charged=False
        )

    def _invalid_response(self, partial: str | None, capture: ResponseCapture) -> ModelError:
        return self._error(
            "protocol_error",
            f"the response is not from a model API: {self._describe(capture)}",
            is_transient=True,
            partial_text=partial,
        )

    def _describe(self, capture: ResponseCapture) -> str:
        """Describe a response so that a reader sees what sent it, such as a login page or a gateway."""
        kind = capture.content_type.partition(";")[0].strip() or "no content type"
        status = f"status {capture.status}, {kind}"
        if not capture.size:
            return f"{status}, empty"
        beginning = self._redactor.beginning(capture.beginning)
        return f"{status}, {capture.size:,} bytes that begin with '{beginning}'"

    def _error(self, reason: TaskFailureReason, text: str, **facts: Any) -> ModelError:
        if facts.get("partial_text") is not None:
            facts["partial_text"] = self._redactor.clean(facts["partial_text"]) or None
        return ModelError(reason, self._redactor.message(f"{self._model}: {text}"), **facts)


def _provider_message(exception: theirs.ModelAPIError) -> str:
    """Return the error message in the provider's response, or "no reason given"."""
    body = exception.body
    for _ in range(2):
        if isinstance(body, dict):
            body = body.get("error", body.get("message", body))
    if isinstance(body, dict):
        body = body.get("message")
    if isinstance(body, str) and body.strip() and not body.lstrip().startswith("<"):
        return body
    return "no reason given"


def _chain(exception: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while exception is not None and len(found) < 10:
        found.append(exception)
        exception = exception.__cause__ or exception.__context__
    return found


def detached(error: ModelError) -> ModelError:
    """Remove cause and context from the error, because they may hold a request with its key."""
    error.__cause__ = error.__context__ = None
    return error
