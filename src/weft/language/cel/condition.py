"""Conditions: compiled once, then evaluated with a function that looks up names."""

from collections.abc import Callable
from typing import Any

from weft.language.cel.compiler import Closure, compile_node, paths_of
from weft.language.cel.errors import Fault
from weft.language.cel.parser import Parser
from weft.language.cel.tokens import CONDITION, MAX_CONDITION_CHARACTERS, Locations, Tokens
from weft.language.cel.values import EvalState, require_bool
from weft.language.diagnostics import InvalidProgram, invalid_program
from weft.language.source import Span
from weft.language.traversal import raise_recursion_limit

Lookup = Callable[[str], Any]
"""Returns the value of a name. Raises KeyError or NameError if it is not bound."""


class CompiledCondition:
    """A compiled condition. It can be evaluated repeatedly and from several threads."""

    __slots__ = ("_locations", "_value", "names", "paths")

    def __init__(
        self, locations: Locations, value: Closure, paths: tuple[tuple[str | int, ...], ...]
    ) -> None:
        self._locations = locations
        self._value = value
        self.paths = paths
        """The paths that it reads: `output.items[0] == x` reads ("output", "items", 0) and ("x",)."""
        self.names = tuple(dict.fromkeys(str(path[0]) for path in paths))
        """The distinct names that it reads, in the order of the text."""

    @property
    def text(self) -> str:
        """Return the source text."""
        return self._locations.text

    @property
    def span(self) -> Span:
        """Return the location of the first character."""
        return self._locations.span

    def evaluate(self, lookup: Lookup) -> Any:
        """Evaluate the condition and return its value, of any kind. Raise ConditionError."""
        try:
            return self._value(EvalState(lookup))
        except Fault as fault:
            raise fault.error(self._locations) from None

    def holds(self, lookup: Lookup) -> bool:
        """Return whether the condition is true. Raise ConditionError, also if its value is not a boolean."""
        value = self.evaluate(lookup)
        try:
            return require_bool(value, 0, "a condition")
        except Fault as fault:
            raise fault.error(self._locations) from None


def parse_condition(text: str, span: Span) -> CompiledCondition:
    """Parse and compile a condition; `span` is the location of its first character. Raise InvalidProgram."""
    if len(text) > MAX_CONDITION_CHARACTERS:
        message = f"a condition has at most {MAX_CONDITION_CHARACTERS} characters, this one has {len(text)}"
        raise invalid_program(span, "program-too-long", message)
    locations = Locations(text, span)
    with raise_recursion_limit():
        node = Parser(Tokens(locations, CONDITION)).condition()
        try:
            return CompiledCondition(locations, compile_node(node), paths_of(node))
        except Fault as fault:
            raise InvalidProgram([fault.error(locations).problem]) from None
