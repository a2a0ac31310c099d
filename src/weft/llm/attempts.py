"""How often a turn was sent to a provider without an answer: providers charge for that, and do not say it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from weft.llm.errors import ModelError


class Attempts:
    """The requests of one turn, as far as the model tells them."""

    def __init__(self) -> None:
        self._unanswered: int | None = None
        """None: this model does not tell."""

    def tell(self) -> None:
        """From now on every request is told."""
        self._unanswered = self._unanswered or 0

    def add(self, count: int) -> None:
        """Count a request that was sent, or take back one that was answered or refused."""
        self._unanswered = (self._unanswered or 0) + count

    def charged(self, *, is_failed: bool) -> int:
        """How many requests brought nothing and are charged for; untold it is the one that failed."""
        return int(is_failed) if self._unanswered is None else self._unanswered


_ATTEMPTS: ContextVar[Attempts | None] = ContextVar("weft_model_attempts", default=None)


@contextmanager
def counted_attempts() -> Iterator[Attempts]:
    """Count the requests that are made in the block."""
    attempts = Attempts()
    token = _ATTEMPTS.set(attempts)
    try:
        yield attempts
    finally:
        _ATTEMPTS.reset(token)


def tell_attempts() -> None:
    """Say that `attempt` stands around every request: what waits in a queue has not been sent."""
    attempts = _ATTEMPTS.get()
    if attempts is not None:
        attempts.tell()


@contextmanager
def attempt() -> Iterator[None]:
    """A request: it counts until there is an answer, or an error that says that nothing is charged.

    One that is cancelled counts: it was on its way, and what the provider makes of it nobody can say.
    """
    attempts = _ATTEMPTS.get()
    if attempts is None:
        yield
        return
    attempts.add(1)
    try:
        yield
    except ModelError as error:
        if not error.is_charged:
            attempts.add(-1)
        raise
    attempts.add(-1)
