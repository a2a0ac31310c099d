"""Scope and context: what of the surroundings a task sees by name, and what reaches its request."""

from collections.abc import Iterable, Mapping
from typing import Any

from weft.evaluator.conversion import is_data
from weft.evaluator.effects import ContextPayload
from weft.evaluator.environment import Env
from weft.evaluator.results import TaskResult
from weft.language.ast import TaskNode
from weft.language.task_fields import ContextManagement

STEP_NAMES = frozenset({"steps", "last_output"})
"""Bound by a sequential task for its steps. Not context: `accumulate_data` decides on those."""


class ArgumentsEnv(Env):
    """The environment of a template call: its arguments, by name."""

    __slots__ = ("template",)

    def __init__(self, bindings: Mapping[str, Any], outer: Env, template: str) -> None:
        super().__init__(outer=outer)
        self.update(bindings)
        self.template = template


class TaskEnv(Env):
    """The environment inside a task: its inputs, and what its parts bind."""

    __slots__ = ("withheld",)

    def __init__(self, inputs: Mapping[str, Any], outer: Env, withheld: frozenset[str]) -> None:
        super().__init__(outer=outer)
        self.update(inputs)
        self.withheld = withheld
        """Names that are not handed down as context to the tasks inside, from here or from further out."""


def global_env(env: Env) -> Env:
    """The outermost environment: library, built-ins and what the program was given."""
    while env.outer is not None:
        env = env.outer
    return env


def inner_env(
    env: Env, settings: ContextManagement, inputs: Mapping[str, Any], withheld: frozenset[str]
) -> TaskEnv:
    """Where the names inside a task are looked up: its inputs, then what it inherits.

    The parameters of a template are its body's own, whatever the body inherits.
    """
    is_own = settings.inherit_context == "full" or isinstance(env, ArgumentsEnv)
    return TaskEnv(inputs, env if is_own else global_env(env), withheld)


def arguments_of(env: Env) -> dict[str, Any]:
    """The arguments of the template whose body stands in `env`: inputs of the body; functions are none."""
    if not isinstance(env, ArgumentsEnv):
        return {}
    return {name: value for name, value in env.items() if is_data(value)}


def passed_value(env: Env, name: str) -> tuple[bool, Any]:
    """Whether whoever runs the task passes this input, and its value.

    That is an argument of the template whose body the task is, or a binding of the program that the task is a
    top-level form of; names bound further out or by steps do not replace a text.
    """
    if (isinstance(env, ArgumentsEnv) or env.outer is None) and name in env:
        value = env[name]
        return is_data(value), value
    return False, None


def context_payload(
    node: TaskNode,
    settings: ContextManagement,
    env: Env,
    inputs: Mapping[str, Any],
    previous_outputs: str | None,
) -> ContextPayload:
    """The context of a request made by a task in the environment `env`."""
    relevant = relevant_inputs(node, inputs)
    return ContextPayload(
        settings=settings,
        inherited=_inherited(settings, env, inputs, relevant),
        previous_outputs=previous_outputs,
        wants_fresh=settings.fresh_context == "enabled",
        relevant_inputs=relevant,
        assembly=node.context_assembly,
    )


def relevant_inputs(node: TaskNode, inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """The inputs that `context_relevance` includes; all of them without one."""
    if not node.context_relevance:
        return tuple(inputs)
    included = {name for name, is_included in node.context_relevance if is_included}
    return tuple(name for name in inputs if name in included)


def _inherited(
    settings: ContextManagement, env: Env, inputs: Mapping[str, Any], relevant: tuple[str, ...]
) -> dict[str, Any]:
    match settings.inherit_context:
        case "none":
            return {}
        case "subset":
            return {name: _handed_down(inputs[name]) for name in relevant}
        case _:
            return _bindings_around(env, hidden=inputs)


def _bindings_around(env: Env, *, hidden: Mapping[str, Any]) -> dict[str, Any]:
    """What the environments between a task and the global one bind and hand down, the innermost winning."""
    found: dict[str, Any] = {}
    excluded = STEP_NAMES.union(hidden)
    scope = env
    while scope.outer is not None:
        if isinstance(scope, TaskEnv):
            excluded |= scope.withheld
        for name, value in scope.items():
            if name not in found and name not in excluded and is_data(value):
                found[name] = _handed_down(value)
        scope = scope.outer
    return found


def mentioned_bindings(inherited: Mapping[str, Any], env: Env, names: Iterable[str]) -> tuple[str, ...]:
    """The inherited bindings that have one of the names, or are the very value of one under another name.

    `(let ((text file)) (task :instructions "Review {{text}}"))` shows `file` too. Equal numbers are not the
    same value: each says something of its own.
    """
    shown = set(names)
    if not inherited or not shown:
        return ()
    values = {id(_handed_down(env[name])) for name in shown}
    return tuple(
        name
        for name, value in inherited.items()
        if name in shown or (isinstance(value, str | list | dict) and len(value) > 1 and id(value) in values)
    )


def _handed_down(value: Any) -> Any:
    return value.value if isinstance(value, TaskResult) else value
