"""Texts with placeholders, filled in one pass, so that `{{` in a value stays text."""

import itertools
from collections.abc import Iterable, Iterator

from weft.evaluator.compiler import Compiler
from weft.evaluator.conversion import as_text
from weft.evaluator.environment import Env
from weft.evaluator.functions import BuiltIn, Code
from weft.evaluator.operators.steps import error_location, program_error_at
from weft.language.ast import FunctionCall, Node, Text, Variable
from weft.language.builtins import BUILT_IN_NAMES
from weft.language.diagnostics import nearest
from weft.language.library import TaskLibrary
from weft.language.source import Span


class FilledText:
    """A compiled text with placeholders."""

    def __init__(self, compiler: Compiler, text: Text) -> None:
        self._parts: list[str | Code] = [
            part if isinstance(part, str) else compiler.compile(part) for part in text.parts
        ]
        self._span = text.span
        self._meter = compiler.machine.meter
        self.names = dict(_names(part for part in text.parts if isinstance(part, Node)))
        """The names in the placeholders, each with a location."""

    def fill(self, env: Env) -> str:
        with error_location(self._span):
            pieces = [part if isinstance(part, str) else as_text(part(env)) for part in self._parts]
            self._meter.check_size(sum(map(len, pieces)))
        return "".join(pieces)


def compile_texts(compiler: Compiler, texts: Iterable[Text | None]) -> list[FilledText | None]:
    return [None if text is None else FilledText(compiler, text) for text in texts]


def fill_all(texts: Iterable[FilledText | None], env: Env, library: TaskLibrary) -> list[str | None]:
    """Fill all texts. Raise one ProgramError that lists every unbound name."""
    wanted = list(texts)
    names = {name: span for text in wanted if text is not None for name, span in text.names.items()}
    require_bound(names, env, library)
    return [None if text is None else text.fill(env) for text in wanted]


def require_bound(names: dict[str, Span], env: Env, library: TaskLibrary) -> None:
    """Raise a ProgramError that lists every unbound name."""
    missing = [name for name in names if not is_bound(name, env, library)]
    if not missing:
        return
    functions = [name for name in missing if any(name in scope for scope in env.chain())]
    if functions:
        message = f"'{functions[0]}' is a function, which cannot leave the program"
        raise program_error_at("wrong-type", message, names[functions[0]])
    known = [*itertools.chain.from_iterable(env.chain()), *library.tasks]
    if len(missing) == 1:
        message = f"name '{missing[0]}' is not bound{nearest(missing[0], known)}"
    else:
        message = "names are not bound: " + ", ".join(f"'{name}'" for name in missing)
    raise program_error_at("unbound-name", message, names[missing[0]])


def is_bound(name: str, env: Env, library: TaskLibrary) -> bool:
    """Return whether a name is bound here or is a template; False for a built-in."""
    for scope in env.chain():
        if name in scope:
            return not isinstance(scope[name], BuiltIn)  # a built-in has no useful text
    return name in library


def _names(nodes: Iterable[Node]) -> Iterator[tuple[str, Span]]:
    """Yield the names that nodes use, in order; calls nest only as deep as a placeholder allows."""
    for node in nodes:
        if isinstance(node, Variable):
            yield node.name, node.span
        elif isinstance(node, FunctionCall):
            # Built-ins, and tools with their namespace, need no binding.
            if ":" not in node.func_name and node.func_name not in BUILT_IN_NAMES:
                yield node.func_name, node.span
            yield from _names([*node.args, *(value for _, value in node.keywords)])
