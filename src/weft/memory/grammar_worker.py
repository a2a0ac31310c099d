"""A process that reads files by their grammars, and nothing else: parsers are C code that meets any text.

It may crash, hang or run out of memory over a file; who asks goes on without it.
"""

import importlib
import json
import resource
import signal
import socket
from functools import cache
from typing import TYPE_CHECKING

from weft.memory.grammars import BY_LANGUAGE, Grammar

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query

CPU_SECONDS = 1.0
"""How long a file may take. Usual files take milliseconds, half a megabyte some tenths of a second."""

MEMORY_BYTES = 1_000_000_000
"""A parser that needs more than this for half a megabyte is in an endless loop."""

IDLE_SECONDS = 20.0
"""Who has asked for nothing for so long is asked to start another one."""

_BODIES = frozenset({"compound_statement", "parameter_list", "field_initializer_list"})
"""Where what looks like a function's head in C is a variable or a parameter."""

Named = tuple[str, str, int]


def outline(language: str, content: bytes) -> list[Named]:
    """Name, kind and line of every definition."""
    best: list[Named] | None = None
    for grammar in BY_LANGUAGE[language]:
        parser, query = _ready(grammar)
        root = parser.parse(content).root_node
        if best is None or not root.has_error:
            best = _names(root, query)
        if not root.has_error:
            break
    return best or []


@cache
def _ready(grammar: Grammar) -> "tuple[Parser, Query]":
    from tree_sitter import Language, Parser, Query

    language = Language(getattr(importlib.import_module(grammar.module), grammar.function)())
    return Parser(language), Query(language, grammar.query)


def _names(root: "Node", query: "Query") -> list[Named]:
    from tree_sitter import QueryCursor

    found: dict[int, Named] = {}
    for kind, nodes in QueryCursor(query).captures(root).items():
        for node in nodes:
            text = node.text
            if text and not node.is_missing and not _is_inside_body(node):
                name = " ".join(text.decode("utf-8", "replace").split())
                found.setdefault(node.start_byte, (name, kind, node.start_point[0] + 1))
    return [found[place] for place in sorted(found)]


def _is_inside_body(node: "Node") -> bool:
    """Whether it is the head of a function in C that stands where there are none."""
    above = node.parent
    if above is None or above.type != "function_declarator":
        return False
    while above is not None and above.type.endswith("_declarator"):
        above = above.parent
    if above is None or above.type == "function_definition":
        return False
    return above.type == "parameter_declaration" or (
        above.parent is not None and above.parent.type in _BODIES
    )


def main() -> None:
    """Answer requests on the socket that is standard input: language, length, text."""
    # Ctrl-C is for the process that asks; it closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=0) as connection:
        connection.settimeout(IDLE_SECONDS)
        stream = connection.makefile("rb")
        try:
            while head := stream.readline():
                language, size = json.loads(head)
                # The kernel ends us when the time is over: nothing else interrupts a parser.
                signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
                answer = json.dumps(outline(language, stream.read(size)))
                signal.setitimer(signal.ITIMER_PROF, 0)
                connection.sendall(answer.encode() + b"\n")
        except TimeoutError:
            return
        except OSError:
            return  # nobody listens any more
