"""Placeholders in a text: `{{name}}`, `{{name.field[0]}}`, `{{f(a, "b", n=3)}}`."""

import re

from weft.language.ast import FunctionCall, Literal, Node, Scalar, Text, Variable
from weft.language.cel.tokens import MAX_PROBLEMS, NAME, PLACEHOLDER, Places, Token, Tokens
from weft.language.diagnostics import InvalidProgram, LanguageProblem
from weft.language.source import Span
from weft.language.traversal import deep_stack

OPEN, CLOSE = "{{", "}}"
WORDS = {"true": True, "false": False, "null": None}
_OPERATORS = frozenset(["==", "!=", "===", "!==", "<", "<=", ">", ">=", "&&", "||", *"=!?:+-*/%|&"])
_AS_TEXT = 'write {{"{{"}} where the text itself has two braces'


def parse_text(raw: str, span: Span) -> Text:
    """The text with its placeholders read; `span` is the place of the first character of `raw`.

    Raises InvalidProgram with the problems of all placeholders.
    """
    places = Places(raw, span)
    parts: list[str | Node] = []
    found: list[LanguageProblem] = []
    end = 0
    with deep_stack():
        while (start := raw.find(OPEN, end)) >= 0 and len(found) < MAX_PROBLEMS:
            if start > end:
                parts.append(raw[end:start])
            try:
                part, end = _placeholder(places, start)
                parts.append(part)
            except InvalidProgram as error:
                found.extend(error.found)
                end = _after_close(raw, start)
    if found:
        raise InvalidProgram(found)
    if end < len(raw) or not parts:
        parts.append(raw[end:])
    return Text(span=span, raw=raw, parts=tuple(parts))


def parse_path(text: str, span: Span) -> Variable:
    """A name and perhaps a path to a part of it: `name`, `name.field`, `name[0].x`, `name["odd key"]`."""
    tokens = Tokens(Places(text, span), PLACEHOLDER)
    first = tokens.take()
    if first.kind != "name" or first.text in WORDS:
        raise tokens.refuse(first, f"expected a name, found {first}")
    variable = _variable(tokens, first)
    if tokens.next.kind != "end":
        raise tokens.refuse(tokens.next, f"expected '.field', '[index]' or the end, found {tokens.next}")
    return variable


def _after_close(raw: str, start: int) -> int:
    close = raw.find(CLOSE, start)
    return close + len(CLOSE) if close >= 0 else len(raw)


def _placeholder(places: Places, start: int) -> tuple[Node, int]:
    """What stands in the braces that open at the offset, and the offset after them."""
    opening = Token("operator", OPEN, start, start + len(OPEN))
    tokens = Tokens(places, PLACEHOLDER, start)
    if places.text.find(CLOSE, start) < 0:
        raise tokens.refuse(opening, f"'{{{{' is never closed: expected '}}}}'; {_AS_TEXT}")
    tokens.take()
    node = _operand(tokens)
    return node, _close(tokens, opening).end


def _close(tokens: Tokens, opening: Token) -> Token:
    following = tokens.next
    if following.kind == "operator" and following.text == CLOSE:
        return following
    _refuse_operator(tokens)
    place = tokens.places.at(opening.start)
    raise tokens.refuse(
        following, f"expected '}}}}' to close the placeholder of {place}, found {following}; {_AS_TEXT}"
    )


def _refuse_operator(tokens: Tokens) -> None:
    token = tokens.next
    if token.kind == "operator" and token.text in _OPERATORS:
        raise tokens.refuse(
            token,
            f"a placeholder has no operators, found {token}: expected a name, a path or a call; "
            "a function, or an input of the task, can compute the value",
        )


def _operand(tokens: Tokens) -> Node:
    """A literal, a variable with its path, or a call."""
    token = tokens.next
    if token.kind == "operator" and token.text == "-":
        return _negative(tokens)
    _refuse_operator(tokens)
    tokens.take()
    span = tokens.places.at(token.start)
    if token.kind in ("number", "string"):
        return Literal(span=span, value=token.value)
    if token.kind != "name":
        raise tokens.refuse(token, f"expected a name, a path, a call or a value, found {token}; {_AS_TEXT}")
    if token.text in WORDS:
        return Literal(span=span, value=WORDS[token.text])
    if tokens.accept("("):
        return _call(tokens, token)
    return _variable(tokens, token)


def _negative(tokens: Tokens) -> Literal:
    minus = tokens.take()
    number = tokens.take()
    if number.kind != "number" or number.start != minus.end:
        raise tokens.refuse(
            minus, "a placeholder has no operators: '-' stands before the digits of a number only"
        )
    return Literal(span=tokens.places.at(minus.start), value=-number.value)


def _variable(tokens: Tokens, name: Token) -> Variable:
    path: list[str | int] = []
    while opening := tokens.accept(".", "["):
        step = tokens.take()
        if opening.text == ".":
            if step.kind != "name":
                raise tokens.refuse(step, f"expected the name of a field after '.', found {step}")
            path.append(step.text)
            continue
        if not isinstance(step.value, str | int):
            raise tokens.refuse(step, f"expected a whole number from 0 or a string after '[', found {step}")
        path.append(step.value)
        tokens.expect("]", "after the index")
    return Variable(span=tokens.places.at(name.start), name=name.text, path=tuple(path))


def _call(tokens: Tokens, name: Token) -> FunctionCall:
    """A call, read from after its parenthesis on."""
    tokens.enter(name)
    args: list[Node] = []
    keywords: dict[str, Node] = {}
    closing = tokens.accept(")")
    while not closing:
        _argument(tokens, args, keywords)
        closing = tokens.accept(")")
        if not closing and not tokens.accept(","):
            _refuse_operator(tokens)
            raise tokens.refuse(
                tokens.next, f"expected ',' or ')' after an argument of {name}, found {tokens.next}"
            )
    tokens.leave()
    if tokens.next.kind == "operator" and tokens.next.text in (".", "["):
        raise tokens.refuse(
            tokens.next, f"a path cannot follow a call: bind the result of {name} to a name first"
        )
    span = tokens.places.at(name.start)
    return FunctionCall(span=span, func_name=name.text, args=tuple(args), keywords=tuple(keywords.items()))


def _argument(tokens: Tokens, args: list[Node], keywords: dict[str, Node]) -> None:
    """One argument, added to those before it: `value` or `name=value`."""
    start = tokens.next
    value = _argument_value(tokens)
    if not tokens.accept("="):
        if keywords:
            raise tokens.refuse(start, "an argument without a name stands after one with a name")
        args.append(value)
        return
    if start.kind != "name" or value != Variable(name=start.text):
        raise tokens.refuse(start, f"expected a name before '=', found {start}")
    if start.text in keywords:
        raise tokens.refuse(start, f"the argument {start} is given twice", code="duplicate-name")
    keywords[start.text] = _argument_value(tokens)


def _argument_value(tokens: Tokens) -> Node:
    """An operand; a variable may have braces of its own: `f({{name}})`."""
    opening = tokens.accept(OPEN)
    if opening is None:
        return _operand(tokens)
    node = _operand(tokens)
    _close(tokens, opening)
    tokens.take()
    return node


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
