"""Templates with prompts that small models do well with; ready to register or to copy."""

from weft.llm.prompts.shipped import PROMPTS, prompt

__all__ = ["PROMPTS", "prompt"]
