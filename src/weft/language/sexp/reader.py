"""Reader of S-expressions: one scan of the text without recursion, with a location for every problem."""

import re
from bisect import bisect_right
from itertools import accumulate

from msgspec import Struct

from weft.language.ast import Scalar
from weft.language.diagnostics import LanguageProblem
from weft.language.sexp.names import (
    CONSTANTS,
    PLAIN_NAME,
    STRING,
    WORD,
    BadEscape,
    BadName,
    Constant,
    Data,
    Keyword,
    List,
    Name,
    read_keyword,
    read_name,
    unescape,
)
from weft.language.source import Source, Span
from weft.limits import MAX_PROGRAM_CHARACTERS, MAX_PROGRAM_DEPTH, MAX_SHOWN_CHARACTERS, SURROGATE

MAX_PROBLEMS = 100
"""Reading and parsing stop at this many problems."""

_TOKEN = re.compile(
    rf"(?:\s++|;[^\n\r]*+)*+(?:(?P<name>{PLAIN_NAME})|(?P<open>\()|(?P<close>\))|(?P<word>{WORD})"
    rf"|(?P<string>{STRING})|(?P<quote>')|(?P<comment>\#\|)|(?P<unexpected>.))",
    re.DOTALL,
)
"""A token, with the space and line comments before it. `name` is the common `word` that needs no analysis."""

_NUMBER_LIKE = re.compile(r"[+-]?\.?[0-9]")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_COMMENT_EDGE = re.compile(r"#\||\|#")
_BYTE_ORDER_MARK = "\ufeff"

_HINTS = {
    "[": "a list of values is written (list 1 2), an index directly after its name: xs[0]",
    "]": "a list of values is written (list 1 2), an index directly after its name: xs[0]",
    "{": "a dict is written (dict :key value)",
    "}": "a dict is written (dict :key value)",
    "`": "there is no quasi-quote: build the list with (list ...)",
    ",": "there are no commas: values are separated by spaces",
    "#": "true and false are written true and false, a block comment #| ... |#",
    "\\": "a backslash is only allowed in strings and in names between bars",
}


class Reading(Struct):
    """The data read from a text, and its problems."""

    data: list[Data]
    problems: list[LanguageProblem]
    is_whole: bool = True
    """False if data are missing or the nesting is not certain, so that parsing the data is useless."""
    is_open: bool = False
    """Whether a list, string or comment is not closed: more text may complete it."""


class _Stop(Exception):
    """Reading cannot continue."""


def read_data(source: Source) -> Reading:
    """Read the data of a text; problems are returned, not raised."""
    return _Reader(source).read()


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = source.text
        lines = source.text.splitlines(keepends=True)
        self._line_starts = [0, *accumulate(map(len, lines))]
        self._reading = Reading([], [])
        self._open_lists: list[List] = []
        self._items = self._reading.data
        """The items of the innermost open list."""
        self._is_quoting = False
        """Whether the last token was a quote mark, which applies to the next datum."""
        self._is_too_deep = False
        self._skipped = 0
        """How many open lists are beyond the depth limit; they are dropped, but their parentheses counted."""

    def read(self) -> Reading:
        try:
            self._check_characters()
            self._scan()
            self._check_end()
        except _Stop:
            self._reading.is_whole = False
        return self._reading

    def _check_characters(self) -> None:
        if len(self._text) > MAX_PROGRAM_CHARACTERS:
            message = (
                f"the program has {len(self._text):,} characters; {MAX_PROGRAM_CHARACTERS:,} are allowed"
            )
            self._note_problem(0, message, "program-too-long")
            raise _Stop
        if surrogate := SURROGATE.search(self._text):
            self._note_problem(
                surrogate.start(),
                "a lone surrogate is not a valid character: the text is not Unicode",
                "bad-value",
            )
            raise _Stop

    def _scan(self) -> None:
        text, match_at = self._text, _TOKEN.match
        position = int(text.startswith(_BYTE_ORDER_MARK))
        while token := match_at(text, position):
            kind = token.lastgroup or ""
            start, position = token.span(kind)
            written = token[kind]
            if kind == "name":
                self._add(self._read_plain_name(written, start))
            elif kind == "open":
                self._open(start)
            elif kind == "close":
                self._close(start)
            elif kind == "word":
                self._add(self._read_word(written, start))
            elif kind == "string":
                self._add(Constant(self._span(start), self._unescape(written[1:-1], start + 1)))
            elif kind == "quote":
                self._open_quote(start)
            elif kind == "comment":
                position = self._skip_comment(start)
            else:
                self._note_unexpected(written, start)

    def _span(self, offset: int) -> Span:
        line = bisect_right(self._line_starts, offset)
        return Span(self._source, line, offset - self._line_starts[line - 1] + 1)

    def _note_problem(self, offset: int, message: str, code: str = "syntax-error") -> None:
        problems = self._reading.problems
        problems.append(LanguageProblem(self._span(offset), code, message))
        if len(problems) >= MAX_PROBLEMS:
            raise _Stop

    # Lists

    def _add(self, datum: Data) -> None:
        if self._skipped:
            return
        self._items.append(datum)
        if self._is_quoting:
            self._end_prefixes()

    def _end_prefixes(self) -> None:
        """End the quote forms that the datum just added completes."""
        while self._open_lists and self._open_lists[-1].is_prefix:
            self._open_lists.pop()
        self._is_quoting = False
        self._items = self._open_lists[-1].items if self._open_lists else self._reading.data

    def _open(self, start: int) -> None:
        if len(self._open_lists) < MAX_PROGRAM_DEPTH:
            self._enter(List(self._span(start), []))
        else:
            self._note_depth(start)
            self._skipped += 1

    def _open_quote(self, start: int) -> None:
        span = self._span(start)
        if len(self._open_lists) < MAX_PROGRAM_DEPTH:
            self._enter(List(span, [Name(span, "quote", "quote")], is_prefix=True))
        else:
            self._note_depth(start)

    def _enter(self, entered: List) -> None:
        self._items.append(entered)
        self._open_lists.append(entered)
        self._items = entered.items
        self._is_quoting = entered.is_prefix

    def _note_depth(self, start: int) -> None:
        if not self._is_too_deep:
            self._is_too_deep = True
            self._reading.is_whole = False
            self._note_problem(
                start, f"the program nests deeper than {MAX_PROGRAM_DEPTH:,} levels here", "program-too-deep"
            )

    def _close(self, start: int) -> None:
        if self._skipped:
            self._skipped -= 1
            if not self._skipped:
                self._add(Constant(self._span(start), None))
            return
        if self._is_quoting:
            self._note_problem(start, "nothing follows the quote mark before this parenthesis")
            self._add(Constant(self._span(start), None))
        if not self._open_lists:
            self._note_problem(start, "this parenthesis has no opening parenthesis")
            self._reading.is_whole = False
            return
        self._open_lists.pop()
        self._end_prefixes()

    def _check_end(self) -> None:
        opened = [one for one in self._open_lists if not one.is_prefix]
        self._reading.is_open = bool(self._open_lists)
        if opened:
            self._note_problem_at(opened[0].span, self._unclosed_message(opened))
            raise _Stop
        if self._open_lists:
            self._note_problem_at(self._open_lists[-1].span, "nothing follows this quote mark")
            self._reading.is_whole = False

    def _note_problem_at(self, span: Span, message: str) -> None:
        self._reading.problems.append(LanguageProblem(span, "syntax-error", message))

    def _unclosed_message(self, opened: list[List]) -> str:
        count = len(opened) + self._skipped
        message = (
            "this parenthesis is never closed"
            if count == 1
            else f"{count:,} parentheses are never closed, the first is this one"
        )
        inner = next((one for one in opened[1:] if one.span.column == 1), None)
        if inner is None:
            inner = next(
                (one for one in opened[0].items if isinstance(one, List) and one.span.column == 1), None
            )
        return (
            f"{message}; what begins at line {inner.span.line} is read as a part of it" if inner else message
        )

    # Atoms

    def _read_plain_name(self, word: str, start: int) -> Data:
        span = self._span(start)
        return Constant(span, CONSTANTS[word]) if word in CONSTANTS else Name(span, word, word)

    def _read_word(self, word: str, start: int) -> Data:
        span = self._span(start)
        if _NUMBER_LIKE.match(word):
            return Constant(span, self._read_number(word, start))
        try:
            if word[0] == ":":
                return Keyword(span, read_keyword(word[1:]))
            return read_name(word, span)
        except (BadName, BadEscape) as error:
            self._note_problem(start, str(error))
            return Constant(span, None)

    def _read_number(self, word: str, start: int) -> Scalar:
        try:
            if _INTEGER.fullmatch(word):
                return int(word)
        except ValueError:  # Python limits the digits of str to int conversion
            self._note_problem(start, f"an integer of {len(word):,} digits is too long", "bad-value")
            return 0
        if not _FLOAT.fullmatch(word):
            shown = word[:MAX_SHOWN_CHARACTERS]
            self._note_problem(
                start, f"`{shown}` is not a JSON number (1, -2, 0.5, 1e-3), and a name cannot begin like one"
            )
            return 0
        value = float(word)
        if value in {float("inf"), float("-inf")}:
            self._note_problem(
                start,
                f"{word[:MAX_SHOWN_CHARACTERS]} is beyond the range of floating-point numbers",
                "bad-value",
            )
        return value

    def _unescape(self, written: str, start: int) -> str:
        try:
            return unescape(written)
        except BadEscape as error:
            self._note_problem(start + error.offset, str(error))
            return written

    # Comments and invalid characters

    def _skip_comment(self, start: int) -> int:
        """Return the offset after a block comment; block comments nest."""
        depth = 0
        for edge in _COMMENT_EDGE.finditer(self._text, start):
            depth += 1 if edge[0] == "#|" else -1
            if not depth:
                return edge.end()
        self._reading.is_open = True
        self._note_problem(start, "this block comment is never closed: |# is missing")
        raise _Stop

    def _note_unexpected(self, character: str, start: int) -> None:
        self._reading.is_open = character in {'"', "|"}
        if character == '"':
            self._note_problem(start, "this string is never closed")
            raise _Stop
        if character == "|":
            self._note_problem(start, "this name in bars is never closed")
            raise _Stop
        shown = (
            f"`{character}`"
            if character.isprintable()
            else f"U+{ord(character):04X}, an invisible character,"
        )
        self._note_problem(
            start, f"{shown} is not valid here" + (f": {hint}" if (hint := _HINTS.get(character)) else "")
        )
