"""The outline of a Python file: what `ast` says, by the shape of lines where that is surely the same.

Parsing is ten times slower than all the rest that is done with a file. Lines tell as much unless a definition
seems to stand inside a string, or below a statement that is none.
"""

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache

from msgspec import Struct

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
