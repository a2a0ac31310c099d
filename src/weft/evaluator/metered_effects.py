"""Effects that count against the budget of the branch that asks."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from weft.evaluator.branches import current_branch
from weft.evaluator.budget import PAID, Scope
from weft.evaluator.budget_account import ScopePurse, pay
from weft.evaluator.conversion import context_answer, tool_answer
from weft.evaluator.effects import (
    UNLIMITED,
    BudgetAccount,
    ContextQuery,
    Effects,
    ModelCall,
    ScriptOutcome,
    ScriptRun,
    Step,
    ToolCall,
)
from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.resolved import Resolved, give_up, then
from weft.evaluator.results import TaskResult

T = TypeVar("T")


class MeteredEffects:
    """Passes on to other effects. A call is counted before it is made, in the branch that makes it.

    A model call gets the purse of that branch. Of one that does not use it, for its answer was known or
    scripted, tokens and cost are counted when the answer is there, from `notes.usage` of the result: `tokens`
    (or `input_tokens` and `output_tokens`) and `cost`.
    """

    def __init__(self, effects: Effects) -> None:
        self._effects = effects

    def call_model(
        self, step: Step, call: ModelCall, purse: BudgetAccount = UNLIMITED
    ) -> Awaitable[TaskResult]:
        scope = current_branch().scope
        spender = call.template or step.key
        own = ScopePurse(scope, spender)
        try:
            answer = _counted(scope, self._effects.call_model(step, call, own))
        except TaskFailed as error:
            if not isinstance(error, BudgetExceeded):  # a failure that is known: it was paid for
                scope.count("calls", 1)
                pay(scope, spender, (getattr(error.error, "notes", None) or {}).get("usage"))
            raise
        return then(answer, lambda result: _paid(scope, spender, own, result))

    def run_script(self, step: Step, run: ScriptRun) -> Awaitable[ScriptOutcome]:
        return _counted(current_branch().scope, self._effects.run_script(step, run))

    def call_tool(self, step: Step, call: ToolCall, purse: BudgetAccount = UNLIMITED) -> Awaitable[Any]:
        scope = current_branch().scope
        answer = _counted(scope, self._effects.call_tool(step, call, ScopePurse(scope, call.tool)))
        return then(answer, lambda value: tool_answer(call.tool, value))

    def get_context(
        self, step: Step, query: ContextQuery, purse: BudgetAccount = UNLIMITED
    ) -> Awaitable[dict[str, Any]]:
        scope = current_branch().scope
        answer = _counted(scope, self._effects.get_context(step, query, ScopePurse(scope, "get-context")))
        return then(answer, context_answer)

    def around(
        self, step: Step, body: Callable[[], Awaitable[TaskResult]]
    ) -> Coroutine[Any, Any, TaskResult]:
        return self._effects.around(step, body)

    def log(self, message: str) -> None:
        self._effects.log(message)

    def tools(self) -> frozenset[str] | None:
        return self._effects.tools()

    def schema_text(self, path: str, source: str) -> str:
        return self._effects.schema_text(path, source)


def _counted(scope: Scope, answer: Awaitable[T]) -> Awaitable[T]:
    """The answer, the call counted; raises when a budget is used up already.

    Not for an answer that is known: whether there was enough left for it was seen when it was asked for.
    """
    if isinstance(answer, Resolved):
        scope.count("calls", 1)
        return answer
    try:
        scope.raise_foretold()
        scope.check(*PAID)  # what was settled may have been more than was set aside
        scope.spend("calls", 1)
    except BudgetExceeded:
        give_up(answer)
        raise
    return answer


def _paid(scope: Scope, spender: str, purse: ScopePurse, result: TaskResult) -> TaskResult:
    """The result, what it took being counted if that was not done."""
    if not purse.is_used:
        pay(scope, spender, result.notes.get("usage"))
    return result
