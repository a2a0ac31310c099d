"""Durable effects: each step is recorded, and is not performed again once it has an outcome."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import msgspec

from weft.evaluator.conversion import check_context_result, check_tool_result, result_json
from weft.evaluator.effects import (
    UNLIMITED,
    BudgetAccount,
    ContextQuery,
    Effects,
    ModelCall,
    ScriptOutcome,
    ScriptRun,
    Step,
    StepRecord,
    ToolCall,
)
from weft.evaluator.errors import TaskFailed
from weft.evaluator.joins import enclosing_scope
from weft.evaluator.operators.script import script_facts, script_failure
from weft.evaluator.resolved import Resolved, map_result
from weft.evaluator.results import TaskFailure, TaskResult, ValueResult
from weft.evaluator.tools import USER_INPUT_TOOL
from weft.language.task_fields import AIDER_SUBTYPES
from weft.runs.cancellation import CancellationWatcher
from weft.runs.journal import Journal, OpenStep
from weft.runs.replay import has_outcome, is_step_cancelled, resumable
from weft.runs.reuse import Fork, ReusableResults, request_digest, reuse_digest
from weft.runs.sessions import JournaledSession, LeasedSlots
from weft.runs.step_records import cancelled_step_failure, failure_of, name_of
from weft.secrets.registry import has_secrets, redact_json
from weft.store.models import StoredStep
from weft.store.protocol import TaskStore
from weft.tasks.record import JsonObject, Origin, Status, Task, first_source
from weft.tasks.steps import step_fields


def outcome_json(outcome: ScriptOutcome, run: ScriptRun) -> JsonObject:
    """Return the result of a successful script as JSON; raise TaskFailed for a failed one."""
    if has_secrets():  # the program must see the stored outcome, as replay gives it
        outcome = msgspec.convert(redact_json(msgspec.to_builtins(outcome)), ScriptOutcome)
    failure = script_failure(outcome, run.timeout_seconds)
    if failure is not None:
        # `failure_of` restores the content from the details.
        raise TaskFailed(msgspec.structs.replace(failure, content=None))
    facts: JsonObject = msgspec.to_builtins(outcome)
    return facts


def ending(ask: Callable[[], Awaitable[JsonObject]]) -> Awaitable[ScriptOutcome]:
    """Return the outcome of a script, successful or not; raise TaskFailed if the script has no outcome."""
    try:
        asked = ask()
    except TaskFailed as error:  # a recorded failure
        return Resolved(_outcome_of(error))
    return map_result(asked, lambda found: msgspec.convert(found, ScriptOutcome), rescue=_outcome_of)


def _outcome_of(error: TaskFailed) -> ScriptOutcome:
    """Return the script outcome in the details of a failure; raise the failure if it has no such details."""
    failure = error.error
    details = (failure.details or {}) if isinstance(failure, TaskFailure) else {}
    if not details.keys() >= _SCRIPT_FACT_NAMES:
        raise error
    return ScriptOutcome(
        stdout=details["script_stdout"],
        stderr=details["script_stderr"],
        exit_code=details["script_exit_code"],
        is_timed_out=isinstance(failure, TaskFailure) and failure.reason == "execution_timeout",
    )


_SCRIPT_FACT_NAMES = frozenset(script_facts(ScriptOutcome("", "", 0)))


Perform = Callable[[OpenStep], Awaitable[tuple[JsonObject, dict[str, Any]]]]
"""Performs a step; returns its result, and keyword arguments for `Journal.complete`."""


class DurableEffects(Effects):
    """Records each effect of a program as a step; `inner` performs only steps without a recorded outcome."""

    def __init__(
        self,
        inner: Effects,
        journal: Journal,
        store: TaskStore,
        *,
        is_reusing: bool = True,
        slots: LeasedSlots,
        schema_text: Callable[[str, str], str] | None = None,
        fork: Fork | None = None,
    ) -> None:
        self._inner = inner
        self._journal = journal
        self._reusable = ReusableResults(store, journal, fork, is_reusing=is_reusing)
        self._slots = slots
        self._schema_text = schema_text or inner.schema_text
        self._fork = fork
        self._cancellation = CancellationWatcher(store)

    def stop(self) -> None:
        """Stop watching for cancelled steps; the evaluation has ended."""
        self._cancellation.stop()

    def call_model(
        self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED
    ) -> Awaitable[TaskResult]:
        """Return the model's result: the recorded one, a reused one, or a new one."""

        async def perform(opened: OpenStep) -> tuple[JsonObject, dict[str, Any]]:
            if call.subtype in AIDER_SUBTYPES:  # a process that calls the model itself
                async with self._slots:
                    edited = await self._inner.call_model(
                        await self._with_record(step, opened), call, account
                    )
                return result_json(edited), {}
            turns = JournaledSession(self._journal, step, opened, call, self._slots, self._reusable.find)
            result = await self._inner.call_model_journaled(step, call, account, turns)
            if turns.source is not None:
                return turns.source.result or {}, {"source": turns.source}
            # A response cut short by a budget is not reused by runs that may have a larger budget.
            is_cut = bool(result.notes.get("truncated"))
            return result_json(result), {"reuse_hash": None if is_cut else turns.reuse_hash}

        return map_result(self._replay_or_perform(step, perform), _model_result)

    def run_script(self, step: Step, run: ScriptRun) -> Awaitable[ScriptOutcome]:
        """Return the outcome of the script; other runs reuse it only if the script allows that."""

        async def perform(opened: OpenStep) -> tuple[JsonObject, dict[str, Any]]:
            reuse_hash = await self._reuse_hash(run) if run.reuse else None
            source = await self._reusable.find(reuse_hash)
            if source is not None:
                return source.result or {}, {"source": source}
            async with self._slots:
                outcome = await self._inner.run_script(await self._with_record(step, opened), run)
            return outcome_json(outcome, run), {"reuse_hash": reuse_hash}

        return ending(
            lambda: map_result(self._replay_or_perform(step, perform), lambda outcome: outcome.result)
        )

    def call_tool(self, step: Step, call: ToolCall, account: BudgetAccount = UNLIMITED) -> Awaitable[Any]:
        """Return the tool's value; other runs reuse it only if the tool is pure."""

        async def perform(opened: OpenStep) -> tuple[JsonObject, dict[str, Any]]:
            reuse_hash = await self._reuse_hash(call)
            source = await self._reusable.find(reuse_hash)
            if source is not None:
                return source.result or {}, {"source": source}
            # A person may take days, and must not occupy a slot.
            async with nullcontext() if call.tool == USER_INPUT_TOOL else self._slots:
                value = await self._inner.call_tool(step, call, account)
            return {"value": check_tool_result(call.tool, value)}, {"reuse_hash": reuse_hash}

        return map_result(self._replay_or_perform(step, perform), lambda outcome: outcome.result.get("value"))

    def get_context(
        self, step: Step, query: ContextQuery, account: BudgetAccount = UNLIMITED
    ) -> Awaitable[dict[str, Any]]:

        async def perform(opened: OpenStep) -> tuple[JsonObject, dict[str, Any]]:
            async with self._slots:
                found = await self._inner.get_context(step, query, account)
            return check_context_result(found), {}

        return map_result(self._replay_or_perform(step, perform), lambda outcome: outcome.result)

    async def around(self, step: Step, body: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        """Evaluate a composite step and return its result. Replay evaluates it too: its body binds names."""
        journal = self._journal
        input_hash = request_digest(step.request)
        found = journal.past.find(step, input_hash, name_of(step)) if journal.past else None
        if found is not None and (found.task.status is Status.COMPLETED or _is_replaying_limit()):
            return await self._inner.around(step, body)
        if found is not None and is_step_cancelled(found.task):
            journal.past.pass_over(step.key)
            _replay(found.task)
        opened = journal.begin(step, input_hash, resumable(found))
        self._cancellation.began(opened)
        try:
            result = await self._inner.around(step, body)
        except TaskFailed as error:
            journal.fail_soon(opened, error)
            raise
        except asyncio.CancelledError:
            self._end_cancelled(opened)
            raise
        finally:
            self._cancellation.ended(opened)
        journal.complete_soon(opened, _composite_json(result))
        return result

    def log(self, message: str) -> None:
        self._inner.log(message)

    def tools(self) -> frozenset[str] | None:
        return self._inner.tools()

    def schema_text(self, path: str, source: str) -> str:
        """Return the text that the file had when the run started."""
        return self._schema_text(path, source)

    async def _with_record(self, step: Step, opened: OpenStep) -> Step:
        """Store the step's record, and return the step with its record id, which later attempts use again."""
        await self._journal.show()
        return msgspec.structs.replace(step, record=StepRecord(opened.task.id, self._journal.attempt))

    async def _reuse_hash(self, request: ScriptRun | ToolCall) -> str | None:
        """Return the digest under which other runs find the outcome; None if they must not reuse it."""
        facts = await self._inner.result_depends_on(request)
        return None if facts is None else reuse_digest(type(request).__name__, request, facts)

    def _replay_or_perform(self, step: Step, perform: Perform) -> "Awaitable[_Outcome]":
        """Return the recorded outcome of a step that is not a composite, or perform the step."""
        past = self._journal.past
        input_hash = request_digest(step.request)
        found = past.find(step, input_hash, name_of(step)) if past else None
        if found is not None and has_outcome(found.task):
            return Resolved(_replay(found.task))
        return self._perform(step, input_hash, found, perform)

    async def _perform(
        self, step: Step, input_hash: str, found: StoredStep | None, perform: Perform
    ) -> "_Outcome":
        journal = self._journal
        opened = journal.begin(step, input_hash, resumable(found))
        before = self._fork.find(step.key, input_hash) if self._fork is not None and found is None else None
        if before is not None:
            return await self._take_over(opened, before)
        self._cancellation.began(opened)
        try:
            result, facts = await perform(opened)
        except TaskFailed as error:
            if _is_being_cancelled():  # the failure is a result of the cancellation, and must not be replayed
                self._end_cancelled(opened)
                raise asyncio.CancelledError from error
            await journal.fail(opened, error)
            raise
        except asyncio.CancelledError:
            self._end_cancelled(opened)
            raise
        finally:
            self._cancellation.ended(opened)
        result = await journal.complete(opened, result, **facts, is_last=True)
        source = facts.get("source")
        return _Outcome(result, None if source is None else first_source(source))

    async def _take_over(self, opened: OpenStep, before: Task) -> "_Outcome":
        """Copy the outcome of the step from the run that this one was forked from."""
        if before.status is Status.FAILED:
            error = failure_of(step_fields(before).failure, before.error)
            await self._journal.fail(opened, error)
            raise error
        result = await self._journal.complete(opened, before.result or {}, source=before, is_last=True)
        return _Outcome(result, first_source(before))

    def _end_cancelled(self, opened: OpenStep) -> None:
        """Record the end of a cancelled step; raise TaskFailed if somebody cancelled just this step."""
        halted = self._cancellation.halted(opened)
        if halted is None:
            self._journal.cancel_attempt(opened)
            return
        self._journal.halt(opened)
        raise halted


def _replay(task: Task) -> "_Outcome":
    """Return the recorded outcome, or raise the recorded failure."""
    if task.status is Status.COMPLETED:
        is_link = task.origin_type is Origin.LINK
        return _Outcome(task.result or {}, task.original_task_id if is_link else None)
    if task.status is Status.CANCELLED:
        raise cancelled_step_failure(task)
    raise failure_of(step_fields(task).failure, task.error)


def _is_replaying_limit() -> bool:
    """Return whether replay ends an enclosing scope with a recorded limit; its steps are already recorded."""
    scope = enclosing_scope()
    return scope is not None and any(one.replayed_limit is not None for one in scope.chain())


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class _Outcome(msgspec.Struct, frozen=True):
    result: JsonObject
    source_id: str | None = None
    """Id of the step of another run that the result is reused from."""


def _model_result(outcome: _Outcome) -> TaskResult:
    result = msgspec.convert(outcome.result, TaskResult)
    if outcome.source_id is None:
        return result
    # A reused result costs nothing: budgets must not count it.
    notes = {name: value for name, value in result.notes.items() if name != "usage"}
    return msgspec.structs.replace(result, notes={**notes, "reused": outcome.source_id})


def _composite_json(result: TaskResult) -> JsonObject:
    found = result_json(result)
    return {**found, "is_value": True} if isinstance(result, ValueResult) else found
