"""Why a request to a model failed."""

from typing import TYPE_CHECKING, Any

from weft.errors import EXIT_UNAVAILABLE, WeftError

if TYPE_CHECKING:
    # Not at run time: names of models are checked without the evaluator, and it is slow to import.
    from weft.evaluator.results import TaskError, TaskFailureReason


_AFTER_SENDING = ("connection_error", "protocol_error", "execution_timeout")
"""Reasons of errors that come when a request is on its way, unless it is known to be otherwise."""


class ModelError(WeftError):
    """A model could not be asked, or did not answer properly.

    `reason`: `connection_error` (not reached, hung, cut), `llm_error` (the provider refuses or is broken),
    `protocol_error` (what came is no answer: HTML, half a JSON), `configuration_error` (no key, unknown
    model), `dependency_error` (a missing extra), `execution_timeout`.
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
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.is_transient = is_transient
        if is_transient:
            self.exit_code = EXIT_UNAVAILABLE
        """Whether the same request may succeed later."""
        self.retry_after_seconds = retry_after_seconds
        """How long the provider asks to wait."""
        self.partial_text = partial_text
        """What had arrived of an answer that was cut."""
        self.is_charged = reason in _AFTER_SENDING or bool(partial_text) if is_charged is None else is_charged
        """Whether the request was sent and not refused: then providers charge at least for its input."""


class InvalidModel(ModelError):
    """No model has that name, or its provider knows no such model."""

    code = "invalid-model"


def model_failure(error: ModelError, message: str, details: dict[str, Any] | None = None) -> "TaskError":
    """Return the TaskError of a request that failed."""
    from weft.evaluator.results import (
        TaskFailure,  # slow, see above
        ValidationFailure,
    )

    if isinstance(error, InvalidModel):
        return ValidationFailure(message, path="model", invalid_model=True, content=error.partial_text)
    return TaskFailure(error.reason, message, content=error.partial_text, details=details)


class ContextTooLong(ModelError):
    """The provider says that the request does not fit the model's window."""

    code = "context-too-long"
