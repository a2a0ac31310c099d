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
    from weft.executors.registry import executor as executor
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


_PUBLIC_NAMES = {
    "weft": ("testing",),
    "weft.app.app": ("App",),
    "weft.app.evaluation": ("evaluate", "evaluate_async"),
    "weft.app.programs": ("RunFailed", "RunWaits", "arun", "registered", "run"),
    "weft.app.sync": ("SyncApp", "open"),
    "weft.effects.local": ("LocalEffects",),
    "weft.engine.limits": ("EngineLimits",),
    "weft.evaluator.budget": ("EvaluationLimits",),
    "weft.evaluator.evaluator": ("Evaluator",),
    "weft.evaluator.results": ("TaskResult",),
    "weft.executors.registry": ("executor",),
    "weft.language": ("build",),
    "weft.language.builder.decorator": ("task",),
    "weft.language.library": ("TaskLibrary",),
    "weft.runs.files": ("load_library",),
    "weft.secrets.references": ("Secret", "secret"),
    "weft.testing.in_memory_effects": ("InMemoryEffects",),
    "weft.tools.functions": ("tool",),
    "weft.workflows.model": ("WorkflowResult", "WorkflowStepDefinition"),
    "weft.workflows.workflow": ("Workflow",),
}
"""The names above by module, in which they may have another name (`_OTHER_NAMES`)."""

_MODULE_OF = {name: module for module, names in _PUBLIC_NAMES.items() for name in names}
_OTHER_NAMES = {"build": "builder", "open": "open_app"}

__all__ = ["build", "open", *sorted(_MODULE_OF.keys() - {"build", "open"})]  # noqa: PLE0604 - all are text


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `weft --help` does not pay for all of them."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    module, found = _MODULE_OF[name], _OTHER_NAMES.get(name, name)
    if name in ("build", "testing"):
        return import_module(f"{module}.{found}")
    return getattr(import_module(module), found)


def __dir__() -> list[str]:
    """Return the loaded names and the public names that are imported on first use."""
    return sorted({*globals(), *__all__})
