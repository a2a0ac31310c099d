"""The outline of a Python file: what `ast` says, by the shape of lines where that is surely the same.

Parsing is ten times slower than all the rest that is done with a file. Lines tell as much unless a definition
seems to stand inside a string, or below a statement that is none.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct

from weft.memory.protocol import Symbol

_DEFINITION = re.compile(r"([ \t]*)(?:async[ \t]+)?(def|class)[ \t]+([^\W\d]\w*)[ \t]*[(:\[]")
_CONSTANT = re.compile(r"([A-Z][A-Z0-9_]*)[ \t]*(?:=(?!=)|:)")
_TRIPLE = re.compile(r"\"{3}|'{3}")
_CLEAR = {
    "": re.compile(r"""[^"'#\\]*("{3}|'{3})(?:(?:(?!\1)[^\\])*|(?:(?!\1)[^\\])*\1[^"']*)$"""),
    '"""': re.compile(r'''(?:(?!""")[^\\])*(?:"""[^"']*)?$'''),
    "'''": re.compile(r"""(?:(?!''')[^\\])*(?:'''[^"']*)?$"""),
}
"""By the quotes that are open before it: a line of which it is clear where its strings begin and end."""
_DOCSTRING = re.compile(
    r"""(?:[ \t\f]*(?:\#[^\n]*)?\n)*[rRuU]?("{3}|'{3}|"|')(?:\\?\s)*((?:[^\\\n]|\\.)*?)(?:\1|\n)"""
)


class NotSure(Exception):
    """Lines do not tell; the file must be parsed."""


class _Open(Struct):
    """A class or function whose body may still go on."""

    indent: int
    kind: str
    start: int
    checked: int
    """The line up to which no statement is known to have ended it."""


def python_outline(text: str, lines: Sequence[str]) -> tuple[list[Symbol], str | None]:
    """The names and the title of a Python file."""
    try:
        return list(by_lines(lines)), title_by_lines(text)
    except NotSure:
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the file's author, about its escapes
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return list(by_lines(lines, is_last_word=True)), title_by_lines(text)
    return list(by_tree(tree)), title_by_tree(tree)


def by_lines(lines: Sequence[str], *, is_last_word: bool = False) -> Iterator[Symbol]:
    """The names by the shape of lines; raises NotSure unless it is the last word."""
    quote = ""
    is_sure = True
    around: list[_Open] = []
    for number, line in enumerate(lines, 1):
        was_quoted = bool(quote)
        if '"""' in line or "'''" in line:
            is_sure = is_sure and _CLEAR[quote].match(line) is not None
            quote = _quote_after(line, quote)
        if ("def " in line or "class " in line) and (found := _DEFINITION.match(line)) is not None:
            if not is_sure and not is_last_word:
                raise NotSure
            if not was_quoted:
                yield Symbol(found[3], _kind(lines, number, found, around), number)
        elif "A" <= line[:1] <= "Z" and not was_quoted:
            found = _CONSTANT.match(line)
            if found is not None:
                yield Symbol(found[1], "constant", number)
    if quote and not is_last_word:
        raise NotSure


def _quote_after(line: str, quote: str) -> str:
    """Which quotes are open behind a line."""
    for token in _TRIPLE.findall(line):
        if not quote:
            quote = token
        elif token == quote:
            quote = ""
    return quote


def _kind(lines: Sequence[str], number: int, found: re.Match[str], around: list[_Open]) -> str:
    """What the definition is, by what it stands inside; `around` is brought up to this line."""
    width = len(found[1].expandtabs())
    while around and (around[-1].indent >= width or _has_ended(lines, around[-1], number)):
        around.pop()
    is_method = bool(around) and around[-1].kind == "class"
    around.append(_Open(width, found[2], number, number))
    if found[2] == "class":
        return "class"
    return "method" if is_method else "function"


def _has_ended(lines: Sequence[str], body: _Open, number: int) -> bool:
    """Whether a statement between the body's first line and this one stands outside of it."""
    statement = _statement(body.indent)
    between = lines[body.checked : number - 1]
    if statement.search("\n".join(between)) is None:
        body.checked = number
        return False
    quote = ""
    for line in lines[body.start : number - 1]:
        if not quote and statement.match(line):
            return True
        if '"""' in line or "'''" in line:
            quote = _quote_after(line, quote)
    body.checked = number
    return False


@cache
def _statement(indent: int) -> re.Pattern[str]:
    """Finds a line that is no deeper than this: it ends a body, unless it only goes on with brackets."""
    return re.compile(rf"^[ ]{{0,{indent}}}[^\s#\"')\]}}]", re.MULTILINE)


def title_by_lines(text: str) -> str | None:
    """The first line of the docstring, as it is written."""
    found = _DOCSTRING.match(text)
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
