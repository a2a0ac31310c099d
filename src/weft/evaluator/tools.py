"""The tool protocol: a tool is called by name, by a program or by a model with a template that lists it."""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

from msgspec import Struct, field

from weft.evaluator.results import TaskFailureReason


class ToolDefinition(Struct, frozen=True, kw_only=True):
    """The description of a tool for a model."""

    name: str
    """`system:read_files`; sent to providers as `system_read_files`."""
    description: str
    input_schema: dict[str, Any]
    """JSON Schema of its arguments, an object."""


class ToolUse(Struct, frozen=True, kw_only=True):
    """A requested tool call. Arguments that are not a JSON object are kept as text."""

    id: str
    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)


USER_INPUT_TOOL = "system:request_user_input"
"""The tool that asks a person, which may take days."""

ANSWERED_ELSEWHERE = "answered elsewhere"
"""Cancellation message for a local question that was answered elsewhere."""

AskPerson = Callable[[str, str], Awaitable[str]]
"""Asks a person: (question, step key) -> answer."""

AskAtTerminal = Callable[[str], Awaitable[str]]
"""Asks the person at the terminal of this process."""

RecordQuestion = Callable[[str, str, AskAtTerminal | None], Awaitable[str]]
"""Records a question and waits for its answer: (question, step key, how to ask at the terminal or None)."""


class ToolContext(Struct, frozen=True, kw_only=True):
    """The caller of a tool, and what the tool may use."""

    step_key: str = ""
    """The calling step; a tool with effects can use it for an idempotency key."""
    template: str | None = None
    ask_person: AskPerson | None = None
    """Asks a person; None if nobody can be asked."""
    get_context: Callable[[str], Awaitable[dict[str, Any]]] | None = None
    """Queries memory, returning an AssociativeMatchResult; None without memory."""
    spawn: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None = None
    """Runs a `SubtaskRequest` and returns its TaskResult; None if the caller may not spawn subtasks."""


class Tool(Protocol):
    """A function that can be called by name with a JSON object."""

    @property
    def definition(self) -> ToolDefinition:
        """Return its name, description and input schema."""
        ...

    @property
    def has_effects(self) -> bool:
        """Return whether it changes something; its results are then reused only on request."""
        ...

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return the result as JSON; the arguments match `input_schema`. Raise ToolFailed.

        It is cancelled as an asyncio task, and must then release its resources.
        """
        ...


@runtime_checkable
class Pure(Protocol):
    """A tool that can tell whether it returns the same result for the same arguments."""

    @property
    def code_digest(self) -> str | None:
        """Return a digest of the code; None if the result does not depend on the arguments alone."""
        ...


class ToolFailed(Exception):
    """A tool could not do its work. The caller receives the message."""

    reason: ClassVar[TaskFailureReason] = "tool_execution_error"
    """The failure reason of a task that needs the tool."""


class ToolMissesDependency(ToolFailed):
    """A tool cannot be used because a package or module that it needs cannot be imported."""

    reason = "dependency_error"


class Tools(Protocol):
    """The available tools."""

    def names(self) -> frozenset[str]:
        """Return the names that are known without I/O; a server's tools are known once it is connected."""
        ...

    async def find(self, name: str) -> Tool | None:
        """Return the tool of that name, connecting to its server; None if unknown. Raise ToolFailed."""
        ...

    async def close(self) -> None:
        """Close servers and connections."""
        ...
