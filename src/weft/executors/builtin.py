"""The built-in executors, and the default registry."""

from collections.abc import Iterable, Sequence

from weft.config.sections import ExecutorSettings
from weft.executors.command import Command
from weft.executors.http import Http
from weft.executors.protocol import Executor
from weft.executors.python import PythonFunction
from weft.executors.registry import BUILT_IN, ExecutorRegistry, decorated, register_plugins
from weft.executors.simple import AggregateResults, Noop, Sleep, SystemInfo
from weft.executors.workflow_step import WorkflowStep

HERE = (".",)
"""The roots of a process without a project: its working folder."""


def built_in_executors(
    settings: ExecutorSettings, registry: ExecutorRegistry, roots: Sequence[str] = HERE
) -> tuple[Executor, ...]:
    """Return the built-in executors.

    `workflow_step` finds other executors in `registry`; `command` accepts only folders inside `roots`.
    """
    return (
        AggregateResults(),
        Command(settings.command, roots),
        Http(settings.http),
        Noop(),
        PythonFunction(settings.python),
        Sleep(),
        SystemInfo(),
        WorkflowStep(registry),
    )


def built_in_registry(
    settings: ExecutorSettings | None = None,
    *,
    base: ExecutorRegistry | None = None,
    roots: Sequence[str] = HERE,
) -> ExecutorRegistry:
    """Return a registry of the built-in executors that also includes the executors of `base`."""
    registry = ExecutorRegistry(base)
    for executor in built_in_executors(settings or ExecutorSettings(), registry, roots):
        registry.register(executor, source=BUILT_IN)
    return registry


def default_registry(
    settings: ExecutorSettings | None = None,
    *,
    more: Iterable[Executor] = (),
    roots: Sequence[str] = HERE,
) -> ExecutorRegistry:
    """Return a registry of the built-in executors, those registered by `@executor`, and the plug-ins.

    `more` are built-in executors of packages that this one may not import (aider).
    """
    registry = built_in_registry(settings, base=decorated, roots=roots)
    for executor in more:
        registry.register(executor, source=BUILT_IN)
    register_plugins(registry)
    return registry
