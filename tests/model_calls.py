"""Requests to models, for tests of what performs them."""

from typing import Any

from weft.evaluator.effects import ContextPayload, ModelCall, Step
from weft.language.task_fields import ContextManagement, OutputFormat

SETTINGS = ContextManagement("full", False, "notes_only", "disabled")

JSON = OutputFormat("json")


def a_call(prompt: str = "Say hello.", **fields: Any) -> ModelCall:
    """Return a request with one prompt."""
    fields.setdefault("context", ContextPayload(settings=SETTINGS))
    return ModelCall(prompt=prompt, **fields)


def a_step(call: ModelCall, key: str = "3/1") -> Step:
    return Step(key, call)
