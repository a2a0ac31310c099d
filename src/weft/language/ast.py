"""The syntax tree that XML, S-expressions and Python programs are read into.

Nodes are frozen, and comparison ignores their spans. Three families:

    expressions     Literal Quote Variable Text If Cond And Or Let Define Assign Lambda Begin
                    FunctionCall Apply Try Loop IterativeLoop Parallel WithTimeout WithBudget GetContext
                    Condition
    tasks           Atomic Script Sequential Reduce DirectorEvaluatorLoop Reference   (all: TaskNode)
                    TaskCond
    definitions     Template

`weft.language.task_fields` defines the fields of tasks that are not nodes.
"""

from collections.abc import Sequence

from msgspec import Struct

from weft.language.source import NOWHERE, Span
from weft.language.task_fields import (
    ContextAssembly,
    ContextOverrides,
    FileSource,
    HistorySettings,
    OutputFormat,
    Parameter,
)

Scalar = None | bool | int | float | str


class Symbol(str):
    """A quoted name. In the language it never equals a string; in JSON it becomes one."""

    __slots__ = ()


Datum = Scalar | Symbol | tuple["Datum", ...]
"""The value of a `quote` form: data that is read and not evaluated."""


class Node(Struct, frozen=True, kw_only=True):
    """Base class of everything that can be evaluated."""

    span: Span = NOWHERE


# Expressions


class Literal(Node, frozen=True):
    """A constant."""

    value: Scalar


class Quote(Node, frozen=True):
    """`(quote datum)`, `'datum`."""

    datum: Datum


class Variable(Node, frozen=True):
    """A name, or with a path a part of its value: `answer.items[0]`."""

    name: str
    path: tuple[str | int, ...] = ()


class Text(Node, frozen=True):
    """A string with placeholders: the source text (`raw`) and the parts parsed from it."""

    raw: str
    parts: tuple["str | Node", ...]


class FilePaths(Struct, frozen=True):
    """`file_paths`: the files to include in the context of a task."""

    source: FileSource = "literal"
    paths: tuple[Text, ...] = ()
    text: Text | None = None
    """The command that lists the files, or the description to match."""
    optional: tuple[int, ...] = ()
    """Indexes of the paths that may be missing. A missing file of any other path fails the task."""


class Condition(Node, frozen=True):
    """The source text of a condition in the CEL subset; `weft.language.cel` parses it."""

    text: str


class If(Node, frozen=True):
    """`(if test then otherwise)`; a missing `otherwise` means nil."""

    test: Node
    then: Node
    otherwise: Node | None = None


class Clause(Struct, frozen=True):
    """One `(test e...)` clause of a `cond`; without a body its value is the value of the test."""

    test: Node
    body: Node | None


class Cond(Node, frozen=True):
    """`(cond (test e...) ... (else e...))`; nil when no clause matches."""

    clauses: tuple[Clause, ...]
    otherwise: Node | None = None


class And(Node, frozen=True):
    """`(and e...)`: the first false value, or the last value; `(and)` is true."""

    items: tuple[Node, ...]


class Or(Node, frozen=True):
    """`(or e...)`: the first true value, or the last value; `(or)` is false."""

    items: tuple[Node, ...]


class Let(Node, frozen=True):
    """`let` evaluates all values, then binds the names; `let*` (`is_sequential`) binds them one by one."""

    bindings: tuple[tuple[str, Node], ...]
    body: Node
    is_sequential: bool = False


class Define(Node, frozen=True):
    """`(define name e)`: bind a name in the innermost environment."""

    name: str
    value: Node
    gives_value: bool = False
    """Whether the form returns the bound value, as `(bind name e)` does; `define` returns nil."""


class Assign(Node, frozen=True):
    """`(set! name e)`: change the innermost existing binding of a name."""

    name: str
    value: Node


class Lambda(Node, frozen=True):
    """A closure. `(define (f x) ...)` is a Define of a Lambda with a name."""

    parameters: tuple[str, ...]
    body: Node
    name: str | None = None


class Begin(Node, frozen=True):
    """Expressions in sequence; the value is that of the last one. It does not open a scope."""

    items: tuple[Node, ...]


class FunctionCall(Node, frozen=True):
    """A call by name of a closure, a template, a tool or a built-in."""

    func_name: str
    args: tuple[Node, ...] = ()
    keywords: tuple[tuple[str, Node], ...] = ()


class Apply(Node, frozen=True):
    """A call of the function that an expression returns: `((lambda (x) x) 1)`."""

    function: Node
    args: tuple[Node, ...] = ()
    keywords: tuple[tuple[str, Node], ...] = ()


class Try(Node, frozen=True):
    """`(try e (catch name e...))`; the handler sees the failed TaskResult as `name`."""

    body: Node
    name: str
    handler: Node


class Loop(Node, frozen=True):
    """`(loop n e)`: evaluate `e` n times and return the last value, or nil if n is 0."""

    count: Node
    body: Node


class IterativeLoop(Node, frozen=True):
    """`(iterative-loop :max-iterations n :initial e :executor f :validator f :controller f)`.

    Each round calls `(executor state round)`, `(validator result round)` and
    `(controller result validation round)`, which returns `(list 'stop value)` or
    `(list 'continue next-state)`.
    """

    max_iterations: Node
    initial: Node
    executor: Node
    validator: Node | None
    controller: Node


class Parallel(Node, frozen=True):
    """`(parallel e ...)`: evaluate the expressions concurrently and return the list of their values."""

    items: tuple[Node, ...]


class WithTimeout(Node, frozen=True):
    """`(with-timeout seconds e...)`: fail with execution_timeout after that time."""

    seconds: Node
    body: Node


class WithBudget(Node, frozen=True):
    """`(with-budget (:steps n :calls n :tokens n :cost x) e...)`: fail with RESOURCE_EXHAUSTION beyond it."""

    limits: tuple[tuple[str, Node], ...]
    body: Node


class GetContext(Node, frozen=True):
    """`(get-context :query "..." :inputs d :strategy "content" ...)`: find relevant context in memory."""

    keywords: tuple[tuple[str, Node], ...]


# Tasks


class Input(Struct, frozen=True):
    """An input of a task: a text, a name or path of the environment (`from`), or the result of a task.

    A text or a constant is a default that the caller can override.
    """

    name: str
    value: Node | None = None
    """None: the argument that the caller passes, else the value of the same name around the task."""
    span: Span = NOWHERE

    @property
    def is_open(self) -> bool:
        """Return whether a caller may pass the input: it has no value, or a constant as its default."""
        pending = [] if self.value is None else [self.value]
        while pending:
            node = pending.pop()
            if isinstance(node, FunctionCall) and node.func_name in _CONSTRUCTORS:
                pending += [*node.args, *(value for _, value in node.keywords)]
            elif not isinstance(node, Literal | Text | Quote):
                return False
        return True


_CONSTRUCTORS = frozenset({"list", "dict", "json-parse"})
"""Functions that build JSON values; applied to constants, their result is a constant."""


class TaskNode(Node, frozen=True, kw_only=True):
    """Base class of tasks, with the fields that every kind of task has."""

    subtype: str | None = None
    description: Text | None = None
    instructions: Text | None = None
    system: Text | None = None
    model: str | None = None
    provider: str | None = None
    criteria: str | None = None
    inputs: tuple[Input, ...] = ()
    output_slot: str | None = None
    """The name that the result is bound to, in the environment around the task."""
    input_source: str | None = None
    """The name of the value that the task sees as `input`."""
    output_format: OutputFormat | None = None
    context: ContextOverrides = ContextOverrides()
    context_relevance: tuple[tuple[str, bool], ...] = ()
    context_assembly: ContextAssembly | None = None
    file_paths: FilePaths | None = None
    history: HistorySettings | None = None
    tools: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    max_depth: int | None = None
    """Maximum nesting of subtasks spawned by the model."""
    reuse: bool | None = None
    manual_xml: bool = False
    """Whether the texts of an XML task keep their indentation."""
    disable_reparsing: bool = False
    """Whether a response in a wrong format fails the task at once, without a second request."""

    @property
    def prompt(self) -> Text | None:
        """Return the instructions, else the description."""
        return self.instructions or self.description


class Atomic(TaskNode, frozen=True, kw_only=True):
    """A task for a model."""


class Script(TaskNode, frozen=True, kw_only=True):
    """A command to run: an argument list (`argv`) or a shell command line (`shell`).

    Values are never inserted into a shell command line. Without both, the input `command` is the command.
    """

    argv: tuple[Text, ...] = ()
    shell: Text | None = None


class Sequential(TaskNode, frozen=True, kw_only=True):
    """Tasks in sequence. With `is_parallel` they run concurrently and do not see each other's outputs."""

    steps: tuple[Node, ...] = ()
    is_parallel: bool = False


class Reduce(TaskNode, frozen=True, kw_only=True):
    """A fold: for each input in order, run `inner_task`, then `reduction_task` with the accumulated result.

    The inner task sees `input`; the reduction sees `current_result`, `accumulator` and `original_input`.
    """

    initial_value: Node | None = None
    inner_task: Node | None = None
    reduction_task: Node | None = None


class DirectorEvaluatorLoop(TaskNode, frozen=True, kw_only=True):
    """A loop that runs a director, an optional script and an evaluator.

    It ends when the evaluation succeeds, the condition is true, or after `max_iterations`.
    """

    max_iterations: int | None = None
    director: Node | None = None
    evaluator: Node | None = None
    script: Script | None = None
    termination_condition: Condition | None = None


class Reference(TaskNode, frozen=True, kw_only=True):
    """`<task ref="name">`: a call of a registered template; the inputs are the arguments."""

    ref: str


class TaskCase(Struct, frozen=True):
    """One case of a `TaskCond`."""

    test: Condition
    body: Node
    span: Span = NOWHERE


class TaskCond(Node, frozen=True):
    """`<cond>`: run the first case that matches `output`, the JSON output of the previous task.

    With `criteria`, an evaluator that matches them judges the output first; conditions see its `evaluation`.
    """

    cases: tuple[TaskCase, ...]
    criteria: str | None = None


# Definitions


class Template(Node, frozen=True):
    """A named task with parameters. Evaluating it registers it in the task library."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Node
    returns: str | None = None
    """The shape of the result, written like `schema`: object, string[], number ..."""


class Program(Struct, frozen=True):
    """Definitions and expressions in order. The value of a program is the value of its last form."""

    forms: tuple[Node, ...]


def begin(items: Sequence[Node], span: Span) -> Node:
    """Combine nodes into one: a single node stays as it is, several become a Begin."""
    return items[0] if len(items) == 1 else Begin(span=span, items=tuple(items))


LOOP_NAMES = (
    "user_query",
    "evaluation_feedback",
    "current_iteration",
    "max_iterations",
    "director_result",
    "script_output",
    "script_errors",
    "script_exit_code",
    "evaluation",
)
"""Names that the parts of a director-evaluator loop see; until they have a value, nil or (LOOP_TEXTS) ""."""

EVALUATION = "evaluation"
"""The name of the evaluator's verdict, an object with `success` and `feedback`."""

JUDGED_NAMES = ("director_result", "last_output", "output")
"""An evaluator chosen by the criteria of a cond receives the output before the cond as these parameters.

Evaluators of loops take `director_result`, so one template can serve both."""

LOOP_TEXTS = frozenset({"evaluation_feedback", "director_result", "script_output", "script_errors"})
"""Loop names that start as an empty string instead of nil, so that the first prompt can show them."""


def keep_definitions(program: Program) -> Program:
    """Return a program with only the templates and functions of `program`; evaluating it has no effects."""
    return Program(tuple(form for form in program.forms if _is_definition(form)))


def _is_definition(form: object) -> bool:
    return isinstance(form, Template) or (isinstance(form, Define) and isinstance(form.value, Lambda))
