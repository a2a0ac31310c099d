"""Answers that were decided beforehand."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.limits import MAX_SHOWN_CHARACTERS


class NotScripted(TaskFailed):
    """Nothing is scripted for a request, or no more."""


class Scripted:
    """A list, a mapping or a function that requests are answered from."""

    def __init__(self, what: str, source: Sequence[Any] | Mapping[str, Any] | Callable[[Any], Any]) -> None:
        self._what = what
        self._source = source
        self._given: dict[str, int] = {}
        """How many answers of each list were given; the whole source is the list of no name."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is scripted at all."""
        return not callable(self._source) and not self._source

    def next(self, request: Any, name: str | None, text: str, *others: str) -> Any:
        """The answer to a request: by name, else by a part of its text, else of the other texts in order.

        Raises NotScripted without one.
        """
        source = self._source
        if callable(source):
            return source(request)
        if not isinstance(source, Mapping):
            return self._in_order("", source, text)
        found_in = ((part for part in source if part in one) for one in (text, *others))
        key = name if name in source else next((part for parts in found_in for part in parts), None)
        if key is None:
            raise self._missing(text)
        found = source[key]
        return self._in_order(key, found, text) if isinstance(found, list) else found

    def _in_order(self, key: str, answers: Sequence[Any], text: str) -> Any:
        index = self._given.get(key, 0)
        if index >= len(answers):
            raise self._missing(text)
        self._given[key] = index + 1
        return answers[index]

    def _missing(self, text: str) -> NotScripted:
        shown = text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
        return NotScripted(TaskFailure("llm_error", f"no {self._what} is scripted for: {shown}"))
