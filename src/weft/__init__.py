"""weft runs language-model work as durable tasks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.version import __version__ as __version__

if TYPE_CHECKING:
    from weft import testing as testing
    from weft.app.app import App as App
    from weft.app.evaluation import evaluate as evaluate
    from weft.app.evaluation import evaluate_async as evaluate_async
    from weft.app.programs import RunFailed as RunFailed
    from weft.app.programs import RunWaits as RunWaits
    from weft.app.programs import arun as arun
    from weft.app.programs import registered as registered
    from weft.app.programs import run as run
    from weft.app.sync import SyncApp as SyncApp
    from weft.app.sync import open_app as open  # noqa: A004 - `weft.open(...)` reads well, and nobody imports it bare
    from weft.effects.local import LocalEffects as LocalEffects
    from weft.engine.limits import EngineLimits as EngineLimits
    from weft.evaluator.budget import EvaluationLimits as EvaluationLimits
    from weft.evaluator.evaluator import Evaluator as Evaluator
    from weft.evaluator.results import TaskResult as TaskResult
    from weft.executors.builtin import executor as executor
    from weft.language import builder as build
    from weft.language.builder.decorator import task as task
    from weft.language.library import TaskLibrary as TaskLibrary
    from weft.runs.files import load_library as load_library
    from weft.secrets.references import Secret as Secret
    from weft.secrets.references import secret as secret
    from weft.testing.in_memory_effects import InMemoryEffects as InMemoryEffects
    from weft.tools.functions import tool as tool
    from weft.workflows.model import WorkflowResult as WorkflowResult
    from weft.workflows.model import WorkflowStepDefinition as WorkflowStepDefinition
    from weft.workflows.workflow import Workflow as Workflow


__all__ = [
    "App",
    "EngineLimits",
    "EvaluationLimits",
    "Evaluator",
    "InMemoryEffects",
    "LocalEffects",
    "RunFailed",
    "RunWaits",
    "Secret",
    "SyncApp",
    "TaskLibrary",
    "TaskResult",
    "Workflow",
    "WorkflowResult",
    "WorkflowStepDefinition",
    "arun",
    "build",
    "evaluate",
    "evaluate_async",
    "executor",
    "load_library",
    "open",
    "registered",
    "run",
    "secret",
    "task",
    "testing",
    "tool",
]

_PUBLIC_NAMES: dict[str, tuple[str, str | None]] = {
    "App": ("weft.app.app", "App"),
    "EngineLimits": ("weft.engine.limits", "EngineLimits"),
    "EvaluationLimits": ("weft.evaluator.budget", "EvaluationLimits"),
    "Evaluator": ("weft.evaluator.evaluator", "Evaluator"),
    "InMemoryEffects": ("weft.testing.in_memory_effects", "InMemoryEffects"),
    "LocalEffects": ("weft.effects.local", "LocalEffects"),
    "Secret": ("weft.secrets.references", "Secret"),
    "RunFailed": ("weft.app.programs", "RunFailed"),
    "RunWaits": ("weft.app.programs", "RunWaits"),
    "SyncApp": ("weft.app.sync", "SyncApp"),
    "TaskLibrary": ("weft.language.library", "TaskLibrary"),
    "TaskResult": ("weft.evaluator.results", "TaskResult"),
    "arun": ("weft.app.programs", "arun"),
    "Workflow": ("weft.workflows.workflow", "Workflow"),
    "WorkflowResult": ("weft.workflows.model", "WorkflowResult"),
    "WorkflowStepDefinition": ("weft.workflows.model", "WorkflowStepDefinition"),
    "build": ("weft.language.builder", None),
    "evaluate": ("weft.app.evaluation", "evaluate"),
    "evaluate_async": ("weft.app.evaluation", "evaluate_async"),
    "executor": ("weft.executors.builtin", "executor"),
    "load_library": ("weft.runs.files", "load_library"),
    "open": ("weft.app.sync", "open_app"),
    "registered": ("weft.app.programs", "registered"),
    "run": ("weft.app.programs", "run"),
    "secret": ("weft.secrets.references", "secret"),
    "task": ("weft.language.builder.decorator", "task"),
    "testing": ("weft.testing", None),
    "tool": ("weft.tools.functions", "tool"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `weft --help` does not pay for all of them."""
    if name not in _PUBLIC_NAMES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    module, attribute = _PUBLIC_NAMES[name]
    found = import_module(module)
    return found if attribute is None else getattr(found, attribute)


def __dir__() -> list[str]:
    """Return the loaded names and the public names that are imported on first use."""
    return sorted({*globals(), *__all__})
