"""The outline of a file: the names it defines, its headings, its title.

Parsing is ten times slower than all the rest that is done with a file. Lines tell as much unless a definition
seems to stand inside a string, or below a statement that is none.
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
"""The beginning of a line that defines something. Patterns begin with the end of the line before and never go
back: so `re` passes over a text four times as quickly."""

_CODE = re.compile(r"""(?:[^"'#\\\n]|"(?!"")(?:[^"\\\n]|\\.)*"|'(?!'')(?:[^'\\\n]|\\.)*')*""")
"""As much of a line as is code and whole strings, up to three quotes or a comment."""

_TRIPLE = ('"""', "'''")

_DOCSTRING = re.compile(
    r"""(?:[ \t\f]*+(?:\#[^\n]*+)?\n)*+[rRuU]?("{3}|'{3}|"|')(?:\\?\s)*+((?:[^\\\n]|\\.)*?)(?:\1|\n)"""
)

MAX_BEFORE_TITLE = 50_000
"""So many characters are looked at for the docstring; licences above it are shorter."""


class NotSure(Exception):
    """Lines do not tell; the file must be parsed."""


class _Open(Struct, gc=False):
    """A class or function whose body may still go on."""

    indent: int
    kind: str
    checked: int
    """The place up to which no statement is known to have ended it."""


class _Strings(Struct):
    """Where the strings with three quotes stand in a text."""

    starts: list[int]
    ends: list[int]
    sure_to: int
    """Behind this place strings may begin and end elsewhere."""

    def has(self, place: int) -> bool:
        """Whether a place is inside a string."""
        number = bisect_right(self.starts, place) - 1
        return number >= 0 and place < self.ends[number]


def python_outline(text: str) -> tuple[list[Symbol], str | None]:
    """The names and the title of a Python file."""
    try:
        return list(by_lines(text)), title_by_lines(text)
    except NotSure:
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the file's author, about its escapes
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return list(by_lines(text, is_last_word=True)), title_by_lines(text)
    return list(by_tree(tree)), title_by_tree(tree)


def by_lines(text: str, *, is_last_word: bool = False) -> Iterator[Symbol]:
    """The names by the shape of lines; raises NotSure unless it is the last word."""
    text = f"\n{text}"
    strings = _strings(text)
    around: list[_Open] = []
    line = place = 0
    for found in _NAME.finditer(text):
        start, end = found.span()
        if start > strings.sure_to and not is_last_word:
            raise NotSure
        line += text.count("\n", place, start + 1)
        place = start + 1
        if strings.has(start):
            continue
        indent, word, name, constant = found.groups()
        if constant:
            yield Symbol(constant, "constant", line)
        else:
            width = len(indent.expandtabs()) if indent else 0
            yield Symbol(name, _kind(text, _Open(width, word, end), start, around, strings), line)


def _strings(text: str) -> _Strings:
    """The strings with three quotes, found without looking at the lines that have none."""
    strings = _Strings([], [], len(text))
    place = 0
    double, single = _find(text, _TRIPLE[0], 0), _find(text, _TRIPLE[1], 0)
    while (quoted := min(single, double)) < len(text):
        begin = max(place, text.rfind("\n", place, quoted) + 1)
        start = quoted
        if begin < quoted and not text[begin:quoted].isspace():  # most stand at the beginning of their line
            code = _CODE.match(text, begin)
            start = code.end() if code else begin
        quote = text[start : start + 3]
        if quote in _TRIPLE:
            place = _end_of_string(text, quote, start + 3)
            strings.starts.append(start)
            strings.ends.append(place)
            if place == len(text) and not text.endswith(quote):
                strings.sure_to = min(strings.sure_to, start)
        else:
            if quote[:1] not in ("", "#", "\n"):  # a string that does not end in its line
                strings.sure_to = min(strings.sure_to, start)
            place = (text.find("\n", start) + 1) or len(text)
        if double < place:
            double = _find(text, _TRIPLE[0], place)
        if single < place:
            single = _find(text, _TRIPLE[1], place)
    return strings


def _find(text: str, part: str, place: int) -> int:
    """Where the part is next; the end of the text when it is nowhere."""
    found = text.find(part, place)
    return found if found >= 0 else len(text)


def _end_of_string(text: str, quote: str, place: int) -> int:
    """Where a string ends whose text begins at this place; the end of the text if it does not."""
    while (close := text.find(quote, place)) >= 0:
        slashes = close
        while slashes > place and text[slashes - 1] == "\\":
            slashes -= 1
        if (close - slashes) % 2 == 0:
            return close + 3
        place = close + 1
    return len(text)


def _kind(text: str, body: _Open, start: int, around: list[_Open], strings: _Strings) -> str:
    """What the definition is, by what it stands inside; `around` is brought up to this line."""
    while around and (around[-1].indent >= body.indent or _has_ended(text, around[-1], start, strings)):
        around.pop()
    is_method = bool(around) and around[-1].kind == "class"
    around.append(body)
    if body.kind == "class":
        return "class"
    return "method" if is_method else "function"


def _has_ended(text: str, body: _Open, place: int, strings: _Strings) -> bool:
    """Whether a statement between the body's first line and this place stands outside of it."""
    for statement in _statement(body.indent).finditer(text, body.checked, place):
        if not strings.has(statement.start()):
            return True
    body.checked = place
    return False


@cache
def _statement(indent: int) -> re.Pattern[str]:
    """Finds a line that is no deeper than this: it ends a body, unless it only goes on with brackets."""
    return re.compile(rf"\n[ ]{{0,{indent}}}+[^\s#\"')\]}}]")


def title_by_lines(text: str) -> str | None:
    """The first line of the docstring, as it is written."""
    found = _DOCSTRING.match(text, 0, MAX_BEFORE_TITLE)
    return found[2].strip() or None if found else None


def by_tree(tree: ast.Module) -> Iterator[Symbol]:
    """The names by the syntax tree."""
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
    """The first line of the docstring."""
    docstring = ast.get_docstring(tree) or ""
    return docstring.strip().partition("\n")[0].strip() or None


# ruff: noqa: E501 - a pattern is easier to read in one line


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
