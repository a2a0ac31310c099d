"""Errors of the store that may pass: told in the log, and waited out."""

import logging
from types import TracebackType

from weft.errors import TransientError

log = logging.getLogger(__name__)


class Patience:
    """A block whose transient errors are logged, not raised: its user tries again, or can do without."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, TransientError):
            return False
        log.warning("%s: %s", self._what, error.message, extra={"action": "store_transient_error"})
        return True
