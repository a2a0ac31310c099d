"""Fields that are part of a request to a model: only an atomic task makes one."""

from collections.abc import Iterable
from typing import Final

from weft.language.tree import (
    Atomic,
    DirectorEvaluatorLoop,
    Node,
    Reduce,
    Reference,
    Script,
    Sequential,
    TaskNode,
)

REQUEST_FIELDS: Final = ("system", "file_paths", "history", "tools")

_OTHERS: Final[dict[type[Node], str]] = {
    Script: "script",
    Sequential: "sequential",
    Reduce: "reduce",
    DirectorEvaluatorLoop: "director_evaluator_loop",
}


def misplaced_fields(node: TaskNode) -> str | None:
    """What is wrong with the fields that a task has; None: nothing. A reference has those of its template."""
    plain = Reference(ref="")
    return misplaced(node, [name for name in REQUEST_FIELDS if getattr(node, name) != getattr(plain, name)])


def misplaced(node: Node, names: Iterable[str]) -> str | None:
    """What is wrong with giving a task these fields, whatever it has; None: nothing."""
    found = [name for name in names if name in REQUEST_FIELDS]
    if not found or isinstance(node, Atomic) or type(node) not in _OTHERS:
        return None
    verb, them = ("is", "it") if len(found) == 1 else ("are", "them")
    where = "" if isinstance(node, Script) else f"; write {them} on the tasks inside"
    return f"{', '.join(found)} {verb} for atomic tasks, and this is a {_OTHERS[type(node)]} task{where}"
