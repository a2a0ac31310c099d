"""The names that a file defines, its headings and its title."""

# ruff: noqa: E501 - a pattern is easier to read in one line

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from weft.memory.grammar_outline import grammar_outline
from weft.memory.protocol import Symbol
from weft.memory.python_outline import python_outline


class Outline(Struct, frozen=True):
    """What stands in a file, in order of lines."""

    symbols: tuple[Symbol, ...] = ()
    title: str | None = None


MAX_SYMBOLS = 5000
"""Generated files may define more; nobody looks for the last of them by name."""

MAX_LINE_CHARACTERS = 1000
"""Nobody writes a definition or a heading that is longer; the shape of longer lines is not looked at."""

MAX_SHAPE_CHARACTERS = 2_000_000
"""So much of a file is looked at for the shape of its lines, and no more."""


def outline_of(language: str | None, text: str, lines: Sequence[str]) -> Outline:
    """The outline of a file, by its language; empty for one we know nothing about."""
    if language == "python":
        names, title = python_outline(text)
        return Outline(tuple(names[:MAX_SYMBOLS]), title)
    if language == "markdown":
        return _headings(_markdown(_looked_at(lines)))
    if language in ("rest", "text"):
        return _headings(_rest(_looked_at(lines)))
    if language is None:
        return Outline()
    found = grammar_outline(language, text)
    if found is None:
        found = by_patterns(language, text)
    return Outline(tuple(found[:MAX_SYMBOLS]))


def _looked_at(lines: Iterable[str]) -> list[str]:
    """The lines whose shape is looked at; those that are too long are empty, so that the others keep their numbers."""
    room = MAX_SHAPE_CHARACTERS
    found: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        found.append(line if len(line) <= MAX_LINE_CHARACTERS else "")
    return found


def _headings(found: Iterator[Symbol]) -> Outline:
    symbols = tuple(found)[:MAX_SYMBOLS]
    return Outline(symbols, symbols[0].name if symbols else None)


_ATX = re.compile(r" {0,3}#{1,6}[ \t]++(.*)")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_UNDERLINE = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}[ \t]*$")


def _markdown(lines: Sequence[str]) -> Iterator[Symbol]:
    fence = ""
    before = ""
    for number, line in enumerate(lines, 1):
        found = _FENCE.match(line)
        if found and (not fence or (line.strip()[0] == fence[0] and len(found[1]) >= len(fence))):
            fence = "" if fence else found[1]
        elif not fence:
            heading = _ATX.match(line)
            name = heading[1].rstrip(" \t").rstrip("#").rstrip(" \t") if heading else ""
            if name:
                yield Symbol(name, "heading", number)
            elif (
                before.strip()
                and re.fullmatch(r"(=+|-{3,})[ \t]*", line)
                and not before.startswith((" ", "#", "|", "-", ">"))
            ):
                yield Symbol(before.strip(), "heading", number - 1)
        before = "" if fence else line


def _rest(lines: Sequence[str]) -> Iterator[Symbol]:
    for number in range(1, len(lines)):
        title, line = lines[number - 1].rstrip(), lines[number]
        if (
            title
            and _UNDERLINE.match(line)
            and len(line.rstrip()) >= len(title)
            and not _UNDERLINE.match(title)
            and title[0] != " "
        ):
            yield Symbol(title, "heading", number)


def _lines(pattern: str, kind: str) -> tuple[re.Pattern[str], str]:
    """A pattern in which `~` is some space, and `~?` some or none; it may cross a few lines, and never goes back."""
    spaced = pattern.replace("~?", r"\s{0,20}+").replace("~", r"\s{1,20}+")
    return re.compile(spaced, re.MULTILINE), kind


_JAVASCRIPT = (
    _lines(r"^[ \t]*+(?:export~)?(?:default~)?(?:abstract~)?class~([A-Za-z_$][\w$]*+)", "class"),
    _lines(r"^[ \t]*+(?:export~)?(?:default~)?(?:async~)?function~?\*?~?([A-Za-z_$][\w$]*+)", "function"),
    _lines(
        r"^(?:export~)?(?:const|let|var)~([A-Za-z_$][\w$]*+)~?=~?(?:async~?)?(?:\([^)\n]*+\)|[A-Za-z_$][\w$]*+)~?=>",
        "function",
    ),
    _lines(r"^(?:export~)?(?:interface|type|enum|namespace)~([A-Za-z_$][\w$]*+)", "type"),
    _lines(
        r"^[ \t]++(?:(?:public|private|protected|static|async|get|set|readonly)~){0,9}(?!if\b|for\b|while\b|switch\b|catch\b|return\b|function\b)([A-Za-z_$][\w$]*+)~?\([^)\n]*+\)~?(?::[^{\n]++)?\{",
        "method",
    ),
)
_C = (
    _lines(
        r"^(?:typedef~)?(?:struct|union|enum|class|namespace)~([A-Za-z_]\w*+)\s{0,20}(?:[:{][^;]{0,1000})?$",
        "type",
    ),
    # What it returns stands before the name, or alone in the line above.
    _lines(
        r"^(?![ \t]|return\b|else\b|typedef\b|if\b|for\b|while\b)[A-Za-z_](?:[\w:<>,*& \t]{0,200}?[ \t*&]|[\w:<>,*& \t]{0,200}+\n[ \t*&]{0,40}+)([A-Za-z_\x7e]\w{0,200}+(?:::\x7e?\w{1,200}+){0,9}+)~?\([^;{]{0,1000}\)\s{0,20}(?:const\s{0,20})?\{?$",
        "function",
    ),
    _lines(r"^#[ \t]*+define[ \t]++([A-Za-z_]\w*+)", "constant"),
)
_JAVA = (
    _lines(
        r"^[ \t]*+(?:(?:public|private|protected|static|final|abstract|sealed|data|open|internal|case|partial)~){0,9}(?:class|interface|enum|record|object|trait|struct)~([A-Za-z_]\w*+)",
        "class",
    ),
    _lines(
        r"^[ \t]*+(?:(?:public|private|protected|static|final|abstract|override|suspend|synchronized|virtual|async|internal|open|inline)~){1,9}(?:fun~|def~)?(?:[\w<>\[\],.?]{1,200}+~)?([A-Za-z_]\w*+)~?\(",
        "method",
    ),
    _lines(r"^[ \t]*+(?:fun|def)~([A-Za-z_]\w*+)", "function"),
)
_BY_LANGUAGE: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "javascript": _JAVASCRIPT,
    "typescript": _JAVASCRIPT,
    "vue": _JAVASCRIPT,
    "go": (
        _lines(r"^func~(?:\([^)\n]*+\)~?)?([A-Za-z_]\w*+)", "function"),
        _lines(r"^type~([A-Za-z_]\w*+)", "type"),
    ),
    "rust": (
        _lines(r"^[ \t]*+(?:pub(?:\([^)\n]*+\))?~)?(?:async~|const~|unsafe~){0,9}fn~([A-Za-z_]\w*+)", "function"),
        _lines(r"^[ \t]*+(?:pub(?:\([^)\n]*+\))?~)?(?:struct|enum|trait|mod|type|union)~([A-Za-z_]\w*+)", "type"),
        _lines(r"^[ \t]*+(?:#\[macro_export\]~?)?macro_rules!~([A-Za-z_]\w*+)", "macro"),
    ),
    "c": _C, "cpp": _C,
    "java": _JAVA, "kotlin": _JAVA, "scala": _JAVA, "csharp": _JAVA, "swift": (
        *_JAVA, _lines(r"^[ \t]*+(?:\w{1,40}+[ \t]{1,20}+){0,6}func~([A-Za-z_]\w*+)", "function"),
    ),
    "ruby": (
        _lines(r"^[ \t]*+(?:class|module)~([A-Z][\w:]*+)", "class"),
        _lines(r"^[ \t]*+def~(?:self\.)?([a-z_]\w*+[?!=]?)", "method"),
    ),
    "php": (
        _lines(r"^[ \t]*+(?:abstract~|final~){0,9}(?:class|interface|trait|enum)~([A-Za-z_]\w*+)", "class"),
        _lines(r"^[ \t]*+(?:(?:public|private|protected|static|final|abstract)~){0,9}function~&?([A-Za-z_]\w*+)", "function"),
    ),
    "perl": (_lines(r"^[ \t]*+sub~(\w++)", "function"), _lines(r"^package~([\w:]++)", "class")),
    "lua": (_lines(r"^[ \t]*+(?:local~)?function~([\w.:]++)", "function"),),
    "shell": (
        _lines(r"^[ \t]*+(?:function~)?([A-Za-z_][\w-]*+)[ \t]*+\(\)", "function"),
        _lines(r"^[ \t]*+function~([A-Za-z_][\w-]*+)[ \t]*+\{", "function"),
    ),
    "sql": (
        _lines(r"(?i)^[ \t]*+create~(?:or~replace~)?(?:temp(?:orary)?~|unique~|virtual~|materialized~)?(?:table|view|index|function|procedure|trigger|type)~(?:if~not~exists~)?[\"`\[]?([\w.]++)", "definition"),
    ),
    "elixir": (
        _lines(r"^[ \t]*+defmodule~([\w.]++)", "class"),
        _lines(r"^[ \t]*+defp?(?:macro)?~([a-z_]\w*+[?!]?)", "function"),
    ),
    "protobuf": (_lines(r"^[ \t]*+(?:message|service|enum|rpc)~(\w++)", "type"),),
    "make": (_lines(r"^([A-Za-z][\w.-]*+)[ \t]*+:(?!=)", "target"),),
    "toml": (_lines(r"^\[{1,2}+([^\]\n]++)\]", "heading"),),
    "ini": (_lines(r"^\[([^\]\n]++)\]", "heading"),),
    "css": (_lines(r"^([.#][A-Za-z][\w-]*+)[^{;\n]*+\{", "rule"),),
}  # fmt: skip


PATTERN_LANGUAGES = tuple(_BY_LANGUAGE)


def by_patterns(language: str, text: str) -> list[Symbol]:
    """The names by the shape of lines. A pattern that may cross lines says how far it looks, or texts could be
    written over which it takes hours."""
    text = "\n".join(_looked_at(text.split("\n")))
    starts = [
        (found.start(1), found[1], kind)
        for pattern, kind in _BY_LANGUAGE.get(language, ())
        for found in pattern.finditer(text)
    ]
    starts.sort()
    symbols: list[Symbol] = []
    place, line = 0, 1
    for start, name, kind in starts:
        line += text.count("\n", place, start)
        place = start
        if not symbols or (symbols[-1].name, symbols[-1].line) != (name, line):
            symbols.append(Symbol(name, kind, line))
    return symbols
