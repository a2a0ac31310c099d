"""The usage ledger: every turn of every task, summed by task, subtree and run."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct

from weft.llm.errors import ModelError


class Entry(Struct, frozen=True, kw_only=True):
    """One answer of a model that was paid for."""

    step_key: str
    template: str | None
    model: str
    input_tokens: int
    output_tokens: int
    cost: float | None
    """None: no price is known."""


class Total(Struct, frozen=True, kw_only=True):
    """A sum of entries."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    """How many calls had no known price: the cost is without them."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def and_one(self, entry: Entry) -> "Total":
        """The sum with one entry more."""
        return Total(
            calls=self.calls + 1,
            input_tokens=self.input_tokens + entry.input_tokens,
            output_tokens=self.output_tokens + entry.output_tokens,
            cost=self.cost + (entry.cost or 0.0),
            unpriced=self.unpriced + (entry.cost is None),
        )


class UsageLedger:
    """The entries of a run, in the order in which the answers came."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        """Count an answer."""
        self.entries.append(entry)

    def total(self) -> Total:
        """What the run has spent."""
        return _sum(iter(self.entries))

    def of_task(self, step_key: str) -> Total:
        """What one step has spent, without the steps inside it."""
        return _sum(entry for entry in self.entries if entry.step_key == step_key)

    def under(self, step_key: str) -> Total:
        """What a step and all inside it have spent; all of the run for the empty key."""
        return _sum(entry for entry in self.entries if is_under(entry.step_key, step_key))

    def by_step(self) -> dict[str, Total]:
        """What each step that asked a model, and each step around one, has spent; in the order of keys."""
        found: dict[str, Total] = {}
        for entry in self.entries:
            for key in _around(entry.step_key):
                found[key] = found.get(key, Total()).and_one(entry)
        return dict(sorted(found.items(), key=lambda item: _sort_key(item[0])))

    def templates(self) -> dict[str, str]:
        """The template of each step that is the body of one."""
        return {entry.step_key: entry.template for entry in self.entries if entry.template is not None}


def is_under(step_key: str, prefix: str) -> bool:
    """Whether a step is that one or inside of it."""
    return not prefix or step_key == prefix or step_key.startswith(f"{prefix}/")


def _around(step_key: str) -> Iterator[str]:
    """The key and those of the steps around it, the outermost first."""
    parts = step_key.split("/")
    for length in range(1, len(parts) + 1):
        yield "/".join(parts[:length])


def _sort_key(step_key: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in step_key.split("/")]


def _sum(entries: Iterator[Entry]) -> Total:
    total = Total()
    for entry in entries:
        total = total.and_one(entry)
    return total


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
