"""A small Lisp to compare the evaluator with: text becomes a tree of nodes, and each node evaluates itself.

As plain as an interpreter in Python can be that has lexical scope and proper tail calls: a dictionary for
each scope, no compilation, no source locations, no checks, no effects.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r"[()]|[^\s()]+")


class Scope:
    """The names of one call, and where to look for others."""

    __slots__ = ("names", "outer")

    def __init__(self, names: dict[str, Any], outer: "Scope | None" = None) -> None:
        self.names = names
        self.outer = outer

    def find(self, name: str) -> Any:
        """Return the value of a name; raise NameError when no scope has it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        raise NameError(name)


@dataclass(slots=True)
class Closure:
    """A function of the language."""

    parameters: tuple[str, ...]
    body: "Node"
    scope: Scope


@dataclass(slots=True)
class Pending:
    """A call in tail position, for the caller to make."""

    function: Any
    arguments: list[Any]


class Node:
    """A part of a program."""

    def value(self, scope: Scope) -> Any:
        """Evaluate to the end."""
        raise NotImplementedError

    def tail(self, scope: Scope) -> Any:
        """Evaluate, but return a call in tail position as `Pending`."""
        return self.value(scope)


@dataclass(slots=True)
class Constant(Node):
    held: Any

    def value(self, scope: Scope) -> Any:
        return self.held


@dataclass(slots=True)
class Name(Node):
    name: str

    def value(self, scope: Scope) -> Any:
        return scope.find(self.name)


@dataclass(slots=True)
class If(Node):
    test: Node
    then: Node
    otherwise: Node

    def value(self, scope: Scope) -> Any:
        return (self.then if self.test.value(scope) else self.otherwise).value(scope)

    def tail(self, scope: Scope) -> Any:
        return (self.then if self.test.value(scope) else self.otherwise).tail(scope)


@dataclass(slots=True)
class Define(Node):
    name: str
    definition: Node

    def value(self, scope: Scope) -> Any:
        scope.names[self.name] = self.definition.value(scope)


@dataclass(slots=True)
class Lambda(Node):
    parameters: tuple[str, ...]
    body: Node

    def value(self, scope: Scope) -> Any:
        return Closure(self.parameters, self.body, scope)


@dataclass(slots=True)
class Call(Node):
    function: Node
    arguments: tuple[Node, ...]

    def value(self, scope: Scope) -> Any:
        return call(self.function.value(scope), [argument.value(scope) for argument in self.arguments])

    def tail(self, scope: Scope) -> Any:
        return Pending(self.function.value(scope), [argument.value(scope) for argument in self.arguments])


def call(function: Any, arguments: Sequence[Any]) -> Any:
    """Call a function, and in a loop whatever it calls in tail position."""
    while isinstance(function, Closure):
        names = dict(zip(function.parameters, arguments, strict=True))
        result = function.body.tail(Scope(names, function.scope))
        if not isinstance(result, Pending):
            return result
        function, arguments = result.function, result.arguments
    return function(*arguments)


BUILT_IN: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<": operator.lt,
    "=": operator.eq,
    "length": len,
    "range": range,
    "map": lambda function, items: [call(function, (item,)) for item in items],
}


class Baseline:
    """An interpreter with its global definitions."""

    def __init__(self) -> None:
        self._scope = Scope({}, Scope(dict(BUILT_IN)))

    def evaluate(self, text: str) -> Any:
        """Return the value of one expression."""
        return read(text).value(self._scope)


def read(text: str) -> Node:
    """Return the one expression of a text as nodes."""
    open_lists: list[list[Any]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":  # noqa: S105 - a bracket
            open_lists.append([])
        elif token == ")":  # noqa: S105
            closed = open_lists.pop()
            open_lists[-1].append(closed)
        else:
            open_lists[-1].append(token)
    [[expression]] = open_lists
    return _node(expression)


def _node(expression: Any) -> Node:
    match expression:
        case str(word):
            return Constant(int(word)) if word.lstrip("-").isdigit() else Name(word)
        case ["if", test, then, otherwise]:
            return If(_node(test), _node(then), _node(otherwise))
        case ["define", name, definition]:
            return Define(name, _node(definition))
        case ["lambda", parameters, body]:
            return Lambda(tuple(parameters), _node(body))
        case [function, *arguments]:
            return Call(_node(function), tuple(_node(argument) for argument in arguments))
    raise SyntaxError(f"not an expression: {expression!r}")
