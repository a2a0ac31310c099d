"""What earlier evaluations of the same program have left besides answers: what was decided by time and luck.

An evaluation that goes on with another must take the same way. Answers alone do not tell it: which time limit
was reached, or which budget used up, depends on how long things took then.
"""

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from weft.evaluator.budget import Scope
from weft.evaluator.errors import BudgetExceeded
from weft.evaluator.known import Known
from weft.evaluator.results import TaskError


class Reached(Struct, frozen=True):
    """A limit that was reached."""

    error: TaskError
    code: str
    steps: int
    """How many steps the branch had taken by then."""

    def again(self, scope: Scope, key: str) -> BudgetExceeded:
        """The error that it was, for the scope that has the limit this time."""
        error = BudgetExceeded(self.error, code=self.code)
        error.scope, error.step_key = scope, key
        return error


class History(Protocol):
    """Of one evaluation; keys are those of steps, and of limits (`3!1`: the first one after step 3)."""

    def reached(self, key: str) -> Reached | None:
        """How the limit with that key ended the scope that it bounds; None: it did not, or is not known."""
        ...

    def keep(self, key: str, reached: Reached) -> Awaitable[None]:
        """Keep that a limit was reached: done before the program goes on."""
        ...

    def pass_over(self, key: str) -> None:
        """What was asked for at that key and below it need not be asked for again: something else failed."""
        ...

    def reject(self, key: str) -> None:
        """The answer of a step is none that anybody else should get."""
        ...


class NoHistory:
    """Of an evaluation that nothing came before, and nothing comes after."""

    def reached(self, key: str) -> Reached | None:
        return None

    def keep(self, key: str, reached: Reached) -> Awaitable[None]:
        return Known(None)

    def pass_over(self, key: str) -> None: ...

    def reject(self, key: str) -> None: ...
