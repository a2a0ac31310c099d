"""Effects with scripted responses, for tests of programs without a model, a store or a clock."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from weft.errors import WeftError
from weft.evaluator.conversion import as_text
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
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskResult
from weft.limits import MAX_SHOWN_CHARACTERS


class NotScripted(TaskFailed):
    """In tests: no scripted response is left for a request."""


class Scripted:
    """Responses from a list, a mapping or a function; `kind` names them in errors."""

    def __init__(self, kind: str, source: Sequence[Any] | Mapping[str, Any] | Callable[[Any], Any]) -> None:
        self._kind = kind
        self._source = source
        self._used: dict[str, int] = {}
        """Number of used responses by key of the mapping; the key is "" if the source is a list."""

    @property
    def is_empty(self) -> bool:
        return not callable(self._source) and not self._source

    def next(self, request: Any, name: str | None, text: str, *others: str) -> Any:
        """Return the response for `name`, else for the first key that occurs in `text` or else in `others`.

        Raise NotScripted if there is no match or the list is used up.
        """
        source = self._source
        if callable(source):
            return source(request)
        if not isinstance(source, Mapping):
            return self._in_order("", source, text)
        found_in = ((part for part in source if part in one) for one in (text, *others))
        key = name if name in source else next((part for parts in found_in for part in parts), None)
        if key is None:
            raise self._missing(text)
        found = source[key]
        return self._in_order(key, found, text) if isinstance(found, list) else found

    def _in_order(self, key: str, responses: Sequence[Any], text: str) -> Any:
        index = self._used.get(key, 0)
        if index >= len(responses):
            raise self._missing(text)
        self._used[key] = index + 1
        return responses[index]

    def _missing(self, text: str) -> NotScripted:
        shown = text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
        return NotScripted(TaskFailure("llm_error", f"no {self._kind} is scripted for: {shown}"))


Answer = Any
"""A scripted response: a text; a TaskResult; an exception to raise; any other value as its JSON text."""

Outcome = Any
"""The outcome of a script: a ScriptOutcome; a text, used as standard output; an exception to raise."""


class InMemoryEffects(Effects):
    """Effects that perform nothing: they return scripted responses and record every request.

    `answers` is a list of responses (used in order), a mapping, or a function of the request. A mapping is
    looked up by the name of the template, then by the first of its keys that occurs in the prompt (for a
    script: the command). Its values may be lists, which are used in order.
    """

    def __init__(
        self,
        answers: Sequence[Answer] | Mapping[str, Answer] | Callable[[ModelCall], Answer] = (),
        *,
        scripts: Sequence[Outcome] | Mapping[str, Outcome] | Callable[[ScriptRun], Outcome] = (),
        tools: Mapping[str, Callable[..., Any]] | None = None,
        contexts: Sequence[Any] | Mapping[str, Any] | Callable[[ContextQuery], Any] = (),
        files: Mapping[str, str] | None = None,
        latency_seconds: float = 0.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._responses = Scripted("response", answers)
        self._scripts = Scripted("script outcome", scripts)
        self._contexts = Scripted("context", contexts)
        self._tools = tools
        self._files = files or {}
        self._latency_seconds = latency_seconds
        self._sleep = sleep
        self.steps: list[Step] = []
        """Every step, in the order in which the steps began."""
        self.cancelled: list[str] = []
        """The keys of steps that were cancelled while they were running."""
        self.messages: list[str] = []
        self.most_concurrent = 0
        """The largest number of effects that were running at the same time."""
        self._running = 0

    @property
    def calls(self) -> list[ModelCall]:
        return [step.request for step in self.steps if isinstance(step.request, ModelCall)]

    @property
    def runs(self) -> list[ScriptRun]:
        return [step.request for step in self.steps if isinstance(step.request, ScriptRun)]

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        response = await self._perform(step, lambda: self._responses.next(call, call.template, call.prompt))
        return response if isinstance(response, TaskResult) else TaskResult(as_text(response), "COMPLETE")

    async def run_script(self, step: Step, run: ScriptRun) -> ScriptOutcome:
        command = run.shell if run.shell is not None else " ".join(run.argv)
        outcome = await self._perform(step, lambda: self._scripts.next(run, run.template, command))
        return outcome if isinstance(outcome, ScriptOutcome) else ScriptOutcome(as_text(outcome), "", 0)

    async def call_tool(self, step: Step, call: ToolCall, account: BudgetAccount = UNLIMITED) -> Any:
        """Call the Python function that was given for the tool."""

        def call_function() -> Any:
            tool = (self._tools or {}).get(call.tool)
            if tool is None:
                raise TaskFailed(TaskFailure("tool_execution_error", f"there is no tool '{call.tool}'"))
            try:
                return tool(*call.positional, **call.arguments)
            except WeftError:
                raise
            except Exception as error:
                message = f"tool '{call.tool}' failed: {type(error).__name__}: {error}"
                raise TaskFailed(TaskFailure("tool_execution_error", message)) from error

        return await self._perform(step, call_function)

    async def get_context(
        self, step: Step, query: ContextQuery, account: BudgetAccount = UNLIMITED
    ) -> dict[str, Any]:
        """Return the scripted context, or an empty one if no context is scripted."""
        empty = {"context_summary": "", "matches": []}
        scripted = self._contexts
        found: dict[str, Any] = await self._perform(
            step, lambda: empty if scripted.is_empty else scripted.next(query, None, query.query or "")
        )
        return found

    async def around(self, step: Step, body: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        self.steps.append(step)
        return await body()

    def log(self, message: str) -> None:
        self.messages.append(message)

    def tools(self) -> frozenset[str] | None:
        """Return the names of the given tools; None (unknown) if `tools` was not given."""
        return None if self._tools is None else frozenset(self._tools)

    def schema_text(self, path: str, source: str) -> str:
        """Return the text of one of the given `files`. Raise FileNotFoundError if it is not among them."""
        if path not in self._files:
            raise FileNotFoundError(f"no file '{path}'")
        return self._files[path]

    async def _perform(self, step: Step, get_response: Callable[[], Any]) -> Any:
        """Record the step, get its response, wait for the latency, then return or raise the response."""
        self.steps.append(step)
        self._running += 1
        self.most_concurrent = max(self.most_concurrent, self._running)
        try:
            response = get_response()
            if self._latency_seconds:
                await self._sleep(self._latency_seconds)
            if isinstance(response, BaseException):
                raise response
            return response
        except asyncio.CancelledError:
            self.cancelled.append(step.key)
            raise
        finally:
            self._running -= 1
