"""The session of one task: what a model is sent, turn by turn, and what of its limits that takes."""

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
from weft.llm.prompt import context_text, output_schema, output_words, repair_words, with_inherited
from weft.llm.protocol import Model
from weft.llm.subtasks import result_words

CONTINUED = "I have asked for a subtask."
"""For an answer without a text: providers take no empty messages."""


class Session:
    """Messages, data and metrics of one task. It is asked before every turn whether there may be one."""

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
        """How many tokens the input may have; 0: the model's window is not known."""
        self._model = model
        self._settings = settings
        self._clock = clock
        self._on_event = on_event
        self._tools = tools
        self.schema = output_schema(call)
        """The JSON Schema of the answer; None: text."""
        self._system = system_prompt(settings, call, output_words(self.schema, model.features))
        self._context = context_text(with_inherited(context or DataContext(), call))
        self._history = call.conversation
        self.turns_left_out = 0
        """How many of the oldest turns of the history did not fit the window."""
        self._own: list[Message] = _first_messages(call, clock.now())
        self._turns = 0
        self._last_turn_at: datetime | None = None
        self._used = 0
        self._peak = 0
        self._warned: set[str] = set()
        self.content = ""
        """What the model has said last, of the answer so far."""

    async def tokens(self) -> int:
        """What the next payload takes, with all of the history."""
        return await self._count()

    @property
    def metrics(self) -> ResourceMetrics:
        """What is used of what may be used."""
        return ResourceMetrics(
            turns=TurnMetrics(self._turns, self._settings.max_turns, self._last_turn_at),
            context=ContextMetrics(self._used, self.context_limit, self._peak),
        )

    @property
    def said(self) -> tuple[Message, ...]:
        """The messages of the task itself, without the history."""
        return tuple(self._own)

    def construct_payload(self, max_tokens: int | None = None) -> HandlerPayload:
        """What the model gets for the next turn: what stays the same comes first."""
        return HandlerPayload(
            system_prompt=self._system,
            messages=(*_history_messages(self._history), *self._own),
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
        """The tokens of the next payload; raises TaskFailed when there may be no further turn."""
        limit = self._settings.max_turns
        if self._turns >= limit:
            message = f"the task is not done after {limit} turns"
            raise self._exhausted("turns", message, used=self._turns, limit=limit)
        tokens = await self._fitted()
        self._turns += 1
        self._warn("turns", self._turns, limit)
        self._used = tokens
        self._peak = max(self._peak, tokens)
        self._warn("context", tokens, self.context_limit)
        return tokens

    def add(self, reply: ModelReply) -> None:
        """Take in what the model answered."""
        self._last_turn_at = self._clock.now()
        self._peak = max(self._peak, reply.usage.input_tokens)
        self.content = reply.text or self.content
        self._own.append(AssistantMessage(reply.text, reply.tool_uses, self._last_turn_at))

    def add_tool_messages(self, messages: Sequence[ToolMessage]) -> None:
        """Take in what the tools gave that the model asked for."""
        now = self._clock.now()
        self._own += [msgspec.structs.replace(message, timestamp=now) for message in messages]

    def add_user(self, text: str) -> None:
        """Take in what the model is told besides."""
        self._own.append(UserMessage(text, self._clock.now()))

    def context_exhausted(self, message: str) -> TaskFailed:
        """The error for a window that is full."""
        return self._exhausted("context", message, used=self._used, limit=self.context_limit, peak=self._peak)

    def output_exhausted(self, reply: ModelReply) -> TaskFailed:
        """The error for JSON that was cut where the model's output has to end."""
        used = reply.usage.output_tokens
        message = f"the answer was cut after {used} tokens, and what there is of it is no JSON"
        return self._exhausted("output", message, used=used, limit=used)

    async def _fitted(self) -> int:
        """The tokens of the payload. The oldest turns of the history are left out where it does not fit."""
        tokens, limit = await self._count(), self.context_limit
        if not limit or tokens <= limit:
            return tokens
        least, most = 0, len(self._history)  # turns to keep: `least` fits or is nothing, more than `most` not
        every = self._history
        while least < most:
            middle = (least + most + 1) // 2
            self._history = every[len(every) - middle :]
            if await self._count() <= limit:
                least = middle
            else:
                most = middle - 1
        self._history = every[len(every) - least :]
        self.turns_left_out += len(every) - least
        tokens = await self._count()
        if tokens > limit:
            self._used, self._peak = tokens, max(self._peak, tokens)
            message = f"the task takes {tokens} tokens; {limit} of the window of {self._model.id} may be used"
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


def system_prompt(settings: HandlerSettings, call: ModelCall, words: str) -> str:
    """The handler's, then the task's, then what the output format asks for in words."""
    return "\n\n".join(part for part in (settings.system_prompt, call.system, words) if part)


def _first_messages(call: ModelCall, now: datetime) -> list[Message]:
    """The task's own prompt, and what came of subtasks since; of a second ask also the first answer, and
    what is wrong with it."""
    messages: list[Message] = [UserMessage(call.prompt, now)]
    for said in call.continuations:
        messages.append(AssistantMessage(said.content or CONTINUED, timestamp=now))
        messages.append(UserMessage(result_words(said.result), now))
    if call.repair is not None:
        messages.append(AssistantMessage(call.repair.content, timestamp=now))
        messages.append(UserMessage(repair_words(call.repair.error), now))
    return messages


def _history_messages(turns: tuple[Turn, ...]) -> list[Message]:
    messages: list[Message] = []
    for turn in turns:
        at = _time(turn.at)
        messages += [UserMessage(turn.prompt, at), AssistantMessage(turn.answer, timestamp=at)]
    return messages


def _time(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:  # kept as it was told, by whoever answered
        return None
