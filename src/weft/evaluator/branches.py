"""Branches: compiled code that runs in its own greenlet, with its own step keys."""

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
    """Where a limit ended a recorded scope: after `steps` steps and then `limits` scopes with limits."""

    steps: int
    limits: int
    error: BudgetExceeded


class Branch(greenlet):
    """Compiled code that runs sequentially in its own greenlet."""

    def __init__(self, run: Callable[[], Any], scope: Scope, prefix: str = "", *, level: int = 0) -> None:
        super().__init__(run)
        self.gr_context = copy_context()  # a greenlet would start with an empty context
        self.scope = scope
        self.level = level
        """How many concurrent forms enclose the branch."""
        self.prefix = prefix
        self.item = 0
        """Number, from 1, of the item that the branch evaluates; 0 outside of parallel items."""
        self.steps = 0
        """Number of steps that the branch has made in the current item."""
        self.limits = 0
        """Number of scopes with limits that were opened since the last step."""
        self.replayed_limit: ReplayedLimit | None = None
        """On replay: the recorded limit that ends the current scope."""
        self.conversation: tuple[Turn, ...] = ()
        """The turns so far of tasks with `history`: those before the branch, then those in it."""

    def next_key(self) -> str:
        """Return the key of the next step. Raise the recorded error if a replayed limit is reached."""
        if self.replayed_limit is not None and self.steps >= self.replayed_limit.steps:
            raise self.replayed_limit.error
        self.steps += 1
        self.limits = 0
        return self.key_of(self.steps)

    def key_of(self, number: int) -> str:
        item = f"/{self.item}/" if self.item else ""
        return f"{self.prefix}{item}{number}"

    def next_limit(self) -> str:
        """Return the key of the next scope with limits. Raise like `next_key`."""
        end = self.replayed_limit
        if end is not None and (self.steps, self.limits) >= (end.steps, end.limits):
            raise end.error
        self.limits += 1
        return f"{self.key_of(self.steps)}!{self.limits}"

    def pause(self, awaited: Any) -> Any:
        """Switch from this branch to the event loop until `awaited` has finished; return its outcome."""
        return self.parent.switch(awaited)  # type: ignore[union-attr]  # a started greenlet has a parent


def current_branch() -> Branch:
    """Return the running branch. Raise InternalError outside of `Machine.run`."""
    branch = getcurrent()
    if not isinstance(branch, Branch):
        raise InternalError("compiled code runs only inside Machine.run")
    return branch


def is_outer_budget_error(error: TaskFailed) -> bool:
    """Return whether an exceeded budget belongs to the current scope or an enclosing one."""
    return isinstance(error, BudgetExceeded) and error.scope in current_branch().scope.chain()
