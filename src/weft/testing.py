"""For tests of programs that use models: answers without a model, a key or a network."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from weft.equipment import Equipment
from weft.evaluator.effects import ContextQuery, ModelCall, ScriptRun
from weft.evaluator.memory_effects import InMemoryEffects
from weft.evaluator.tools import ToolUse
from weft.llm.given import GivenModels
from weft.llm.payload import HandlerPayload, ModelReply, Usage
from weft.llm.protocol import Features, Model
from weft.llm.recording import (
    Mode,
    RecordedModels,
    RecordingModel,
    ReplayingModel,
    recorded,
    recorded_models,
)
from weft.llm.scripted import Answers, ScriptedModel, tool_use
from weft.local_effects import LocalEffects

__all__ = [
    "Features",
    "GivenModels",
    "HandlerPayload",
    "InMemoryEffects",
    "ModelReply",
    "RecordedModels",
    "RecordingModel",
    "ReplayingModel",
    "ScriptedModel",
    "ToolUse",
    "Usage",
    "effects",
    "models",
    "recorded",
    "recorded_effects",
    "recorded_models",
    "tool_use",
]


def models(answers: Model | Mapping[str, Model] | Answers) -> GivenModels:
    """Models for `LocalEffects(models=...)`: a model for every name, or models by name.

    Of anything else a ScriptedModel is made, which answers for every name.
    """
    if isinstance(answers, Mapping):
        named = {name: one for name, one in answers.items() if _is_model(one)}
        return GivenModels(named if named and len(named) == len(answers) else ScriptedModel(answers))
    if _is_model(answers):
        return GivenModels(cast(Model, answers))
    return GivenModels(ScriptedModel(cast(Answers, answers)))


def recorded_effects(path: Path | str, mode: Mode = "auto", **options: Any) -> LocalEffects:
    """Effects that ask the models of the project, with their answers recorded in a file or replayed from it.

    All else is done: tools are called, scripts run. `options` are those of `LocalEffects`.
    """
    return LocalEffects(models=recorded_models(_ProjectModels(), path, mode), **options)


class _ProjectModels:
    """The models that `weft.toml` and the environment name; nothing is read before one is looked for."""

    def __init__(self) -> None:
        self._equipment = Equipment()

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        return await self._equipment.models().find(model, provider)

    async def close(self) -> None:
        await self._equipment.close()


def _is_model(value: Any) -> bool:
    return hasattr(value, "request") and hasattr(value, "count_tokens")


def effects(
    answers: Sequence[Any] | Mapping[str, Any] | Callable[[ModelCall], Any] = (),
    *,
    scripts: Sequence[Any] | Mapping[str, Any] | Callable[[ScriptRun], Any] = (),
    tools: Mapping[str, Callable[..., Any]] | None = None,
    contexts: Sequence[Any] | Mapping[str, Any] | Callable[[ContextQuery], Any] = (),
    files: Mapping[str, str] | None = None,
) -> InMemoryEffects:
    """Effects that perform nothing: models, scripts, tools and memory answer as told."""
    return InMemoryEffects(answers, scripts=scripts, tools=tools, contexts=contexts, files=files)
