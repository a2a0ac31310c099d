"""Errors of requests to models."""

from typing import TYPE_CHECKING, Any

from weft.errors import EXIT_UNAVAILABLE, WeftError

if TYPE_CHECKING:
    # Not at run time: model names are checked without importing the evaluator, which is slow.
    from weft.evaluator.results import TaskError, TaskFailureReason


_CHARGED = ("connection_error", "protocol_error", "execution_timeout")
"""Reasons of errors that usually occur after the request was sent, so that the provider charges for it."""


class ModelError(WeftError):
    """A request to a model failed, or its response was invalid.

    `reason`: `connection_error` (the provider cannot be reached, hangs or cuts the connection),
    `llm_error` (the provider refuses the request or fails), `protocol_error` (an invalid response such as
    HTML or truncated JSON), `configuration_error` (no key, unknown model), `dependency_error` (a missing
    extra), `execution_timeout`.
    """

    code = "model-error"

    def __init__(
        self,
        reason: "TaskFailureReason",
        message: str,
        *,
        is_transient: bool = False,
        retry_after_seconds: float | None = None,
        partial_text: str | None = None,
        is_charged: bool | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.is_transient = is_transient
        """Whether the same request may succeed later."""
        if is_transient:
            self.exit_code = EXIT_UNAVAILABLE
        self.retry_after_seconds = retry_after_seconds
        """The provider's Retry-After, if any."""
        self.partial_text = partial_text
        """The text received before the response was cut; None or empty if nothing was received."""
        self.status = status
        """The HTTP status with which the provider refused the request."""
        self.is_charged = reason in _CHARGED or bool(partial_text) if is_charged is None else is_charged
        """Whether the provider charges for the failed request: it was sent and not refused."""


class InvalidModel(ModelError):
    """The model name is unknown to weft or to its provider."""

    code = "invalid-model"


def model_failure(error: ModelError, message: str, details: dict[str, Any] | None = None) -> "TaskError":
    """Return the TaskError for a request that failed with `error`."""
    from weft.evaluator.results import TaskFailure, ValidationFailure  # slow to import, see above

    if isinstance(error, InvalidModel):
        return ValidationFailure(message, path="model", invalid_model=True, content=error.partial_text)
    return TaskFailure(error.reason, message, content=error.partial_text, details=details)


class ContextTooLong(ModelError):
    """The provider rejected the request because it exceeds the model's context window."""

    code = "context-too-long"
