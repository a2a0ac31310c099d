"""Every error weft raises on purpose.

    WeftError
    |-- AuthorError          the author of a template or program must act (has a place in a file)
    |-- RequestError         the caller must act: bad input, not found, not allowed now
    |-- TransientError       nobody must act yet: trying again may help
    `-- InternalError        we must act: a bug in weft

Families say who must act; each class has a stable `code`, and its facts as attributes. Exit codes (and
later HTTP and JSON-RPC codes) come from the class attribute `exit_code`, so the table is in one place:
the classes themselves. `docs/reference/errors.md` lists every code; a test compares.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

EXIT_FAILED = 1
EXIT_INVALID = 2
EXIT_NOT_FOUND = 3
EXIT_WAITING = 4
"""Neither done nor failed: it waits for the answer of a person."""
EXIT_UNAVAILABLE = 5
"""The work could not be tried: no model, store or network. Trying again later may help."""
EXIT_INTERRUPTED = 130


_SHOWN: list[Callable[[str], str]] = []
"""What every message goes through: nothing until there is a secret. It adds itself; errors know nobody."""


def show_messages_through(change: Callable[[str], str]) -> None:
    """Have the messages of all errors changed from now on; the second time does nothing."""
    if change not in _SHOWN:
        _SHOWN.append(change)


class WeftError(Exception):
    """The base of every error weft raises on purpose."""

    code: ClassVar[str] = "error"
    exit_code: int = EXIT_FAILED
    """Of the class; of an error that knows more about itself, its own."""

    def __init__(self, message: str) -> None:
        for change in _SHOWN:
            message = change(message)
        super().__init__(message)
        self.message = message

    def problems(self) -> list[dict[str, Any]]:
        """The single problems behind the error, in their JSON form; empty when it is just one."""
        return []


class AuthorError(WeftError):
    """The author of a template or program must act."""

    code = "author-error"
    exit_code = EXIT_INVALID


class RequestError(WeftError):
    """The caller must act."""

    code = "request-error"
    exit_code = EXIT_INVALID


class MissingExtra(RequestError):
    """An optional part of weft was asked for that is not installed."""

    code = "missing-extra"

    def __init__(self, *, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs an extra package: pip install 'weft[{extra}]'")
        self.extra = extra


class TransientError(WeftError):
    """Trying again may help."""

    code = "transient-error"
    exit_code = EXIT_UNAVAILABLE


class OutOfMemory(TransientError):
    """There is not enough memory for what was asked."""

    code = "out-of-memory"
    exit_code = EXIT_FAILED

    def __init__(self, what: str = "it needs more memory than there is") -> None:
        super().__init__(f"{what}; give the process more memory, or less to do at once")


class InternalError(WeftError):
    """A bug in weft."""

    code = "internal-error"


def unexpected(error: Exception, *, what: str) -> WeftError:
    """Return our error for one that nobody foresaw: a bug in weft, unless memory ran out."""
    if isinstance(error, MemoryError):
        return OutOfMemory(f"{what}: memory ran out")
    return InternalError(f"{what}: {text_of(error)}")


def text_of(value: object) -> str:
    """The value as text, whatever it is: an error with its type, one without words by its type alone."""
    name = type(value).__name__
    try:
        text = str(value)
    except Exception:  # a `__str__` that raises, or returns no text
        return name
    return f"{name}: {text}".rstrip(": ") if isinstance(value, BaseException) else text


def error_classes(root: type[WeftError] = WeftError) -> Iterator[type[WeftError]]:
    """All error classes known now, the root first."""
    yield root
    for child in root.__subclasses__():
        yield from error_classes(child)
