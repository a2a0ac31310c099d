"""The syntax tree: what XML, S-expressions and Python all become.

Nodes are frozen and compare without their spans. Three families:

    expressions     Literal Quote Variable Text If Cond And Or Let Define Assign Lambda Begin
                    FunctionCall Apply Try Loop IterativeLoop Parallel WithTimeout WithBudget GetContext
                    Condition
    tasks           Atomic Script Sequential Reduce DirectorEvaluatorLoop Reference   (all: TaskNode)
                    TaskCond
    definitions     Template

`weft.language.task_fields` holds what tasks are made of besides nodes.
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
    """A quoted name: a value of its own kind, equal to no string in the language, JSON's string outside."""

    __slots__ = ()


Datum = Scalar | Symbol | tuple["Datum", ...]
"""What `quote` gives: read, not evaluated."""


class Node(Struct, frozen=True, kw_only=True):
    """Anything that can be evaluated."""

    span: Span = NOWHERE


# Expressions


class Literal(Node, frozen=True):
    """A value that stands for itself."""

    value: Scalar


class Quote(Node, frozen=True):
    """`(quote datum)`, `'datum`."""

    datum: Datum


class Variable(Node, frozen=True):
    """The value of a name; with a path, of a part of it: `answer.items[0]`."""

    name: str
    path: tuple[str | int, ...] = ()


class Text(Node, frozen=True):
    """A text with placeholders. `raw` is what was written; the parts are read from it once."""

    raw: str
    parts: tuple["str | Node", ...]


class FilePaths(Struct, frozen=True):
    """`file_paths`: which files belong to the context."""

    source: FileSource = "literal"
    paths: tuple[Text, ...] = ()
    text: Text | None = None
    """The command, or the description to match."""
    optional: tuple[int, ...] = ()
    """Which of the paths may be missing, by their position. A task fails when another one is not there."""


class Condition(Node, frozen=True):
    """A condition in the CEL subset, as it was written; `weft.language.cel` reads it."""

    text: str


class If(Node, frozen=True):
    """`(if test then otherwise)`; without `otherwise` the value is nil."""

    test: Node
    then: Node
    otherwise: Node | None = None


class Clause(Struct, frozen=True):
    """One `(test e...)` of a `cond`; an empty body gives the value of the test."""

    test: Node
    body: Node | None


class Cond(Node, frozen=True):
    """`(cond (test e...) ... (else e...))`; nil when nothing matches."""

    clauses: tuple[Clause, ...]
    otherwise: Node | None = None


class And(Node, frozen=True):
    """The first false value, or the last one; `(and)` is true."""

    items: tuple[Node, ...]


class Or(Node, frozen=True):
    """The first true value, or the last one; `(or)` is false."""

    items: tuple[Node, ...]


class Let(Node, frozen=True):
    """`let`: all values first, then the names. `let*` (`is_sequential`): each sees those before it."""

    bindings: tuple[tuple[str, Node], ...]
    body: Node
    is_sequential: bool = False


class Define(Node, frozen=True):
    """`(define name e)`: binds a name in the innermost environment."""

    name: str
    value: Node
    gives_value: bool = False
    """Whether its value is that of the name: `(bind name e)`; else it is nil."""


class Assign(Node, frozen=True):
    """`(set! name e)`: changes the innermost binding there is."""

    name: str
    value: Node


class Lambda(Node, frozen=True):
    """A closure; `(define (f x) ...)` is a Define of one that knows its name."""

    parameters: tuple[str, ...]
    body: Node
    name: str | None = None


class Begin(Node, frozen=True):
    """Expressions one after the other; the value of the last. Not a scope of its own."""

    items: tuple[Node, ...]


class FunctionCall(Node, frozen=True):
    """A call by name: of a local closure, a template of the library, a tool, or a built-in."""

    func_name: str
    args: tuple[Node, ...] = ()
    keywords: tuple[tuple[str, Node], ...] = ()


class Apply(Node, frozen=True):
    """A call of whatever an expression gives: `((lambda (x) x) 1)`."""

    function: Node
    args: tuple[Node, ...] = ()
    keywords: tuple[tuple[str, Node], ...] = ()


class Try(Node, frozen=True):
    """`(try e (catch name e...))`; `name` is bound to the failed TaskResult."""

    body: Node
    name: str
    handler: Node


class Loop(Node, frozen=True):
    """`(loop n e)`: the last value; nil for none."""

    count: Node
    body: Node


class IterativeLoop(Node, frozen=True):
    """`(iterative-loop :max-iterations n :initial e :executor f :validator f :controller f)`.

    Per round: `(executor state round)`, `(validator result round)`, `(controller result validation round)`,
    which gives `(list 'stop value)` or `(list 'continue next-state)`.
    """

    max_iterations: Node
    initial: Node
    executor: Node
    validator: Node | None
    controller: Node


class Parallel(Node, frozen=True):
    """`(parallel e ...)`: the values as a list; evaluated concurrently."""

    items: tuple[Node, ...]


class WithTimeout(Node, frozen=True):
    """`(with-timeout seconds e...)`: execution_timeout when it takes longer."""

    seconds: Node
    body: Node


class WithBudget(Node, frozen=True):
    """`(with-budget (:steps n :calls n :tokens n :cost x) e...)`: RESOURCE_EXHAUSTION beyond it."""

    limits: tuple[tuple[str, Node], ...]
    body: Node


class GetContext(Node, frozen=True):
    """`(get-context :query "..." :inputs d :strategy "content" ...)`: what is relevant, from memory."""

    keywords: tuple[tuple[str, Node], ...]


# Tasks


class Input(Struct, frozen=True):
    """An input of a task: a text, a name or path of the environment (`from`), or the result of a task.

    A text, or a constant, is the value unless the caller passes the input.
    """

    name: str
    value: Node | None = None
    span: Span = NOWHERE

    @property
    def is_open(self) -> bool:
        """Whether a caller may pass the input: it has no value, or a constant as its default."""
        rest = [] if self.value is None else [self.value]
        while rest:
            node = rest.pop()
            if isinstance(node, FunctionCall) and node.func_name in _CONSTRUCTORS:
                rest += [*node.args, *(value for _, value in node.keywords)]
            elif not isinstance(node, Literal | Text | Quote):
                return False
        return True


_CONSTRUCTORS = frozenset({"list", "dict", "json-parse"})
"""Functions that JSON is written with: of constants they make a constant."""


class TaskNode(Node, frozen=True, kw_only=True):
    """What every kind of task can say."""

    subtype: str | None = None
    description: Text | None = None
    instructions: Text | None = None
    system: Text | None = None
    model: str | None = None
    provider: str | None = None
    criteria: str | None = None
    inputs: tuple[Input, ...] = ()
    output_slot: str | None = None
    input_source: str | None = None
    output_format: OutputFormat | None = None
    context: ContextOverrides = ContextOverrides()
    context_relevance: tuple[tuple[str, bool], ...] = ()
    context_assembly: ContextAssembly | None = None
    file_paths: FilePaths | None = None
    history: HistorySettings | None = None
    tools: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    max_depth: int | None = None
    reuse: bool | None = None
    manual_xml: bool = False
    disable_reparsing: bool = False

    @property
    def prompt(self) -> Text | None:
        """The instructions, else the description."""
        return self.instructions or self.description


class Atomic(TaskNode, frozen=True, kw_only=True):
    """One request to a model."""


class Script(TaskNode, frozen=True, kw_only=True):
    """A program that is run: `argv`, or `shell` where the author asks for one. No value joins a command line.

    Without either, the command is the value of the input `command`.
    """

    argv: tuple[Text, ...] = ()
    shell: Text | None = None


class Sequential(TaskNode, frozen=True, kw_only=True):
    """Tasks one after the other; `is_parallel` when they do not use each other's outputs."""

    steps: tuple[Node, ...] = ()
    is_parallel: bool = False


class Reduce(TaskNode, frozen=True, kw_only=True):
    """For each input in order: `inner_task`, then `reduction_task` with what was folded so far.

    In scope: `input` for the inner task; `current_result`, `accumulator`, `original_input` for the reduction.
    """

    initial_value: Node | None = None
    inner_task: Node | None = None
    reduction_task: Node | None = None


class DirectorEvaluatorLoop(TaskNode, frozen=True, kw_only=True):
    """Direct, perhaps run a script, evaluate; until it succeeds."""

    max_iterations: int | None = None
    director: Node | None = None
    evaluator: Node | None = None
    script: Script | None = None
    termination_condition: Condition | None = None


class Reference(TaskNode, frozen=True, kw_only=True):
    """`<task ref="name">`: a registered template by name; inputs are its arguments."""

    ref: str


class TaskCase(Struct, frozen=True):
    """One case of a `TaskCond`."""

    test: Condition
    body: Node
    span: Span = NOWHERE


class TaskCond(Node, frozen=True):
    """`<cond>`: the first case whose condition holds for `output`, the JSON of the last task's output.

    With `criteria` an evaluator that matches them judges the output first; conditions see its `evaluation`.
    """

    cases: tuple[TaskCase, ...]
    criteria: str | None = None


# Definitions


class Template(Node, frozen=True):
    """A named task with parameters; evaluating it registers it in the task library."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Node
    returns: str | None = None
    """A shape as of `schema`: object, string[], number ..."""


class Program(Struct, frozen=True):
    """What a file says: definitions and expressions in order. Its value is that of the last."""

    forms: tuple[Node, ...]


def begin(items: Sequence[Node], span: Span) -> Node:
    """The items as one node: itself when it is one."""
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
"""What the parts of a loop can name; nil as long as there is nothing."""

EVALUATION = "evaluation"
"""What an evaluator said, as an object with `success` and `feedback`."""

JUDGED_NAMES = ("director_result", "last_output", "output")
"""What an evaluator can take that the criteria of a cond choose: the output before the cond.

The first is what evaluators of loops take, so that one template serves both."""

LOOP_TEXTS = frozenset({"evaluation_feedback", "director_result", "script_output", "script_errors"})
"""Those that are texts: an empty one as long as there is nothing, so that a prompt can show them at once."""


def definitions_of(program: Program) -> Program:
    """The templates and functions of a program: to evaluate them has no effect but that they are known."""
    return Program(tuple(form for form in program.forms if _is_definition(form)))


def _is_definition(form: object) -> bool:
    return isinstance(form, Template) or (isinstance(form, Define) and isinstance(form.value, Lambda))
