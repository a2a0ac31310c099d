"""The code keeps to the words of the glossary: names, docstrings, comments and messages."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "weft"
MODULES = sorted(SOURCE.rglob("*.py"))

FORBIDDEN = [
    re.compile(line, re.IGNORECASE)
    for line in Path(__file__).with_name("forbidden_phrases.txt").read_text().splitlines()
    if line and not line.startswith("#")
]

ANY_FORBIDDEN = re.compile("|".join(f"(?:{phrase.pattern})" for phrase in FORBIDDEN), re.IGNORECASE)
"""All of them at once: most texts have none."""

EXEMPT = {
    "called_off",  # an entry of params.step
    "rest",  # a function of the language, and a file type in the index
    "task.given_back",  # events of older stores, mapped on read
    "task.rested",
}
"""Names and strings that are stored or part of the language."""

EXEMPT_TEXTS = re.compile(
    r"\bis None\b"  # Python's
    r"|\b(cdr|first) rest\b|\(rest list\)"  # functions of the language
    r"|Go on with your task\."  # a prompt: another one would change the digests of stored turns
)


def words_of(name: str) -> str:
    """Return the words of an identifier: `release` and `Release` both as `give back`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").strip()


def names_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def texts_of(tree: ast.AST, source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module, docstrings and messages among them, and its comments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in EXEMPT:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def phrases_in(source: str) -> Iterator[str]:
    """Yield every forbidden phrase of a module as `line: phrase`."""
    tree = ast.parse(source)
    found = [(line, words_of(name)) for line, name in names_of(tree) if name not in EXEMPT]
    for line, text in (*found, *texts_of(tree, source)):
        if ANY_FORBIDDEN.search(words := EXEMPT_TEXTS.sub("", " ".join(text.split()))):
            yield from (f"{line}: {match[0]}" for phrase in FORBIDDEN if (match := phrase.search(words)))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def test_no_module_uses_a_phrase_of_the_old_dialect() -> None:
    found = {name_of(path): list(phrases_in(path.read_text())) for path in MODULES}

    assert {name: phrases for name, phrases in found.items() if phrases} == {}


@pytest.mark.parametrize(
    "source",
    [
        "def give_back(): ...",
        "class GiveBack: ...",
        "def wait(purse): ...",
        '"""A run that goes\non."""',
        'raise ValueError(f"task {name} is called off")',
        "# begin anew",
        "self.is_under_way = True",
    ],
)
def test_a_phrase_is_found_wherever_it_stands(source: str) -> None:
    assert len(list(phrases_in(source))) == 1
