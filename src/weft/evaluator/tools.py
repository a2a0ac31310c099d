"""What a tool is: something that a program calls by name, and a model if its template lists it."""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

from msgspec import Struct, field

from weft.evaluator.results import TaskFailureReason


class ToolDefinition(Struct, frozen=True, kw_only=True):
    """What a model is told of a tool."""

    name: str
    """`system:read_files`; at a model's edge a name that providers take, `system_read_files`."""
    description: str
    input_schema: dict[str, Any]
    """The JSON Schema of its arguments, an object."""


class ToolUse(Struct, frozen=True, kw_only=True):
    """A tool call that somebody asks for. Arguments that are no JSON object are kept as text."""

    id: str
    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)


ASKS_PEOPLE = "system:request_user_input"
"""The tool that asks a person, who may take days."""

ANSWERED_ELSEWHERE = "answered elsewhere"
"""What the task is cancelled with that asks who is here, when somebody else was quicker."""

AskPerson = Callable[[str, str], Awaitable[str]]
"""Asks a person a question, on behalf of the step with a key."""

AskHere = Callable[[str], Awaitable[str]]
"""Asks the person who is at the terminal of this process."""

KeepQuestion = Callable[[str, str, AskHere | None], Awaitable[str]]
"""Asks a question on behalf of the step with a key: of who is here, if anybody is, or of somebody else."""


class ToolContext(Struct, frozen=True, kw_only=True):
    """For whom a tool is called."""

    step_key: str = ""
    """The step that calls: a tool with effects can make an idempotency key of it."""
    template: str | None = None
    ask_person: AskPerson | None = None
    """How to reach a person; None: there is nobody to ask."""
    get_context: Callable[[str], Awaitable[dict[str, Any]]] | None = None
    """Memory: an AssociativeMatchResult for a query; None: there is none."""
    spawn: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None = None
    """The TaskResult of a subtask for a `SubtaskRequest`; None: no model asks, or none of its subtasks."""


class Tool(Protocol):
    """Something that can be called by name with a JSON object."""

    @property
    def definition(self) -> ToolDefinition:
        """Its name, what it does, and what it takes."""
        ...

    @property
    def has_effects(self) -> bool:
        """Whether it changes something: its results are reused only when asked for."""
        ...

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """What it gives, as JSON; the arguments fit `input_schema`. Raises ToolFailed.

        It is cancelled as an asyncio task, and must then let go of what it holds.
        """
        ...


@runtime_checkable
class Pure(Protocol):
    """A tool of which it can be known that it gives the same for the same arguments."""

    @property
    def code_digest(self) -> str | None:
        """Another one when it may give something else; None: what it gives does not follow from its arguments
        alone."""
        ...


class ToolFailed(Exception):
    """A tool could not do what it was asked for. The message goes back to who called it."""

    reason: ClassVar[TaskFailureReason] = "tool_execution_error"
    """What a task fails with that needs the tool."""


class ToolMissesDependency(ToolFailed):
    """A tool cannot be used because a package or module that it needs cannot be imported."""

    reason = "dependency_error"


class Tools(Protocol):
    """The tools there are."""

    def names(self) -> frozenset[str]:
        """Those that are known without asking anybody: a server's tools are known when it is connected."""
        ...

    async def find(self, name: str) -> Tool | None:
        """The tool of that name; connects to the server it belongs to. Raises ToolFailed if that fails."""
        ...

    async def close(self) -> None:
        """Let go of servers and connections."""
        ...
