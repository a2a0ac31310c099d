"""Shared state and helpers of the XML parser: problems, names in scope, settings, names and numbers."""

import math
import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Struct

from weft.language.ast import Condition, Literal, Node, Text
from weft.language.cel import parse_condition, parse_text
from weft.language.diagnostics import Findings
from weft.language.source import Span
from weft.language.xml.elements import Element
from weft.language.xml.text import BLANK, LETTERS, LITERALS, NAME, dedent, shown
from weft.limits import MAX_COUNT, MAX_NAME_CHARACTERS

NODES: Final = frozenset({"task", "call", "cond", "director_evaluator_loop"})
"""Elements that are expressions."""

NOTHING: Final[Node] = Literal(value=None)
"""Placeholder for an invalid node: the tree will be discarded, but parsing continues."""

_COUNT = re.compile(r"\+?[0-9]{1,30}")
_SECONDS = re.compile(r"\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)")


class Reading(Struct, frozen=True):
    """The state of the parser at an element."""

    found: Findings
    scope: frozenset[str]
    """Names bound here. An argument that is one of these words is a variable; other words are texts."""
    read: Callable[[Element, "Reading"], Node]
    """Parses any element of NODES."""

    def node(self, element: Element) -> Node:
        """Parse an element of NODES."""
        return self.read(element, self)

    def within(self, names: Iterable[str]) -> "Reading":
        """Return a copy with more names in scope."""
        return msgspec.structs.replace(self, scope=self.scope | frozenset(names))

    def only_within(self, names: Iterable[str]) -> "Reading":
        """Return a copy with only these names in scope."""
        return msgspec.structs.replace(self, scope=frozenset(names))

    def text(self, element: Element, *, is_verbatim: bool = False) -> Text:
        """Parse the text of an element with its placeholders; `is_verbatim` keeps all white space."""
        written, span = element.text, element.text_span
        wanted = plain_text(element, is_verbatim=is_verbatim)
        if "{{" not in written or written.startswith(wanted):
            return self.placeholders(wanted, span)
        # Dedenting changes columns: take the nodes of placeholders, with their locations, from the original.
        nodes = [part for part in self.placeholders(written, span).parts if isinstance(part, Node)]
        if not nodes:
            return Text(span=span, raw="", parts=("",))
        text = self.placeholders(wanted, span)
        left = iter(nodes)
        located = tuple(next(left, part) if isinstance(part, Node) else part for part in text.parts)
        return msgspec.structs.replace(text, parts=located)

    def placeholders(self, raw: str, span: Span) -> Text:
        """Parse a text with its placeholders."""
        return self.found.attempt(lambda: parse_text(raw, span), Text(span=span, raw="", parts=("",)))

    def condition(self, text: str, span: Span) -> Condition:
        """Return a condition node; report the condition if it cannot be parsed."""
        self.found.attempt(lambda: parse_condition(text, span), None)
        return Condition(span=span, text=text.strip(BLANK))

    def name(self, element: Element, text: str, what: str, pattern: re.Pattern[str] = NAME) -> str:
        """Return the text stripped, and report it if it is not a valid name."""
        name = text.strip(BLANK)
        if name in LITERALS:
            self.found.note(element.span, "reserved-name", f"{what} '{name}' is a value and cannot be a name")
        elif not pattern.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
            message = f"{what} '{shown(name)}' is not a valid name: {LETTERS[pattern]}, no digit first"
            self.found.note(element.span, "bad-value", message)
        return name

    def missing(self, element: Element, message: str) -> None:
        """Report that something is missing, unless it may have been removed because of another problem."""
        if not element.is_damaged:
            self.found.note(element.span, "missing-field", message)

    def setting(self, element: Element, name: str) -> str | None:
        """Return a setting that may be an attribute or a child element, or None; report it if it is both."""
        child = element.child(name)
        attribute = element.attributes.get(name)
        if child is None:
            return None if attribute is None else attribute.strip(BLANK)
        if attribute is not None:
            message = f"{name} is given twice, as an attribute and as an element; remove one"
            self.found.note(child.span, "duplicate-name", message)
        return child.text.strip(BLANK)

    def boolean(self, element: Element, name: str) -> bool | None:
        """Return a setting that the schema has already checked to be true or false; None: not given."""
        text = self.setting(element, name)
        return None if not text else text == "true"

    def count(self, element: Element, name: str) -> int | None:
        """Return a setting that is a whole number from 1; None: not given, or invalid and reported."""
        text = self.setting(element, name)
        if text is None or (_COUNT.fullmatch(text) and 0 < int(text) <= MAX_COUNT):
            return None if text is None else int(text)
        self.found.note(
            element.span, "bad-value", f"{name} must be a whole number from 1, not '{shown(text)}'"
        )
        return None

    def seconds(self, element: Element, name: str) -> float | None:
        """Return a setting that is a positive number of seconds; None: not given, or invalid and reported."""
        text = self.setting(element, name)
        if text is None or (_SECONDS.fullmatch(text) and 0 < float(text) < math.inf):
            return None if text is None else float(text)
        self.found.note(element.span, "bad-value", f"{name} must be seconds above 0, not '{shown(text)}'")
        return None


def plain_text(element: Element, *, is_verbatim: bool = False) -> str:
    """Return the text of an element, dedented unless the author asked to preserve it."""
    return element.text if is_verbatim or element.is_preserved else dedent(element.text)


def child_text(element: Element, tag: str) -> str | None:
    """Return the stripped text of a child; None if the child is missing or empty."""
    child = element.child(tag)
    return (child.text.strip(BLANK) or None) if child is not None else None
