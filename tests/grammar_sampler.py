"""Writes texts that a grammar allows, at random: whatever it writes, a model could write."""

import random
import re
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:(?P<literal>"(?:\\.|[^"\\])*")|(?P<set>\[(?:\\.|[^\]\\])*\])|(?P<name>[a-z][a-z0-9]*)"""
    r"""|(?P<times>\{\d+(?:,\d+)?\})|(?P<mark>[()|?]))"""
)

Node = tuple[str, Any]


class Sampler:
    """The rules of one grammar."""

    def __init__(self, grammar: str, seed: int) -> None:
        self._random = random.Random(seed)
        self._rules: dict[str, Node] = {}
        for line in grammar.strip("\n").split("\n"):
            name, _, body = line.partition(" ::= ")
            self._rules[name] = _Parser(body).alternatives()

    def text(self) -> str:
        return self._write(self._rules["root"], 0)

    def _write(self, node: Node, depth: int) -> str:
        kind, value = node
        match kind:
            case "literal":
                return str(value)
            case "set":
                return str(self._random.choice(value))
            case "name":
                return self._write(self._rules[value], depth + 1)
            case "any":
                return self._write(value[-1] if depth > 60 else self._random.choice(value), depth)
            case "all":
                return "".join(self._write(one, depth) for one in value)
        inner, low, high = value
        # Mostly few, now and then as many as there can be.
        count = (
            low if depth > 60 else self._random.choice([low, high, min(high, low + 1), min(high, low + 3)])
        )
        return "".join(self._write(inner, depth) for _ in range(count))


class _Parser:
    def __init__(self, body: str) -> None:
        self._tokens = []
        position = 0
        while position < len(body.rstrip()):
            found = _TOKEN.match(body, position)
            assert found, f"the grammar cannot be read at {body[position : position + 40]!r}"
            assert found.lastgroup
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            position = found.end()
        self._next = 0

    def alternatives(self) -> Node:
        found = [self._sequence()]
        while self._peek() == "|":
            self._next += 1
            found.append(self._sequence())
        return ("any", found) if len(found) > 1 else found[0]

    def _peek(self) -> str | None:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else None

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._next < len(self._tokens) and self._peek() not in ("|", ")"):
            kind, text = self._tokens[self._next]
            self._next += 1
            if kind == "times":
                low, _, high = text[1:-1].partition(",")
                parts[-1] = ("times", (parts[-1], int(low), int(high or low)))
            elif text == "?":
                parts[-1] = ("times", (parts[-1], 0, 1))
            elif text == "(":
                parts.append(self.alternatives())
                self._next += 1
            elif kind == "literal":
                parts.append(("literal", _unescaped(text[1:-1])))
            else:
                parts.append((kind, _members(text[1:-1]) if kind == "set" else text))
        return ("all", parts)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "r": "\r"}.get(found[1], found[1]), text)


def _members(text: str) -> list[str]:
    if text.startswith("^"):
        refused = {chr(int(code, 16)) for code in re.findall(r"\\x(..)", text)} | set(text)
        return [one for one in "bXZ9 {}[]:,<>&'ü漢😀\u2028" if one not in refused]
    text = text.replace("\\\\", "\\")
    found: list[str] = []
    position = 0
    while position < len(text):
        if text[position + 1 : position + 2] == "-" and position + 2 < len(text):
            found += [chr(code) for code in range(ord(text[position]), ord(text[position + 2]) + 1)]
            position += 3
        else:
            found.append(text[position])
            position += 1
    return found
