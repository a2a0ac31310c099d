"""Expressions in the syntax of placeholders."""

import re

from weft.language.deep import deep_stack
from weft.language.expressions.placeholders import WORDS
from weft.language.expressions.tokens import NAME
from weft.language.tree import FunctionCall, Literal, Node, Scalar, Variable

_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f-\x9f]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def expression_text(node: Node) -> str:
    """What stands between the braces of a placeholder that is read as this node.

    Raises ValueError for what a placeholder cannot say: other nodes, odd names, numbers that JSON has not.
    """
    with deep_stack():
        return _text(node)


def _text(node: Node) -> str:
    match node:
        case Literal(value=value):
            return _scalar(value)
        case Variable(name=name, path=path):
            return _name(name) + "".join(map(_step, path))
        case FunctionCall(func_name=name, args=args, keywords=keywords):
            named = (f"{_name(key)}={_text(value)}" for key, value in keywords)
            return f"{_name(name)}({', '.join([*map(_text, args), *named])})"
    raise ValueError(f"a placeholder cannot hold a {type(node).__name__}")


def _scalar(value: Scalar) -> str:
    if isinstance(value, str):
        return _string(value)
    for word, meaning in WORDS.items():
        if value is meaning:
            return word
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"a placeholder cannot hold the number {value}")
    return repr(value)


def _string(text: str) -> str:
    return '"' + _ESCAPED.sub(_escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\x{ord(match[0]):02x}"


def _name(name: str) -> str:
    if name in WORDS or not NAME.fullmatch(name):
        raise ValueError(f"'{name}' cannot be written as a name in a placeholder")
    return name


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if NAME.fullmatch(step) else f"[{_string(step)}]"
