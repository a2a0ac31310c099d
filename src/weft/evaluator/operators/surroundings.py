"""What a running task gets from those it runs inside, whatever scope its names come from."""

from contextvars import ContextVar
from typing import Any

import msgspec
from msgspec import Struct

from weft.evaluator.errors import TaskFailed
from weft.evaluator.operators.history import SequentialHistory
from weft.evaluator.results import ResourceExhaustion
from weft.evaluator.subtask_chain import Chain
from weft.language.spans import NOWHERE, Span
from weft.limits import MAX_TASK_DEPTH


class Surroundings(Struct, frozen=True):
    """The tasks around, in as much as they matter to those inside."""

    depth: int = 0
    """How many composite tasks and template calls are around."""
    history: SequentialHistory | None = None
    """Of the innermost composite that has one."""
    model: str | None = None
    """What the innermost composite that names a model says; the default of the tasks inside."""
    provider: str | None = None
    max_depth: int | None = None
    """How many levels of subtasks the innermost composite that says it allows."""
    chain: Chain | None = None
    """The subtask that the task is inside of; None: of none."""
    called_at: Span = NOWHERE
    """Where the template is called whose body is the very next task; nowhere: that is no such body."""

    def deeper(self, span: Span, *, called_at: Span = NOWHERE, **changes: Any) -> "Surroundings":
        """The surroundings one level further in; raises TaskFailed where the limit is passed."""
        if self.depth >= MAX_TASK_DEPTH:
            message = f"tasks are nested deeper than {MAX_TASK_DEPTH} levels"
            metrics = {"used": float(self.depth + 1), "limit": float(MAX_TASK_DEPTH)}
            raise TaskFailed(ResourceExhaustion("depth", message, metrics=metrics), span=span)
        if not changes:
            return Surroundings(
                self.depth + 1, self.history, self.model, self.provider, self.max_depth, self.chain, called_at
            )
        return msgspec.structs.replace(self, depth=self.depth + 1, called_at=called_at, **changes)


_CURRENT: ContextVar[Surroundings] = ContextVar("surroundings", default=Surroundings())  # noqa: B039 (frozen)


def surroundings() -> Surroundings:
    """Those of the code that runs now."""
    return _CURRENT.get()


class inside:  # noqa: N801  reads as a word: `with inside(new)`
    """Runs a block of compiled code in other surroundings. Branches that begin in it get them too."""

    __slots__ = ("_new", "_token")

    def __init__(self, new: Surroundings) -> None:
        self._new = new

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._new)

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._token)
