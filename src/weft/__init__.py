"""weft runs the work language models do, as durable tasks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft import build as build
    from weft import testing as testing
    from weft.app import App as App
    from weft.build.functions import task as task
    from weft.engine.limits import EngineLimits as EngineLimits
    from weft.evaluation import evaluate as evaluate
    from weft.evaluation import evaluate_async as evaluate_async
    from weft.evaluator.budget import EvaluationLimits as EvaluationLimits
    from weft.evaluator.evaluator import Evaluator as Evaluator
    from weft.evaluator.memory_effects import InMemoryEffects as InMemoryEffects
    from weft.evaluator.results import TaskResult as TaskResult
    from weft.executors.registry import executor as executor
    from weft.language.library import TaskLibrary as TaskLibrary
    from weft.local_effects import LocalEffects as LocalEffects
    from weft.program_files import load_library as load_library
    from weft.program_runs import RunFailed as RunFailed
    from weft.program_runs import RunWaits as RunWaits
    from weft.program_runs import arun as arun
    from weft.program_runs import registered as registered
    from weft.program_runs import run as run
    from weft.secrets.marked import Secret as Secret
    from weft.secrets.marked import secret as secret
    from weft.sync import SyncApp as SyncApp
    from weft.sync import open_app as open  # noqa: A004 - `weft.open(...)` reads well, and nobody imports it bare
    from weft.tools.functions import tool as tool
    from weft.workflows.results import WorkflowResult as WorkflowResult
    from weft.workflows.steps import WorkflowStepDefinition as WorkflowStepDefinition
    from weft.workflows.workflow import Workflow as Workflow

__version__ = "0.1.0"

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

_PLACES: dict[str, tuple[str, str | None]] = {
    "App": ("weft.app", "App"),
    "EngineLimits": ("weft.engine.limits", "EngineLimits"),
    "EvaluationLimits": ("weft.evaluator.budget", "EvaluationLimits"),
    "Evaluator": ("weft.evaluator.evaluator", "Evaluator"),
    "InMemoryEffects": ("weft.evaluator.memory_effects", "InMemoryEffects"),
    "LocalEffects": ("weft.local_effects", "LocalEffects"),
    "Secret": ("weft.secrets.marked", "Secret"),
    "RunFailed": ("weft.program_runs", "RunFailed"),
    "RunWaits": ("weft.program_runs", "RunWaits"),
    "SyncApp": ("weft.sync", "SyncApp"),
    "TaskLibrary": ("weft.language.library", "TaskLibrary"),
    "TaskResult": ("weft.evaluator.results", "TaskResult"),
    "arun": ("weft.program_runs", "arun"),
    "Workflow": ("weft.workflows.workflow", "Workflow"),
    "WorkflowResult": ("weft.workflows.results", "WorkflowResult"),
    "WorkflowStepDefinition": ("weft.workflows.steps", "WorkflowStepDefinition"),
    "build": ("weft.build", None),
    "evaluate": ("weft.evaluation", "evaluate"),
    "evaluate_async": ("weft.evaluation", "evaluate_async"),
    "executor": ("weft.executors.registry", "executor"),
    "load_library": ("weft.program_files", "load_library"),
    "open": ("weft.sync", "open_app"),
    "registered": ("weft.program_runs", "registered"),
    "run": ("weft.program_runs", "run"),
    "secret": ("weft.secrets.marked", "secret"),
    "task": ("weft.build.functions", "task"),
    "testing": ("weft.testing", None),
    "tool": ("weft.tools.functions", "tool"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `weft --help` does not pay for all of them."""
    if name not in _PLACES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    found = import_module(module)
    return found if attribute is None else getattr(found, attribute)


def __dir__() -> list[str]:
    """What is here, and the public names that are imported when they are used."""
    return sorted({*globals(), *__all__})
