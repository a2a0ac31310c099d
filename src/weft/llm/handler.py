"""The handler runs the session of one task with its model, turn by turn, until the final response.

The model does not decide what is run: only the tools that the template lists are looked up or called, and a
response is data, which is neither evaluated nor searched for placeholders.
"""

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from weft.clock import Clock, SystemClock
from weft.config.sections import HandlerSettings
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ModelCall, Step
from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.results import DataContext, ResourceExhaustion, TaskError, TaskFailure, TaskResult
from weft.evaluator.tools import ToolContext, Tools, ToolUse
from weft.language.traversal import SPAWN_TOOL
from weft.limits import MAX_SHOWN_CHARACTERS
from weft.llm.errors import ContextTooLong, ModelError, model_failure
from weft.llm.events import (
    OnEvent,
    ResponseTruncated,
    TextArrived,
    ToolCalled,
    ToolRefused,
    TurnEnded,
    TurnFailed,
)
from weft.llm.payload import HandlerPayload, ModelReply, ToolMessage, Usage
from weft.llm.protocol import Model, OnText
from weft.llm.providers.retries import time_limit
from weft.llm.reservations import add_usage, reserve_turn, with_cost
from weft.llm.session import Session
from weft.llm.subtasks import format_tool_message, make_spawner, parse_continuation
from weft.llm.telemetry import request, tool_span
from weft.llm.tool_calls import Toolset, find_tools
from weft.llm.turn_log import TurnJournal
from weft.llm.usage import count_attempts
from weft.secrets.registry import redact
from weft.secrets.truncation import cut

MAX_TOOL_USES = 32
"""Most tool calls in one turn; further calls are refused."""

MAX_REFUSALS_KEPT = 50
"""Most refusals that the notes of a result hold."""


def _ignore(_: object) -> None: ...


class Handler:
    """Performs model calls with one model. One object serves many concurrent tasks."""

    def __init__(
        self,
        model: Model,
        tools: Tools | None = None,
        settings: HandlerSettings | None = None,
        journal: TurnJournal | None = None,
        on_event: OnEvent = _ignore,
        clock: Clock | None = None,
        *,
        is_streaming: bool = False,
    ) -> None:
        self.model = model
        self.tools = tools
        self.settings = settings or HandlerSettings()
        self.journal = journal or TurnJournal()
        self.on_event = on_event
        self.clock = clock or SystemClock()
        self.is_streaming = is_streaming
        """Whether responses are streamed and emitted as TextArrived events."""

    async def run(
        self,
        step: Step,
        call: ModelCall,
        account: BudgetAccount = UNLIMITED,
        context: DataContext | None = None,
        tool_context: ToolContext | None = None,
    ) -> TaskResult:
        """Run the session and return the final response, unparsed. TaskFailed carries any partial response.

        `context` is the data found for the task; through `tool_context` tools reach people and memory.
        """
        session_run = _SessionRun(self, step, call, account, context, tool_context or ToolContext())
        limits = (call.timeout_seconds, self.settings.timeout_seconds)
        seconds = min((limit for limit in limits if limit is not None), default=None)
        try:
            async with asyncio.timeout(seconds) as timer:
                with time_limit(seconds):
                    return await session_run.run()
        except TimeoutError:
            if not timer.expired():
                raise
            message = f"the task took longer than {seconds:g} seconds"
            raise session_run.failed(TaskFailure("execution_timeout", message)) from None
        finally:
            session_run.record_facts()


class _SessionRun:
    """The session of one task while it runs."""

    def __init__(
        self,
        handler: Handler,
        step: Step,
        call: ModelCall,
        account: BudgetAccount,
        context: DataContext | None,
        tool_context: ToolContext,
    ) -> None:
        self._handler = handler
        self._step = step
        self._call = call
        self._account = account
        self._context = context
        self._tool_context = tool_context
        self._call_numbers: Iterator[int] = count(1)
        """Numbers of the turns and tool calls, for their journal keys."""
        self._session: Session | None = None
        self._streamed: list[str] = []
        """The pieces of the response that is being streamed."""
        self._is_bound = False
        """Whether a budget limits the length of the current response."""
        self._usage = Usage(cost=0.0)
        self._first_token_seconds: float | None = None
        self._turns = 0
        self._called_tools: list[str] = []
        self._refusals: list[dict[str, str]] = []

    async def run(self) -> TaskResult:
        """Make turns until the model requests no more tools or subtasks."""
        handler, call = self._handler, self._call
        # Checked first, because finding tools may start servers.
        if call.tools and not handler.model.features.has_tools:
            message = f"the task lists tools, but '{handler.model.id}' cannot call tools"
            raise TaskFailed(TaskFailure("configuration_error", message))
        tools = await find_tools(call.tools, handler.tools, spawn=self._step.spawn)
        session = self._session = Session(
            self._step.key,
            call,
            handler.model,
            handler.settings,
            clock=handler.clock,
            on_event=handler.on_event,
            tools=tools.definitions,
            context=self._context,
        )
        known = await handler.journal.known(self._step, handler.model, session.construct_payload)
        if known is not None:
            return known
        reply = await self._turn(session)
        while await self._perform_requests(session, tools, reply):
            reply = await self._turn(session)
        return self._result(session, reply)

    async def _perform_requests(self, session: Session, tools: Toolset, reply: ModelReply) -> bool:
        """Perform the tool calls or the subtask that the reply requests; False if it requests nothing."""
        try:
            if reply.tool_uses:
                session.add_tool_messages(await self._use_tools(tools, reply.tool_uses))
                return True
            use = self._continuation(reply)
            if use is not None:
                session.add_user(format_tool_message((await self._use_tools(tools, (use,)))[0]))
            return use is not None
        except BudgetExceeded as error:
            raise _with_content(error, session.content) from None

    def _continuation(self, reply: ModelReply) -> ToolUse | None:
        """Return the spawn call of a CONTINUATION response; None for others, or if the step may not spawn."""
        return None if self._step.spawn is None else parse_continuation(reply.text, self._step.key)

    async def _turn(self, session: Session) -> ModelReply:
        """Reserve, send and charge the next request, and return its response."""
        model = self._handler.model
        try:
            reservation = await reserve_turn(model, self._account, await session.begin_turn())
        except BudgetExceeded as error:
            raise _with_content(error, session.content) from None
        except TaskFailed as error:
            raise self._exhausted(session, error) from None
        except ModelError as error:
            raise self._model_failed(session, error) from error
        self._is_bound = reservation.max_tokens is not None
        payload = session.construct_payload(reservation.max_tokens)
        self._streamed.clear()
        with count_attempts() as attempts:
            try:
                reply = await self._handler.journal.reply(
                    self._next_key(),
                    session.own_messages,
                    lambda: self._request(payload),
                    lambda reply: bool(reply.tool_uses) or self._continuation(reply) is not None,
                )
            except ModelError as error:
                failed = attempts.charged_requests(is_failed=error.is_charged)
                self._turn_failed(reservation.settle_partial(model, error.partial_text, failed))
                raise self._model_failed(session, error) from error
            except BaseException:
                failed = attempts.charged_requests(is_failed=True)
                self._turn_failed(reservation.settle_partial(model, "".join(self._streamed), failed))
                raise
        usage = reservation.settle(model, reply.usage, attempts.charged_requests(is_failed=False))
        if not self._turns:
            self._first_token_seconds = reply.first_token_seconds
        self._count(usage)
        session.add(reply)
        self._streamed.clear()
        self._handler.on_event(TurnEnded(self._step.key, model.id, self._turns, usage))
        return reply

    async def _request(self, payload: HandlerPayload) -> ModelReply:
        """Return the model's response with its cost, so that a recorded turn includes the cost."""
        model = self._handler.model
        reply = await request(model, payload, self._on_text())
        return msgspec.structs.replace(reply, usage=with_cost(model, reply.usage))

    def _turn_failed(self, usage: Usage) -> None:
        """Count a turn without a complete response, and emit its event, if it is charged."""
        if usage.tokens:
            self._count(usage)
            self._handler.on_event(TurnFailed(self._step.key, self._handler.model.id, self._turns, usage))

    async def _use_tools(self, tools: Toolset, uses: tuple[ToolUse, ...]) -> list[ToolMessage]:
        """Call the tools concurrently and return their results in the order of the calls."""
        messages = [self._use_tool(tools, use, self._next_key(), index) for index, use in enumerate(uses)]
        tasks = [asyncio.create_task(message) for message in messages]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:  # not from tools, whose errors become messages
            # No TaskGroup: before Python 3.13 a failed group leaves its task marked as cancelling.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _use_tool(self, tools: Toolset, use: ToolUse, key: str, index: int) -> ToolMessage:
        tool = tools.find(use.name)
        if tool is None:
            return self._refuse(tools, use, "the task does not list it")
        if index >= MAX_TOOL_USES:
            return self._refuse(tools, use, f"more than {MAX_TOOL_USES} calls in one turn")
        name = tool.definition.name
        context = msgspec.structs.replace(
            self._tool_context,
            step_key=key,
            template=self._call.template or self._tool_context.template,
            spawn=make_spawner(self._step, key, self._handler.on_event) if name == SPAWN_TOOL else None,
        )
        if tools.argument_problem(tool, use) is None:
            self._called_tools.append(name)

        async def call() -> ToolMessage:
            with tool_span(name, use) as called:
                message = await tools.call(tool, use, context)
                if message.is_error:
                    called.fail("tool_execution_error")
                return message

        message = await self._handler.journal.tool_message(key, use, call)
        self._handler.on_event(ToolCalled(self._step.key, name, is_error=message.is_error))
        return message

    def _refuse(self, tools: Toolset, use: ToolUse, reason: str) -> ToolMessage:
        name = cut(use.name, MAX_SHOWN_CHARACTERS, "")
        self._handler.on_event(ToolRefused(self._step.key, name, reason))
        if len(self._refusals) < MAX_REFUSALS_KEPT:
            self._refusals.append({"tool": name, "reason": reason})
        allowed = ", ".join(definition.name for definition in tools.definitions)
        return tools.error(use, f"'{name}' was not called: {reason}. Allowed: {allowed or 'no tool'}.")

    def _result(self, session: Session, reply: ModelReply) -> TaskResult:
        notes = self._notes(session)
        if reply.finish_reason == "filtered":
            message = f"a content filter of '{self._handler.model.id}' stopped the response"
            raise self.failed(TaskFailure("llm_error", message, content=reply.text or None))
        if reply.finish_reason == "length":
            if session.is_json:
                raise self._exhausted(session, session.output_exhausted(reply))
            notes["truncated"] = True
            tokens, template = reply.usage.output_tokens, self._call.template
            self._handler.on_event(ResponseTruncated(self._step.key, template, tokens, self._is_bound))
        return TaskResult(reply.text, "COMPLETE", notes=notes)

    def failed(self, error: TaskError) -> TaskFailed:
        """Return the failure with the partial response and the usage so far."""
        session = self._session
        if session is None or not isinstance(error, TaskFailure):  # other errors have no notes
            return TaskFailed(error)
        content = error.content or "".join(self._streamed) or session.content or None
        notes = {**self._notes(session), **(error.notes or {})}
        return TaskFailed(msgspec.structs.replace(error, content=content, notes=notes))

    def record_facts(self) -> None:
        """Record where the parts of the prompt came from, and what the provider reported, if it was asked."""
        session = self._session
        if session is not None and session.metrics.turns.used:
            facts = msgspec.structs.replace(
                session.provenance(),
                cache_read_tokens=self._usage.cache_read_tokens,
                cache_write_tokens=self._usage.cache_write_tokens,
                first_token_seconds=self._first_token_seconds,
            )
            self._handler.journal.record_facts(facts)

    def _exhausted(self, session: Session, failed: TaskFailed) -> TaskFailed:
        """Return the failure with the usage so far, which is charged although a limit ended the session."""
        if not self._turns or not isinstance(failed.error, ResourceExhaustion):
            return failed
        error = msgspec.structs.replace(failed.error, notes=self._notes(session))
        return type(failed)(error, span=failed.span, code=failed.problem.code)

    def _model_failed(self, session: Session, error: ModelError) -> TaskFailed:
        message = redact(error.message)
        if isinstance(error, ContextTooLong):
            return self._exhausted(session, session.context_exhausted(message))
        details: dict[str, Any] = {"is_transient": error.is_transient}
        if error.retry_after_seconds is not None:
            details["retry_after_seconds"] = error.retry_after_seconds
        return self.failed(model_failure(error, message, details))

    def _notes(self, session: Session) -> dict[str, Any]:
        model, usage = self._handler.model.id, self._usage
        metrics = session.metrics
        spent: dict[str, Any] = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "tokens": usage.tokens,
            "cost": usage.cost,
            "turns": self._turns,
            "model": model,
        }
        if usage.is_estimated:
            spent["is_estimated"] = True
        notes: dict[str, Any] = {
            "model": model,
            "usage": spent,
            "resourceUsage": msgspec.to_builtins(metrics),
        }
        if metrics.turns.last_turn_at is not None:
            notes["answered_at"] = metrics.turns.last_turn_at.isoformat()
        if self._called_tools:
            notes["tools"] = list(self._called_tools)
        if self._refusals:
            notes["refusals"] = list(self._refusals)
        if session.turns_left_out:
            notes["history_turns_left_out"] = session.turns_left_out
        return notes

    def _count(self, usage: Usage) -> None:
        self._turns += 1
        self._usage = add_usage(self._usage, usage)

    def _on_text(self) -> OnText | None:
        if not self._handler.is_streaming:
            return None

        def on_text(text: str) -> None:
            self._streamed.append(text)
            self._handler.on_event(TextArrived(self._step.key, text))

        return on_text

    def _next_key(self) -> str:
        return f"{self._step.key}#{next(self._call_numbers)}"


def _with_content(error: BudgetExceeded, content: str) -> BudgetExceeded:
    """Return the error with `content`, the text of the last response."""
    if not content:
        return error
    copy = BudgetExceeded(msgspec.structs.replace(error.error, content=content), code=error.problem.code)
    copy.scope = error.scope
    return copy
