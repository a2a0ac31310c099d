"""What a front end sees of effects: hooks to take part in them, and the events of model sessions."""

from weft.effects.local import EffectHooks
from weft.llm import events

__all__ = ["EffectHooks", "events"]
