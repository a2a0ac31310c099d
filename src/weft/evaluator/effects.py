"""The requests of the evaluator, and the base class of the effects that perform them.

A model can request subtasks while its own task is running. If its template lists SPAWN_TOOL, the step
carries a `Spawn` that evaluates the subtask below that step, with the same effects and budgets.

The evaluator is deterministic. A step's key says where in the evaluation the step was made. It is the same
whenever the same program is evaluated with the same results, whatever ran concurrently.
"""

from collections.abc import Awaitable, Callable, Iterable
from math import inf
from typing import Any, Protocol

from msgspec import UNSET, Struct, UnsetType, field

from weft.evaluator.results import TaskResult
from weft.evaluator.tools import RecordQuestion, ToolDefinition
from weft.ids import TaskId
from weft.language.file_paths import RequiredFile
from weft.language.source import NOWHERE, Span
from weft.language.task_fields import ContextAssembly, ContextManagement, HistorySettings, OutputFormat
from weft.language.traversal import SPAWN_TOOL as SPAWN_TOOL


class Allowance(Struct, frozen=True):
    """What the budgets of all scopes leave; infinite without a budget."""

    tokens: float = inf
    cost: float = inf


class Reservation:
    """A reserved amount that nobody else can spend until it is settled or released; here of no limits."""

    def settle(self, tokens: float, cost: float) -> None:
        """Count what was used and release the remainder. Never raise: a paid response is not lost."""

    def release(self) -> None:
        """Release the whole amount, because no request was made or charged."""


class BudgetAccount:
    """The budgets that a request counts in: those of its task, its enclosing scopes and the run.

    This class is an account without limits.
    """

    def left(self) -> Allowance:
        """Return what may still be spent or reserved."""
        return Allowance()

    async def room(self, is_enough: Callable[[Allowance], bool]) -> None:
        """Wait until enough is left, or until no running request can release more.

        Reservations are for the worst case, so most of an amount is soon released. Returns at once if waiting
        cannot help.
        """

    def reserve(self, tokens: float, cost: float) -> Reservation:
        """Reserve an amount. Raise BudgetExceeded, which names the spenders, if it is not available."""
        return Reservation()


UNLIMITED = BudgetAccount()


class Subtask(Protocol):
    """A subtask that may start: its request is valid, a template is chosen, the limits allow it."""

    @property
    def key(self) -> str:
        """Return the key of its step: the key of the spawning step and a number, such as `3/1/s2`."""
        ...

    @property
    def template(self) -> str:
        """Return the name of the chosen template."""
        ...

    @property
    def depth(self) -> int:
        """Return the nesting depth: 1 for a subtask of a task that is not a subtask itself."""
        ...

    async def run(self) -> TaskResult:
        """Evaluate the subtask and return its completed result.

        Raise TaskFailed (`subtask_failure`) for a failure that a model may see. Raise BudgetExceeded if a
        budget of the chain or around the spawning task is used up; it must end all that the budget limits.
        """
        ...


class Spawn(Protocol):
    """Lets one step spawn subtasks."""

    def definition(self) -> ToolDefinition:
        """Return the tool definition for the model, with the templates and their inputs."""
        ...

    def begin(self, request: dict[str, Any], number: int) -> Subtask:
        """Return the subtask for a `SubtaskRequest` in JSON form. Raise as `Subtask.run` does.

        The caller chooses the number, which becomes part of the subtask's key. It must be unique among the
        requests of the step, and the same for the same request when the step is performed again.
        """
        ...


class ContextPayload(Struct, frozen=True):
    """The context that a task inherits, and what is fetched for it."""

    settings: ContextManagement
    inherited: dict[str, Any] = field(default_factory=dict)
    """Bindings inherited from the parent: all, none, or the relevant inputs."""
    previous_outputs: str | None = None
    """Outputs of earlier steps in the `accumulation_format`; None when nothing is accumulated."""
    wants_fresh: bool = False
    """Whether memory is queried for relevant context."""
    relevant_inputs: tuple[str, ...] = ()
    """The inputs that are part of the memory query."""
    assembly: ContextAssembly | None = None


class Files(Struct, frozen=True):
    """`file_paths` with its placeholders filled in."""

    source: str
    paths: tuple[str, ...] = ()
    text: str | None = None
    """The command that lists the files, or the description to match."""
    optional: tuple[int, ...] | UnsetType = UNSET
    """Positions of the paths that may be missing. Unset if no path is optional, so that digests stored before
    optional paths existed stay the same."""


class Turn(Struct, frozen=True):
    """One exchange of the conversation that tasks with `history` share."""

    prompt: str
    answer: str
    at: str | None = None
    """When the response arrived: `notes.answered_at` of the result."""


class Repair(Struct, frozen=True):
    """A response that does not match the output format, and why; part of the second request."""

    content: str
    error: str


class Continuation(Struct, frozen=True):
    """A response with status CONTINUATION, and the result of the subtask that it requested."""

    content: str
    request: dict[str, Any]
    result: dict[str, Any]
    """The TaskResult as JSON, without bookkeeping notes."""


class ModelCall(Struct, frozen=True, kw_only=True):
    """An atomic task that is ready to be sent, with all placeholders filled in."""

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
    """The relevant inputs that no placeholder of prompt or system shows; the model gets them as data."""
    mentioned: tuple[str, ...] = ()
    """The inherited bindings that a placeholder of prompt or system shows, by their own or another name; the
    model does not get them again as data."""
    output_format: OutputFormat | None = None
    output_schema: dict[str, Any] | bool | None = None
    """The JSON Schema of the output format."""
    context: ContextPayload
    files: Files | None = None
    tools: tuple[str, ...] = ()
    history: HistorySettings | None = None
    conversation: tuple[Turn, ...] = ()
    """The earlier turns that `history` includes; empty without `history`."""
    timeout_seconds: float | None = None
    reuse: bool | None = None
    continuations: tuple[Continuation, ...] = ()
    """Earlier responses that requested a subtask, with its results; the task continues from there."""
    repair: Repair | None = None


class ScriptRun(Struct, frozen=True, kw_only=True):
    """A command to run; values reach it as argv, stdin and environment."""

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
    """A tool call by name, such as `system:read_files`."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    positional: tuple[Any, ...] = ()


class ContextQuery(Struct, frozen=True, kw_only=True):
    """`ContextGenerationInput`: a query of memory, which returns an AssociativeMatchResult."""

    query: str | None = None
    template_description: str | None = None
    template_type: str | None = None
    template_subtype: str | None = None
    inputs: dict[str, Any] = field(default_factory=dict)
    inherited_context: str | None = None
    previous_outputs: str | None = None
    matching_strategy: str = "content"
    limit: int | None = None
    """The number of matches; None for the default of memory."""
    rerank: bool | None = None
    """Whether a model ranks the matches; None for the default of memory."""


class Composite(Struct, frozen=True, kw_only=True):
    """A task made of other tasks: sequential, reduce, loop, template call, subtask. It has no effect
    itself."""

    kind: str
    name: str | None = None
    inputs: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """Further data that the result depends on, such as the request of a subtask."""


class StepRecord(Struct, frozen=True):
    """The task record of a step and the attempt; both together can serve as an idempotency key."""

    task_id: TaskId
    attempt: int


class Step(Struct, frozen=True):
    """A request, and where in the evaluation it was made. Only `key` and `request` identify it."""

    key: str
    """Numbers from the root, separated by `/`: `3/1/2`. Concurrent branches have their own level."""
    request: ModelCall | ScriptRun | ToolCall | ContextQuery | Composite
    span: Span = NOWHERE
    spawn: Spawn | None = None
    """Evaluates subtasks of this step; None if the step may not spawn any."""
    record: StepRecord | None = None
    """The task record of the step, for scripts and tools; None if there is no record or no use for it."""
    called_at: Span = NOWHERE
    """Where its template is called, if the step is the body of a template."""

    @property
    def place(self) -> Span:
        """Return the location to show: the call of the template if there is one."""
        return self.span if self.called_at is NOWHERE else self.called_at


class ScriptOutcome(Struct, frozen=True):
    """The outcome of a script."""

    stdout: str
    stderr: str
    exit_code: int
    is_timed_out: bool = False


class Effects:
    """Performs the requests of a program. Raises TaskFailed or another WeftError.

    The first four methods return coroutines, or `Resolved` if the result is already known; a subclass
    implements those that its programs need. The others have a default.
    """

    def call_model(
        self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED
    ) -> Awaitable[TaskResult]:
        """Return the model's response; the evaluator parses it.

        The cost is reserved in the account before the request. If the account is not used, `notes.usage` of
        the result (`tokens`, or `input_tokens` and `output_tokens`, and `cost`) is counted afterwards.
        """
        raise NotImplementedError

    def run_script(self, step: Step, run: ScriptRun) -> Awaitable[ScriptOutcome]:
        """Run the script and return its outcome, whatever its exit code."""
        raise NotImplementedError

    def call_tool(self, step: Step, call: ToolCall, account: BudgetAccount = UNLIMITED) -> Awaitable[Any]:
        """Return the result of the tool as JSON. A tool that calls a model charges the account."""
        raise NotImplementedError

    def get_context(
        self, step: Step, query: ContextQuery, account: BudgetAccount = UNLIMITED
    ) -> Awaitable[dict[str, Any]]:
        """Return the AssociativeMatchResult as JSON. Ranking by a model is charged to the account."""
        raise NotImplementedError

    async def around(self, step: Step, body: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        """Return the recorded result of a composite, else that of `body`. A ValueResult keeps its type."""
        return await body()

    def log(self, message: str) -> None:
        """Record a message of `log-message`; it is not a step."""

    def tools(self) -> frozenset[str] | None:
        """Return the names of the available tools; None if they are unknown."""
        return None

    def schema_text(self, path: str, source: str) -> str:
        """Return the text of a JSON Schema file that the program `source` refers to. Raise OSError."""
        raise FileNotFoundError(path)

    async def call_model_journaled(
        self, step: Step, call: ModelCall, account: BudgetAccount, journal: Any
    ) -> TaskResult:
        """Call the model as `call_model` does, but look up each turn and tool call in the journal first.

        The journal is a `weft.llm.turn_log.TurnJournal`. By default the whole session is one turn.
        """
        result: TaskResult = await journal.whole(lambda: self.call_model(step, call, account))
        return result

    async def result_depends_on(self, request: ScriptRun | ToolCall) -> Any | None:
        """Return what an outcome depends on besides the request, as JSON; None: it must not be reused."""
        return None

    def ask_through(self, record_question: RecordQuestion) -> None:
        """Ask people through `record_question` from now on."""

    async def require_files(self, files: Iterable[RequiredFile]) -> None:
        """Raise TaskFailed for the first file that cannot be read."""

    async def close(self) -> None:
        """Close connections and end server processes."""
