"""The session of one task: the payload of each turn, and the limits on turns and context."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from weft.clock import Clock
from weft.config.sections import HandlerSettings
from weft.evaluator.effects import ModelCall, Turn
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import DataContext, ResourceExhaustion
from weft.evaluator.tools import ToolDefinition
from weft.llm.events import OnEvent, ResourceWarned
from weft.llm.payload import (
    AssistantMessage,
    ContextMetrics,
    HandlerPayload,
    Message,
    ModelReply,
    PayloadMetadata,
    ResourceMetrics,
    ToolMessage,
    TurnMetrics,
    UserMessage,
)
from weft.llm.prompt import context_text, output_instructions, output_schema, repair_prompt, with_inherited
from weft.llm.protocol import Model
from weft.llm.subtasks import format_result

CONTINUED = "I have asked for a subtask."
"""Text for a response that requested a subtask without any text, because providers reject empty messages."""


class Session:
    """Messages, data and metrics of one task; `begin_turn` enforces the limits before every turn."""

    def __init__(
        self,
        step_key: str,
        call: ModelCall,
        model: Model,
        settings: HandlerSettings,
        *,
        clock: Clock,
        on_event: OnEvent,
        tools: tuple[ToolDefinition, ...] = (),
        context: DataContext | None = None,
    ) -> None:
        self._step_key = step_key
        self._call = call
        window = model.features.context_window
        self.context_limit = 0 if window is None else int(window * settings.max_context_window_fraction)
        """Maximum input tokens; 0 if the model's context window is unknown."""
        self._model = model
        self._settings = settings
        self._clock = clock
        self._on_event = on_event
        self._tools = tools
        self.schema = output_schema(call)
        """The JSON Schema of the response; None for text."""
        self._system = system_prompt(settings, call, output_instructions(self.schema, model.features))
        self._context = context_text(with_inherited(context or DataContext(), call))
        self._history = call.conversation
        self.turns_left_out = 0
        """Number of oldest history turns that did not fit the context window."""
        self._messages: list[Message] = _first_messages(call, clock.now())
        self._turns = 0
        self._last_turn_at: datetime | None = None
        self._tokens = 0
        self._peak_tokens = 0
        self._warned: set[str] = set()
        self.content = ""
        """The text of the last response that had text."""

    async def tokens(self) -> int:
        """Count the tokens of the next payload, with the whole history."""
        return await self._count()

    @property
    def metrics(self) -> ResourceMetrics:
        return ResourceMetrics(
            turns=TurnMetrics(self._turns, self._settings.max_turns, self._last_turn_at),
            context=ContextMetrics(self._tokens, self.context_limit, self._peak_tokens),
        )

    @property
    def own_messages(self) -> tuple[Message, ...]:
        """Return the messages of this session, without the history."""
        return tuple(self._messages)

    def construct_payload(self, max_tokens: int | None = None) -> HandlerPayload:
        """Return the payload of the next turn, unchanging parts first, because providers cache prefixes."""
        return HandlerPayload(
            system_prompt=self._system,
            messages=(*_history_messages(self._history), *self._messages),
            context=self._context,
            tools=self._tools,
            output_schema=self.schema,
            metadata=PayloadMetadata(
                self._model.id,
                max_tokens=max_tokens,
                resource_usage=self.metrics,
                template=self._call.template,
            ),
        )

    async def begin_turn(self) -> int:
        """Count a turn and return the tokens of its payload; raise TaskFailed if a limit is reached."""
        limit = self._settings.max_turns
        if self._turns >= limit:
            message = f"the task is not done after {limit} turns"
            raise self._exhausted("turns", message, used=self._turns, limit=limit)
        tokens = await self._fit_history()
        self._turns += 1
        self._warn("turns", self._turns, limit)
        self._tokens = tokens
        self._peak_tokens = max(self._peak_tokens, tokens)
        self._warn("context", tokens, self.context_limit)
        return tokens

    def add(self, reply: ModelReply) -> None:
        self._last_turn_at = self._clock.now()
        self._peak_tokens = max(self._peak_tokens, reply.usage.input_tokens)
        self.content = reply.text or self.content
        self._messages.append(AssistantMessage(reply.text, reply.tool_uses, self._last_turn_at))

    def add_tool_messages(self, messages: Sequence[ToolMessage]) -> None:
        now = self._clock.now()
        self._messages += [msgspec.structs.replace(message, timestamp=now) for message in messages]

    def add_user(self, text: str) -> None:
        self._messages.append(UserMessage(text, self._clock.now()))

    def context_exhausted(self, message: str) -> TaskFailed:
        return self._exhausted(
            "context", message, used=self._tokens, limit=self.context_limit, peak=self._peak_tokens
        )

    def output_exhausted(self, reply: ModelReply) -> TaskFailed:
        """Return the error for a JSON response that was truncated at the output limit."""
        used = reply.usage.output_tokens
        message = f"the response was truncated after {used} tokens and is not complete JSON"
        return self._exhausted("output", message, used=used, limit=used)

    async def _fit_history(self) -> int:
        """Drop the oldest turns of the history until the payload fits; return the tokens of the payload."""
        tokens, limit = await self._count(), self.context_limit
        if not limit or tokens <= limit:
            return tokens
        # A binary search for the number of turns to keep: `least` fits or is 0, more than `most` do not fit.
        least, most = 0, len(self._history)
        history = self._history
        while least < most:
            middle = (least + most + 1) // 2
            self._history = history[len(history) - middle :]
            if await self._count() <= limit:
                least = middle
            else:
                most = middle - 1
        self._history = history[len(history) - least :]
        self.turns_left_out += len(history) - least
        tokens = await self._count()
        if tokens > limit:
            self._tokens, self._peak_tokens = tokens, max(self._peak_tokens, tokens)
            message = f"the request takes {tokens} tokens; {self._model.id} accepts at most {limit} here"
            raise self.context_exhausted(message)
        return tokens

    async def _count(self) -> int:
        return await self._model.count_tokens(self.construct_payload())

    def _warn(self, resource: str, used: int, limit: int) -> None:
        if limit and used >= limit * self._settings.warning_threshold and resource not in self._warned:
            self._warned.add(resource)
            self._on_event(ResourceWarned(self._step_key, resource, used, limit))

    def _exhausted(self, resource: str, message: str, **metrics: float) -> TaskFailed:
        facts = {name: float(value) for name, value in metrics.items()}
        return TaskFailed(ResourceExhaustion(resource, message, metrics=facts, content=self.content or None))


def system_prompt(settings: HandlerSettings, call: ModelCall, instructions: str) -> str:
    """Join the system prompts of the settings and of the task, and the output instructions."""
    return "\n\n".join(part for part in (settings.system_prompt, call.system, instructions) if part)


def _first_messages(call: ModelCall, now: datetime) -> list[Message]:
    """Return the task's prompt, the results of its subtasks, and for a repair the invalid response."""
    messages: list[Message] = [UserMessage(call.prompt, now)]
    for continuation in call.continuations:
        messages.append(AssistantMessage(continuation.content or CONTINUED, timestamp=now))
        messages.append(UserMessage(format_result(continuation.result), now))
    if call.repair is not None:
        messages.append(AssistantMessage(call.repair.content, timestamp=now))
        messages.append(UserMessage(repair_prompt(call.repair.error), now))
    return messages


def _history_messages(turns: tuple[Turn, ...]) -> list[Message]:
    messages: list[Message] = []
    for turn in turns:
        at = _parse_time(turn.at)
        messages += [UserMessage(turn.prompt, at), AssistantMessage(turn.answer, timestamp=at)]
    return messages


def _parse_time(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:  # recorded times are not checked
        return None
