"""Timing-dependent decisions of earlier evaluations, recorded for replay.

A resumed run must take the same path. Recorded results alone are not enough: which time limit was reached, or
which budget was used up, depends on how long effects took.
"""

from collections.abc import Awaitable, Iterable
from typing import Any

from msgspec import Struct

from weft.evaluator.budget import Scope
from weft.evaluator.errors import BudgetExceeded
from weft.evaluator.resolved import Resolved
from weft.evaluator.results import TaskError


class LimitReached(Struct, frozen=True):
    """A limit that was reached, or a caught failure that had cancelled concurrent branches."""

    error: TaskError
    code: str
    steps: int
    """How many steps the branch had made by then."""
    limits: int = 0
    """How many scopes with limits the branch had opened since its last step."""
    used: float | None = None
    """Operations used, if the limit was reached in pure code."""

    def to_error(self, scope: Scope, key: str) -> BudgetExceeded:
        """Return the recorded error; `scope` is the scope of this evaluation that has the limit `key`."""
        error = BudgetExceeded(self.error, code=self.code)
        error.scope, error.step_key = scope, key
        return error


class SkippedCall(Struct, frozen=True):
    """A call of an earlier evaluation that is not repeated."""

    spender: str
    usage: Any
    """`notes.usage` of the result or failure."""


class History:
    """Records of earlier evaluations, by key of a step or of a limit (`3!1`: first limit after step 3).

    This class is the history of an evaluation that is neither recorded nor replayed.
    """

    def reached(self, key: str) -> LimitReached | None:
        """Return how the limit with that key ended its scope; None if it was not reached."""
        return None

    def is_behind(self) -> bool:
        """Return whether recorded steps are left that the evaluation has not reached yet."""
        return False

    def is_known(self, key: str) -> bool:
        """Return whether a step is recorded at that key or below it."""
        return False

    def keep(self, key: str, reached: LimitReached) -> Awaitable[None]:
        """Record a reached limit; awaited before the program continues."""
        return Resolved(None)

    def pass_over(self, key: str) -> Iterable[SkippedCall]:
        """Skip the recorded steps at and below that key that are not replayed yet; return their calls."""
        return ()

    def reject(self, key: str) -> None:
        """Mark the result of a step as rejected, so that it is not reused."""
