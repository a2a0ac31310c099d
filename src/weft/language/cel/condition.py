"""Conditions: read once, then evaluated with the names of the moment."""

from collections.abc import Callable
from typing import Any

from weft.language.cel.compiler import Closure, compile_node, paths_of
from weft.language.cel.errors import Fault
from weft.language.cel.parser import Parser
from weft.language.cel.tokens import CONDITION, MAX_CONDITION_CHARACTERS, Places, Tokens
from weft.language.cel.values import Run, is_true
from weft.language.diagnostics import InvalidProgram, refuse
from weft.language.source import Span
from weft.language.traversal import deep_stack

Lookup = Callable[[str], Any]
"""The value of a name; raises KeyError or NameError when it is not bound."""


class ReadCondition:
    """A condition that was read. It can be evaluated any number of times, by any number of threads."""

    __slots__ = ("_places", "_value", "names", "paths")

    def __init__(self, places: Places, value: Closure, paths: tuple[tuple[str | int, ...], ...]) -> None:
        self._places = places
        self._value = value
        self.paths = paths
        """What is read: `output.items[0] == x` reads ("output", "items", 0) and ("x",)."""
        self.names = tuple(dict.fromkeys(str(path[0]) for path in paths))
        """The names that must be bound, each once, in order."""

    @property
    def text(self) -> str:
        """What was written."""
        return self._places.text

    @property
    def span(self) -> Span:
        """The place of its first character."""
        return self._places.span

    def evaluate(self, lookup: Lookup) -> Any:
        """The value, of whatever kind; raises ConditionError."""
        try:
            return self._value(Run(lookup))
        except Fault as fault:
            raise fault.error(self._places) from None

    def holds(self, lookup: Lookup) -> bool:
        """Whether the condition is true; raises ConditionError, also when the value is no boolean."""
        value = self.evaluate(lookup)
        try:
            return is_true(value, 0, "a condition")
        except Fault as fault:
            raise fault.error(self._places) from None


def read_condition(text: str, span: Span) -> ReadCondition:
    """The condition, ready to be evaluated; `span` is the place of its first character.

    Raises InvalidProgram.
    """
    if len(text) > MAX_CONDITION_CHARACTERS:
        message = f"a condition has at most {MAX_CONDITION_CHARACTERS} characters, this one has {len(text)}"
        raise refuse(span, "program-too-long", message)
    places = Places(text, span)
    with deep_stack():
        node = Parser(Tokens(places, CONDITION)).condition()
        try:
            return ReadCondition(places, compile_node(node), paths_of(node))
        except Fault as fault:
            raise InvalidProgram([fault.error(places).problem]) from None
