"""Why a request to a model failed."""

from typing import TYPE_CHECKING

from weft.errors import WeftError

if TYPE_CHECKING:
    # Not at run time: names of models are checked without the evaluator, and it is slow to import.
    from weft.evaluator.results import TaskFailureReason


class ModelError(WeftError):
    """A model could not be asked, or did not answer properly.

    `reason`: `connection_error` (not reached, hung, cut), `llm_error` (the provider refuses or is broken),
    `protocol_error` (what came is no answer: HTML, half a JSON), `configuration_error` (no key, unknown
    model, a missing extra), `execution_timeout`.
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
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.is_transient = is_transient
        """Whether the same request may succeed later."""
        self.retry_after_seconds = retry_after_seconds
        """How long the provider asks to wait."""
        self.partial_text = partial_text
        """What had arrived of an answer that was cut."""


class ContextTooLong(ModelError):
    """The provider says that the request does not fit the model's window."""

    code = "context-too-long"
