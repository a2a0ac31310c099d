"""The names that a file defines, its headings and its title."""

# ruff: noqa: E501 - a pattern is easier to read in one line

import re
from collections.abc import Iterator, Sequence

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


def outline_of(language: str | None, text: str, lines: Sequence[str]) -> Outline:
    """The outline of a file, by its language; empty for one we know nothing about."""
    if language == "python":
        names, title = python_outline(text)
        return Outline(tuple(names[:MAX_SYMBOLS]), title)
    if language == "markdown":
        return _headings(_markdown(lines))
    if language in ("rest", "text"):
        return _headings(_rest(lines))
    if language is None:
        return Outline()
    found = grammar_outline(language, text)
    if found is None:
        found = by_patterns(language, text)
    return Outline(tuple(found[:MAX_SYMBOLS]))


def _headings(found: Iterator[Symbol]) -> Outline:
    symbols = tuple(found)[:MAX_SYMBOLS]
    return Outline(symbols, symbols[0].name if symbols else None)


_ATX = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$")
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
            if heading and heading[1]:
                yield Symbol(heading[1], "heading", number)
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
    return re.compile(pattern, re.MULTILINE), kind


_JAVASCRIPT = (
    _lines(r"^[ \t]*(?:export\s+)?(?:default\s+)?(?:abstract\s+)?class\s+([A-Za-z_$][\w$]*)", "class"),
    _lines(
        r"^[ \t]*(?:export\s+)?(?:default\s+)?(?:async\s+)?function\s*\*?\s*([A-Za-z_$][\w$]*)", "function"
    ),
    _lines(
        r"^(?:export\s+)?(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=\s*(?:async\s*)?(?:\([^)\n]*\)|[A-Za-z_$][\w$]*)\s*=>",
        "function",
    ),
    _lines(r"^(?:export\s+)?(?:interface|type|enum|namespace)\s+([A-Za-z_$][\w$]*)", "type"),
    _lines(
        r"^[ \t]+(?:(?:public|private|protected|static|async|get|set|readonly)\s+)*(?!if\b|for\b|while\b|switch\b|catch\b|return\b|function\b)([A-Za-z_$][\w$]*)\s*\([^)\n]*\)\s*(?::[^{\n]+)?\{",
        "method",
    ),
)
_C = (
    _lines(
        r"^(?:typedef\s+)?(?:struct|union|enum|class|namespace)\s+([A-Za-z_]\w*)\s{0,99}(?:[:{][^;]{0,1000})?$",
        "type",
    ),
    _lines(
        r"^(?![ \t]|return\b|else\b|typedef\b|if\b|for\b|while\b)[A-Za-z_][\w:<>,*&\s]{0,200}?[\s*&]([A-Za-z_~]\w{0,200}(?:::~?\w{1,200}){0,9})\s{0,9}\([^;{]{0,1000}\)\s{0,99}(?:const\s{0,9})?\{?$",
        "function",
    ),
    _lines(r"^#\s*define\s+([A-Za-z_]\w*)", "constant"),
)
_JAVA = (
    _lines(
        r"^[ \t]*(?:(?:public|private|protected|static|final|abstract|sealed|data|open|internal|case|partial)\s+)*(?:class|interface|enum|record|object|trait|struct)\s+([A-Za-z_]\w*)",
        "class",
    ),
    _lines(
        r"^[ \t]*(?:(?:public|private|protected|static|final|abstract|override|suspend|synchronized|virtual|async|internal|open|inline)\s+)+(?:fun\s+|def\s+)?(?:[\w<>\[\],.?]+\s+)?([A-Za-z_]\w*)\s*\(",
        "method",
    ),
    _lines(r"^[ \t]*(?:fun|def)\s+([A-Za-z_]\w*)", "function"),
)
_BY_LANGUAGE: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "javascript": _JAVASCRIPT,
    "typescript": _JAVASCRIPT,
    "vue": _JAVASCRIPT,
    "go": (
        _lines(r"^func\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w*)", "function"),
        _lines(r"^type\s+([A-Za-z_]\w*)", "type"),
    ),
    "rust": (
        _lines(r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|const\s+|unsafe\s+)*fn\s+([A-Za-z_]\w*)", "function"),
        _lines(r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|trait|mod|type|union)\s+([A-Za-z_]\w*)", "type"),
        _lines(r"^[ \t]*(?:#\[macro_export\]\s*)?macro_rules!\s+([A-Za-z_]\w*)", "macro"),
    ),
    "c": _C, "cpp": _C,
    "java": _JAVA, "kotlin": _JAVA, "scala": _JAVA, "csharp": _JAVA, "swift": (
        *_JAVA, _lines(r"^[ \t]*(?:\w{1,40}[ \t]+){0,6}func\s+([A-Za-z_]\w*)", "function"),
    ),
    "ruby": (
        _lines(r"^[ \t]*(?:class|module)\s+([A-Z][\w:]*)", "class"),
        _lines(r"^[ \t]*def\s+(?:self\.)?([a-z_]\w*[?!=]?)", "method"),
    ),
    "php": (
        _lines(r"^[ \t]*(?:abstract\s+|final\s+)*(?:class|interface|trait|enum)\s+([A-Za-z_]\w*)", "class"),
        _lines(r"^[ \t]*(?:(?:public|private|protected|static|final|abstract)\s+)*function\s+&?([A-Za-z_]\w*)", "function"),
    ),
    "perl": (_lines(r"^[ \t]*sub\s+(\w+)", "function"), _lines(r"^package\s+([\w:]+)", "class")),
    "lua": (_lines(r"^[ \t]*(?:local\s+)?function\s+([\w.:]+)", "function"),),
    "shell": (
        _lines(r"^[ \t]*(?:function\s+)?([A-Za-z_][\w-]*)[ \t]*\(\)", "function"),
        _lines(r"^[ \t]*function\s+([A-Za-z_][\w-]*)[ \t]*\{", "function"),
    ),
    "sql": (
        _lines(r"(?i)^[ \t]*create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+|unique\s+|virtual\s+|materialized\s+)?(?:table|view|index|function|procedure|trigger|type)\s+(?:if\s+not\s+exists\s+)?[\"`\[]?([\w.]+)", "definition"),
    ),
    "elixir": (
        _lines(r"^[ \t]*defmodule\s+([\w.]+)", "class"),
        _lines(r"^[ \t]*defp?(?:macro)?\s+([a-z_]\w*[?!]?)", "function"),
    ),
    "protobuf": (_lines(r"^[ \t]*(?:message|service|enum|rpc)\s+(\w+)", "type"),),
    "make": (_lines(r"^([A-Za-z][\w.-]*)\s*:(?!=)", "target"),),
    "toml": (_lines(r"^\[+([^\]\n]+)\]+", "heading"),),
    "ini": (_lines(r"^\[([^\]\n]+)\]", "heading"),),
    "css": (_lines(r"^([.#][A-Za-z][\w-]*)[^{;\n]*\{", "rule"),),
}  # fmt: skip


PATTERN_LANGUAGES = tuple(_BY_LANGUAGE)


def by_patterns(language: str, text: str) -> list[Symbol]:
    """The names by the shape of lines. A pattern that may cross lines says how far it looks."""
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
