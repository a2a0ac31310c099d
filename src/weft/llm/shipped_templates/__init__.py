"""Shipped templates with prompts that work well with small models, ready to register or to copy."""

from weft.llm.shipped_templates.loader import PROMPTS, prompt

__all__ = ["PROMPTS", "prompt"]
