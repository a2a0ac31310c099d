"""Effects that count against the budget of the branch that asks."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from weft.evaluator.branches import current_branch
from weft.evaluator.budget import MOST, PAID, Scope
from weft.evaluator.effects import ContextQuery, Effects, ModelCall, ScriptOutcome, ScriptRun, Step, ToolCall
from weft.evaluator.errors import TaskFailed
from weft.evaluator.known import Known, then
from weft.evaluator.purse import UNLIMITED, Purse
from weft.evaluator.results import TaskResult
from weft.evaluator.scope_purse import ScopePurse
from weft.evaluator.taking_in import json_answer
from weft.evaluator.values import is_number

T = TypeVar("T")


class MeteredEffects:
    """Passes on to other effects. A call is counted before it is made, in the branch that makes it.

    A model call gets the purse of that branch. Of one that does not use it, for its answer was known or
    scripted, tokens and cost are counted when the answer is there, from `notes.usage` of the result: `tokens`
    (or `input_tokens` and `output_tokens`) and `cost`.
    """

    def __init__(self, effects: Effects) -> None:
        self._effects = effects

    def call_model(self, step: Step, call: ModelCall, purse: Purse = UNLIMITED) -> Awaitable[TaskResult]:
        scope = _counted()
        spender = call.template or step.key
        own = ScopePurse(scope, spender)
        try:
            answer = self._effects.call_model(step, call, own)
        except TaskFailed as error:  # a failure that is known: it was paid for
            _pay(scope, spender, (getattr(error.error, "notes", None) or {}).get("usage"))
            raise
        if isinstance(answer, Known):
            # Whether it was too much showed when it was asked, and must not show otherwise now.
            _pay(scope, spender, answer.value.notes.get("usage"))
            return answer
        return then(answer, lambda result: _paid(scope, spender, own, result))

    def run_script(self, step: Step, run: ScriptRun) -> Awaitable[ScriptOutcome]:
        _counted()
        return self._effects.run_script(step, run)

    def call_tool(self, step: Step, call: ToolCall, purse: Purse = UNLIMITED) -> Awaitable[Any]:
        own = ScopePurse(_counted(), call.tool)
        return then(
            self._effects.call_tool(step, call, own), lambda value: json_answer(f"tool '{call.tool}'", value)
        )

    def get_context(
        self, step: Step, query: ContextQuery, purse: Purse = UNLIMITED
    ) -> Awaitable[dict[str, Any]]:
        answer = self._effects.get_context(step, query, ScopePurse(_counted(), "get-context"))
        return then(answer, lambda value: json_answer("memory", value))

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


def _counted() -> Scope:
    """The scope of the branch that asks, the call counted; raises when a budget is used up already."""
    scope = current_branch().scope
    scope.check(*PAID)  # what was settled may have been more than was set aside
    scope.spend("calls", 1)
    return scope


def _paid(scope: Scope, spender: str, purse: ScopePurse, result: TaskResult) -> TaskResult:
    """The result, what it took being counted if that was not done."""
    if not purse.is_used and _pay(scope, spender, result.notes.get("usage")):
        scope.check(*PAID)
    return result


def _pay(scope: Scope, spender: str, usage: Any) -> bool:
    """Count what a call took, if that is said."""
    if not isinstance(usage, dict):
        return False
    tokens = usage.get("tokens")
    if tokens is None:
        tokens = _amount(usage.get("input_tokens")) + _amount(usage.get("output_tokens"))
    scope.pay(spender, {"tokens": _amount(tokens), "cost": _amount(usage.get("cost"))})
    return True


def _amount(value: Any) -> float:
    """What was used, if that is said in a way that can be counted: an answer that is paid for is not lost."""
    return min(value, MOST) if is_number(value) and value > 0 else 0
