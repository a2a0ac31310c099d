"""Outlines of files: defined names, headings and title.

Parsing Python takes ten times as long as everything else that is done with a file. So definitions are found by
regular expressions on lines, and a file is parsed only where strings make that unreliable.
"""

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from msgspec import Struct

from weft.memory.files.treesitter import grammar_outline
from weft.memory.protocol import Symbol

_NAME = re.compile(
    r"\n([ \t]*+)(?=[acdA-Z])"
    r"(?:(?:async[ \t]++)?(def|class)[ \t]++([^\W\d]\w*+)[ \t]*+[(:\[]"
    r"|(?<=\n)([A-Z][A-Z0-9_]*+)[ \t]*+(?:=(?!=)|:))"
)
"""The beginning of a line that defines something. The pattern starts with a newline and never backtracks, which
makes `re` four times as fast."""

_CODE = re.compile(r"""(?:[^"'#\\\n]|"(?!"")(?:[^"\\\n]|\\.)*"|'(?!'')(?:[^'\\\n]|\\.)*')*""")
"""The part of a line that is code and complete strings, up to three quotes or a comment."""

_TRIPLE = ('"""', "'''")

_DOCSTRING = re.compile(
    r"""(?:[ \t\f]*+(?:\#[^\n]*+)?\n)*+[rRuU]?("{3}|'{3}|"|')(?:\\?\s)*+((?:[^\\\n]|\\.)*?)(?:\1|\n)"""
)

MAX_BEFORE_TITLE = 50_000
"""Number of characters searched for the docstring; licence texts above it are shorter."""


class NotSure(Exception):
    """The lines of a Python file are ambiguous, so it must be parsed."""


class _OpenBody(Struct, gc=False):
    """A class or function with a body that may not have ended."""

    indent: int
    kind: str
    checked: int
    """Position up to which no statement ends the body."""


class _Strings(Struct):
    """Positions of the triple-quoted strings in a text."""

    starts: list[int]
    ends: list[int]
    sure_to: int
    """Positions of strings after this one are uncertain."""

    def has(self, position: int) -> bool:
        number = bisect_right(self.starts, position) - 1
        return number >= 0 and position < self.ends[number]


def python_outline(text: str) -> tuple[list[Symbol], str | None]:
    try:
        return list(by_lines(text)), title_by_lines(text)
    except NotSure:
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in the file
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return list(by_lines(text, is_last_word=True)), title_by_lines(text)
    return list(by_tree(tree)), title_by_tree(tree)


def by_lines(text: str, *, is_last_word: bool = False) -> Iterator[Symbol]:
    """Yield the definitions found by regular expressions. Raise NotSure if the lines are ambiguous.

    With `is_last_word` NotSure is not raised, because the file cannot be parsed either.
    """
    text = f"\n{text}"
    strings = _find_strings(text)
    around: list[_OpenBody] = []
    line = position = 0
    for found in _NAME.finditer(text):
        start, end = found.span()
        if start > strings.sure_to and not is_last_word:
            raise NotSure
        line += text.count("\n", position, start + 1)
        position = start + 1
        if strings.has(start):
            continue
        indent, word, name, constant = found.groups()
        if constant:
            yield Symbol(constant, "constant", line)
        else:
            width = len(indent.expandtabs()) if indent else 0
            yield Symbol(name, _kind(text, _OpenBody(width, word, end), start, around, strings), line)


def _find_strings(text: str) -> _Strings:
    """Find the triple-quoted strings; lines without three quotes are skipped."""
    strings = _Strings([], [], len(text))
    position = 0
    double, single = _find(text, _TRIPLE[0], 0), _find(text, _TRIPLE[1], 0)
    while (quoted := min(single, double)) < len(text):
        begin = max(position, text.rfind("\n", position, quoted) + 1)
        start = quoted
        if begin < quoted and not text[begin:quoted].isspace():  # most strings begin their line
            code = _CODE.match(text, begin)
            start = code.end() if code else begin
        quote = text[start : start + 3]
        if quote in _TRIPLE:
            position = _end_of_string(text, quote, start + 3)
            strings.starts.append(start)
            strings.ends.append(position)
            if position == len(text) and not text.endswith(quote):
                strings.sure_to = min(strings.sure_to, start)
        else:
            if quote[:1] not in ("", "#", "\n"):  # a string that does not end in its line
                strings.sure_to = min(strings.sure_to, start)
            position = (text.find("\n", start) + 1) or len(text)
        if double < position:
            double = _find(text, _TRIPLE[0], position)
        if single < position:
            single = _find(text, _TRIPLE[1], position)
    return strings


def _find(text: str, part: str, position: int) -> int:
    """Return the next position of `part`, or the end of the text."""
    found = text.find(part, position)
    return found if found >= 0 else len(text)


def _end_of_string(text: str, quote: str, position: int) -> int:
    """Return the end of a string whose content begins at `position`; the end of the text if unclosed."""
    while (close := text.find(quote, position)) >= 0:
        slashes = close
        while slashes > position and text[slashes - 1] == "\\":
            slashes -= 1
        if (close - slashes) % 2 == 0:
            return close + 3
        position = close + 1
    return len(text)


def _kind(text: str, body: _OpenBody, start: int, around: list[_OpenBody], strings: _Strings) -> str:
    """Return class, method or function for a definition. Update `around`, the bodies that enclose it."""
    while around and (around[-1].indent >= body.indent or _has_ended(text, around[-1], start, strings)):
        around.pop()
    is_method = bool(around) and around[-1].kind == "class"
    around.append(body)
    if body.kind == "class":
        return "class"
    return "method" if is_method else "function"


def _has_ended(text: str, body: _OpenBody, position: int, strings: _Strings) -> bool:
    """Return True if a statement before this position has ended the body."""
    for statement in _statement_pattern(body.indent).finditer(text, body.checked, position):
        if not strings.has(statement.start()):
            return True
    body.checked = position
    return False


@cache
def _statement_pattern(indent: int) -> re.Pattern[str]:
    # A line with at most this indent ends a body, unless it begins with a closing bracket.
    return re.compile(rf"\n[ ]{{0,{indent}}}+[^\s#\"')\]}}]")


def title_by_lines(text: str) -> str | None:
    found = _DOCSTRING.match(text, 0, MAX_BEFORE_TITLE)
    return found[2].strip() or None if found else None


def by_tree(tree: ast.Module) -> Iterator[Symbol]:
    stack: list[tuple[ast.AST, str]] = [(node, "module") for node in reversed(tree.body)]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, ast.ClassDef):
            yield Symbol(node.name, "class", node.lineno)
            inside = "class"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Symbol(node.name, "method" if inside == "class" else "function", node.lineno)
            inside = "function"
        elif node.__class__ in (ast.Assign, ast.AnnAssign) and getattr(node, "col_offset", 1) == 0:
            yield from _constants(node)
        children = [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
        ]
        stack.extend((child, inside) for child in reversed(children))


def _constants(node: ast.AST) -> Iterator[Symbol]:
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][A-Z0-9_]*", target.id):
        yield Symbol(target.id, "constant", target.lineno)


def title_by_tree(tree: ast.Module) -> str | None:
    docstring = ast.get_docstring(tree) or ""
    return docstring.strip().partition("\n")[0].strip() or None


# ruff: noqa: E501 - a pattern is easier to read in one line


class Outline(Struct, frozen=True):
    """Definitions or headings of a file in line order, and its title."""

    symbols: tuple[Symbol, ...] = ()
    title: str | None = None


MAX_SYMBOLS = 5000
"""Only generated files define more."""

MAX_LINE_CHARACTERS = 1000
"""Longer lines are not searched: no definition or heading is that long."""

MAX_SHAPE_CHARACTERS = 2_000_000
"""Number of characters of a file that are searched."""


def outline_of(language: str | None, text: str, lines: Sequence[str]) -> Outline:
    """Return the outline of a file; empty if its language is unknown."""
    if language == "python":
        names, title = python_outline(text)
        return Outline(tuple(names[:MAX_SYMBOLS]), title)
    if language == "markdown":
        return _heading_outline(_markdown(_lines_to_search(lines)))
    if language in ("rest", "text"):
        return _heading_outline(_restructured_text(_lines_to_search(lines)))
    if language is None:
        return Outline()
    found = grammar_outline(language, text)
    if found is None:
        found = by_patterns(language, text)
    return Outline(tuple(found[:MAX_SYMBOLS]))


def _lines_to_search(lines: Iterable[str]) -> list[str]:
    """Return the lines to search; lines that are too long become empty, so that the others keep their numbers."""
    left = MAX_SHAPE_CHARACTERS
    found: list[str] = []
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            break
        found.append(line if len(line) <= MAX_LINE_CHARACTERS else "")
    return found


def _heading_outline(found: Iterator[Symbol]) -> Outline:
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


def _restructured_text(lines: Sequence[str]) -> Iterator[Symbol]:
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


def _regex(pattern: str, kind: str) -> tuple[re.Pattern[str], str]:
    """Compile a pattern in which `~` is white space, and `~?` optional white space; both may span a few lines.

    Repetitions are possessive or bounded. Otherwise a hostile text could take hours to match.
    """
    spaced = pattern.replace("~?", r"\s{0,20}+").replace("~", r"\s{1,20}+")
    return re.compile(spaced, re.MULTILINE), kind


_JAVASCRIPT = (
    _regex(r"^[ \t]*+(?:export~)?(?:default~)?(?:abstract~)?class~([A-Za-z_$][\w$]*+)", "class"),
    _regex(r"^[ \t]*+(?:export~)?(?:default~)?(?:async~)?function~?\*?~?([A-Za-z_$][\w$]*+)", "function"),
    _regex(
        r"^(?:export~)?(?:const|let|var)~([A-Za-z_$][\w$]*+)~?=~?(?:async~?)?(?:\([^)\n]*+\)|[A-Za-z_$][\w$]*+)~?=>",
        "function",
    ),
    _regex(r"^(?:export~)?(?:interface|type|enum|namespace)~([A-Za-z_$][\w$]*+)", "type"),
    _regex(
        r"^[ \t]++(?:(?:public|private|protected|static|async|get|set|readonly)~){0,9}(?!if\b|for\b|while\b|switch\b|catch\b|return\b|function\b)([A-Za-z_$][\w$]*+)~?\([^)\n]*+\)~?(?::[^{\n]++)?\{",
        "method",
    ),
)
_C = (
    _regex(
        r"^(?:typedef~)?(?:struct|union|enum|class|namespace)~([A-Za-z_]\w*+)\s{0,20}(?:[:{][^;]{0,1000})?$",
        "type",
    ),
    # The return type is before the name, or alone in the line above.
    _regex(
        r"^(?![ \t]|return\b|else\b|typedef\b|if\b|for\b|while\b)[A-Za-z_](?:[\w:<>,*& \t]{0,200}?[ \t*&]|[\w:<>,*& \t]{0,200}+\n[ \t*&]{0,40}+)([A-Za-z_\x7e]\w{0,200}+(?:::\x7e?\w{1,200}+){0,9}+)~?\([^;{]{0,1000}\)\s{0,20}(?:const\s{0,20})?\{?$",
        "function",
    ),
    _regex(r"^#[ \t]*+define[ \t]++([A-Za-z_]\w*+)", "constant"),
)
_JAVA = (
    _regex(
        r"^[ \t]*+(?:(?:public|private|protected|static|final|abstract|sealed|data|open|internal|case|partial)~){0,9}(?:class|interface|enum|record|object|trait|struct)~([A-Za-z_]\w*+)",
        "class",
    ),
    _regex(
        r"^[ \t]*+(?:(?:public|private|protected|static|final|abstract|override|suspend|synchronized|virtual|async|internal|open|inline)~){1,9}(?:fun~|def~)?(?:[\w<>\[\],.?]{1,200}+~)?([A-Za-z_]\w*+)~?\(",
        "method",
    ),
    _regex(r"^[ \t]*+(?:fun|def)~([A-Za-z_]\w*+)", "function"),
)
PATTERNS_BY_LANGUAGE: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "javascript": _JAVASCRIPT,
    "typescript": _JAVASCRIPT,
    "vue": _JAVASCRIPT,
    "go": (
        _regex(r"^func~(?:\([^)\n]*+\)~?)?([A-Za-z_]\w*+)", "function"),
        _regex(r"^type~([A-Za-z_]\w*+)", "type"),
    ),
    "rust": (
        _regex(r"^[ \t]*+(?:pub(?:\([^)\n]*+\))?~)?(?:async~|const~|unsafe~){0,9}fn~([A-Za-z_]\w*+)", "function"),
        _regex(r"^[ \t]*+(?:pub(?:\([^)\n]*+\))?~)?(?:struct|enum|trait|mod|type|union)~([A-Za-z_]\w*+)", "type"),
        _regex(r"^[ \t]*+(?:#\[macro_export\]~?)?macro_rules!~([A-Za-z_]\w*+)", "macro"),
    ),
    "c": _C, "cpp": _C,
    "java": _JAVA, "kotlin": _JAVA, "scala": _JAVA, "csharp": _JAVA, "swift": (
        *_JAVA, _regex(r"^[ \t]*+(?:\w{1,40}+[ \t]{1,20}+){0,6}func~([A-Za-z_]\w*+)", "function"),
    ),
    "ruby": (
        _regex(r"^[ \t]*+(?:class|module)~([A-Z][\w:]*+)", "class"),
        _regex(r"^[ \t]*+def~(?:self\.)?([a-z_]\w*+[?!=]?)", "method"),
    ),
    "php": (
        _regex(r"^[ \t]*+(?:abstract~|final~){0,9}(?:class|interface|trait|enum)~([A-Za-z_]\w*+)", "class"),
        _regex(r"^[ \t]*+(?:(?:public|private|protected|static|final|abstract)~){0,9}function~&?([A-Za-z_]\w*+)", "function"),
    ),
    "perl": (_regex(r"^[ \t]*+sub~(\w++)", "function"), _regex(r"^package~([\w:]++)", "class")),
    "lua": (_regex(r"^[ \t]*+(?:local~)?function~([\w.:]++)", "function"),),
    "shell": (
        _regex(r"^[ \t]*+(?:function~)?([A-Za-z_][\w-]*+)[ \t]*+\(\)", "function"),
        _regex(r"^[ \t]*+function~([A-Za-z_][\w-]*+)[ \t]*+\{", "function"),
    ),
    "sql": (
        _regex(r"(?i)^[ \t]*+create~(?:or~replace~)?(?:temp(?:orary)?~|unique~|virtual~|materialized~)?(?:table|view|index|function|procedure|trigger|type)~(?:if~not~exists~)?[\"`\[]?([\w.]++)", "definition"),
    ),
    "elixir": (
        _regex(r"^[ \t]*+defmodule~([\w.]++)", "class"),
        _regex(r"^[ \t]*+defp?(?:macro)?~([a-z_]\w*+[?!]?)", "function"),
    ),
    "protobuf": (_regex(r"^[ \t]*+(?:message|service|enum|rpc)~(\w++)", "type"),),
    "make": (_regex(r"^([A-Za-z][\w.-]*+)[ \t]*+:(?!=)", "target"),),
    "toml": (_regex(r"^\[{1,2}+([^\]\n]++)\]", "heading"),),
    "ini": (_regex(r"^\[([^\]\n]++)\]", "heading"),),
    "css": (_regex(r"^([.#][A-Za-z][\w-]*+)[^{;\n]*+\{", "rule"),),
}  # fmt: skip


def by_patterns(language: str, text: str) -> list[Symbol]:
    """Return the definitions found by the regular expressions of a language."""
    text = "\n".join(_lines_to_search(text.split("\n")))
    starts = [
        (found.start(1), found[1], kind)
        for pattern, kind in PATTERNS_BY_LANGUAGE.get(language, ())
        for found in pattern.finditer(text)
    ]
    starts.sort()
    symbols: list[Symbol] = []
    position, line = 0, 1
    for start, name, kind in starts:
        line += text.count("\n", position, start)
        position = start
        if not symbols or (symbols[-1].name, symbols[-1].line) != (name, line):
            symbols.append(Symbol(name, kind, line))
    return symbols
