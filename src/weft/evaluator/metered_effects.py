"""Effects that count against the budgets of the running branch."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from weft.evaluator.branches import current_branch
from weft.evaluator.budget import RESERVABLE, Scope
from weft.evaluator.budget_account import ScopeAccount, pay
from weft.evaluator.conversion import check_context_result, check_tool_result
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
from weft.evaluator.resolved import Resolved, discard, map_result
from weft.evaluator.results import TaskResult

T = TypeVar("T")


class MeteredEffects(Effects):
    """Counts every call in the scope of the branch that makes it, then passes it on to other effects.

    Every call but that of a script gets an account of the scope. If a model call does not use its account,
    because the result was recorded or scripted, `notes.usage` of the result is counted: `tokens` (or
    `input_tokens` and `output_tokens`) and `cost`.
    """

    def __init__(self, effects: Effects) -> None:
        self._effects = effects

    def call_model(
        self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED
    ) -> Awaitable[TaskResult]:
        scope = current_branch().scope
        spender = call.template or step.key
        own = ScopeAccount(scope, spender)
        try:
            pending = _count_call(scope, self._effects.call_model(step, call, own))
        except TaskFailed as error:
            if not isinstance(error, BudgetExceeded):  # a recorded failure, which was paid for
                scope.count("calls", 1)
                pay(scope, spender, (getattr(error.error, "notes", None) or {}).get("usage"))
            raise
        return map_result(pending, lambda result: _count_usage(scope, spender, own, result))

    def run_script(self, step: Step, run: ScriptRun) -> Awaitable[ScriptOutcome]:
        return _count_call(current_branch().scope, self._effects.run_script(step, run))

    def call_tool(self, step: Step, call: ToolCall, account: BudgetAccount = UNLIMITED) -> Awaitable[Any]:
        scope = current_branch().scope
        pending = _count_call(scope, self._effects.call_tool(step, call, ScopeAccount(scope, call.tool)))
        return map_result(pending, lambda value: check_tool_result(call.tool, value))

    def get_context(
        self, step: Step, query: ContextQuery, account: BudgetAccount = UNLIMITED
    ) -> Awaitable[dict[str, Any]]:
        scope = current_branch().scope
        pending = _count_call(
            scope, self._effects.get_context(step, query, ScopeAccount(scope, "get-context"))
        )
        return map_result(pending, check_context_result)

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


def _count_call(scope: Scope, pending: Awaitable[T]) -> Awaitable[T]:
    """Count a call and return its awaitable. Raise BudgetExceeded if a budget is already used up.

    For a recorded result nothing is checked: its budget was checked when the request was made.
    """
    if isinstance(pending, Resolved):
        scope.count("calls", 1)
        return pending
    try:
        scope.raise_replayed_limit()
        scope.check(*RESERVABLE)  # a request may have used more than was reserved
        scope.spend("calls", 1)
    except BudgetExceeded:
        discard(pending)
        raise
    return pending


def _count_usage(scope: Scope, spender: str, account: ScopeAccount, result: TaskResult) -> TaskResult:
    """Return the result; count its usage if the account has not counted it."""
    if not account.is_used:
        pay(scope, spender, result.notes.get("usage"))
    return result
