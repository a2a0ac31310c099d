"""Parser and printer of placeholders in a text: `{{name}}`, `{{name.field[0]}}`, `{{f(a, "b", n=3)}}`."""

import re

from weft.language.ast import FunctionCall, Literal, Node, Scalar, Text, Variable
from weft.language.cel.tokens import MAX_PROBLEMS, NAME, PLACEHOLDER, Locations, Token, Tokens
from weft.language.diagnostics import InvalidProgram, LanguageProblem
from weft.language.source import Span
from weft.language.traversal import raise_recursion_limit

OPEN, CLOSE = "{{", "}}"
WORDS = {"true": True, "false": False, "null": None}
_OPERATORS = frozenset(["==", "!=", "===", "!==", "<", "<=", ">", ">=", "&&", "||", *"=!?:+-*/%|&"])
_BRACE_HINT = 'write {{"{{"}} where the text itself has two braces'


def parse_text(raw: str, span: Span) -> Text:
    """Parse a text with placeholders; `span` is the location of the first character of `raw`.

    Raise InvalidProgram with the problems of all placeholders.
    """
    locations = Locations(raw, span)
    parts: list[str | Node] = []
    found: list[LanguageProblem] = []
    end = 0
    with raise_recursion_limit():
        while (start := raw.find(OPEN, end)) >= 0 and len(found) < MAX_PROBLEMS:
            if start > end:
                parts.append(raw[end:start])
            try:
                part, end = _parse_placeholder(locations, start)
                parts.append(part)
            except InvalidProgram as error:
                found.extend(error.found)
                end = _find_after_close(raw, start)
    if found:
        raise InvalidProgram(found)
    if end < len(raw) or not parts:
        parts.append(raw[end:])
    return Text(span=span, raw=raw, parts=tuple(parts))


def parse_path(text: str, span: Span) -> Variable:
    """Parse a name with an optional path: `name`, `name.field[0]`, `name["key"]`. Raise InvalidProgram."""
    tokens = Tokens(Locations(text, span), PLACEHOLDER)
    first = tokens.take()
    if first.kind != "name" or first.text in WORDS:
        raise tokens.error(first, f"expected a name, found {first}")
    variable = _parse_variable(tokens, first)
    if tokens.next.kind != "end":
        raise tokens.error(tokens.next, f"expected '.field', '[index]' or the end, found {tokens.next}")
    return variable


def _find_after_close(raw: str, start: int) -> int:
    close = raw.find(CLOSE, start)
    return close + len(CLOSE) if close >= 0 else len(raw)


def _parse_placeholder(locations: Locations, start: int) -> tuple[Node, int]:
    """Parse the placeholder at an offset; return its node and the offset after it."""
    opening = Token("operator", OPEN, start, start + len(OPEN))
    tokens = Tokens(locations, PLACEHOLDER, start)
    if locations.text.find(CLOSE, start) < 0:
        raise tokens.error(opening, f"'{{{{' is never closed: expected '}}}}'; {_BRACE_HINT}")
    tokens.take()
    node = _parse_operand(tokens)
    return node, _expect_close(tokens, opening).end


def _expect_close(tokens: Tokens, opening: Token) -> Token:
    following = tokens.next
    if following.kind == "operator" and following.text == CLOSE:
        return following
    _reject_operator(tokens)
    location = tokens.locations.at(opening.start)
    raise tokens.error(
        following, f"expected '}}}}' to close the placeholder of {location}, found {following}; {_BRACE_HINT}"
    )


def _reject_operator(tokens: Tokens) -> None:
    token = tokens.next
    if token.kind == "operator" and token.text in _OPERATORS:
        raise tokens.error(
            token,
            f"a placeholder has no operators, found {token}: expected a name, a path or a call; "
            "a function, or an input of the task, can compute the value",
        )


def _parse_operand(tokens: Tokens) -> Node:
    """Parse a literal, a variable with its path, or a call."""
    token = tokens.next
    if token.kind == "operator" and token.text == "-":
        return _parse_negative(tokens)
    _reject_operator(tokens)
    tokens.take()
    span = tokens.locations.at(token.start)
    if token.kind in ("number", "string"):
        return Literal(span=span, value=token.value)
    if token.kind != "name":
        raise tokens.error(token, f"expected a name, a path, a call or a value, found {token}; {_BRACE_HINT}")
    if token.text in WORDS:
        return Literal(span=span, value=WORDS[token.text])
    if tokens.accept("("):
        return _parse_call(tokens, token)
    return _parse_variable(tokens, token)


def _parse_negative(tokens: Tokens) -> Literal:
    minus = tokens.take()
    number = tokens.take()
    if number.kind != "number" or number.start != minus.end:
        raise tokens.error(
            minus, "a placeholder has no operators: '-' is only allowed directly before a number"
        )
    return Literal(span=tokens.locations.at(minus.start), value=-number.value)


def _parse_variable(tokens: Tokens, name: Token) -> Variable:
    path: list[str | int] = []
    while opening := tokens.accept(".", "["):
        step = tokens.take()
        if opening.text == ".":
            if step.kind != "name":
                raise tokens.error(step, f"expected the name of a field after '.', found {step}")
            path.append(step.text)
            continue
        if not isinstance(step.value, str | int):
            raise tokens.error(step, f"expected a whole number from 0 or a string after '[', found {step}")
        path.append(step.value)
        tokens.expect("]", "after the index")
    return Variable(span=tokens.locations.at(name.start), name=name.text, path=tuple(path))


def _parse_call(tokens: Tokens, name: Token) -> FunctionCall:
    """Parse a call, starting after its opening parenthesis."""
    tokens.enter(name)
    args: list[Node] = []
    keywords: dict[str, Node] = {}
    closing = tokens.accept(")")
    while not closing:
        _parse_argument(tokens, args, keywords)
        closing = tokens.accept(")")
        if not closing and not tokens.accept(","):
            _reject_operator(tokens)
            raise tokens.error(
                tokens.next, f"expected ',' or ')' after an argument of {name}, found {tokens.next}"
            )
    tokens.leave()
    if tokens.next.kind == "operator" and tokens.next.text in (".", "["):
        raise tokens.error(
            tokens.next, f"a path cannot follow a call: bind the result of {name} to a name first"
        )
    span = tokens.locations.at(name.start)
    return FunctionCall(span=span, func_name=name.text, args=tuple(args), keywords=tuple(keywords.items()))


def _parse_argument(tokens: Tokens, args: list[Node], keywords: dict[str, Node]) -> None:
    """Parse one argument, `value` or `name=value`, and add it to `args` or `keywords`."""
    start = tokens.next
    value = _parse_argument_value(tokens)
    if not tokens.accept("="):
        if keywords:
            raise tokens.error(start, "a positional argument follows a named argument")
        args.append(value)
        return
    if start.kind != "name" or value != Variable(name=start.text):
        raise tokens.error(start, f"expected a name before '=', found {start}")
    if start.text in keywords:
        raise tokens.error(start, f"the argument {start} is given twice", code="duplicate-name")
    keywords[start.text] = _parse_argument_value(tokens)


def _parse_argument_value(tokens: Tokens) -> Node:
    """Parse an operand, which may have its own braces: `f({{name}})`."""
    opening = tokens.accept(OPEN)
    if opening is None:
        return _parse_operand(tokens)
    node = _parse_operand(tokens)
    _expect_close(tokens, opening)
    tokens.take()
    return node


_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f-\x9f]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def expression_text(node: Node) -> str:
    """Return the source of a node as it is written between the braces of a placeholder.

    Raise ValueError for anything but literals, variables and calls, and for names and numbers that cannot be
    written in a placeholder.
    """
    with raise_recursion_limit():
        return _node_text(node)


def _node_text(node: Node) -> str:
    match node:
        case Literal(value=value):
            return _scalar_text(value)
        case Variable(name=name, path=path):
            return _name_text(name) + "".join(map(_key_text, path))
        case FunctionCall(func_name=name, args=args, keywords=keywords):
            named = (f"{_name_text(key)}={_node_text(value)}" for key, value in keywords)
            return f"{_name_text(name)}({', '.join([*map(_node_text, args), *named])})"
    raise ValueError(f"a placeholder cannot hold a {type(node).__name__}")


def _scalar_text(value: Scalar) -> str:
    if isinstance(value, str):
        return _string_text(value)
    for word, meaning in WORDS.items():
        if value is meaning:
            return word
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"a placeholder cannot hold the number {value}")
    return repr(value)


def _string_text(text: str) -> str:
    return '"' + _ESCAPED.sub(_escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(match[0]) or f"\\x{ord(match[0]):02x}"


def _name_text(name: str) -> str:
    if name in WORDS or not NAME.fullmatch(name):
        raise ValueError(f"'{name}' cannot be written as a name in a placeholder")
    return name


def _key_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if NAME.fullmatch(step) else f"[{_string_text(step)}]"
