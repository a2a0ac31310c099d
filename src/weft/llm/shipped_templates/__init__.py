"""Templates with prompts that small models do well with; ready to register or to copy."""

from weft.llm.shipped_templates.loader import PROMPTS, prompt

__all__ = ["PROMPTS", "prompt"]
