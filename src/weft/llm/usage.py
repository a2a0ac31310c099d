"""The usage ledger: tokens and cost of every turn, summed by step, subtree and run."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate

from msgspec import Struct

from weft.llm.errors import ModelError
from weft.tasks.steps import Usage


class Entry(Struct, frozen=True, kw_only=True):
    """The usage of one turn, or of all model requests of one aider run."""

    step_key: str
    template: str | None
    model: str
    input_tokens: int
    output_tokens: int
    cost: float | None
    """In US dollars; None if the price is unknown."""

    @property
    def usage(self) -> Usage:
        is_unpriced = self.cost is None
        return Usage(1, self.input_tokens, self.output_tokens, self.cost or 0.0, unpriced=int(is_unpriced))


class UsageLedger:
    """The usage entries of a run, in the order in which the turns ended."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)

    def total(self) -> Usage:
        return sum((entry.usage for entry in self.entries), Usage())

    def by_step(self) -> dict[str, Usage]:
        """Return the subtree total of each step with a model request and of its ancestors, sorted by key."""
        found: dict[str, Usage] = {}
        for entry in self.entries:
            for key in accumulate(entry.step_key.split("/"), "{}/{}".format):
                found[key] = found.get(key, Usage()) + entry.usage
        return dict(sorted(found.items(), key=lambda item: _sort_key(item[0])))

    def templates(self) -> dict[str, str]:
        """Return the template names by step key, for the steps that a template made."""
        return {entry.step_key: entry.template for entry in self.entries if entry.template is not None}


def _sort_key(step_key: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in step_key.split("/")]


class Attempts:
    """Counts the requests of one turn, retries included, that got no response but may be charged."""

    def __init__(self) -> None:
        self._without_response: int | None = None
        """Number of requests without a response; None if the model does not report its requests."""

    def add(self, count: int) -> None:
        """Add 1 for a request that was sent, -1 for one that was answered or refused.

        From the first call on, 0 included, the model reports every request.
        """
        self._without_response = (self._without_response or 0) + count

    def charged_requests(self, *, is_failed: bool) -> int:
        """Return the number of requests that are charged without a response.

        If the model does not report its requests, count one for a failed turn.
        """
        return int(is_failed) if self._without_response is None else self._without_response


_ATTEMPTS: ContextVar[Attempts | None] = ContextVar("weft_model_attempts", default=None)


@contextmanager
def count_attempts() -> Iterator[Attempts]:
    """Count the requests in the `with` block that get no response, and yield the counter."""
    attempts = Attempts()
    token = _ATTEMPTS.set(attempts)
    try:
        yield attempts
    finally:
        _ATTEMPTS.reset(token)


def report_attempts() -> None:
    """Declare to `count_attempts` that every request of this model is wrapped in `attempt`.

    A turn that fails while its request still waits in a queue is then not charged.
    """
    attempts = _ATTEMPTS.get()
    if attempts is not None:
        attempts.add(0)


@contextmanager
def attempt() -> Iterator[None]:
    """Count a request as without response until the block ends normally or with an uncharged ModelError.

    A cancelled request stays counted: it was sent, and the provider may charge for it.
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
