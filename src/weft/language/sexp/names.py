"""Data types of S-expressions, and reading and writing of names and strings."""

import re
from itertools import takewhile

from msgspec import Struct

from weft.language.ast import Scalar
from weft.language.source import Span
from weft.limits import is_unicode

STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
BARRED = r"\|[^|\\]*+(?:\\.[^|\\]*+)*+\|"

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|(.))", re.DOTALL)
_SHORT_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "|": "|"}
_ESCAPED_CHARACTERS = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}
_LAST_CHARACTER = 0x10FFFF


class BadEscape(ValueError):
    """An invalid escape sequence; `offset` is its position in the source of the string."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def unescape(written: str) -> str:
    """Return the text for the source between quotes or bars. Raise BadEscape."""
    if "\\" not in written:
        return written
    text = _ESCAPE.sub(_decode_escape, written)
    if is_unicode(text):
        return text
    try:  # \ud83d\ude00 is one character, as in JSON
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise BadEscape("a lone surrogate is not a valid character", written.index("\\")) from error


def _decode_escape(escape: re.Match[str]) -> str:
    four, braced, short = escape.groups()
    if short is not None:
        if short not in _SHORT_ESCAPES:
            shown = "\\" + short if short.isprintable() else "a backslash at the end of a line"
            raise BadEscape(
                f'{shown} is not an escape: the escapes are \\n \\t \\r \\" \\\\ \\uXXXX \\u{{X...}}',
                escape.start(),
            )
        return _SHORT_ESCAPES[short]
    code = int(four or braced, 16)
    if code > _LAST_CHARACTER:
        raise BadEscape(f"there is no character U+{code:X}", escape.start())
    return chr(code)


def escape(text: str, *, mark: str = '"', keeps_lines: bool = False) -> str:
    """Return the text enclosed in `mark`, escaped so that `unescape` restores it.

    Invisible characters are escaped, so that printed programs hide nothing. Line breaks are kept if
    `keeps_lines` is set.
    """
    if text.isprintable() and mark not in text and "\\" not in text:
        return f"{mark}{text}{mark}"
    written = {**_ESCAPED_CHARACTERS, mark: f"\\{mark}"}
    if keeps_lines:
        del written["\n"]
    shown = (
        written[one]
        if one in written
        else one
        if one.isprintable() or one == "\n"
        else f"\\u{{{ord(one):x}}}"
        for one in text
    )
    return f"{mark}{''.join(shown)}{mark}"


class Name(Struct, frozen=True, gc=False):
    """A symbol: `review`, `answer.items[0]`, `|any text|`."""

    span: Span
    text: str
    """The whole name with its path and without bars; the value of a quoted name."""
    name: str
    path: tuple[str | int, ...] = ()
    is_barred: bool = False
    """Whether it is written in bars, so that it never names a special form."""


class Keyword(Struct, frozen=True, gc=False):
    """`:name`."""

    span: Span
    name: str


class Constant(Struct, frozen=True, gc=False):
    """A number, a string, `true`, `false` or `nil`."""

    span: Span
    value: Scalar


class List(Struct, frozen=True, gc=False):
    """Data in parentheses, or `'x`, which is `(quote x)`."""

    span: Span
    items: list["Data"]
    is_prefix: bool = False
    """Whether it is written `'x`, so that it ends with its datum and not with a parenthesis."""


Data = Name | Keyword | Constant | List


INVISIBLE = "\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
"""Control and format characters. In names they would make different names look the same."""

_DELIMITERS = rf"\s()\[\]{{}}\"';,`|\\\#{INVISIBLE}"
_PLAIN = f"[^{_DELIMITERS}]"
_PLAIN_WITHOUT_DOT = f"[^.{_DELIMITERS}]"
_INDEX = rf"\[(?:-?[0-9]{{1,18}}|{STRING})?\]"
WORD = rf"(?:{_PLAIN}|{BARRED})(?:{_PLAIN}|{BARRED}|{_INDEX})*+"
"""A name, a keyword or a number."""

PLAIN_NAME = rf"(?![+-]?\.?[0-9]|[:.]){_PLAIN_WITHOUT_DOT}++(?![.\[|])"
"""A word that is a name without a path."""

_NOT_PLAIN = re.compile(r"[.\[|]")
_PIECE = re.compile(
    rf"(?P<dot>\.)|(?P<barred>{BARRED})|\[(?P<index>-?[0-9]{{1,18}})\]|\[(?P<key>{STRING})\]|(?P<plain>\[\]|[^.\[|]+)",
    re.DOTALL,
)
_UNBARRED = re.compile(rf"(?![+-]?\.?[0-9]|:){_PLAIN_WITHOUT_DOT}+")
_TYPE = re.compile(r"[a-z]+\[\]")
_WITHIN_PART = {"plain", "barred"}
CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "nil": None}
_RESERVED_WORDS = {*CONSTANTS, "else"}
"""Words that must be barred to be used as names."""


class BadName(ValueError):
    """A word that is not a valid name."""


def read_name(word: str, span: Span) -> Name:
    """Parse a word as a name with its path. Raise BadName or BadEscape."""
    if not _NOT_PLAIN.search(word):
        return Name(span, word, word)
    pieces = _pieces(word)
    parts = _parts(word, pieces)
    text = "".join(f"[{value}]" if kind in {"index", "key"} else value for kind, value in pieces)
    is_barred = any(kind == "barred" for kind, _ in takewhile(lambda piece: piece[0] in _WITHIN_PART, pieces))
    return Name(span, text, str(parts[0]), tuple(parts[1:]), is_barred)


def read_keyword(word: str) -> str:
    """Parse the name of a keyword after its colon; it may contain dots. Raise BadName or BadEscape."""
    name = "".join(value for _, value in _pieces(word)) if _NOT_PLAIN.search(word) else word
    if not name:
        raise BadName("a keyword needs a name after the colon")
    return name


def _pieces(word: str) -> list[tuple[str, str]]:
    """Split a word at dots, indexes and bars into pairs of kind and text."""
    pieces = []
    for match in _PIECE.finditer(word):
        kind = str(match.lastgroup)
        written = match[kind]
        pieces.append((kind, unescape(written[1:-1]) if kind in {"barred", "key"} else written))
    return pieces


def _parts(word: str, pieces: list[tuple[str, str]]) -> list[str | int]:
    """Return the name and the keys of its path. A name with a colon is a tool; dots are part of its name."""
    is_tool = any(kind == "plain" and ":" in value for kind, value in pieces)
    parts: list[str | int] = [""]
    is_after_index = False
    for kind, value in pieces:
        begins_part = kind in {"index", "key"} or (kind == "dot" and not is_tool)
        if begins_part and parts[-1] == "" and not is_after_index:
            raise BadName(f"`{word}` is not a name: part of it is empty")
        if not begins_part and is_after_index:
            raise BadName(f"`{word}` is not a name: only a dot or another index can follow an index")
        if begins_part:
            parts.append(int(value) if kind == "index" else value if kind == "key" else "")
        else:
            parts[-1] = f"{parts[-1]}{value}"
        is_after_index = kind in {"index", "key"}
    if parts[-1] == "" and not is_after_index:
        raise BadName(f"`{word}` is not a name: part of it is empty")
    return parts


def name_text(name: str) -> str:
    """Return the source text of a name, in bars if needed."""
    if _UNBARRED.fullmatch(name) and name not in _RESERVED_WORDS:
        return name
    return escape(name, mark="|")


def keyword_text(name: str) -> str:
    """Return the source text of a keyword: `:name`, with bars if needed."""
    return f":{name}" if _UNBARRED.fullmatch(name) else f":{escape(name, mark='|')}"


def type_text(name: str) -> str:
    """Return the source text of the shape of a parameter: a name, or `string[]`."""
    return name if _TYPE.fullmatch(name) else name_text(name)


def path_text(name: str, path: tuple[str | int, ...]) -> str:
    """Return the source text of a name with a path: `answer.items[0]`."""
    if not path:
        return name_text(name)
    root = escape(name, mark="|") if ":" in name else name_text(name)
    return root + "".join(map(_key_text, path))


def _key_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _UNBARRED.fullmatch(step) and ":" not in step else f"[{escape(step)}]"
