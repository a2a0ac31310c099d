"""Effects of a project: model requests, scripts, tools and memory; stores nothing itself."""

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import Struct, structs

from weft.clock import Clock, SystemClock
from weft.config.sections import CommandSettings, HandlerSettings, MemorySettings
from weft.config.settings import ProjectSettings, working_folder
from weft.effects.asked_models import require_models
from weft.effects.checks import KnownNames
from weft.effects.resources import GivenResources, ProjectResources, RootFiles
from weft.effects.task_context import DESCRIBED, TaskContext, TaskMemory, files_of, missing_file, query_of
from weft.errors import MissingExtra
from weft.evaluator.effects import (
    UNLIMITED,
    BudgetAccount,
    Composite,
    ContextQuery,
    Effects,
    ModelCall,
    ScriptOutcome,
    ScriptRun,
    Step,
    ToolCall,
)
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskResult
from weft.evaluator.tools import (
    AskAtTerminal,
    AskPerson,
    Pure,
    RecordQuestion,
    ToolContext,
    ToolFailed,
    Tools,
)
from weft.language.ast import Define, Node
from weft.language.file_paths import RequiredFile
from weft.language.library import TaskLibrary
from weft.language.task_fields import AIDER_SUBTYPES
from weft.limits import MAX_SHOWN_CHARACTERS
from weft.llm.context_window import measure_context_window
from weft.llm.errors import ModelError, model_failure
from weft.llm.events import ModelEvent, OnEvent, RedactedEvents, TurnEnded, TurnFailed
from weft.llm.handler import Handler
from weft.llm.protocol import Model, Models
from weft.llm.telemetry import tool_span
from weft.llm.tool_calls import call_by_name
from weft.llm.turn_log import TurnJournal
from weft.llm.usage import Entry, UsageLedger
from weft.runs.files import schema_file_text
from weft.secrets.truncation import cut
from weft.telemetry.spans import Span, span

if TYPE_CHECKING:
    from weft.effects.ranking import Ranker
    from weft.effects.resources import OnIndexing
    from weft.llm.local.models import Fetch
    from weft.memory.memory import Memory

log = logging.getLogger(__name__)


class LocalEffects(Effects):
    """Sends requests to models, runs scripts with the `command` executor, calls tools and queries memory.

    Resources that are not passed in are created on first use from the project's `weft.toml`.

    `ask_person` asks the person at the terminal. Without it, questions wait in the store for an answer;
    without `stores_questions` too, nobody can be asked. `fetch` downloads a missing embedded model; without
    it, a missing model is an error.

    `memory_roots` are searched instead of the project's roots, in the index that belongs to the store
    `memory_db`; `on_indexing` receives the progress of indexing, in a thread.

    `folder` is the project folder, in which scripts run, by default the current folder. With
    `resolves_from_cwd`, relative paths of files are resolved against the current folder first. `settings` are
    those of the folder's `weft.toml`, if they have been read already.
    """

    _users = 0
    """Number of evaluations that share the object now."""

    def __init__(
        self,
        *,
        commands: CommandSettings | None = None,
        log_message: Callable[[str], None] = log.info,
        models: Models | None = None,
        model: str | None = None,
        tools: Tools | None = None,
        files: RootFiles | None = None,
        handler: HandlerSettings | None = None,
        on_event: OnEvent | None = None,
        is_streaming: bool = False,
        ask_person: AskAtTerminal | None = None,
        stores_questions: bool = True,
        clock: Clock | None = None,
        fetch: "Fetch | None" = None,
        memory: "Memory | None" = None,
        memory_settings: MemorySettings | None = None,
        memory_roots: Sequence[Path | str] | None = None,
        memory_db: str | None = None,
        on_indexing: "OnIndexing | None" = None,
        folder: Path | str | None = None,
        resolves_from_cwd: bool = False,
        settings: ProjectSettings | None = None,
    ) -> None:
        given = GivenResources(
            models=models,
            tools=tools,
            files=files,
            commands=commands,
            handler=handler,
            on_event=None if on_event is None else RedactedEvents(on_event).tell,
            say=log_message,
            fetch=fetch,
            memory=memory,
            memory_settings=memory_settings,
            memory_roots=memory_roots,
            memory_db=memory_db,
            on_indexing=on_indexing,
            folder=None if folder is None else Path(folder),
            resolves_from_cwd=resolves_from_cwd,
            settings=settings,
        )
        self._resources = ProjectResources(given)
        self._folder = None if folder is None else str(folder)
        self._memory = TaskMemory(self._resources)
        self._log_message = log_message
        self._model = model
        """Model of tasks that do not name one."""
        self._on_event = on_event
        self._is_streaming = is_streaming
        self._ask_at_terminal = ask_person
        self._stores_questions = stores_questions
        ask = None if ask_person is None else _without_step_key(ask_person)
        self._tool_context = ToolContext(ask_person=ask)
        self._clock = clock or SystemClock()
        self.ledger = UsageLedger()
        """Tokens and cost of all model requests."""

    def ask_through(self, record_question: RecordQuestion) -> None:
        """Ask people through `record_question`, if questions may be stored or there is a terminal."""
        ask_at_terminal = self._ask_at_terminal
        if self._stores_questions or ask_at_terminal is not None:
            self._tool_context = structs.replace(
                self._tool_context,
                ask_person=lambda question, step_key: record_question(question, step_key, ask_at_terminal),
            )

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        """Return the response of the model, with tokens and cost in its notes."""
        return await self.call_model_journaled(step, call, account, None)

    async def call_model_journaled(
        self, step: Step, call: ModelCall, account: BudgetAccount, journal: TurnJournal | None
    ) -> TaskResult:
        """Return the response of the model; turns that the journal has recorded are replayed."""
        with _task_span(step, "atomic", call.template):
            if call.subtype in AIDER_SUBTYPES:
                return await self._run_aider(step, call)
            handler = Handler(
                await self._find_model(call.model, call.provider),
                self._resources.tools() if call.tools else None,
                self._resources.handler,
                journal,
                on_event=self._events(call),
                clock=self._clock,
                is_streaming=self._is_streaming,
            )
            context = await handler.journal.context(
                TaskContext, lambda: self._context(step, call, account, handler)
            )
            tool_context = self._tool_context_of(step, account, handler.model)
            result = await handler.run(step, call, account, context.data, tool_context)
            return result.with_notes(**context.notes(call))

    async def _run_aider(self, step: Step, call: ModelCall) -> TaskResult:
        """Run aider, which calls the model itself: its usage is recorded when it has ended."""
        # Imported here: few programs have aider tasks.
        from weft.effects.aider import AiderTasks

        tasks = AiderTasks(self._resources, self._memory, self.run_script)
        try:
            result = await tasks.perform(step, call, self._model)
        except TaskFailed as error:
            self._record_usage(step, call, error.result().notes)
            raise
        self._record_usage(step, call, result.notes)
        return result

    def _record_usage(self, step: Step, call: ModelCall, notes: dict[str, Any]) -> None:
        """Add the usage of aider's model to the ledger, if the notes have any."""
        usage = notes.get("usage")
        if usage is not None:
            amounts = {name: usage[name] for name in ("input_tokens", "output_tokens", "cost")}
            self.ledger.add(Entry(step_key=step.key, template=call.template, model=usage["model"], **amounts))

    async def _context(
        self, step: Step, call: ModelCall, account: BudgetAccount, handler: Handler
    ) -> TaskContext:
        """Return the named files of a task, and matches of memory if the task uses memory."""
        files = await files_of(call.files, step, self.run_script, self._resources.files)
        # Memory finds files that a task describes instead of naming them, and its `fresh_context`.
        is_described = call.files is not None and call.files.source in DESCRIBED
        if not is_described and not call.context.wants_fresh:
            data = files.context(self._clock.now())
            return TaskContext(data=data, warnings=files.warnings, given=files.given())
        window = await measure_context_window(
            step, call, handler.model, handler.tools, handler.settings, self._clock
        )
        ranker = self._ranker(query_of(call), account, handler.model, call.timeout_seconds)
        return await self._memory.for_task(step, call, files, window, ranker, self._clock.now())

    async def run_script(self, step: Step, run: ScriptRun) -> ScriptOutcome:
        """Run a script and return its outcome; raise TaskFailed if it is not allowed or cannot be started."""
        # Imported here: many programs run no scripts.
        from weft.effects.scripts import run_program

        with _task_span(step, "script", run.template) as running:
            outcome = await run_program(run, self._resources.commands, cwd=self._folder, record=step.record)
            running.set({"process.exit.code": outcome.exit_code})
            return outcome

    async def result_depends_on(self, request: ScriptRun | ToolCall) -> Any | None:
        """Return what a result depends on besides the request; None if it must not be reused.

        For a script that is the folder in which it runs, for a pure tool the digest of its code.
        """
        if isinstance(request, ScriptRun):
            return self._folder or str(working_folder())
        try:
            tool = await self._resources.tools().find(request.tool)
        except ToolFailed:  # reported when it is called
            return None
        return tool.code_digest if isinstance(tool, Pure) else None

    async def call_tool(self, step: Step, call: ToolCall, account: BudgetAccount = UNLIMITED) -> Any:
        """Call a tool and return its result; raise TaskFailed if it is unknown or fails."""
        context = self._tool_context_of(step, account, None)
        with tool_span(call.tool):
            return await call_by_name(self._resources.tools(), call, context)

    async def get_context(
        self, step: Step, query: ContextQuery, account: BudgetAccount = UNLIMITED, model: Model | None = None
    ) -> dict[str, Any]:
        """Query memory; raise TaskFailed if there is no index and it cannot be created.

        `model` ranks the matches, by default the default model.
        """
        if self._memory.wants_ranking(query):
            model = model or await self._find_model(None)
        ranker = None if model is None else self._ranker(query, account, model)
        with _task_span(step, "get_context", None):
            answer = await self._memory.answer(step, query, ranker)
        items = [
            {"relevance_score": item.relevance_score, **msgspec.to_builtins(item)} for item in answer.matches
        ]
        found: dict[str, Any] = msgspec.to_builtins(answer)
        return {**found, "matches": items}

    def _ranker(
        self, query: ContextQuery, account: BudgetAccount, model: Model, timeout_seconds: float | None = None
    ) -> "Ranker | None":
        """Return the ranker of a query, None if its matches are not ranked by a model."""
        if not self._memory.wants_ranking(query):
            return None
        # Imported here: matches are not ranked by default.
        from weft.effects.ranking import Ranker

        return Ranker(
            model=model,
            settings=self._resources.handler,
            account=account,
            events=self._events,
            clock=self._clock,
            timeout_seconds=timeout_seconds,
        )

    def _tool_context_of(self, step: Step, account: BudgetAccount, model: Model | None) -> ToolContext:
        """Return the context of a step's tools: how they ask a person, and query memory on its budget."""

        async def get_context(text: str) -> dict[str, Any]:
            return await self.get_context(step, ContextQuery(query=text), account, model)

        return structs.replace(self._tool_context, step_key=step.key, get_context=get_context)

    async def around(self, step: Step, body: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        """Run the body of a composite task inside a telemetry span."""
        request = step.request
        kind, name = (request.kind, request.name) if isinstance(request, Composite) else ("composite", None)
        with _task_span(step, kind, name):
            return await body()

    def log(self, message: str) -> None:
        """Pass a message to `log_message`."""
        self._log_message(message)

    def schema_text(self, path: str, source: str) -> str:
        """Return the text of a schema file; its path is relative to the file of the program."""
        return schema_file_text(path, source)

    def known_names(self) -> KnownNames:
        """Return the tools, models and schema files that programs can name, as far as they are known."""
        return self._resources.known_names(self.schema_text)

    def require_models(
        self, forms: Sequence[Node], library: TaskLibrary, functions: Sequence[Define]
    ) -> None:
        """Raise ModelUnusable if a program may use a model that is not available."""
        settings = self._resources.chosen_models
        require_models(forms, library, settings, os.environ, model=self._model, functions=functions)

    async def require_files(self, files: Iterable[RequiredFile]) -> None:
        """Raise TaskFailed for the first file that cannot be read."""
        for file in files:
            try:
                await self._resources.files().read(file.path)
            except ToolFailed as error:
                failure = missing_file(cut(file.path, MAX_SHOWN_CHARACTERS), str(error))
                raise failure.at(file.span) from error

    async def __aenter__(self) -> Self:
        self._users += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the effects when nobody uses them any more: several evaluations may share them."""
        self._users -= 1
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """Close connections, servers and loaded models."""
        await self._resources.close()

    async def _find_model(self, name: str | None, provider: str | None = None) -> Model:
        try:
            return await self._resources.models().find(name or self._model, provider)
        except ModelError as error:
            raise TaskFailed(model_failure(error, error.message)) from error
        except MissingExtra as error:
            raise TaskFailed(TaskFailure("dependency_error", error.message)) from error

    def _events(self, call: ModelCall) -> OnEvent:
        """Return a listener that updates the ledger and forwards events with secrets redacted."""
        redacted = None if self._on_event is None else RedactedEvents(self._on_event)

        def on_event(event: ModelEvent) -> None:
            if isinstance(event, TurnEnded | TurnFailed):
                self.ledger.add(_ledger_entry(event, call))
            if redacted is not None:
                redacted.tell(event)

        return on_event


class EffectHooks(Struct, frozen=True, kw_only=True):
    """How a front end takes part in effects: it shows their progress and asks the person at the terminal.

    See `LocalEffects` for the fields.
    """

    log_message: Callable[[str], None] = log.info
    on_event: OnEvent | None = None
    is_streaming: bool = False
    ask_person: AskAtTerminal | None = None
    stores_questions: bool = True
    fetch: "Fetch | None" = None
    on_indexing: "OnIndexing | None" = None

    def effects(self, **further: Any) -> LocalEffects:
        """Return effects with these hooks and further arguments."""
        return LocalEffects(**structs.asdict(self), **further)


def _without_step_key(ask_at_terminal: AskAtTerminal) -> AskPerson:
    async def ask(question: str, step_key: str) -> str:
        return await ask_at_terminal(question)

    return ask


def _task_span(step: Step, kind: str, name: str | None) -> Span:
    def attributes() -> dict[str, Any]:
        return {"weft.task.name": name, "weft.task.kind": kind, "weft.step.key": step.key}

    return span(f"execute_task {name or kind}", "internal", attributes)


def _ledger_entry(event: TurnEnded | TurnFailed, call: ModelCall) -> Entry:
    usage = event.usage
    return Entry(
        step_key=event.step_key,
        template=call.template,
        model=event.model,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=usage.cost,
    )
