"""Base classes of all errors that weft raises on purpose.

    WeftError
    |-- AuthorError          the author of a template or program must act (has a location in a source)
    |-- RequestError         the caller must act: bad input, not found, not allowed now
    |-- TransientError       a retry may help
    `-- InternalError        a bug in weft

Families say who must act. Each class has a stable `code` and its facts as attributes. Exit codes (and later
HTTP and JSON-RPC codes) come from the class attribute `exit_code`. `docs/reference/errors.md` lists every
code, as a test checks.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

EXIT_FAILED = 1
EXIT_INVALID = 2
EXIT_NOT_FOUND = 3
EXIT_WAITING = 4
"""The run has neither completed nor failed: it is suspended until a person answers a question."""
EXIT_UNAVAILABLE = 5
"""The work could not be tried: no model, store or network. A later retry may help."""
EXIT_INTERRUPTED = 130


_MESSAGE_FILTERS: list[Callable[[str], str]] = []
"""Applied to every message. The registry of secrets adds its filter: this module must not import it."""


def show_messages_through(change: Callable[[str], str]) -> None:
    """Apply a function to the messages of all errors raised from now on; adding it twice has no effect."""
    if change not in _MESSAGE_FILTERS:
        _MESSAGE_FILTERS.append(change)


class WeftError(Exception):
    """Base class of all errors that weft raises on purpose."""

    code: ClassVar[str] = "error"
    exit_code: int = EXIT_FAILED
    """A class attribute; an instance may override it."""

    def __init__(self, message: str) -> None:
        for change in _MESSAGE_FILTERS:
            message = change(message)
        super().__init__(message)
        self.message = message

    def problems(self) -> list[dict[str, Any]]:
        """Return the individual problems behind the error as JSON; empty if the error is a single problem."""
        return []


class AuthorError(WeftError):
    """The author of a template or program must fix it."""

    code = "author-error"
    exit_code = EXIT_INVALID


class RequestError(WeftError):
    """The caller must change the request."""

    code = "request-error"
    exit_code = EXIT_INVALID


class MissingExtra(RequestError):
    """An optional part of weft is needed that is not installed."""

    code = "missing-extra"

    def __init__(self, *, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs an extra package: pip install 'weft[{extra}]'")
        self.extra = extra


class TransientError(WeftError):
    """A retry may help."""

    code = "transient-error"
    exit_code = EXIT_UNAVAILABLE


class OutOfMemory(TransientError):
    """Memory is not sufficient for the request."""

    code = "out-of-memory"
    exit_code = EXIT_FAILED

    def __init__(self, what: str = "it needs more memory than there is") -> None:
        super().__init__(f"{what}; give the process more memory, or less to do at once")


class InternalError(WeftError):
    """A bug in weft."""

    code = "internal-error"


def unexpected(error: Exception, *, what: str) -> WeftError:
    """Return the error for an unforeseen exception: OutOfMemory for MemoryError, else InternalError."""
    if isinstance(error, MemoryError):
        return OutOfMemory(f"{what}: memory ran out")
    return InternalError(f"{what}: {text_of(error)}")


def text_of(value: object) -> str:
    """Return any value as text: an exception with its type as a prefix, the type alone if `__str__` fails."""
    name = type(value).__name__
    try:
        text = str(value)
    except Exception:  # `__str__` raises or does not return a string
        return name
    return f"{name}: {text}".rstrip(": ") if isinstance(value, BaseException) else text


def error_classes(root: type[WeftError] = WeftError) -> Iterator[type[WeftError]]:
    """Yield all error classes that are imported by now, the root first."""
    yield root
    for child in root.__subclasses__():
        yield from error_classes(child)
