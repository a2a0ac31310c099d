"""Fakes for tests of programs that use models: no model, key or network is needed."""

from weft.evaluator.tools import ToolUse
from weft.llm.payload import HandlerPayload, ModelReply, Usage
from weft.llm.protocol import Features, StaticModels
from weft.llm.protocol import StaticModels as GivenModels  # the earlier name
from weft.testing.in_memory_effects import InMemoryEffects
from weft.testing.in_memory_effects import InMemoryEffects as effects  # noqa: N813 - reads as a function
from weft.testing.recording import (
    RecordedModels,
    RecordingModel,
    ReplayingModel,
    recorded,
    recorded_effects,
    recorded_models,
)
from weft.testing.scripted_model import ScriptedModel, models, tool_use
from weft.testing.simple_index import SimpleIndex, memory

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
    "SimpleIndex",
    "StaticModels",
    "ToolUse",
    "Usage",
    "effects",
    "memory",
    "models",
    "recorded",
    "recorded_effects",
    "recorded_models",
    "tool_use",
]
