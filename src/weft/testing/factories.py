"""Functions that create the fakes of `weft.testing`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from weft.effects.local import LocalEffects
from weft.effects.resources import ProjectResources
from weft.evaluator.effects import ContextQuery, ModelCall, ScriptRun
from weft.llm.protocol import Model, StaticModels
from weft.memory.memory import Memory
from weft.testing.in_memory_effects import InMemoryEffects
from weft.testing.recording import (
    Mode,
    recorded_models,
)
from weft.testing.scripted_model import Answers, ScriptedModel
from weft.testing.simple_index import SimpleIndex


def models(answers: Model | Mapping[str, Model] | Answers) -> StaticModels:
    """Return models for `LocalEffects(models=...)`: one model for every name, or models by name.

    Anything else becomes the responses of a ScriptedModel that serves every name.
    """
    if isinstance(answers, Mapping):
        named = {name: one for name, one in answers.items() if _is_model(one)}
        return StaticModels(named if named and len(named) == len(answers) else ScriptedModel(answers))
    if _is_model(answers):
        return StaticModels(cast(Model, answers))
    return StaticModels(ScriptedModel(cast(Answers, answers)))


def memory(*roots: Path | str) -> Memory:
    """Return memory with an in-memory index of the files in these folders, for `LocalEffects(memory=...)`."""
    index = SimpleIndex()
    return Memory(index, index, roots)


def recorded_effects(path: Path | str, mode: Mode = "auto", **options: Any) -> LocalEffects:
    """Return effects that record the responses of the project's models in a file, or replay them from it.

    Everything else is performed: tools are called, scripts run. `options` are those of `LocalEffects`.
    """
    return LocalEffects(models=recorded_models(_ProjectModels(), path, mode), **options)


class _ProjectModels:
    """The models that `weft.toml` and the environment name, read when the first one is looked up."""

    def __init__(self) -> None:
        self._resources = ProjectResources()

    async def find(self, model: str | None, provider: str | None = None) -> Model:
        return await self._resources.models().find(model, provider)

    async def close(self) -> None:
        await self._resources.close()


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
    """Return effects that perform nothing: models, scripts, tools and memory give scripted responses."""
    return InMemoryEffects(answers, scripts=scripts, tools=tools, contexts=contexts, files=files)
