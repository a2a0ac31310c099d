"""Branches: code that runs by itself, in a greenlet, with step keys of its own."""

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from greenlet import getcurrent, greenlet
from msgspec import Struct

from weft.errors import InternalError
from weft.evaluator.budget import Scope
from weft.evaluator.effects import Turn
from weft.evaluator.errors import BudgetExceeded, TaskFailed


class ReplayedLimit(Struct, frozen=True):
    """The end of a scope that an evaluation before has come to: after so many steps, and limits since."""

    steps: int
    limits: int
    error: BudgetExceeded


class Branch(greenlet):
    """Code that runs by itself, one step after the other."""

    def __init__(self, run: Callable[[], Any], scope: Scope, prefix: str = "", *, level: int = 0) -> None:
        super().__init__(run)
        self.gr_context = copy_context()  # else it would begin with an empty one
        self.scope = scope
        self.level = level
        self.prefix = prefix
        self.item = 0
        """The number of the item that is worked on, from 1; 0: there are none."""
        self.steps = 0
        self.limits = 0
        """Scopes with limits that were opened since the last step."""
        self.foretold: ReplayedLimit | None = None
        """Where it is known that a limit ends the scope."""
        self.conversation: tuple[Turn, ...] = ()
        """The exchanges of tasks with `history` so far: those before the branch, then its own."""

    def next_key(self) -> str:
        """The key of the step that is taken now; raises where it is known that none is any more."""
        if self.foretold is not None and self.steps >= self.foretold.steps:
            raise self.foretold.error
        self.steps += 1
        self.limits = 0
        return self.key_of(self.steps)

    def key_of(self, number: int) -> str:
        """The key of a step of the item that is worked on."""
        item = f"/{self.item}/" if self.item else ""
        return f"{self.prefix}{item}{number}"

    def next_limit(self) -> str:
        """The key of the scope with limits that is opened now; raises as `next_key` does."""
        end = self.foretold
        if end is not None and (self.steps, self.limits) >= (end.steps, end.limits):
            raise end.error
        self.limits += 1
        return f"{self.key_of(self.steps)}!{self.limits}"

    def pause(self, awaited: Any) -> Any:
        """Leave the branch, which runs now, until what it waits for has ended; what that gave."""
        return self.parent.switch(awaited)  # type: ignore[union-attr]  # a started greenlet has a parent


def current_branch() -> Branch:
    """The branch that runs now."""
    branch = getcurrent()
    if not isinstance(branch, Branch):
        raise InternalError("compiled code runs only inside Machine.run")
    return branch


def is_of_outer_scope(error: TaskFailed) -> bool:
    """Whether the budget that is used up belongs to the running scope or one around it."""
    return isinstance(error, BudgetExceeded) and error.scope in current_branch().scope.chain()
