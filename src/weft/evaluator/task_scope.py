"""Which names a task can see, and which context goes into its request."""

from collections.abc import Iterable, Mapping
from typing import Any

from weft.evaluator.conversion import is_data
from weft.evaluator.environment import Env
from weft.evaluator.results import TaskResult
from weft.language.ast import TaskNode
from weft.language.task_fields import ContextManagement

STEP_NAMES = frozenset({"steps", "last_output"})
"""Names that a sequential task binds for its steps. They are not inherited as context: `accumulate_data`
decides whether a step gets earlier outputs."""


class ArgumentsEnv(Env):
    """The environment of a template call, with its arguments by name."""

    __slots__ = ("is_step", "template")

    def __init__(self, bindings: Mapping[str, Any], outer: Env, template: str, *, is_step: bool) -> None:
        super().__init__(outer=outer)
        self.update(bindings)
        self.template = template
        self.is_step = is_step
        """Whether the body is one step, which has the name of the template."""


class TaskEnv(Env):
    """The environment inside a task, with its inputs and the bindings of its parts."""

    __slots__ = ("withheld",)

    def __init__(self, inputs: Mapping[str, Any], outer: Env, withheld: frozenset[str]) -> None:
        super().__init__(outer=outer)
        self.update(inputs)
        self.withheld = withheld
        """Names, of this or an enclosing environment, that inner tasks do not inherit as context."""


def global_env(env: Env) -> Env:
    """Return the outermost environment: library, built-ins and the inputs of the program."""
    while env.outer is not None:
        env = env.outer
    return env


def inner_env(
    env: Env, settings: ContextManagement, inputs: Mapping[str, Any], withheld: frozenset[str]
) -> TaskEnv:
    """Return the environment for names inside a task: its inputs, then what it inherits.

    The body of a template always sees the template's parameters.
    """
    sees_outer = settings.inherit_context == "full" or isinstance(env, ArgumentsEnv)
    return TaskEnv(inputs, env if sees_outer else global_env(env), withheld)


def arguments_of(env: Env) -> dict[str, Any]:
    """Return the arguments in the environment of a template body, without functions; else an empty dict."""
    if not isinstance(env, ArgumentsEnv):
        return {}
    return {name: value for name, value in env.items() if is_data(value)}


def passed_value(env: Env, name: str) -> tuple[bool, Any]:
    """Return whether the caller of the task passes this input, and its value.

    The caller passes an argument of the template, or a binding of the program for a top-level task. Other
    bindings, further out or by steps, do not replace the value in the source of the task.
    """
    if (isinstance(env, ArgumentsEnv) or env.outer is None) and name in env:
        value = env[name]
        return is_data(value), value
    return False, None


def relevant_inputs(node: TaskNode, inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the inputs that `context_relevance` includes; all inputs without it."""
    if not node.context_relevance:
        return tuple(inputs)
    included = {name for name, is_included in node.context_relevance if is_included}
    return tuple(name for name in inputs if name in included)


def inherited_bindings(
    settings: ContextManagement, env: Env, inputs: Mapping[str, Any], relevant: tuple[str, ...]
) -> dict[str, Any]:
    """Return the bindings that a task in the environment `env` inherits as context."""
    match settings.inherit_context:
        case "none":
            return {}
        case "subset":
            return {name: _context_value(inputs[name]) for name in relevant}
        case _:
            return _bindings_around(env, hidden=inputs)


def _bindings_around(env: Env, *, hidden: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inheritable bindings between a task and the global environment, inner ones first."""
    found: dict[str, Any] = {}
    excluded = STEP_NAMES.union(hidden)
    scope = env
    while scope.outer is not None:
        if isinstance(scope, TaskEnv):
            excluded |= scope.withheld
        for name, value in scope.items():
            if name not in found and name not in excluded and is_data(value):
                found[name] = _context_value(value)
        scope = scope.outer
    return found


def mentioned_bindings(inherited: Mapping[str, Any], env: Env, names: Iterable[str]) -> tuple[str, ...]:
    """Return the inherited bindings that have one of the names, or the same object as their value.

    `(let ((text file)) (task :instructions "Review {{text}}"))` shows `file` too. Numbers, and
    values of at most one element or character, are compared by name only.
    """
    shown = set(names)
    if not inherited or not shown:
        return ()
    values = {id(_context_value(env[name])) for name in shown}
    return tuple(
        name
        for name, value in inherited.items()
        if name in shown or (isinstance(value, str | list | dict) and len(value) > 1 and id(value) in values)
    )


def _context_value(value: Any) -> Any:
    return value.value if isinstance(value, TaskResult) else value
