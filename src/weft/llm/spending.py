"""Who spent what: every turn of every task, summed by task, by subtree and for the run."""

from collections.abc import Iterator

from msgspec import Struct


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


class Ledger:
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
