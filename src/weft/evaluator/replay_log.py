"""What earlier evaluations of the same program have left besides answers: what was decided by time and luck.

An evaluation that goes on with another must take the same way. Answers alone do not tell it: which time limit
was reached, or which budget used up, depends on how long things took then.
"""

from collections.abc import Awaitable, Iterable
from typing import Any, Protocol

from msgspec import Struct

from weft.evaluator.budget import Scope
from weft.evaluator.errors import BudgetExceeded
from weft.evaluator.resolved import Resolved
from weft.evaluator.results import TaskError


class LimitReached(Struct, frozen=True):
    """A limit that was reached; or a failure that was caught, and had ended others which were under way."""

    error: TaskError
    code: str
    steps: int
    """How many steps the branch had taken by then."""
    limits: int = 0
    """How many scopes with limits it had opened since the last of them."""
    used: float | None = None
    """How many steps of pure code, where that is what took too long."""

    def again(self, scope: Scope, key: str) -> BudgetExceeded:
        """The error that it was, for the scope that has the limit this time."""
        error = BudgetExceeded(self.error, code=self.code)
        error.scope, error.step_key = scope, key
        return error


class SkippedCall(Struct, frozen=True):
    """A call that was made before and is not asked for again."""

    spender: str
    usage: Any
    """As the result or the failure said it."""


class History(Protocol):
    """Of one evaluation; keys are those of steps, and of limits (`3!1`: the first one after step 3)."""

    def reached(self, key: str) -> LimitReached | None:
        """How the limit with that key ended the scope that it bounds; None: it did not, or is not known."""
        ...

    def is_behind(self) -> bool:
        """Whether there are answers that were not asked for yet."""
        ...

    def is_known(self, key: str) -> bool:
        """Whether something was asked for at that key, or below it."""
        ...

    def keep(self, key: str, reached: LimitReached) -> Awaitable[None]:
        """Keep that a limit was reached: done before the program goes on."""
        ...

    def pass_over(self, key: str) -> Iterable[SkippedCall]:
        """What was asked for at that key and below it need not be asked for again: something else failed.

        Those calls among it that were made, for who counts them.
        """
        ...

    def reject(self, key: str) -> None:
        """The answer of a step is none that anybody else should get."""
        ...


class NoHistory:
    """Of an evaluation that nothing came before, and nothing comes after."""

    def reached(self, key: str) -> LimitReached | None:
        return None

    def is_behind(self) -> bool:
        return False

    def is_known(self, key: str) -> bool:
        return False

    def keep(self, key: str, reached: LimitReached) -> Awaitable[None]:
        return Resolved(None)

    def pass_over(self, key: str) -> Iterable[SkippedCall]:
        return ()

    def reject(self, key: str) -> None: ...
