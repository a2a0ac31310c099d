"""What goes wrong at a provider, as a ModelError. Imports pydantic-ai: import it when a model is asked."""

from typing import Any

import httpx2
from pydantic_ai import exceptions as theirs

from weft.evaluator.results import TaskFailureReason
from weft.llm.errors import ContextTooLong, InvalidModel, ModelError
from weft.llm.providers.access import Access
from weft.llm.providers.client import Redactor
from weft.llm.providers.response_limits import MOST_BYTES, ResponseCapture

_PASSING_STATUSES = frozenset({408, 409, 425, 429})
"""Beside those from 500 on: the same request may succeed later."""

_CUT = "Streamed response ended without"
"""How pydantic-ai says that a stream has no end; it is one that was cut at a boundary."""

_TRIPPED = (theirs.UnexpectedModelBehavior, ValueError, LookupError, TypeError, AttributeError)
"""What clients raise that trip over an answer: no choices, no content, a field of another type."""


class Failures:
    """Tells what an exception means, in words that name the model and hold no key."""

    def __init__(self, model: str, access: Access, redactor: Redactor) -> None:
        self._model = model
        self._access = access
        self._redactor = redactor

    def error(self, exception: Exception, partial_text: str | None, arrival: ResponseCapture) -> ModelError:
        """The ModelError for what a request raised."""
        if isinstance(exception, ModelError):
            return exception
        if arrival.is_too_large:
            return self._too_large(partial_text)
        if arrival.is_redirect:
            return self._redirected(arrival)
        if any(isinstance(one, httpx2.ConnectTimeout | httpx2.PoolTimeout) for one in _chain(exception)):
            return self._unreached(exception, partial_text)  # a time-out, but nothing was sent
        if isinstance(exception, theirs.ModelAPIError):
            return self._of_provider(exception, partial_text, arrival)
        if isinstance(exception, httpx2.TimeoutException | TimeoutError):
            return self._late(partial_text, arrival)
        if isinstance(exception, httpx2.DecodingError):
            return self._no_answer(partial_text, arrival)
        if isinstance(exception, httpx2.TransportError | ConnectionError):
            return self._unreached(exception, partial_text)
        if isinstance(exception, theirs.UserError):
            return self._error("configuration_error", exception.message)
        if isinstance(exception, theirs.ContentFilterError):
            return self._error("llm_error", f"refused by a content filter: {exception.message}")
        if isinstance(exception, _TRIPPED):
            return self._no_answer(partial_text, arrival)
        return self._error("unexpected_error", f"{type(exception).__name__} while it was asked")

    def nothing(self) -> ModelError:
        """The model has answered, and said nothing."""
        return self._error(
            "protocol_error", "the answer is empty: no text, and no call of a tool", is_transient=True
        )

    def _of_provider(
        self, exception: theirs.ModelAPIError, partial: str | None, arrival: ResponseCapture
    ) -> ModelError:
        match exception:
            case theirs.ModelTimeoutError() | theirs.ModelRequestTimeout():
                return self._late(partial, arrival)
            case theirs.ModelConnectionError():
                return self._unreached(exception, partial)
            case theirs.ModelContextWindowExceededError():
                text = f"{self._model}: the request does not fit the model's window: {_words(exception)}"
                return ContextTooLong("llm_error", self._redactor.message(text))
            case theirs.ModelQuotaExceededError():
                return self._refused("llm_error", exception, "the account has nothing left")
            case theirs.ModelAuthenticationError():
                where = self._access.key_variable
                what = f"the key in {where} is not accepted" if where else "it wants a key"
                return self._refused("configuration_error", exception, what)
            case theirs.ModelNotFoundError():
                refused = self._refused("configuration_error", exception, _unknown(exception))
                return InvalidModel(refused.reason, refused.message)
            case theirs.ModelHTTPError() if _is_passing(exception.status_code):
                return self._error(
                    "llm_error",
                    f"status {exception.status_code}: {_words(exception)}",
                    is_transient=True,
                    retry_after_seconds=_seconds(exception.retry_after),
                    partial_text=partial,
                )
            case theirs.ModelHTTPError():
                return self._refused("llm_error", exception, "refused")
        if exception.message.startswith(_CUT):
            return self._cut(partial)
        if exception.in_stream:
            return self._error("llm_error", _words(exception), is_transient=True, partial_text=partial)
        return self._no_answer(partial, arrival)

    def _refused(self, reason: TaskFailureReason, exception: theirs.ModelAPIError, what: str) -> ModelError:
        status = getattr(exception, "status_code", None)
        shown = f" (status {status})" if status else ""
        return self._error(reason, f"{what}{shown}: {_words(exception)}")

    def _late(self, partial: str | None, arrival: ResponseCapture) -> ModelError:
        seconds = f"{self._access.settings.timeout_seconds:g} seconds"
        what = f"no answer for {seconds}"
        if partial:
            what = f"the answer stopped for {seconds}"
        elif arrival.size:
            what = f"{what}: something came ({arrival.size:,} bytes), but no end of it"
        return self._error("connection_error", what, is_transient=True, partial_text=partial)

    def _too_large(self, partial: str | None) -> ModelError:
        return self._error(
            "protocol_error",
            f"what came back is longer than {MOST_BYTES // 1024**2} MiB, which no answer of a model is",
            partial_text=partial,
        )

    def _redirected(self, arrival: ResponseCapture) -> ModelError:
        return self._error(
            "protocol_error",
            f"status {arrival.status}: it redirects to {arrival.target}, which is not followed; "
            "set base_url to where the provider is, or see whether the network wants a login first",
            is_charged=False,
        )

    def _cut(self, partial: str | None) -> ModelError:
        return self._error(
            "connection_error", "the answer was cut off", is_transient=True, partial_text=partial
        )

    def _unreached(self, exception: Exception, partial: str | None) -> ModelError:
        """Not connected, or connected and cut."""
        names = {type(one).__name__ for one in _chain(exception)}
        if names & {"RemoteProtocolError", "ReadError", "IncompleteRead", "ConnectionResetError"}:
            return self._cut(partial)
        where = f" at {self._access.base_url}" if self._access.base_url else ""
        return self._error(
            "connection_error", f"cannot be reached{where}", is_transient=True, is_charged=False
        )

    def _no_answer(self, partial: str | None, arrival: ResponseCapture) -> ModelError:
        return self._error(
            "protocol_error",
            f"what came back is no answer of a model: {self._shown(arrival)}",
            is_transient=True,
            partial_text=partial,
        )

    def _shown(self, arrival: ResponseCapture) -> str:
        """Enough to see what has answered: a login page, a gateway, a half of an answer."""
        kind = arrival.content_type.partition(";")[0].strip() or "no content type"
        status = f"status {arrival.status}, {kind}"
        if not arrival.size:
            return f"{status}, and nothing in it"
        beginning = self._redactor.beginning(arrival.beginning)
        return f"{status}, {arrival.size:,} bytes that begin with '{beginning}'"

    def _error(self, reason: TaskFailureReason, text: str, **facts: Any) -> ModelError:
        if facts.get("partial_text") is not None:
            facts["partial_text"] = self._redactor.clean(facts["partial_text"]) or None
        return ModelError(reason, self._redactor.message(f"{self._model}: {text}"), **facts)


def _is_passing(status: int) -> bool:
    return status >= 500 or status in _PASSING_STATUSES


def _seconds(retry_after: float | None) -> float | None:
    return None if retry_after is None else max(0.0, retry_after)


def _unknown(exception: theirs.ModelAPIError) -> str:
    suggested = getattr(exception, "suggested_model_id", None)
    return f"there is no such model{f'; did you mean {suggested!r}?' if suggested else ''}"


def _words(exception: theirs.ModelAPIError) -> str:
    """What the provider says, without the rest of its body."""
    body = exception.body
    for _ in range(2):
        if isinstance(body, dict):
            body = body.get("error", body.get("message", body))
    if isinstance(body, dict):
        body = body.get("message")
    if isinstance(body, str) and body.strip() and not body.lstrip().startswith("<"):
        return body
    return "it does not say why"


def _chain(exception: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while exception is not None and len(found) < 10:
        found.append(exception)
        exception = exception.__cause__ or exception.__context__
    return found


def detached(error: ModelError) -> ModelError:
    """The error without what it was made of: those exceptions may hold a request with its key."""
    error.__cause__ = error.__context__ = None
    return error
