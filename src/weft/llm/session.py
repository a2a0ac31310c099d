"""The session of one task: the payload of each turn, and the limits on turns and context."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from weft.clock import Clock
from weft.config.sections import HandlerSettings
from weft.evaluator.effects import ModelCall
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
from weft.llm.prompt import Prompt, history_messages
from weft.llm.protocol import Model
from weft.tasks.steps import RequestFacts


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
        self._prompt = Prompt(call, settings, model.features, context or DataContext(), tools)
        self._history = call.conversation
        self.turns_left_out = 0
        """Number of oldest history turns that did not fit the context window."""
        self._messages: list[Message] = self._prompt.messages(clock.now())
        self._turns = 0
        self._last_turn_at: datetime | None = None
        self._tokens = 0
        self._peak_tokens = 0
        self._warned: set[str] = set()
        self.content = ""
        """The text of the last response that had text."""

    async def tokens(self) -> int:
        """Count the tokens of the next payload, with the whole history."""
        return await self._model.count_tokens(self.construct_payload())

    @property
    def metrics(self) -> ResourceMetrics:
        return ResourceMetrics(
            turns=TurnMetrics(self._turns, self._settings.max_turns, self._last_turn_at),
            context=ContextMetrics(self._tokens, self.context_limit, self._peak_tokens),
        )

    @property
    def is_json(self) -> bool:
        """Return whether the response must be JSON."""
        return self._prompt.schema is not None

    def provenance(self) -> RequestFacts:
        """Return where the parts of the request came from."""
        return self._prompt.provenance(self._history)

    @property
    def own_messages(self) -> tuple[Message, ...]:
        """Return the messages of this session, without the history."""
        return tuple(self._messages)

    def construct_payload(self, max_tokens: int | None = None) -> HandlerPayload:
        """Return the payload of the next turn, unchanging parts first, because providers cache prefixes."""
        return HandlerPayload(
            system_prompt=self._prompt.system,
            messages=(*history_messages(self._history), *self._messages),
            context=self._prompt.context,
            tools=self._tools,
            output_schema=self._prompt.schema,
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
        tokens, limit = await self.tokens(), self.context_limit
        if not limit or tokens <= limit:
            return tokens
        # A binary search for the number of turns to keep: `least` fits or is 0, more than `most` do not fit.
        least, most = 0, len(self._history)
        history = self._history
        while least < most:
            middle = (least + most + 1) // 2
            self._history = history[len(history) - middle :]
            if await self.tokens() <= limit:
                least = middle
            else:
                most = middle - 1
        self._history = history[len(history) - least :]
        self.turns_left_out += len(history) - least
        tokens = await self.tokens()
        if tokens > limit:
            self._tokens, self._peak_tokens = tokens, max(self._peak_tokens, tokens)
            message = f"the request takes {tokens} tokens; {self._model.id} accepts at most {limit} here"
            raise self.context_exhausted(message)
        return tokens

    def _warn(self, resource: str, used: int, limit: int) -> None:
        if limit and used >= limit * self._settings.warning_threshold and resource not in self._warned:
            self._warned.add(resource)
            self._on_event(ResourceWarned(self._step_key, resource, used, limit))

    def _exhausted(self, resource: str, message: str, **metrics: float) -> TaskFailed:
        facts = {name: float(value) for name, value in metrics.items()}
        return TaskFailed(ResourceExhaustion(resource, message, metrics=facts, content=self.content or None))
