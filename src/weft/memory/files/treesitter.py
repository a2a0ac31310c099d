"""Outlines by tree-sitter grammars, parsed in a separate process.

The parser may crash, hang or run out of memory on a file. So each indexing process has one parser process,
which is started on demand. A file that kills the parser or takes too long is not parsed again; its outline is
made with regular expressions.
"""

import atexit
import importlib
import json
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msgspec import Struct

from weft.memory.protocol import Symbol

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query


class Grammar(Struct, frozen=True):
    """A grammar and its query for definitions."""

    module: str
    function: str
    """Function of the module that returns the language."""
    query: str
    """Captures the name of each definition by its kind: `@class`, `@function` ..."""


_JAVASCRIPT = """
(class_declaration name: (_) @class)
(function_declaration name: (identifier) @function)
(generator_function_declaration name: (identifier) @function)
(method_definition name: (_) @method)
(variable_declarator name: (identifier) @function value: [(arrow_function) (function_expression)])
(variable_declarator name: (identifier) @class value: (class))
(assignment_expression left: (member_expression property: (property_identifier) @function)
  right: [(arrow_function) (function_expression)])
(pair key: (property_identifier) @method value: [(arrow_function) (function_expression)])
(export_statement declaration: (lexical_declaration "const"
  (variable_declarator name: (identifier) @constant
    value: [(object) (array) (string) (number) (new_expression)])))
"""

_TYPESCRIPT = (
    _JAVASCRIPT
    + """
(abstract_class_declaration name: (_) @class)
(interface_declaration name: (_) @type)
(type_alias_declaration name: (_) @type)
(enum_declaration name: (_) @type)
(internal_module name: (_) @type)
(module name: (_) @type)
(function_signature name: (_) @function)
(method_signature name: (_) @method)
(abstract_method_signature name: (_) @method)
"""
)

_GO = """
(function_declaration name: (_) @function)
(method_declaration name: (_) @method)
(method_elem name: (_) @method)
(type_spec name: (_) @type)
(type_alias name: (_) @type)
(source_file (const_declaration (const_spec name: (identifier) @constant)))
(source_file (var_declaration (var_spec name: (identifier) @constant)))
(source_file (var_declaration (var_spec_list (var_spec name: (identifier) @constant))))
"""

_RUST = """
(source_file (function_item name: (_) @function))
(mod_item body: (declaration_list (function_item name: (_) @function)))
(block (function_item name: (_) @function))
(foreign_mod_item body: (declaration_list (function_signature_item name: (_) @function)))
(impl_item body: (declaration_list [(function_item name: (_) @method) (const_item name: (_) @constant)]))
(trait_item body: (declaration_list
  [(function_item name: (_) @method) (function_signature_item name: (_) @method)]))
(struct_item name: (_) @type)
(enum_item name: (_) @type)
(union_item name: (_) @type)
(trait_item name: (_) @type)
(type_item name: (_) @type)
(mod_item name: (_) @type)
(macro_definition name: (_) @macro)
(source_file [(const_item name: (_) @constant) (static_item name: (_) @constant)])
"""

_JAVA = """
(class_declaration name: (_) @class)
(interface_declaration name: (_) @class)
(enum_declaration name: (_) @class)
(record_declaration name: (_) @class)
(annotation_type_declaration name: (_) @class)
(method_declaration name: (_) @method)
(constructor_declaration name: (_) @method)
(field_declaration (modifiers "static" "final") declarator: (variable_declarator name: (_) @constant))
(enum_constant name: (_) @constant)
"""

_C = """
(function_declarator declarator: (identifier) @function)
(struct_specifier name: (type_identifier) @type body: (_))
(union_specifier name: (type_identifier) @type body: (_))
(enum_specifier name: (type_identifier) @type body: (_))
(type_definition declarator: (type_identifier) @type)
(preproc_def name: (_) @constant)
(preproc_function_def name: (_) @macro)
"""

_CPP = (
    _C
    + """
(function_declarator declarator:
  [(qualified_identifier) (field_identifier) (destructor_name) (operator_name)] @method)
(class_specifier name: (_) @class body: (_))
(namespace_definition name: (_) @type)
(alias_declaration name: (_) @type)
(concept_definition name: (_) @type)
"""
)

_RUBY = """
(class name: (_) @class)
(module name: (_) @class)
(method name: (_) @method)
(singleton_method name: (_) @method)
(alias name: (_) @method)
(assignment left: (constant) @constant)
"""

_C_SHARP = """
(class_declaration name: (_) @class)
(interface_declaration name: (_) @class)
(struct_declaration name: (_) @class)
(enum_declaration name: (_) @class)
(record_declaration name: (_) @class)
(delegate_declaration name: (_) @type)
(method_declaration name: (_) @method)
(constructor_declaration name: (_) @method)
(property_declaration name: (_) @method)
(local_function_statement name: (_) @function)
"""

_PHP = """
(class_declaration name: (_) @class)
(interface_declaration name: (_) @class)
(trait_declaration name: (_) @class)
(enum_declaration name: (_) @class)
(function_definition name: (_) @function)
(method_declaration name: (_) @method)
(const_element (name) @constant)
"""

_SHELL = "(function_definition name: (_) @function)"

_C_GRAMMAR = Grammar("tree_sitter_c", "language", _C)
_CPP_GRAMMAR = Grammar("tree_sitter_cpp", "language", _CPP)

BY_LANGUAGE: dict[str, tuple[Grammar, ...]] = {
    "javascript": (Grammar("tree_sitter_javascript", "language", _JAVASCRIPT),),
    "typescript": (
        Grammar("tree_sitter_typescript", "language_typescript", _TYPESCRIPT),
        Grammar("tree_sitter_typescript", "language_tsx", _TYPESCRIPT),
    ),
    "go": (Grammar("tree_sitter_go", "language", _GO),),
    "rust": (Grammar("tree_sitter_rust", "language", _RUST),),
    "java": (Grammar("tree_sitter_java", "language", _JAVA),),
    "c": (_C_GRAMMAR, _CPP_GRAMMAR),
    "cpp": (_CPP_GRAMMAR,),
    "ruby": (Grammar("tree_sitter_ruby", "language", _RUBY),),
    "csharp": (Grammar("tree_sitter_c_sharp", "language", _C_SHARP),),
    "php": (Grammar("tree_sitter_php", "language_php", _PHP),),
    "shell": (Grammar("tree_sitter_bash", "language", _SHELL),),
}
"""The first grammar that parses a file without errors is used, else the first one: a header may be C or C++,
and `<T>x` in TypeScript is a cast or a JSX element."""


CPU_SECONDS = 1.0
"""Time limit per file. Usual files take milliseconds, half a megabyte some tenths of a second."""

MEMORY_BYTES = 1_000_000_000
"""A parser that needs more than this for half a megabyte is in an endless loop."""

IDLE_SECONDS = 20.0
"""The parser process ends after this time without a request; the next request starts a new one."""

_BODIES = frozenset({"compound_statement", "parameter_list", "field_initializer_list"})
"""Nodes of C in which an apparent function declarator is a variable or a parameter."""

Named = tuple[str, str, int]
"""Name, kind and line of a definition."""


def outline(language: str, content: bytes) -> list[Named]:
    """Return the definitions in a file. Runs in the parser process, unlike `grammar_outline`."""
    best: list[Named] | None = None
    for grammar in BY_LANGUAGE[language]:
        parser, query = _load_parser(grammar)
        root = parser.parse(content).root_node
        if best is None or not root.has_error:
            best = _find_definitions(root, query)
        if not root.has_error:
            break
    return best or []


@cache
def _load_parser(grammar: Grammar) -> "tuple[Parser, Query]":
    from tree_sitter import Language, Parser, Query

    language = Language(getattr(importlib.import_module(grammar.module), grammar.function)())
    return Parser(language), Query(language, grammar.query)


def _find_definitions(root: "Node", query: "Query") -> list[Named]:
    from tree_sitter import QueryCursor

    found: dict[int, Named] = {}
    for kind, nodes in QueryCursor(query).captures(root).items():
        for node in nodes:
            text = node.text
            if text and not node.is_missing and not _is_variable(node):
                name = " ".join(text.decode("utf-8", "replace").split())
                found.setdefault(node.start_byte, (name, kind, node.start_point[0] + 1))
    return [found[start] for start in sorted(found)]


def _is_variable(node: "Node") -> bool:
    """Return True if a C function declarator names a parameter, or a variable as `T x(y);` in a body does."""
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
    """Serve the requests of the indexing process on the socket at standard input.

    A request is a line of JSON with language and length in bytes, then the text.
    """
    # Ctrl-C is handled by the indexing process, which closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=0) as connection:
        connection.settimeout(IDLE_SECONDS)
        stream = connection.makefile("rb")
        try:
            while head := stream.readline():
                language, size = json.loads(head)
                # SIGPROF kills this process when the time is over: nothing else interrupts a parser.
                signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
                response = json.dumps(outline(language, stream.read(size)))
                signal.setitimer(signal.ITIMER_PROF, 0)
                connection.sendall(response.encode() + b"\n")
        except TimeoutError:
            return
        except OSError:
            return  # the indexing process has closed the socket


MAX_BYTES = 500_000
"""Larger files are assumed to be generated, and are not parsed."""

ANSWER_SECONDS = 30.0
"""Time limit for a response. Normally the parser process kills itself after CPU_SECONDS."""

END_SECONDS = 1.0
"""How long the parser process may take to end after its socket is closed."""

MAX_DEATHS = 20
"""After this many files that killed the parser it is not started again: the files are probably hostile."""

_START = "import sys; sys.path[:] = {path!r}; from weft.memory.files.treesitter import main; main()"


def grammar_outline(language: str, text: str) -> list[Symbol] | None:
    """Return the definitions in a file; None if it is too large, has no grammar, or kills the parser."""
    if not has_grammar(language):
        return None
    content = text.encode()
    if len(content) > MAX_BYTES:
        return None
    return _parser.outline(language, content)


@cache
def has_grammar(language: str) -> bool:
    """Return True if the grammars of a language are installed; they are not imported."""
    grammars = BY_LANGUAGE.get(language, ())
    modules = {"tree_sitter", *(grammar.module for grammar in grammars)}
    return bool(grammars) and all(find_spec(module) is not None for module in modules)


class ParserProcess:
    """The parser process, which is restarted after a file has killed it."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self.deaths = 0
        """Number of files that have killed the process."""

    def outline(self, language: str, content: bytes) -> list[Symbol] | None:
        """Return the definitions in a file; None if it killed the process, or no process can be started."""
        with self._lock:
            response = self._request(language, content) or self._restart_and_request(language, content)
        return None if response is None else [Symbol(*each) for each in json.loads(response)]

    def _restart_and_request(self, language: str, content: bytes) -> bytes | None:
        """Return the response of a new process.

        Return None if the file killed the old or the new process, or if no process can be started.
        """
        for _ in range(2):
            if self._process is not None and self._end() != 0:
                self.deaths += 1
                return None
            if self.deaths >= MAX_DEATHS or not self._start():
                return None
            response = self._request(language, content)
            if response is not None:
                return response
        return None

    def close(self) -> None:
        with self._lock:
            self._end()

    def _request(self, language: str, content: bytes) -> bytes | None:
        if self._connection is None:
            return None
        try:
            self._connection.sendall(json.dumps([language, len(content)]).encode() + b"\n" + content)
            response = b""
            while not response.endswith(b"\n"):
                part = self._connection.recv(1_000_000)
                if not part:
                    return None
                response += part
        except OSError:  # the process has ended, or the request timed out
            return None
        return response

    def _start(self) -> bool:
        """Start a process without the untrusted working folder in its module path; False if that fails."""
        path = [part for part in sys.path if part]
        command = self._command or [sys.executable, "-P", "-S", "-c", _START.format(path=path)]
        ours, theirs = socket.socketpair()
        ours.settimeout(ANSWER_SECONDS)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            except OSError:
                ours.close()
                return False
        self._connection = ours
        return True

    def _end(self) -> int:
        """End the process. Return its exit code; it is not 0 if a file killed the process."""
        connection, process = self._connection, self._process
        self._connection = self._process = None
        if connection is not None:
            connection.close()
        if process is None:
            return 0
        try:
            return process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return 1


_parser = ParserProcess()
atexit.register(_parser.close)
