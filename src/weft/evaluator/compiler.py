"""Syntax tree to closures, once; what runs afterwards is plain Python functions."""

from collections.abc import Callable, Mapping
from typing import Any

from weft.evaluator.env import Env
from weft.evaluator.machine import Machine
from weft.language.library import TaskLibrary
from weft.language.tree import Node

Code = Callable[[Env], Any]
"""Compiled code: the value of a node in an environment. In tail position it may give a TailCall."""

Form = Callable[["Compiler", Any, bool], Code]
"""Compiles one kind of node: (compiler, node, is_tail)."""


class Compiler:
    """Compiles nodes for one evaluation: the code knows its machine."""

    def __init__(self, machine: Machine, library: TaskLibrary, forms: Mapping[type[Node], Form]) -> None:
        self.machine = machine
        self.library = library
        self._forms = forms

    def compile(self, node: Node, *, is_tail: bool = False) -> Code:
        """The code of a node."""
        return self._forms[type(node)](self, node, is_tail)
