"""Effects for programs that run here and now, without a store: models, scripts and tools; nothing is kept."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from weft.clock import Clock, SystemClock
from weft.equipment import Equipment
from weft.evaluator.effects import (
    Composite,
    ContextQuery,
    ModelCall,
    ScriptOutcome,
    ScriptRun,
    Step,
    ToolCall,
)
from weft.evaluator.errors import TaskFailed
from weft.evaluator.purse import UNLIMITED, Purse
from weft.evaluator.results import TaskFailure, TaskFailureReason, TaskResult
from weft.evaluator.tools import ToolContext, Tools
from weft.executor_settings import CommandSettings
from weft.limits import MAX_PROGRAM_CHARACTERS
from weft.llm.errors import ModelError
from weft.llm.events import ModelEvent, OnEvent, TurnEnded, TurnFailed
from weft.llm.handler import Handler
from weft.llm.protocol import Model, Models
from weft.llm.redacted_events import RedactedEvents
from weft.llm.request_spans import tool_span
from weft.llm.spending import Entry, Ledger
from weft.llm.tool_calls import call_by_name
from weft.model_settings import HandlerSettings
from weft.script_runs import run_program
from weft.task_files import ReadsFiles, files_of
from weft.telemetry.spans import Span, span

if TYPE_CHECKING:
    from weft.llm.local.models import Fetch

log = logging.getLogger(__name__)


class LocalEffects:
    """Asks models through the handler, runs scripts as the `command` executor does, and calls tools.

    What is not given is made when it is first needed, as the project's `weft.toml` says: a program without
    effects pays for nothing. There is no memory yet: asking for it fails the task.
    """

    def __init__(
        self,
        *,
        commands: CommandSettings | None = None,
        log_message: Callable[[str], None] = log.info,
        models: Models | None = None,
        model: str | None = None,
        tools: Tools | None = None,
        files: ReadsFiles | None = None,
        handler: HandlerSettings | None = None,
        on_event: OnEvent | None = None,
        is_streaming: bool = False,
        ask_person: Callable[[str], Awaitable[str]] | None = None,
        clock: Clock | None = None,
        fetch: "Fetch | None" = None,
    ) -> None:
        """`fetch` brings an embedded model that is needed and not here; without it that is an error."""
        self._equipment = Equipment(
            models=models,
            tools=tools,
            files=files,
            commands=commands,
            handler=handler,
            on_event=None if on_event is None else RedactedEvents(on_event).tell,
            say=log_message,
            fetch=fetch,
        )
        self._log_message = log_message
        self._model = model
        """The model of tasks that name none."""
        self._on_event = on_event
        self._is_streaming = is_streaming
        self._tool_context = ToolContext(ask_person=ask_person)
        self._clock = clock or SystemClock()
        self.ledger = Ledger()
        """What models were asked for, and what it cost."""

    async def call_model(self, step: Step, call: ModelCall, purse: Purse = UNLIMITED) -> TaskResult:
        """The model's answer, with what it took in its notes."""
        with _task_span(step, "atomic", call.template):
            return await self._call_model(step, call, purse)

    async def _call_model(self, step: Step, call: ModelCall, purse: Purse) -> TaskResult:
        files = await files_of(call.files, step, self.run_script, self._equipment.files)
        handler = Handler(
            await self._find_model(call),
            self._equipment.tools() if call.tools else None,
            self._equipment.handler,
            on_event=self._events(call),
            clock=self._clock,
            is_streaming=self._is_streaming,
        )
        result = await handler.run(step, call, purse, files.context(self._clock.now()), self._tool_context)
        return result.with_notes(warnings=list(files.warnings)) if files.warnings else result

    async def run_script(self, step: Step, run: ScriptRun) -> ScriptOutcome:
        """How the program ended; fails when it may not run, or cannot be started."""
        with _task_span(step, "script", run.template) as running:
            outcome = await run_program(run, self._equipment.commands)
            running.set({"process.exit.code": outcome.exit_code})
            return outcome

    async def call_tool(self, step: Step, call: ToolCall) -> Any:
        """What the tool returns; fails when it is not there, its arguments do not fit, or it fails itself."""
        context = msgspec.structs.replace(self._tool_context, step_key=step.key)
        with tool_span(call.tool):
            return await call_by_name(self._equipment.tools(), call, context)

    async def get_context(self, step: Step, query: ContextQuery) -> dict[str, Any]:
        """Fails."""
        _refuse("configuration_error", "no memory is configured: memory comes with a later version")

    async def around(self, step: Step, body: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        """The result of the body."""
        request = step.request
        kind, name = (request.kind, request.name) if isinstance(request, Composite) else ("composite", None)
        with _task_span(step, kind, name):
            return await body()

    def log(self, message: str) -> None:
        """Pass the message on; to the log of this module unless it was said otherwise."""
        self._log_message(message)

    def tools(self) -> frozenset[str] | None:
        """Those of servers are known only when they are connected: it cannot be said."""
        return None

    def schema_text(self, path: str, source: str) -> str:
        """The text of a schema file, whose path is relative to the file of the program."""
        with (Path(source).parent / path).open(encoding="utf-8") as file:
            return file.read(MAX_PROGRAM_CHARACTERS)

    async def close(self) -> None:
        """Let go of connections, servers and models in memory."""
        await self._equipment.close()

    async def _find_model(self, call: ModelCall) -> Model:
        try:
            return await self._equipment.models().find(call.model or self._model, call.provider)
        except ModelError as error:
            raise TaskFailed(TaskFailure(error.reason, error.message)) from error

    def _events(self, call: ModelCall) -> OnEvent:
        """What keeps the ledger, and passes events on, without secrets."""
        told = None if self._on_event is None else RedactedEvents(self._on_event)

        def on_event(event: ModelEvent) -> None:
            if isinstance(event, TurnEnded | TurnFailed):
                self.ledger.add(_entry(event, call))
            if told is not None:
                told.tell(event)

        return on_event


def _task_span(step: Step, kind: str, name: str | None) -> Span:
    def attributes() -> dict[str, Any]:
        return {"weft.task.name": name, "weft.task.kind": kind, "weft.step.key": step.key}

    return span(f"execute_task {name or kind}", "internal", attributes)


def _entry(event: TurnEnded | TurnFailed, call: ModelCall) -> Entry:
    usage = event.usage
    return Entry(
        step_key=event.step_key,
        template=call.template,
        model=event.model,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=usage.cost,
    )


def _refuse(reason: TaskFailureReason, message: str) -> NoReturn:
    raise TaskFailed(TaskFailure(reason, message))
