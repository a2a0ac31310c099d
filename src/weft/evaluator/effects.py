"""The effects protocol: what the evaluator requests, and who performs it.

A model asks for subtasks while its own task is under way. So the step that it works on carries a `Spawn`, if
its template lists the tool: with it the subtask is evaluated below that step, through the same effects, and
paid for out of the same budgets. Nothing else in a step lets anybody evaluate anything.

The evaluator is deterministic; a step's key says where in the evaluation it was asked for, and is the same
whenever the same program is evaluated with the same answers, whatever ran concurrently.
"""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Protocol

from msgspec import UNSET, Struct, UnsetType, field

from weft.evaluator.results import TaskResult
from weft.evaluator.tools import ToolDefinition
from weft.ids import TaskId
from weft.language.source import NOWHERE, Span
from weft.language.task_fields import ContextAssembly, ContextManagement, HistorySettings, OutputFormat
from weft.language.traversal import SPAWN_TOOL as SPAWN_TOOL


class Allowance(Struct, frozen=True):
    """What is left, the budgets around considered; infinite without a budget."""

    tokens: float = inf
    cost: float = inf


class Reservation(Protocol):
    """An amount set aside: nobody else can spend it until it is settled or released."""

    def settle(self, tokens: float, cost: float) -> None:
        """Count what was really used, and free the rest. Never raises: what is paid for is not lost."""
        ...

    def release(self) -> None:
        """Free all of it: the request was not made, or nothing is charged for it."""
        ...


class BudgetAccount(Protocol):
    """The budgets that a request counts in: of its task, of what is around it, of the run."""

    def left(self) -> Allowance:
        """What may still be spent or set aside."""
        ...

    async def room(self, is_enough: Callable[[Allowance], bool]) -> None:
        """Wait until enough is left, or as much as there can be once requests under way have ended.

        What is set aside is the worst case: most of it is free again soon. At once where that cannot help.
        """
        ...

    def reserve(self, tokens: float, cost: float) -> Reservation:
        """Set an amount aside; raises BudgetExceeded, which says who spent what, when it is not left."""
        ...


class _Free:
    def settle(self, tokens: float, cost: float) -> None: ...

    def release(self) -> None: ...


class Unlimited:
    """A purse without a bottom."""

    def left(self) -> Allowance:
        return Allowance()

    async def room(self, is_enough: Callable[[Allowance], bool]) -> None: ...

    def reserve(self, tokens: float, cost: float) -> Reservation:
        return _Free()


UNLIMITED = Unlimited()


class Subtask(Protocol):
    """A subtask that may begin: its request is valid, a template is chosen, the limits allow it."""

    @property
    def key(self) -> str:
        """The key of its step: that of the step which spawns it, and a number: `3/1/s2`."""
        ...

    @property
    def template(self) -> str:
        """The name of the template that was chosen."""
        ...

    @property
    def depth(self) -> int:
        """How many subtasks it is inside of, itself included: 1 for that of a task which nobody spawned."""
        ...

    async def run(self) -> TaskResult:
        """Its completed result.

        Raises TaskFailed (`subtask_failure`), which a model may be told of, and BudgetExceeded when a budget
        around the spawning task is used up, or one of the whole chain: nobody inside may go on then.
        """
        ...


class Spawn(Protocol):
    """Lets one step spawn subtasks."""

    def definition(self) -> ToolDefinition:
        """What a model is told of the tool: which templates there are, and what they take."""
        ...

    def begin(self, request: dict[str, Any], number: int) -> Subtask:
        """The subtask that a `SubtaskRequest`, as JSON, asks for; raises as `Subtask.run` does.

        The number is the caller's: the same for the same request whenever the step is performed again, and
        another one for each request of the step. It makes the key of the subtask.
        """
        ...


class ContextPayload(Struct, frozen=True):
    """What of the surroundings reaches a task, and what is to be fetched for it."""

    settings: ContextManagement
    inherited: dict[str, Any] = field(default_factory=dict)
    """Bindings of the parent that are handed down: all, none, or the relevant inputs."""
    previous_outputs: str | None = None
    """What earlier steps gave, as `accumulation_format` says; None when nothing is accumulated."""
    wants_fresh: bool = False
    """Whether memory is to be asked for what is relevant."""
    relevant_inputs: tuple[str, ...] = ()
    """The inputs that take part in the query of memory."""
    assembly: ContextAssembly | None = None


class Files(Struct, frozen=True):
    """`file_paths` with its placeholders filled."""

    source: str
    paths: tuple[str, ...] = ()
    text: str | None = None
    optional: tuple[int, ...] | UnsetType = UNSET
    """Which of the paths may be missing, by their position. Unset where none may: so the digests of steps
    that were stored before there were optional paths stay what they were."""


class Turn(Struct, frozen=True):
    """One exchange of the conversation that tasks with `history` share."""

    prompt: str
    answer: str
    at: str | None = None
    """When the answer came, as the result's `notes.answered_at` says."""


class Repair(Struct, frozen=True):
    """The second ask: what came back the first time, and what was wrong with it."""

    content: str
    error: str


class Continuation(Struct, frozen=True):
    """An answer with status CONTINUATION, and the result of the subtask that it asked for."""

    content: str
    request: dict[str, Any]
    result: dict[str, Any]
    """The TaskResult, as JSON, without what was measured."""


class ModelCall(Struct, frozen=True, kw_only=True):
    """An atomic task, ready to be sent: every placeholder is filled."""

    prompt: str
    system: str | None = None
    description: str | None = None
    template: str | None = None
    subtype: str | None = None
    model: str | None = None
    provider: str | None = None
    criteria: str | None = None
    inputs: dict[str, Any] = field(default_factory=dict)
    unmentioned: tuple[str, ...] = ()
    """The relevant inputs that no placeholder of prompt or system shows: the model gets them as data."""
    mentioned: tuple[str, ...] = ()
    """The inherited bindings that such a placeholder names, or whose value it shows under another name: the
    model does not get them a second time as data."""
    output_format: OutputFormat | None = None
    output_schema: dict[str, Any] | bool | None = None
    """The JSON Schema of the output format."""
    context: ContextPayload
    files: Files | None = None
    tools: tuple[str, ...] = ()
    history: HistorySettings | None = None
    conversation: tuple[Turn, ...] = ()
    """What `history` lets the task see of the conversation before it; nothing without `history`."""
    timeout_seconds: float | None = None
    reuse: bool | None = None
    continuations: tuple[Continuation, ...] = ()
    """What was said before, and what came of it: the task goes on from there."""
    repair: Repair | None = None


class ScriptRun(Struct, frozen=True, kw_only=True):
    """A program to run: values reach it as argv, stdin and environment."""

    argv: tuple[str, ...] = ()
    shell: str | None = None
    stdin: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None
    template: str | None = None
    subtype: str | None = None
    description: str | None = None
    reuse: bool | None = None


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool called by name: `system:read_files`."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    positional: tuple[Any, ...] = ()


class ContextQuery(Struct, frozen=True, kw_only=True):
    """`ContextGenerationInput`: what memory is asked; it answers with an AssociativeMatchResult."""

    query: str | None = None
    template_description: str | None = None
    template_type: str | None = None
    template_subtype: str | None = None
    inputs: dict[str, Any] = field(default_factory=dict)
    inherited_context: str | None = None
    previous_outputs: str | None = None
    matching_strategy: str = "content"
    limit: int | None = None
    """How many pieces are looked for; None: as many as the settings of memory say."""
    rerank: bool | None = None
    """Whether a model puts what was found into order; None: as the settings of memory say."""


class Composite(Struct, frozen=True, kw_only=True):
    """A task made of others: sequential, reduce, a loop, a template call, a subtask that a model spawned. It
    has no effect of its own."""

    kind: str
    name: str | None = None
    inputs: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """What else decides on the result: of a subtask, its request."""


class StepRecord(Struct, frozen=True):
    """The stored task that a step is, and the attempt at its run: a key for what must not be done twice."""

    task_id: TaskId
    attempt: int


class Step(Struct, frozen=True):
    """A request, and where in the evaluation it was made."""

    key: str
    """Numbers from the root, `/` between levels: `3/1/2`. Concurrent branches have levels of their own."""
    request: ModelCall | ScriptRun | ToolCall | ContextQuery | Composite
    span: Span = NOWHERE
    spawn: Spawn | None = None
    """How a subtask of this step is evaluated; None: it has none. No part of what the step is known by."""
    record: StepRecord | None = None
    """What is stored of it, for programs that are told; None: nothing is, or nobody asked. No part either."""
    called_at: Span = NOWHERE
    """Where the template is called whose body it is; nowhere: it is no such body. No part either."""

    @property
    def place(self) -> Span:
        """Where a person looks for it: at the call, for a definition may be called from many places."""
        return self.span if self.called_at is NOWHERE else self.called_at


class ScriptOutcome(Struct, frozen=True):
    """How a program ended."""

    stdout: str
    stderr: str
    exit_code: int
    is_timed_out: bool = False


class Effects(Protocol):
    """Performs what a program asks for. Raises TaskFailed, or an error of weft's own families.

    Coroutines, or `Resolved` where the answer is there already.
    """

    def call_model(
        self, step: Step, call: ModelCall, purse: BudgetAccount = UNLIMITED
    ) -> Awaitable[TaskResult]:
        """The model's answer; the evaluator parses it.

        What it will cost is set aside in the purse before it is asked. Who does not use the purse has
        `notes.usage` (`tokens`, or `input_tokens` and `output_tokens`, and `cost`) counted afterwards.
        """
        ...

    def run_script(self, step: Step, run: ScriptRun) -> Awaitable[ScriptOutcome]:
        """How the program ended, whatever its exit code."""
        ...

    def call_tool(self, step: Step, call: ToolCall, purse: BudgetAccount = UNLIMITED) -> Awaitable[Any]:
        """What the tool returns, as JSON. A tool that asks a model pays out of the purse."""
        ...

    def get_context(
        self, step: Step, query: ContextQuery, purse: BudgetAccount = UNLIMITED
    ) -> Awaitable[dict[str, Any]]:
        """The AssociativeMatchResult, as JSON. Where a model ranks what was found, the purse pays for it."""
        ...

    async def around(self, step: Step, body: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        """The result of a composite: of `body`, or one that is known already. A ValueResult stays one."""
        ...

    def log(self, message: str) -> None:
        """Keep a message of `log-message`; not a step."""
        ...

    def tools(self) -> frozenset[str] | None:
        """The names of the tools there are; None when that cannot be said."""
        ...

    def schema_text(self, path: str, source: str) -> str:
        """The text of a JSON Schema file that the program `source` names; raises OSError."""
        ...
