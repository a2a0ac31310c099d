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
import subprocess
import threading
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msgspec import Struct

from weft.memory.protocol import Symbol
from weft.process.worker import ChildProcess, serve

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query


class Grammar(Struct, frozen=True):
    """A grammar and its query for definitions."""

    module: str
    function: str
    """Function of the module that returns the language."""
    query: str
    """Captures the name of each definition by its kind: `@class`, `@function` ..."""


def _named(kind: str, nodes: str) -> str:
    """Return a query for the names of these nodes, which define something of this kind."""
    return "".join(f"({node} name: (_) @{kind})\n" for node in nodes.split())


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
    + _named("class", "abstract_class_declaration")
    + _named("type", "interface_declaration type_alias_declaration enum_declaration internal_module module")
    + _named("function", "function_signature")
    + _named("method", "method_signature abstract_method_signature")
)

_GO = (
    _named("function", "function_declaration")
    + _named("method", "method_declaration method_elem")
    + _named("type", "type_spec type_alias")
    + """
(source_file (const_declaration (const_spec name: (identifier) @constant)))
(source_file (var_declaration (var_spec name: (identifier) @constant)))
(source_file (var_declaration (var_spec_list (var_spec name: (identifier) @constant))))
"""
)

_RUST = (
    """
(source_file (function_item name: (_) @function))
(mod_item body: (declaration_list (function_item name: (_) @function)))
(block (function_item name: (_) @function))
(foreign_mod_item body: (declaration_list (function_signature_item name: (_) @function)))
(impl_item body: (declaration_list [(function_item name: (_) @method) (const_item name: (_) @constant)]))
(trait_item body: (declaration_list
  [(function_item name: (_) @method) (function_signature_item name: (_) @method)]))
(source_file [(const_item name: (_) @constant) (static_item name: (_) @constant)])
"""
    + _named("type", "struct_item enum_item union_item trait_item type_item mod_item")
    + _named("macro", "macro_definition")
)

_CLASSES = "class_declaration interface_declaration enum_declaration"

_JAVA = (
    _named("class", f"{_CLASSES} record_declaration annotation_type_declaration")
    + _named("method", "method_declaration constructor_declaration")
    + _named("constant", "enum_constant")
    + """
(field_declaration (modifiers "static" "final") declarator: (variable_declarator name: (_) @constant))
"""
)

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
"""
    + _named("type", "namespace_definition alias_declaration concept_definition")
)

_RUBY = (
    _named("class", "class module")
    + _named("method", "method singleton_method alias")
    + "(assignment left: (constant) @constant)"
)

_C_SHARP = (
    _named("class", f"{_CLASSES} struct_declaration record_declaration")
    + _named("type", "delegate_declaration")
    + _named("method", "method_declaration constructor_declaration property_declaration")
    + _named("function", "local_function_statement")
)

_PHP = (
    _named("class", f"{_CLASSES} trait_declaration")
    + _named("function", "function_definition")
    + _named("method", "method_declaration")
    + "(const_element (name) @constant)"
)

_SHELL = _named("function", "function_definition")

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
    """Outline files for the indexing process. A request is a language, a line break and the text."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    serve(_answer, IDLE_SECONDS)


def _answer(request: bytes) -> bytes:
    language, _, content = request.partition(b"\n")
    # SIGPROF kills this process when the time is over: nothing else interrupts a parser.
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    response = json.dumps(outline(language.decode(), content))
    signal.setitimer(signal.ITIMER_PROF, 0)
    return response.encode()


MAX_BYTES = 500_000
"""Larger files are assumed to be generated, and are not parsed."""

ANSWER_SECONDS = 30.0
"""Time limit for a response. Normally the parser process kills itself after CPU_SECONDS."""

MAX_DEATHS = 20
"""After this many files that killed the parser it is not started again: the files are probably hostile."""

_START = "from weft.memory.files.treesitter import main; main()"


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

    def __init__(self, code: str = _START) -> None:
        self._child = ChildProcess(code, timeout_seconds=ANSWER_SECONDS, stderr=subprocess.DEVNULL)
        self._lock = threading.Lock()
        self.deaths = 0
        """Number of files that have killed the process."""

    def outline(self, language: str, content: bytes) -> list[Symbol] | None:
        """Return the definitions in a file; None if it killed the process, or no process can be started."""
        request = language.encode() + b"\n" + content
        with self._lock:
            response = self._child.request(request) or self._restart_and_request(request)
        return None if response is None else [Symbol(*each) for each in json.loads(response)]

    def _restart_and_request(self, request: bytes) -> bytes | None:
        """Return the response of a new process.

        Return None if the file killed the old or the new process, or if no process can be started.
        """
        for _ in range(2):
            if self._child.end() != 0:
                self.deaths += 1
                return None
            if self.deaths >= MAX_DEATHS or not self._child.start():
                return None
            response = self._child.request(request)
            if response is not None:
                return response
        return None

    def close(self) -> None:
        with self._lock:
            self._child.end()


_parser = ParserProcess()
atexit.register(_parser.close)
